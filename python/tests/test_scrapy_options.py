"""The settings of the dupefilter."""

from __future__ import annotations

import math
import os
import pathlib
import re
import unittest
from typing import Any
from unittest import mock

from crawlerfilter import Settings, SettingsError

from .crawl import NO_SCRAPY
from .daemon import ROOT, clean_environment

if not NO_SCRAPY:
    from scrapy.settings import Settings as ScrapySettings

    from crawlerfilter.scrapy import options
    from crawlerfilter.scrapy.options import Options, old_capacity, type_of


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class OptionsTest(unittest.TestCase):
    def read(self, spider: str = "quotes", **settings: Any) -> "Options":
        with mock.patch.dict(os.environ, clean_environment(), clear=True):
            return Options.read(ScrapySettings(settings), spider)

    def test_defaults(self) -> None:
        read = self.read()
        self.assertEqual((read.typeid, read.create, read.spec, read.expire), ("quotes", True, {}, None))
        self.assertEqual((read.when_away, read.cache, read.debug, read.dry_run), ("wait", 200_000, False, ""))
        self.assertEqual(read.client, Settings(patience=60.0, timeout=10.0, in_doubt="new"))

    def test_given(self) -> None:
        read = self.read(
            URIFILTER_URL=["http://a:1", "http://b:1"], URIFILTER_TOKEN="token", URIFILTER_TYPE="shared", URIFILTER_WAIT="5",
            URIFILTER_TIMEOUT="30", URIFILTER_IN_DOUBT="error", URIFILTER_CACHE="0", DUPEFILTER_DEBUG=True,
        )  # fmt: skip
        self.assertEqual((read.typeid, read.create, read.cache, read.debug), ("shared", False, 0, True))
        self.assertEqual(read.client, Settings("http://a:1,http://b:1", "token", 30.0, 5.0, "error"))
        self.assertEqual(self.read(URIFILTER_WHEN_AWAY="pass").client.patience, 0)
        self.assertEqual(self.read(URIFILTER_CAPACITY="1000", URIFILTER_ERROR_RATE="0.01", URIFILTER_TYPE="x").spec, {"kind": "bloom", "capacity": 1000, "error_rate": 0.01})
        self.assertEqual(self.read(URIFILTER_EXPIRE="3600").spec, {"kind": "timing", "expire": 3600})
        self.assertEqual(self.read(URIFILTER_KIND="timing", URIFILTER_EXPIRE="3600").spec, {"kind": "timing", "expire": 3600})
        self.assertEqual(self.read(URIFILTER_KIND="bloom", URIFILTER_CAPACITY=10).spec, {"kind": "bloom", "capacity": 10})
        exact = self.read(URIFILTER_KIND="exact", URIFILTER_DIGEST="64", URIFILTER_TYPE="x")
        self.assertEqual((exact.spec, exact.create), ({"kind": "exact", "digest": 64}, True))
        self.assertEqual(exact.set_by, {"kind": "URIFILTER_KIND", "digest": "URIFILTER_DIGEST"})
        self.assertEqual(self.read(URIFILTER_SEEN="downloaded", URIFILTER_DIGEST=64).spec, {"kind": "exact", "digest": 64})
        prints = self.read(URIFILTER_LAYOUT="fingerprints", URIFILTER_CAPACITY=10, URIFILTER_TYPE="x")
        self.assertEqual((prints.spec, prints.create), ({"kind": "bloom", "capacity": 10, "layout": "fingerprints"}, True))
        self.assertEqual(prints.set_by, {"capacity": "URIFILTER_CAPACITY", "layout": "URIFILTER_LAYOUT"})
        self.assertTrue(self.read(URIFILTER_TYPE="x", URIFILTER_CREATE="1").create)
        self.assertFalse(self.read(URIFILTER_CREATE="0").create)

    def test_environment(self) -> None:
        environ = {"URIFILTER_URL": "http://c:1", "URIFILTER_TIMEOUT": "30", "URIFILTER_IN_DOUBT": "error", "URIFILTER_PATIENCE": "7"}
        with mock.patch.dict(os.environ, environ):
            self.assertEqual(Options.read(ScrapySettings(), "quotes").client, Settings("http://c:1", "", 30.0, 60.0, "error"))

    def test_malformed(self) -> None:
        for settings, said in (
            ({"URIFILTER_FILTER": "not a name"}, "URIFILTER_FILTER: 'not a name': want the id of a filter"),
            ({"URIFILTER_FILTER": "a", "URIFILTER_TYPE": "b"}, "URIFILTER_FILTER: 'a', and URIFILTER_TYPE, its old name: 'b': want one of them"),
            ({"URIFILTER_TYP": "a"}, "URIFILTER_TYP: unknown setting; did you mean URIFILTER_TYPE?"),
            ({"URIFILTER_FLITER": "a"}, "URIFILTER_FLITER: unknown setting; did you mean URIFILTER_FILTER?"),
            ({"URIFILTER_SEN": "downloaded"}, "URIFILTER_SEN: unknown setting; did you mean URIFILTER_SEEN?"),
            ({"URIFILTER_": 1}, "URIFILTER_: unknown setting"),
            ({"URIFILTER_WHEN_AWAY": "sleep"}, "URIFILTER_WHEN_AWAY: 'sleep': want wait, raise or pass"),
            ({"URIFILTER_WAIT": "long"}, "URIFILTER_WAIT: 'long': want a number"),
            ({"URIFILTER_WAIT": -1}, "URIFILTER_WAIT: -1: want a number of seconds, 0 or more"),
            ({"URIFILTER_WAIT": True}, "URIFILTER_WAIT: True"),
            ({"URIFILTER_EXPIRE": -1}, "URIFILTER_EXPIRE: -1: want a number of seconds, more than 0"),
            ({"URIFILTER_EXPIRE": 0}, "URIFILTER_EXPIRE: 0: want a number of seconds, more than 0"),
            ({"URIFILTER_TIMEOUT": 0}, "URIFILTER_TIMEOUT: 0: want a number of seconds, more than 0"),
            ({"URIFILTER_CAPACITY": 0}, "URIFILTER_CAPACITY: 0: want a whole number, 1 or more"),
            ({"URIFILTER_ERROR_RATE": 0}, "URIFILTER_ERROR_RATE: 0: want a number, more than 0 and less than 1"),
            ({"URIFILTER_ERROR_RATE": 1}, "URIFILTER_ERROR_RATE: 1: want a number, more than 0 and less than 1"),
            ({"URIFILTER_CACHE": "1.5"}, "URIFILTER_CACHE: '1.5': want a whole number"),
            ({"URIFILTER_CACHE": 1.5}, "URIFILTER_CACHE: 1.5: want a whole number"),
            ({"URIFILTER_KIND": "exact", "URIFILTER_DIGEST": 64.5}, "URIFILTER_DIGEST: 64.5: want 64 or 128"),
            ({"URIFILTER_URL": 7}, "url: want a text"),
            ({"URIFILTER_KIND": "cuckoo"}, "URIFILTER_KIND: 'cuckoo': want bloom, timing or exact"),
            ({"URIFILTER_KIND": "timing"}, "URIFILTER_KIND: 'timing': want URIFILTER_EXPIRE, too"),
            ({"URIFILTER_KIND": "exact", "URIFILTER_EXPIRE": 60}, "URIFILTER_KIND: 'exact': with URIFILTER_EXPIRE the kind is timing"),
            ({"URIFILTER_KIND": "exact", "URIFILTER_CAPACITY": 60}, "URIFILTER_KIND: 'exact': has no capacity"),
            ({"URIFILTER_KIND": "bloom", "URIFILTER_SEEN": "downloaded"}, "URIFILTER_KIND: 'bloom': with URIFILTER_SEEN"),
            ({"URIFILTER_DIGEST": 64}, "URIFILTER_DIGEST: 64: is for URIFILTER_KIND = exact"),
            ({"URIFILTER_KIND": "exact", "URIFILTER_DIGEST": 96}, "URIFILTER_DIGEST: 96: want 64 or 128"),
            ({"URIFILTER_LAYOUT": "prints"}, "URIFILTER_LAYOUT: 'prints': want fingerprints, or nothing for bits"),
            ({"URIFILTER_KIND": "exact", "URIFILTER_LAYOUT": "fingerprints"}, "URIFILTER_LAYOUT: 'fingerprints': is for URIFILTER_KIND = bloom"),
            ({"URIFILTER_SEEN": "downloaded", "URIFILTER_LAYOUT": "fingerprints"}, "URIFILTER_LAYOUT: 'fingerprints': leave it out with URIFILTER_SEEN"),
            ({"BLOOMFILTER_BIT": "99"}, "BLOOMFILTER_BIT 99"),
            ({"BLOOMFILTER_HASH_NUMBER": "0"}, "BLOOMFILTER_HASH_NUMBER 0"),
        ):
            with self.subTest(settings), self.assertRaises(SettingsError) as caught:
                self.read(**settings)
            self.assertIn(said, str(caught.exception))

    def test_names_of_the_filter(self) -> None:
        """URIFILTER_TYPE is the old name of URIFILTER_FILTER."""
        for settings in ({"URIFILTER_FILTER": "shop"}, {"URIFILTER_TYPE": "shop"}, {"URIFILTER_FILTER": "shop", "URIFILTER_TYPE": "shop"}):
            self.assertEqual(self.read(**settings).typeid, "shop")
        self.assertEqual((self.read(URIFILTER_FILTER=3).typeid, self.read(URIFILTER_TYPE="3").typeid), (3, 3))

    def test_all_settings_are_known(self) -> None:
        """Those that are read are those that are known, and those that the two manuals name."""
        source = pathlib.Path(options.__file__)
        read = re.compile(r"\bsettings\.get(?:bool|list)?\(\s*\"(URIFILTER_\w+)\"|\bnumber\(\w*\.?settings, \"(URIFILTER_\w+)\"")
        used = {a or b for file in source.parent.glob("*.py") for a, b in read.findall(file.read_text(encoding="utf-8"))}
        used |= {f"URIFILTER_{name}" for name in ("URL", "TOKEN", "CA_FILE", "FAILED_CODES")}  # read by a name that is put together
        used |= {"URIFILTER_IN_DOUBT"}
        self.assertEqual(used, options.NAMES)
        guide = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
        for name in options.NAMES:
            self.assertIn(name, str(options.__doc__) + "URIFILTER_CA_FILE")
            self.assertRegex(guide, name + r"\b|`" + name[len("URIFILTER") :] + "`")

    def test_types(self) -> None:
        for setting, spider, want in (
            ("%(spider)s", "quotes", ("quotes", True)),
            ("%(spider)s-2026.11", "quotes", ("quotes-2026.11", True)),
            ("crawl", "quotes", ("crawl", False)),
            ("3", "quotes", (3, False)),
            (3, "quotes", (3, False)),
        ):
            self.assertEqual(type_of(setting, spider), want)
        for setting, want in (("%(project)s-%(spider)s", "shop-quotes"), ("%(project)s", "shop"), ("%(project)s.all", "shop.all")):
            self.assertEqual(type_of(setting, "quotes", "shop"), (want, True))
        with self.assertLogs("crawlerfilter.scrapy", "INFO"):
            mapped = [type_of("%(spider)s", name)[0] for name in ("quotes spider", "quotes_spider", "quotes/spider", "我", "123", "x" * 100, "x" * 101)]
        self.assertEqual(len(set(mapped)), 7)
        for name in mapped:
            self.assertRegex(str(name), r"\A[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")

    def test_old_capacity(self) -> None:
        """At the capacity the old filter had the error rate."""
        for bit, hashes, rate in ((30, 6, 1e-4), (20, 6, 1e-4), (32, 1, 0.01), (25, 14, 1e-6)):
            n = old_capacity(bit, hashes, rate)
            self.assertAlmostEqual((1 - math.exp(-hashes * n / 2**bit)) ** hashes, rate, delta=rate / 100)
        self.assertEqual(round(old_capacity(30, 6, 1e-4), -6), 43_000_000)
        for bit, hashes in ((0, 6), (33, 6), (30, 0), (30, 65)):
            with self.assertRaises(SettingsError):
                old_capacity(bit, hashes, 1e-4)
