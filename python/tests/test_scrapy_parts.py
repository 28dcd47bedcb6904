"""The parts of the dupefilter: its settings, its cache, and how schedulers call it."""

from __future__ import annotations

import gc
import json
import math
import os
import threading
import time
import tracemalloc
import unittest
from typing import Any, List
from unittest import mock

from crawlerfilter import FilterAPIClient, FilterError, Settings, SettingsError

from .crawl import NO_SCRAPY
from .daemon import Daemon, clean_environment

if not NO_SCRAPY:
    from scrapy import Request, Spider, signals
    from scrapy.core.scheduler import Scheduler
    from scrapy.settings import Settings as ScrapySettings
    from scrapy.utils.request import request_from_dict
    from scrapy.utils.test import get_crawler

    from crawlerfilter.scrapy import BatchMiddleware, RFPDupeFilter, SettleMiddleware
    from crawlerfilter.scrapy.options import Options, old_capacity, type_of
    from crawlerfilter.scrapy.seen import Seen


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class OptionsTest(unittest.TestCase):
    def read(self, spider: str = "quotes", **settings: Any) -> "Options":
        with mock.patch.dict(os.environ, clean_environment(), clear=True):
            return Options.read(ScrapySettings(settings), spider)

    def test_defaults(self) -> None:
        options = self.read()
        self.assertEqual((options.typeid, options.create, options.spec, options.expire), ("quotes", True, {}, None))
        self.assertEqual((options.when_away, options.cache, options.debug, options.dry_run), ("wait", 200_000, False, ""))
        self.assertEqual(options.client, Settings(patience=60.0, timeout=10.0, in_doubt="new"))

    def test_given(self) -> None:
        options = self.read(
            URIFILTER_URL=["http://a:1", "http://b:1"], URIFILTER_TOKEN="token", URIFILTER_TYPE="shared", URIFILTER_WAIT="5",
            URIFILTER_TIMEOUT="30", URIFILTER_IN_DOUBT="error", URIFILTER_CACHE="0", DUPEFILTER_DEBUG=True,
        )  # fmt: skip
        self.assertEqual((options.typeid, options.create, options.cache, options.debug), ("shared", False, 0, True))
        self.assertEqual(options.client, Settings("http://a:1,http://b:1", "token", 30.0, 5.0, "error"))
        self.assertEqual(self.read(URIFILTER_WHEN_AWAY="pass").client.patience, 0)
        self.assertEqual(self.read(URIFILTER_CAPACITY="1000", URIFILTER_ERROR_RATE="0.01", URIFILTER_TYPE="x").spec, {"kind": "bloom", "capacity": 1000, "error_rate": 0.01})
        self.assertEqual(self.read(URIFILTER_EXPIRE="3600").spec, {"kind": "timing", "expire": 3600})
        self.assertTrue(self.read(URIFILTER_TYPE="x", URIFILTER_CREATE="1").create)
        self.assertFalse(self.read(URIFILTER_CREATE="0").create)

    def test_environment(self) -> None:
        environ = {"URIFILTER_URL": "http://c:1", "URIFILTER_TIMEOUT": "30", "URIFILTER_IN_DOUBT": "error", "URIFILTER_PATIENCE": "7"}
        with mock.patch.dict(os.environ, environ):
            self.assertEqual(Options.read(ScrapySettings(), "quotes").client, Settings("http://c:1", "", 30.0, 60.0, "error"))

    def test_malformed(self) -> None:
        for settings, said in (
            ({"URIFILTER_TYPE": "not a name"}, "URIFILTER_TYPE: 'not a name': want the id of a filter"),
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
            ({"URIFILTER_URL": 7}, "url: want a text"),
            ({"BLOOMFILTER_BIT": "99"}, "BLOOMFILTER_BIT 99"),
            ({"BLOOMFILTER_HASH_NUMBER": "0"}, "BLOOMFILTER_HASH_NUMBER 0"),
        ):
            with self.subTest(settings), self.assertRaises(SettingsError) as caught:
                self.read(**settings)
            self.assertIn(said, str(caught.exception))

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


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class ContractTest(unittest.TestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup)

    def settings(self, **more: Any) -> Any:
        return {"URIFILTER_URL": self.daemon.url, "URIFILTER_WAIT": 0, "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7", **more}

    def spider(self, name: str, **more: Any) -> Any:
        crawler = get_crawler(Spider, self.settings(**more))
        crawler.spider = crawler._create_spider(name)
        return crawler.spider

    def closing(self, dupefilter: Any) -> Any:
        self.addCleanup(dupefilter.close, "finished")
        return dupefilter

    def test_of_scrapy_redis(self) -> None:
        """As its scheduler calls it: no open, clear at the end."""
        spider = self.spider("redis", URIFILTER_CAPACITY=5000)
        dupefilter = self.closing(RFPDupeFilter.from_spider(spider))
        one = Request("http://a.example/?x=1&y=2")
        self.assertFalse(dupefilter.request_seen(one))
        self.assertTrue(dupefilter.request_seen(Request("http://a.example/?y=2&x=1")))
        dupefilter.log(one, spider)
        for stat in ("dupefilter/filtered", "bloomfilter/filtered", "urifilter/local"):
            self.assertEqual(spider.crawler.stats.get_value(stat), 1, stat)
        before = dupefilter.client.filter_info("redis")
        dupefilter.clear()
        after = dupefilter.client.filter_info("redis")
        same = ("id", "name", "kind", "capacity", "error_rate", "on_full")
        self.assertEqual([after[k] for k in same], [before[k] for k in same])
        self.assertFalse(dupefilter.request_seen(one))

    def test_cleared_by_another_crawler(self) -> None:
        """One that asks in between is answered at once: the filter is there all the time."""
        clearing = self.closing(RFPDupeFilter.from_crawler(self.spider("cleared", URIFILTER_CAPACITY=5000).crawler))
        asking = self.closing(RFPDupeFilter.from_crawler(self.spider("asking", URIFILTER_TYPE="cleared", URIFILTER_CACHE=0).crawler))
        before = asking.client.filter_info("cleared")
        done, errors = threading.Event(), []

        def clear() -> None:
            try:
                for _ in range(30):
                    clearing.clear()
            except Exception as err:
                errors.append(err)
            finally:
                done.set()

        thread = threading.Thread(target=clear)
        thread.start()
        asked = 0
        asking.client.on_wait = lambda err, seconds: errors.append(err)
        self.patch_ask_again(errors)
        while not (done.is_set() or asking._conversation.closing):
            asking.request_seen(Request(f"http://cleared.example/{asked}"))
            asked += 1
        thread.join()
        self.assertEqual((errors, asking._conversation.closing), ([], False))
        after = asking.client.filter_info("cleared")
        self.assertEqual([after[k] for k in ("id", "capacity")], [before[k] for k in ("id", "capacity")])

    def patch_ask_again(self, errors: List[BaseException]) -> None:
        """A filter that is missing for a moment would be asked for again."""

        def sleep(seconds: float) -> None:
            errors.append(AssertionError("the filter was missing"))

        patch = mock.patch("crawlerfilter.scrapy.filters.time.sleep", sleep)
        patch.start()
        self.addCleanup(patch.stop)

    def test_two_that_clear_at_once(self) -> None:
        both = [self.closing(RFPDupeFilter.from_crawler(self.spider(name, URIFILTER_TYPE="both", URIFILTER_CREATE=True).crawler)) for name in "ab"]
        before, errors = both[0].client.filter_info("both"), []
        for _ in range(10):
            together = threading.Barrier(2)

            def clear(dupefilter: Any, together: threading.Barrier = together) -> None:
                try:
                    together.wait()
                    dupefilter.clear()
                except Exception as err:
                    errors.append(err)

            threads = [threading.Thread(target=clear, args=(dupefilter,)) for dupefilter in both]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(errors, [])
        self.assertEqual(both[0].client.filter_info("both")["id"], before["id"])
        self.assertFalse(both[1].request_seen(Request("http://both.example/")))

    def test_old_contract(self) -> None:
        dupefilter = self.closing(RFPDupeFilter.from_settings(ScrapySettings(self.settings(URIFILTER_TYPE="uri"))))
        dupefilter.open()
        one = Request("http://old.example/")
        self.assertEqual([dupefilter.request_seen(one), dupefilter.request_seen(one)], [False, True])
        with self.assertRaises(SettingsError) as caught:
            RFPDupeFilter.from_settings(ScrapySettings(self.settings()))
        self.assertIn("hint: set URIFILTER_TYPE", str(caught.exception))

    def test_names_of_spiders(self) -> None:
        """The spider's own name, else its class's, else that of the class; or none is asked for."""
        class Unnamed(Spider):
            pass

        class Named(Spider):
            name = "of-the-class"

        for crawler, want in (
            (self.spider("of-the-spider").crawler, "of-the-spider"),
            (get_crawler(Named, self.settings()), "of-the-class"),
            (get_crawler(Unnamed, self.settings()), "Unnamed"),
            (get_crawler(Unnamed, self.settings(URIFILTER_TYPE="uri")), "uri"),
        ):
            with self.subTest(want):
                dupefilter = self.closing(RFPDupeFilter.from_crawler(crawler))
                self.assertEqual(dupefilter.options.typeid, want)

    def test_as_the_tests_of_scrapy_have_it(self) -> None:
        """A crawler without a spider, and duplicates in Scrapy's own logger."""
        crawler = get_crawler(settings_dict=self.settings(DUPEFILTER_CLASS="crawlerfilter.scrapy.RFPDupeFilter", DUPEFILTER_DEBUG=True))
        dupefilter = self.closing(Scheduler.from_crawler(crawler).df)
        spider = self.spider("simple")
        with self.assertLogs("scrapy.dupefilters", "DEBUG") as logs:
            dupefilter.log(Request("http://scrapytest.org/index.html"), spider)
        self.assertEqual(logs.records[0].getMessage(), "Filtered duplicate request: <GET http://scrapytest.org/index.html> (referer: None)")

    def test_settings_of_a_filter_that_is_there(self) -> None:
        """It stays as it is, which is said."""
        first = self.closing(RFPDupeFilter.from_crawler(self.spider("sized", URIFILTER_CAPACITY=1000, URIFILTER_ERROR_RATE=0.01).crawler))
        self.assertEqual(first.client.filter_info("sized")["error_rate"], 0.01)
        for more, said in (
            ({"URIFILTER_CAPACITY": 1000, "URIFILTER_ERROR_RATE": 0.001}, "URIFILTER_ERROR_RATE 0.001 is not used: filter sized is there with error_rate 0.01"),
            ({"URIFILTER_CAPACITY": 5000}, "URIFILTER_CAPACITY 5000 is not used: filter sized is there with capacity 1000"),
        ):
            with self.subTest(**more), self.assertLogs("crawlerfilter.scrapy", "WARNING") as logs:
                self.closing(RFPDupeFilter.from_crawler(self.spider("sized", **more).crawler))
            self.assertEqual(len(logs.output), 1)
            self.assertIn(said, logs.output[0])
        first.client.create_filter("timed", kind="timing", expire=60)
        with self.assertLogs("crawlerfilter.scrapy", "WARNING") as logs:
            self.closing(RFPDupeFilter.from_crawler(self.spider("timed", URIFILTER_CAPACITY=1000).crawler))
        self.assertIn("URIFILTER_CAPACITY 1000 is not used: filter timed is of the kind timing", logs.output[0])

    def test_own_fingerprint(self) -> None:
        class ByPath(RFPDupeFilter):
            def request_fingerprint(self, request: Any) -> str:
                return str(request.url.partition("?")[0])

        dupefilter = self.closing(ByPath.from_crawler(self.spider("by-path").crawler))
        self.assertEqual([dupefilter.request_seen(Request(f"http://path.example/?{i}")) for i in range(3)], [False, True, True])

    def test_fingerprinter_of_the_crawler(self) -> None:
        spider = self.spider("fingerprinter")
        dupefilter = self.closing(RFPDupeFilter.from_crawler(spider.crawler))
        request = Request("http://fingerprint.example/")
        dupefilter.request_seen(request)
        item = spider.crawler.request_fingerprinter.fingerprint(request).hex()
        self.assertEqual(dupefilter.client.check("fingerprinter", [item]), [False])

    def test_ask_ahead(self) -> None:
        """Of one call for many: each is new once, whatever asks afterwards."""
        for cache in (1000, 0):
            with self.subTest(cache=cache):
                dupefilter = self.closing(RFPDupeFilter.from_crawler(self.spider(f"ahead{cache}", URIFILTER_CACHE=cache).crawler))
                requests = [Request(f"http://ahead.example/{i % 5}") for i in range(10)]
                before = self.daemon.requests()
                dupefilter.ask_ahead(requests)
                dupefilter.ask_ahead(requests)
                self.assertEqual(self.daemon.requests() - before, 1)
                self.assertEqual([dupefilter.request_seen(r) for r in requests], [False] * 5 + [True] * 5)
                dupefilter.ask_ahead(requests)
                self.assertEqual([dupefilter.request_seen(r) for r in requests], [True] * 10)

    def test_asked_in_vain(self) -> None:
        dupefilter = RFPDupeFilter.from_crawler(self.spider("vain").crawler)
        dupefilter.ask_ahead([Request("http://vain.example/1"), Request("http://vain.example/2")])
        self.assertFalse(dupefilter.request_seen(Request("http://vain.example/1")))
        with self.assertLogs("crawlerfilter.scrapy", "WARNING") as logs:
            dupefilter.close("finished")
        self.assertIn("1 requests were asked for and remembered, but not scheduled", logs.output[0])

    def test_middleware_alone(self) -> None:
        spider = self.spider("alone")
        middleware = BatchMiddleware.from_crawler(spider.crawler)
        outputs = [Request("http://alone.example/"), {"item": 1}, None]
        with self.assertLogs("crawlerfilter.scrapy", "WARNING"):
            self.assertEqual(list(middleware.process_spider_output(None, iter(outputs), spider)), outputs)

    def test_expire(self) -> None:
        """What was seen too long ago is new again, whatever this process has seen."""
        dupefilter = self.closing(RFPDupeFilter.from_crawler(self.spider("hourly", URIFILTER_EXPIRE=0.3).crawler))
        info = dupefilter.client.filter_info("hourly")
        self.assertEqual((info["kind"], info["expire"]), ("timing", 0.3))
        one = Request("http://expire.example/")
        self.assertFalse(dupefilter.request_seen(one))
        while dupefilter.request_seen(one):
            time.sleep(0.01)
        dupefilter.clear()
        self.assertEqual(dupefilter.client.filter_info("hourly")["expire"], 0.3)
        # A filter of that kind that is there already is met in the same way.
        again = self.closing(RFPDupeFilter.from_crawler(self.spider("other", URIFILTER_TYPE="hourly").crawler))
        self.assertFalse(again.request_seen(one))
        while again.request_seen(one):
            time.sleep(0.01)

    def downloaded(self, name: str, **more: Any) -> "RFPDupeFilter":
        spider = self.spider(name, URIFILTER_SEEN="downloaded", DOWNLOADER_MIDDLEWARES={"crawlerfilter.scrapy.SettleMiddleware": 10}, **more)
        self.assertIsInstance(SettleMiddleware.from_crawler(spider.crawler), SettleMiddleware)
        return self.closing(RFPDupeFilter.from_crawler(spider.crawler))

    def told(self, dupefilter: "RFPDupeFilter", request: Any) -> bool:
        """Whether the request is new to the daemon, when it has been told all."""
        assert dupefilter._reservations is not None
        dupefilter._reservations._flush()
        return dupefilter.client.check(dupefilter.options.typeid, [dupefilter.request_fingerprint(request)])[0]

    def test_downloaded(self) -> None:
        """A request that fails is given out again, to this crawl some times."""
        mine, other = self.downloaded("failing"), self.downloaded("other", URIFILTER_TYPE="failing")
        for _ in range(3):
            one = Request("http://failing.example/")
            self.assertFalse(mine.request_seen(one))
            self.assertEqual([mine.request_seen(Request(one.url)), other.request_seen(Request(one.url))], [True, True])
            retry = one.replace(dont_filter=True)
            self.assertEqual([mine.begins(one), mine.begins(retry)], [True, True])
            mine.ends(retry, False)
            self.assertTrue(self.told(mine, one))
        self.assertTrue(mine.request_seen(Request(one.url)))
        theirs = Request(one.url)
        self.assertFalse(other.request_seen(theirs))
        other.ends(theirs, True)
        self.assertTrue(other.request_seen(Request(one.url)))  # before the daemon is told
        self.assertFalse(self.told(other, one))
        # A callback that wants the page once more is not in the way of that.
        again = theirs.replace(dont_filter=True)
        self.assertTrue(other.begins(again))

    def test_downloaded_without_the_daemon(self) -> None:
        """What passes while the daemon is away is not what this crawl has downloaded."""
        daemon = Daemon(self.addCleanup)
        mine = self.downloaded("passing", URIFILTER_URL=daemon.url, URIFILTER_WHEN_AWAY="pass", URIFILTER_TIMEOUT=1)
        one = Request("http://passing.example/1")
        self.assertFalse(mine.request_seen(one))
        mine.ends(one, True)
        self.assertFalse(self.told(mine, one))
        daemon.kill()
        self.assertEqual([mine.request_seen(Request(f"http://passing.example/{i}")) for i in (1, 2, 2)], [True, False, True])

    def test_downloaded_from_a_shared_queue(self) -> None:
        """Another process takes a request with its reservation, in the form that queues keep."""
        mine, other = self.downloaded("queueing"), self.downloaded("other", URIFILTER_TYPE="queueing")
        one = Request("http://queueing.example/", meta={"mine": 1})
        self.assertFalse(mine.request_seen(one))
        taken = request_from_dict(json.loads(json.dumps({k: v for k, v in one.to_dict().items() if k in ("url", "meta")})))
        self.assertTrue(other.begins(taken))
        other.ends(taken, True)
        self.assertEqual((taken.meta, self.told(other, one)), ({"mine": 1}, False))

    def test_downloaded_and_dropped(self) -> None:
        """By a scheduler of its own mind; by a middleware of whose error nobody is told."""
        mine = self.downloaded("dropping")
        one, two = Request("http://dropping.example/1"), Request("http://dropping.example/2")
        self.assertEqual([mine.request_seen(one), mine.request_seen(two)], [False, False])
        mine._crawler.signals.send_catch_log(signals.request_dropped, request=one, spider=mine._crawler.spider)
        self.assertTrue(self.told(mine, one))
        self.assertTrue(mine.begins(two))
        del two
        gc.collect()
        self.assertTrue(self.told(mine, Request("http://dropping.example/2")))

    def test_downloaded_ahead(self) -> None:
        """What was asked ahead and not scheduled is given back when the crawl ends."""
        mine = self.downloaded("reserving")
        requests = [Request(f"http://reserving.example/{i % 3}") for i in range(6)]
        mine.ask_ahead(requests)
        mine.ask_ahead(requests)
        self.assertEqual(mine._crawler.stats.get_value("urifilter/calls"), 1)
        self.assertEqual([mine.request_seen(r) for r in requests[:2]], [False, False])
        mine.ends(requests[0], True)
        mine.close("finished")
        with FilterAPIClient(url=self.daemon.url) as client:
            self.assertEqual(client.check("reserving", [mine.request_fingerprint(r) for r in requests[:3]]), [False, True, True])

    def test_downloaded_without_a_crawler(self) -> None:
        with self.assertRaises(SettingsError) as caught:
            RFPDupeFilter.from_settings(ScrapySettings(self.settings(URIFILTER_TYPE="uri", URIFILTER_SEEN="downloaded")))
        self.assertIn("makes its dupefilter without a crawler", str(caught.exception))

    def test_owner_of_a_timing_filter(self) -> None:
        """It is known for as long as the filter remembers anything."""
        more = {"URIFILTER_EXPIRE": 60, "BOT_NAME": "one"}
        self.closing(RFPDupeFilter.from_crawler(self.spider("owned", **more).crawler)).clear()
        with self.assertNoLogs("crawlerfilter.scrapy", "WARNING"):
            self.closing(RFPDupeFilter.from_crawler(self.spider("owned", **more).crawler))
        with self.assertLogs("crawlerfilter.scrapy", "WARNING") as logs:
            self.closing(RFPDupeFilter.from_crawler(self.spider("owned", **{**more, "BOT_NAME": "two"}).crawler))
        self.assertIn("filter owned holds what project two has not put there", logs.output[0])

    def test_filter_that_was_made_before(self) -> None:
        """By an operator, and empty: it is the first project's."""
        client = FilterAPIClient(url=self.daemon.url)
        self.addCleanup(client.close)
        client.create_filter("made-before")
        with self.assertNoLogs("crawlerfilter.scrapy", "WARNING"):
            for _ in range(2):
                self.closing(RFPDupeFilter.from_crawler(self.spider("made-before").crawler))

    def test_expire_of_a_bloom_filter(self) -> None:
        with self.assertRaises(SettingsError) as caught:
            RFPDupeFilter.from_crawler(self.spider("uri", URIFILTER_EXPIRE=60).crawler)
        self.assertIn("filter uri is of the kind bloom", str(caught.exception))

    def test_clear_needs_a_scope(self) -> None:
        daemon = Daemon(self.addCleanup, wait=False)
        (daemon.folder / "tokens.yaml").write_text("[{name: crawler, token: a-token-that-may-filter, scopes: [filter]}]", encoding="utf-8")
        (daemon.folder / "tokens.yaml").chmod(0o600)
        daemon.start(args=["--tokens-file", str(daemon.folder / "tokens.yaml")])
        more = {"URIFILTER_URL": daemon.url, "URIFILTER_TOKEN": "a-token-that-may-filter"}
        dupefilter = self.closing(RFPDupeFilter.from_crawler(self.spider("x", URIFILTER_TYPE="uri", **more).crawler))
        self.assertFalse(dupefilter.request_seen(Request("http://scope.example/")))
        for call in (dupefilter.clear, lambda: RFPDupeFilter.from_crawler(self.spider("missing", **more).crawler)):
            with self.assertRaises(FilterError) as caught:
                call()
            self.assertEqual(caught.exception.error_code, "forbidden")
        self.assertTrue(dupefilter.request_seen(Request("http://scope.example/")))


if __name__ == "__main__":
    unittest.main()
