"""How schedulers call the dupefilter."""

from __future__ import annotations

import asyncio
import threading
import time
import unittest
from typing import Any, AsyncIterator, Iterator, List
from unittest import mock

from crawlerfilter import FilterAPIClient, FilterError, SettingsError

from .contract import ContractCase
from .crawl import NO_SCRAPY
from .daemon import Daemon

if not NO_SCRAPY:
    from scrapy import Request, Spider
    from scrapy.core.scheduler import Scheduler
    from scrapy.settings import Settings as ScrapySettings
    from scrapy.utils.test import get_crawler

    from crawlerfilter.scrapy import BatchMiddleware, RFPDupeFilter


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class ContractTest(ContractCase):
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
        self.assertIn("hint: set URIFILTER_FILTER", str(caught.exception))

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
        """A crawler without a spider, duplicates in Scrapy's own logger whoever made the dupefilter, and classes that build on it."""

        class Derived(RFPDupeFilter):
            @classmethod
            def from_crawler(cls, crawler: Any) -> Any:
                made = super().from_crawler(crawler)
                made.method = "from_crawler"
                return made

        spider, one = self.spider("simple", DUPEFILTER_DEBUG=True), Request("http://scrapytest.org/index.html")
        other = Request(one.url, headers={"Referer": "http://scrapytest.org/INDEX.html"})
        crawler = get_crawler(settings_dict=self.settings(DUPEFILTER_CLASS=Derived, DUPEFILTER_DEBUG=True))
        for method, made in (
            ("scheduler", Scheduler.from_crawler(crawler).df),
            ("from_crawler", Derived.from_crawler(spider.crawler)),
            ("from_spider", Derived.from_spider(spider)),
            ("from_settings", RFPDupeFilter.from_settings(ScrapySettings(self.settings(URIFILTER_FILTER="uri", DUPEFILTER_DEBUG=True)))),
        ):
            with self.subTest(method):
                dupefilter = self.closing(made)
                dupefilter.open()
                self.assertEqual(getattr(dupefilter, "method", ""), "" if method == "from_settings" else "from_crawler")
                self.assertEqual((dupefilter.debug, dupefilter.logger.name), (True, "scrapy.dupefilters"))
                with self.assertLogs("scrapy.dupefilters", "DEBUG") as logs:
                    dupefilter.log(one, spider)
                    dupefilter.log(other, spider)
                said = "Filtered duplicate request: <GET http://scrapytest.org/index.html> (referer: "
                self.assertEqual([r.getMessage() for r in logs.records], [said + "None)", said + "http://scrapytest.org/INDEX.html)"])
                self.assertEqual({(r.name, r.levelname, r.spider) for r in logs.records}, {("scrapy.dupefilters", "DEBUG", spider)})
        self.assertEqual(spider.crawler.stats.get_value("dupefilter/filtered"), 8)

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

    def test_middleware_of_many_items(self) -> None:
        """A callback that yields items without end is not held in memory until it ends."""
        middleware = BatchMiddleware.from_crawler(self.spider("items", URIFILTER_BATCH=10).crawler)
        taken: List[int] = []

        def callback() -> Iterator[Any]:
            for i in range(100_000):
                taken.append(i)
                yield {"item": i}

        async def slowly() -> AsyncIterator[Any]:
            for item in callback():
                yield item

        async def first() -> Any:
            return await middleware.process_spider_output_async(None, slowly()).__anext__()

        self.assertEqual(next(middleware.process_spider_output(None, callback())), {"item": 0})
        self.assertEqual(len(taken), 100)
        self.assertEqual(asyncio.run(first()), {"item": 0})
        self.assertEqual(len(taken), 200)

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
        with self.assertRaises(FilterError) as caught:
            dupefilter.clear()
        self.assertEqual(caught.exception.error_code, "forbidden")
        with self.assertLogs("crawlerfilter.scrapy", "ERROR") as logs:  # the crawl that begins is closed
            self.closing(RFPDupeFilter.from_crawler(self.spider("missing", **more).crawler))
        self.assertRegex(logs.output[0], r"the crawl is closed \(urifilter_refused\): .* 403 forbidden")
        self.assertTrue(dupefilter.request_seen(Request("http://scope.example/")))


if __name__ == "__main__":
    unittest.main()
