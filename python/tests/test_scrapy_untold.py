"""What the dupefilter keeps in a JOBDIR."""

from __future__ import annotations

import errno
import os
import tempfile
import unittest
from unittest import mock

from .crawl import NO_SCRAPY

if not NO_SCRAPY:
    from crawlerfilter.scrapy.untold import FILE, Untold


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class UntoldTest(unittest.TestCase):
    def test_full_disk(self) -> None:
        """What an earlier run has kept is there as long as the new file is not whole."""
        for at in ("os.fsync", "os.replace"):
            with self.subTest(at), tempfile.TemporaryDirectory() as jobdir:
                first = Untold(jobdir)
                first.passed("aa")
                first.at_end("bb")
                self.assertEqual(first.keep(), 0)
                second = Untold(jobdir)
                second.passed("cc")
                with mock.patch(at, side_effect=OSError(errno.ENOSPC, "disk full")), self.assertRaises(OSError):
                    second.keep()
                self.assertEqual(Untold(jobdir).to_tell(), ["aa", "bb"])
                self.assertEqual(os.listdir(jobdir), [FILE])
                second.keep()
                self.assertEqual(Untold(jobdir).to_tell(), ["aa", "bb", "cc"])
