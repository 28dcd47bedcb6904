"""Lists of items: long ones, of any values, without end, and those that cannot be sent."""

from __future__ import annotations

from datetime import timedelta

from crawlerfilter import FilterError, ItemError, SettingsError
from crawlerfilter.api import FilterAPI, FilterAPIClient

from .case import APICase
from .daemon import Daemon


class ListTest(APICase):
    def test_any_values(self) -> None:
        values = [1, "1", 1.0, True, False, (1, 2), [1, 2], {"b": 1, "a": None}, {"a": None, "b": 1.0}, 0.5, [], {}]
        self.client.create_filter("values")
        new = self.client.filter("values", values)
        self.assertEqual(list(map(repr, new)), list(map(repr, [1, "1", True, False, (1, 2), {"b": 1, "a": None}, 0.5, [], {}])))
        self.assertIs(new[4], values[5])
        self.assertEqual(self.client.filter("values", values), [])
        self.assertEqual(self.client.check("values", [1, 2, "2", (1, 2)]), [False, True, True, False])

    def test_many_items(self) -> None:
        self.client.create_filter("many", capacity=1_000_000)
        items = [f"http://many.example/{i % 130_000}" for i in range(250_000)]
        before = self.daemon.requests()
        self.assertEqual(FilterAPI("many", items), items[:130_000])
        self.assertEqual(self.daemon.requests() - before, 25)
        self.assertEqual(FilterAPI("many", iter(items)), [])
        self.assertEqual(self.client.check("many", items[-100_001:] + ["x"]), [False] * 100_001 + [True])

    def test_batches_by_bytes(self) -> None:
        client = FilterAPIClient(batch_bytes=1000, batch_items=50)
        self.addCleanup(client.close)
        items = ["%0100d" % i for i in range(100)]
        before = self.daemon.requests()
        self.assertEqual(client.filter("uri_generator", items), items)
        self.assertGreaterEqual(self.daemon.requests() - before, 11)
        self.assertEqual(client.filter("uri_generator", ["x" * 5000]), ["x" * 5000])

    def test_stream(self) -> None:
        client = FilterAPIClient(batch_items=7)
        self.addCleanup(client.close)
        taken = []

        def source():
            for i in range(30):
                taken.append(i)
                yield f"stream {i % 20}"

        new = client.stream("uri", source())
        self.assertEqual(next(new), "stream 0")
        self.assertEqual(len(taken), 7)
        self.assertEqual(list(new), [f"stream {i}" for i in range(1, 20)])
        with self.assertRaises(ItemError) as caught:
            list(client.stream("uri", [f"later {i}" for i in range(20)] + [None]))
        self.assertEqual((caught.exception.index, caught.exception.judged), (20, 14))

    def test_no_items(self) -> None:
        self.assertEqual(FilterAPI("uri", []), [])
        self.assertEqual(self.client.check("uri", []), [])

    def test_wrong_calls(self) -> None:
        for call in (
            lambda: FilterAPI(1, "http://one.example/"),
            lambda: FilterAPI(1, {"a": 1}),
            lambda: FilterAPI("", ["a"]),
            lambda: FilterAPI(True, ["a"]),
            lambda: FilterAPI(None, ["a"]),  # type: ignore[arg-type]
            lambda: FilterAPI(1, None),  # type: ignore[arg-type]
            lambda: FilterAPI(1, 7),  # type: ignore[arg-type]
            lambda: FilterAPI(1, memoryview(b"a")),
            lambda: list(self.client.stream(1, "http://one.example/")),
        ):
            with self.assertRaises(SettingsError) as caught:
                call()
            self.assertEqual(caught.exception.error_code, "invalid_call")
        for token in (b"a-token", 7):
            with self.subTest(token), self.assertRaises(SettingsError):
                FilterAPI(1, ["a"], token)  # type: ignore[arg-type]
        with self.assertRaises(SettingsError) as address:
            FilterAPIClient("http://127.0.0.1:8000")  # type: ignore[arg-type]
        self.assertIn("url='http://", str(address.exception))
        with self.assertRaises(ItemError) as faulty:
            self.client.filter("uri", ["a"] * 3 + ["x" * 70_000])
        self.assertIn("(item 3)", str(faulty.exception))
        for unknown in (-1, 10**30, "9" * 5000, "a/b", "../uri", "一"):
            with self.subTest(unknown), self.assertRaises(FilterError) as refused:
                FilterAPI(unknown, ["a"])
            self.assertIn(refused.exception.status, (400, 404))
            with self.subTest(unknown), self.assertRaises(FilterError) as refused:
                self.client.filter_info(unknown)
            self.assertIn(refused.exception.status, (400, 404))

    def test_add(self) -> None:
        self.assertEqual([self.client.add("uri", "added") for _ in range(2)], [True, False])
        self.assertIs(self.client.add("uri", {"any": ["value"]}), True)
        self.client.create_filter("hour", kind="timing")
        self.assertEqual([self.client.add("hour", "added", timedelta(hours=1)) for _ in range(2)], [True, False])
        self.assertEqual(self.client.add_many("uri", ["added", "b", "c", "b", "added"]), [False, True, True, False, False])
        self.client.create_filter("added", capacity=100_000)
        values = [True, 1, 1.0, "1", "é", "é", [1], [1.0], "1", 2, True]
        self.assertEqual(self.client.add_many("added", values), [True, True, False, True, True, False, True, False, False, True, False])
        items = [f"added {i % 30_000}" for i in range(50_000)]
        self.assertEqual(self.client.add_many("added", iter(items)), [True] * 30_000 + [False] * 20_000)
        self.assertEqual(self.client.add_many("added", []), [])

    def test_a_lower_limit_of_the_daemon(self) -> None:
        daemon = Daemon(self.addCleanup, URIFILTER_LIMITS_ITEMS="100")
        client = FilterAPIClient(url=daemon.url)
        self.addCleanup(client.close)
        items = [f"limit {i}" for i in range(1234)]
        self.assertEqual(client.filter("uri", items), items)
        self.assertEqual(client.check("uri", items + ["more"]), [False] * 1234 + [True])
        with self.assertRaises(ItemError) as caught:
            client.filter("uri", items + ["y" * 70_000])
        self.assertEqual((caught.exception.error_code, caught.exception.index), ("item_too_large", 1234))
