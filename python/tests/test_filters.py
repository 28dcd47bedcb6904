"""Filters are made, cleared, dropped, and past their capacity."""

from __future__ import annotations

from datetime import timedelta

from crawlerfilter import FilterError, SettingsError
from crawlerfilter.api import FilterAPIClient

from .case import APICase


class FilterTest(APICase):
    def test_arguments_are_typed(self) -> None:
        with self.assertRaises(TypeError):
            FilterAPIClient(pacience=3)  # type: ignore[call-arg]
        with self.assertRaises(TypeError):
            self.client.create_filter("typed", capacty=1000)  # type: ignore[call-arg]

    def test_drop_asks_for_the_name(self) -> None:
        self.client.create_filter("precious")
        for confirm in ({}, {"confirm": "other"}, {"confirm": True}):
            with self.subTest(**confirm), self.assertRaises(SettingsError) as caught:
                self.client.drop_filter("precious", **confirm)
            self.assertIn("drop_filter('precious', confirm='precious')", str(caught.exception))
        self.client.drop_filter("precious", confirm="precious")

    def test_past_its_capacity(self) -> None:
        self.client.create_filter("small", capacity=1000, error_rate=0.01, on_full="warn")
        with self.assertLogs("crawlerfilter", "WARNING") as logged:
            for part in range(3):
                self.client.filter("small", [f"item {part} {i}" for i in range(30000)])
            self.client.check("small", ["item"])
        self.assertEqual(len(logged.output), 1)
        self.assertIn("filter small is past its capacity", logged.output[0])

    def test_clear(self) -> None:
        made = self.client.create_filter("emptied", capacity=1000)
        self.client.filter("emptied", ["a"])
        with self.assertRaises(SettingsError):
            self.client.clear_filter("emptied")
        cleared = self.client.clear_filter("emptied", confirm="emptied")
        self.assertEqual((cleared["id"], cleared["generation"]), (made["id"], made["generation"] + 1))
        self.assertEqual(self.client.filter("emptied", ["a"]), ["a"])

    def test_merge(self) -> None:
        self.client.create_filter("first", kind="exact", canonical="safe")
        made = self.client.create_filter("second", like="first")
        self.assertEqual((made["kind"], made["canonical"]), ("exact", "safe"))
        self.client.filter("first", ["a", "b"])
        self.client.filter("second", ["b", "c"])
        for _ in range(2):
            self.assertEqual(self.client.merge_filter("second", "first")["name"], "first")
        self.assertEqual(self.client.check("first", ["a", "b", "c", "d"]), [False, False, False, True])
        self.assertEqual(self.client.check("second", ["a"]), [True])
        self.client.create_filter("another", kind="exact")
        with self.assertRaises(FilterError) as differ:
            self.client.merge_filter("another", "first")
        self.assertEqual(differ.exception.error_code, "filters_differ")

    def test_filters(self) -> None:
        made = self.client.create_filter("made", capacity=1000, error_rate=0.01)
        self.assertEqual((made["capacity"], made["error_rate"]), (1000, 0.01))
        self.assertEqual(self.client.create_filter("made"), made)
        self.assertEqual(self.client.create_filter("made-for-an-hour", kind="timing", expire=timedelta(hours=1))["expire"], 3600)
        self.assertEqual(self.client.filter_info("made")["id"], made["id"])
        self.assertEqual(self.client.filter_info(made["id"])["name"], "made")
        self.assertIn("made", [f["name"] for f in self.client.filters()])
        with self.assertRaises(FilterError) as conflict:
            self.client.create_filter("made", capacity=2000)
        self.assertEqual(conflict.exception.error_code, "filter_conflict")
        self.client.drop_filter("made", confirm="made")
        with self.assertRaises(FilterError) as gone:
            self.client.drop_filter("made", confirm="made")
        self.assertEqual(gone.exception.error_code, "unknown_filter")
        self.client.ready()
