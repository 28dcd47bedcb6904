"""Items that cannot be taken are skipped, where a call asks for it, and told of."""

from __future__ import annotations

import asyncio
import unittest
from typing import List, Optional, Tuple

from crawlerfilter import AsyncFilterAPIClient, FilterAPIClient, ItemError

from .daemon import Daemon


class SkipTest(unittest.TestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup, URIFILTER_LIMITS_ITEM_BYTES="110")

    def setUp(self) -> None:
        self.told: List[Tuple[Optional[int], str]] = []
        self.client = FilterAPIClient(url=self.daemon.url)
        self.addCleanup(self.client.close)
        self.name = self.id().rsplit(".", 1)[1]
        self.client.create_filter(self.name)

    def tell(self, err: ItemError) -> None:
        self.assertIsInstance(err, ItemError)
        self.told.append((err.index, err.error_code))

    def test_filter(self) -> None:
        items = ["a", "", None, 7, float("nan"), "x" * 111, "caf\udce9", "a", ["y" * 111], "b"]
        self.assertEqual(self.client.filter(self.name, items, on_invalid=self.tell), ["a", 7, "b"])
        here = [(1, "empty_item"), (2, "null_item"), (4, "invalid_item"), (6, "invalid_utf8")]
        self.assertEqual(self.told, here + [(5, "item_too_large"), (8, "item_too_large")])
        with self.assertRaises(ItemError) as raised:
            self.client.filter(self.name, items)
        self.assertEqual(raised.exception.index, 1)

    def test_batches(self) -> None:
        client = FilterAPIClient(url=self.daemon.url, batch_items=3)
        self.addCleanup(client.close)
        items = ["a", "", "b", "x" * 111, "c", "d", None, "y" * 111]
        self.assertEqual(client.filter(self.name, items, on_invalid=self.tell), ["a", "b", "c", "d"])
        self.assertEqual(self.told, [(1, "empty_item"), (6, "null_item"), (3, "item_too_large"), (7, "item_too_large")])
        self.told.clear()
        self.assertEqual(list(client.stream(self.name, iter(items + ["e"]), on_invalid=self.tell)), ["e"])
        self.assertEqual(sorted(self.told), [(1, "empty_item"), (3, "item_too_large"), (6, "null_item"), (7, "item_too_large")])

    def test_check_and_add_many(self) -> None:
        items = ["a", "", "x" * 111, "b"]
        self.assertEqual(self.client.check(self.name, items, on_invalid=self.tell), [True, False, False, True])
        self.assertEqual(self.client.add_many(self.name, items, on_invalid=self.tell), [True, False, False, True])
        self.assertEqual(self.client.check(self.name, items, on_invalid=self.tell), [False, False, False, False])
        self.assertEqual(self.told, [(1, "empty_item"), (2, "item_too_large")] * 3)

    def test_many_are_counted(self) -> None:
        items = ["x" * 111] * 150 + ["a"]
        errors: List[ItemError] = []
        self.assertEqual(self.client.filter(self.name, items, on_invalid=errors.append), ["a"])
        self.assertEqual([err.index for err in errors], list(range(100)) + [None])
        self.assertIn("50 more items", str(errors[-1]))

    def test_nothing_to_skip(self) -> None:
        self.assertEqual(self.client.filter(self.name, ["a", {"invalid": 3}], on_invalid=self.tell), ["a", {"invalid": 3}])
        self.assertEqual(self.client.filter(self.name, ["", None], on_invalid=lambda err: None), [])
        self.assertEqual(self.told, [])

    def test_what_it_raises_ends_the_call(self) -> None:
        def refuse(err: ItemError) -> None:
            raise KeyError(err.index)

        with self.assertRaises(KeyError):
            self.client.filter(self.name, ["a", ""], on_invalid=refuse)
        self.assertEqual(self.client.check(self.name, ["a"]), [True])

    def test_asyncio(self) -> None:
        async def work() -> None:
            async with AsyncFilterAPIClient(url=self.daemon.url) as client:
                self.assertEqual(await client.filter(self.name, ["a", ""], on_invalid=self.tell), ["a"])
                self.assertEqual(await client.check(self.name, ["", "a"], on_invalid=self.tell), [False, False])
                self.assertEqual(await client.add_many(self.name, ["b", None], on_invalid=self.tell), [True, False])
                self.assertEqual([item async for item in client.stream(self.name, ["", "c"], on_invalid=self.tell)], ["c"])

        asyncio.run(work())
        self.assertEqual(self.told, [(1, "empty_item"), (0, "empty_item"), (1, "null_item"), (0, "empty_item")])
