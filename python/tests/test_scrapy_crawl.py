"""Real crawls of a local web server, with a real daemon."""

from __future__ import annotations

import unittest

from crawlerfilter import FilterAPIClient, Settings

from .crawl import NO_SCRAPY, PAGES, project
from .crawlcase import ALL_PAGES, BATCH, CrawlCase
from .daemon import free_port


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class CrawlTest(CrawlCase):
    def test_seed(self) -> None:
        counted = ("downloader/request_count", "bloomfilter/filtered", "dupefilter/filtered", "finish_reason")
        first = self.crawl("seed")
        self.assertEqual(self.stat(first, *counted), [100, 10, 10, "finished"], first.log)
        self.assertEqual(self.web.pages(), {f"/s?wd={i}": 1 for i in range(100)})
        self.assertEqual(first.log.count("Filtered duplicate request"), 1, first.log)
        # Again: nothing is fetched twice. Every duplicate is logged if one asks for it.
        again = self.crawl("seed", DUPEFILTER_DEBUG=True)
        self.assertEqual(self.stat(again, *counted), [0, 110, 110, "finished"], again.log)
        self.assertEqual(self.web.pages(), {})
        self.assertEqual(again.log.count("Filtered duplicate request"), 110)
        said = "urifilter: nothing was new: filter seed knows all 110 requests, from an earlier crawl or another spider"
        self.assertEqual((first.log.count("nothing was new"), again.log.count(said)), (0, 1), again.log)
        self.assertIn("hint: URIFILTER_EXPIRE has pages fetched again", again.log)
        # Another spider that shares the type; and one with a type of its own.
        shared = self.crawl("seed", arguments={"name": "second"}, URIFILTER_TYPE="seed")
        self.assertEqual(self.stat(shared, *counted), [0, 110, 110, "finished"], shared.log)
        apart = self.crawl("seed", arguments={"name": "third"})
        self.assertEqual(self.stat(apart, *counted), [100, 10, 10, "finished"], apart.log)
        self.assertEqual(self.web.pages(), {f"/s?wd={i}": 1 for i in range(100)})

    def test_links(self) -> None:
        """The same pages as with Scrapy's own filter; the middleware asks once a page."""
        memory = self.crawl("links", DUPEFILTER_CLASS="scrapy.dupefilters.RFPDupeFilter")
        self.assertEqual(self.web.pages(), ALL_PAGES)
        single = self.crawl("links", URIFILTER_TYPE="one-by-one", URIFILTER_CREATE=True)
        self.assertEqual(self.web.pages(), ALL_PAGES)
        batched = self.crawl("links", URIFILTER_TYPE="batched", URIFILTER_CREATE=True, SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual(self.web.pages(), ALL_PAGES)
        same = ("dupefilter/filtered", "downloader/request_count", "item_scraped_count", "scheduler/enqueued")
        self.assertEqual(self.stat(single, *same), self.stat(memory, *same), single.log)
        self.assertEqual(self.stat(batched, *same), self.stat(memory, *same), batched.log)
        self.assertEqual(self.stat(single, "urifilter/calls", "urifilter/asked"), [PAGES, PAGES])
        self.assertLess(self.stat(batched, "urifilter/calls")[0], PAGES / 2)
        again = self.crawl("links", URIFILTER_TYPE="batched", SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), self.stat(again, "dupefilter/filtered")), ({}, [1]))

    def test_batches_without_cache(self) -> None:
        done = self.crawl("links", arguments={"name": "uncached"}, URIFILTER_CACHE=0, URIFILTER_BATCH=5, SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)

    def test_asynchronous_callback(self) -> None:
        done = self.crawl("links", arguments={"name": "asynchronous", "asynchronous": "1"}, SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
        self.assertLess(self.stat(done, "urifilter/calls")[0], PAGES / 2)

    def test_fault_of_a_callback(self) -> None:
        """What a callback yielded before it failed is fetched, with the middleware too."""
        self.crawl("links", arguments={"fault": "1"}, DUPEFILTER_CLASS="scrapy.dupefilters.RFPDupeFilter")
        expected = self.web.pages()
        done = self.crawl("links", arguments={"name": "fault", "fault": "1"}, SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual(self.web.pages(), expected, done.log)
        self.assertEqual(self.stat(done, "spider_exceptions/RuntimeError"), [1])

    def test_dont_filter(self) -> None:
        for name, more in (("unfiltered", {}), ("unfiltered-batched", {"SPIDER_MIDDLEWARES": BATCH})):
            with self.subTest(name):
                done = self.crawl("links", arguments={"name": name, "unfiltered": "1"}, **more)
                self.assertEqual(self.web.pages(), {**ALL_PAGES, "/page/0": 2}, done.log)

    def test_dry_run(self) -> None:
        """What is known is a duplicate, the rest is fetched; nothing is remembered, however often."""
        for more in ({}, {"SPIDER_MIDDLEWARES": BATCH, "URIFILTER_CACHE": 0}):
            with self.subTest(**more):
                done = self.crawl("links", arguments={"name": "dry"}, URIFILTER_DRY_RUN=True, **more)
                self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
                self.assertNotIn("remembered", done.log.replace("nothing is remembered", ""))
                self.assertNotIn("dry", self.filters())
        # First in, first out: last in, first out may lead to page 119, by the pages 11 and 108, if answers are slow.
        fifo = {"SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue"}
        self.crawl("links", arguments={"name": "half-dry"}, CLOSESPIDER_PAGECOUNT=5, CONCURRENT_REQUESTS=2, **fifo)
        self.web.pages()
        before = self.filters()["half-dry"]
        for more in ({}, {"SPIDER_MIDDLEWARES": BATCH}):
            done = self.crawl("links", arguments={"name": "half-dry", "start_page": "/page/119"}, URIFILTER_DRY_RUN=True, **more)
            fetched = self.web.pages()
            self.assertEqual((max(fetched.values()), done.stats["finish_reason"]), (1, "finished"), done.log)
            self.assertLess(len(fetched), PAGES)
            self.assertEqual(self.filters()["half-dry"], before)

    def test_commands_that_only_look(self) -> None:
        """They make no filter, mark nothing, and need no daemon."""
        away = f"http://127.0.0.1:{free_port()}"
        page, before = f"{self.web.url}/page/0", self.filters()
        for url in (self.daemon.url, away):
            for command in (
                ["parse", "--spider=links", "--depth=2", page],
                ["shell", "--spider=links", "-c", "response.status", page],
                ["fetch", "--spider=links", page],
                ["check", "links"],
                ["bench", "-s", "CLOSESPIDER_PAGECOUNT=20"],
            ):
                with self.subTest(command, url=url):
                    done = project(command, self.web, url)
                    self.assertEqual(done.status, 0, done.log)
                    self.assertIn(f"urifilter: only looks (scrapy {command[0]})" if command[0] not in ("check", "bench") else "", done.log)
                    self.assertNotIn("the crawl waits", done.log)
        self.assertEqual(self.filters(), before)
        self.web.pages()
        done = project(["crawl", "links"], self.web, self.daemon.url)
        self.assertEqual(self.web.pages(), ALL_PAGES, done.log)
        self.assertIn("links", self.filters())

    def test_projects_with_a_spider_of_one_name(self) -> None:
        said = "does another project have a spider of that name?"
        name = {"name": "clash"}
        first = self.crawl("links", arguments=name, BOT_NAME="one")
        self.assertEqual((self.web.pages(), first.log.count(said)), (ALL_PAGES, 0), first.log)
        self.assertEqual(self.crawl("links", arguments=name, BOT_NAME="one").log.count(said), 0)
        second = self.crawl("links", arguments=name, BOT_NAME="two")
        self.assertEqual((self.web.pages(), second.log.count(said)), ({}, 1), second.log)
        self.assertIn('hint: URIFILTER_FILTER = "%(project)s-%(spider)s" keeps them apart', second.log)
        apart = self.crawl("links", arguments=name, BOT_NAME="two", URIFILTER_TYPE="%(project)s-%(spider)s")
        self.assertEqual((self.web.pages(), apart.log.count(said)), (ALL_PAGES, 0), apart.log)
        self.assertIn("two-clash", self.filters())
        shared = self.crawl("links", arguments=name, BOT_NAME="two", URIFILTER_TYPE="clash")
        self.assertEqual((self.web.pages(), shared.log.count(said)), ({}, 0), shared.log)

    def test_kind(self) -> None:
        done = self.crawl("seed", arguments={"name": "exactly"}, URIFILTER_KIND="exact", URIFILTER_DIGEST=64)
        self.assertEqual(self.stat(done, "downloader/request_count"), [100], done.log)
        with FilterAPIClient(Settings(url=self.daemon.url)) as client:
            info = client.filter_info("exactly")
        self.assertEqual((info["kind"], info["digest"], info["items"]), ("exact", 64, 101))
        again = self.crawl("seed", arguments={"name": "exactly"}, URIFILTER_KIND="exact", URIFILTER_DIGEST=128)
        self.assertIn("URIFILTER_DIGEST 128 is not used: filter exactly is there with digest 64", again.log)

    def test_layout(self) -> None:
        refused = self.crawl("seed", arguments={"name": "prints"}, URIFILTER_LAYOUT="fingerprints")
        self.assertEqual((self.web.pages(), refused.stats["finish_reason"]), ({}, "urifilter_refused"), refused.log)
        self.assertIn("is for store: redis", refused.log)
        self.crawl("seed", arguments={"name": "prints"})
        bits = self.crawl("seed", arguments={"name": "prints"}, URIFILTER_LAYOUT="fingerprints")
        self.assertIn("URIFILTER_LAYOUT fingerprints is not used: filter prints is there with layout of bits", bits.log)

    def test_old_settings(self) -> None:
        done = self.crawl("seed", arguments={"name": "old"}, BLOOMFILTER_BIT=20, BLOOMFILTER_HASH_NUMBER=6)
        self.assertEqual(self.stat(done, "downloader/request_count"), [100])
        self.assertIn("BLOOMFILTER_BIT = 20 and BLOOMFILTER_HASH_NUMBER = 6 had an error rate of 0.0001 at 42403 items", done.log)
        with FilterAPIClient(Settings(url=self.daemon.url)) as client:
            info = client.filter_info("old")
        self.assertEqual(info["capacity"], 42403)
        self.assertAlmostEqual(info["bytes"], 2**20 / 8, delta=20_000)

    def test_spider_names(self) -> None:
        done = self.crawl("seed", arguments={"name": "我的 爬虫"})
        self.assertEqual(self.stat(done, "downloader/request_count"), [100], done.log)
        self.assertIn("'我的 爬虫' is no name of a filter; spider-", done.log)

    def test_stopped(self) -> None:
        """A crawl that is stopped says what the next one will not fetch."""
        done = self.crawl("links", arguments={"name": "stopped"}, CLOSESPIDER_PAGECOUNT=5, CONCURRENT_REQUESTS=2)
        self.assertEqual(done.stats["finish_reason"], "closespider_pagecount")
        fetched = sum(self.web.pages().values())
        self.assertIn(f"urifilter: {done.stats['scheduler/enqueued'] - fetched} scheduled requests were not fetched", done.log)
