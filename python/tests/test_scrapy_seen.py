"""The cache of the dupefilter."""

from __future__ import annotations

import tracemalloc
import unittest

from .crawl import NO_SCRAPY

if not NO_SCRAPY:
    from crawlerfilter.scrapy.seen import Seen


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class SeenTest(unittest.TestCase):
    def test_bounded(self) -> None:
        seen = Seen(1000)
        for i in range(100_000):
            seen.add("%040x" % i)
            self.assertTrue("%040x" % i in seen and "%040x" % 0 in seen)  # what is met stays
        self.assertLessEqual(len(seen), 1000)
        self.assertNotIn("%040x" % 50_000, seen)
        self.assertIn("%040x" % 99_600, seen)
        seen.add("no hexadecimal digits")
        self.assertIn("no hexadecimal digits", seen)
        seen.clear()
        self.assertEqual(len(seen), 0)

    def test_none(self) -> None:
        seen = Seen(0)
        seen.add("00")
        self.assertNotIn("00", seen)

    def test_memory(self) -> None:
        """As much as the settings say."""
        tracemalloc.start()
        seen = Seen(200_000)
        for i in range(400_000):
            seen.add("%040x" % i)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        self.assertLess(used / 200_000, 130, used)
