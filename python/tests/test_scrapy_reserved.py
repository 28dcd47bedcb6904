"""URIFILTER_SEEN = "downloaded", as schedulers and middlewares call the dupefilter."""

from __future__ import annotations

import gc
import json
import unittest
from typing import Any

from crawlerfilter import FilterAPIClient, SettingsError

from .contract import ContractCase
from .crawl import NO_SCRAPY
from .daemon import Daemon

if not NO_SCRAPY:
    from scrapy import Request, signals
    from scrapy.settings import Settings as ScrapySettings
    from scrapy.utils.request import request_from_dict

    from crawlerfilter.scrapy import RFPDupeFilter, SettleMiddleware


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class ReservedTest(ContractCase):
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
        mine = self.downloaded("passing", URIFILTER_URL=daemon.url, URIFILTER_WHEN_AWAY="pass")
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
