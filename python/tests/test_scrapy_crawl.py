"""Real crawls of a local web server, with a real daemon."""

from __future__ import annotations

import os
import tempfile
import threading
import unittest
from typing import Any, Callable, Dict

from crawlerfilter import FilterAPIClient, Settings

from .crawl import LINKS, NO_SCRAPY, PAGES, Crawl, Web, crawl, project
from .daemon import Daemon, free_port
from .proxy import CUT_ANSWER, HOLD, Proxy

BATCH = {"crawlerfilter.scrapy.BatchMiddleware": 10}
ALL_PAGES = {f"/page/{i}": 1 for i in range(PAGES)}

@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class CrawlTest(unittest.TestCase):
    daemon: Daemon
    web: Web

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup)
        cls.web = Web(cls.addClassCleanup)

    def setUp(self) -> None:
        self.web.pages()
        self.web.before = lambda path: None

    def crawl(self, spider: str, url: str = "", **more: Any) -> Crawl:
        return crawl(spider, self.web, url or self.daemon.url, **more)

    def stat(self, done: Crawl, *names: str) -> Any:
        return [done.stats.get(name, 0) for name in names]

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

    def test_daemon_killed_and_restarted(self) -> None:
        """The crawl waits, and goes on; no page is lost, none fetched twice."""
        for more in ({}, {"SPIDER_MIDDLEWARES": BATCH}):
            with self.subTest(**more):
                daemon = Daemon(self.addCleanup)
                self.kill_at("/page/7", daemon)
                done = self.crawl("links", daemon.url, watch=self.restart_at("urifilter: the crawl waits", daemon), **more)
                self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
                for said in ("urifilter: the crawl waits, for 60 s at most: ", "urifilter: back"):
                    self.assertEqual(done.log.count(said), 1, done.log)

    def test_daemon_stays_away(self) -> None:
        """The crawl is closed after the wait; with a JOBDIR the next run loses nothing."""
        daemon = Daemon(self.addCleanup)
        with tempfile.TemporaryDirectory() as folder:
            more = {"JOBDIR": os.path.join(folder, "job"), "SPIDER_MIDDLEWARES": BATCH}
            self.kill_at("/page/7", daemon)
            first = self.crawl("links", daemon.url, URIFILTER_WAIT=0.5, **more)
            self.assertEqual(first.stats["finish_reason"], "urifilter_away", first.log)
            self.assertIn("the crawl is closed (urifilter_away): POST", first.log)
            fetched = self.web.pages()
            self.assertLess(len(fetched), PAGES)
            self.web.before = lambda path: None
            daemon.start()
            second = self.crawl("links", daemon.url, **more)
            self.assertEqual(second.stats["finish_reason"], "finished", second.log)
            # What stayed scheduled unjudged is there once, and the daemon is told of it.
            self.assertEqual(fetched + self.web.pages(), ALL_PAGES, second.log)
            self.assertEqual(os.listdir(os.path.join(folder, "job")).count("urifilter.untold"), 0)

    def test_raise(self) -> None:
        daemon = Daemon(self.addCleanup)
        self.kill_at("/page/7", daemon)
        done = self.crawl("links", daemon.url, URIFILTER_WHEN_AWAY="raise")
        self.assertEqual(done.stats["finish_reason"], "urifilter_away", done.log)
        self.assertRegex(done.log, r"\ncrawlerfilter.errors.(Unavailable|InDoubt)Error: POST")

    def test_raise_loses_nothing_of_the_callback(self) -> None:
        """What it yields after the request that could not be judged, and that one too."""
        daemon = Daemon(self.addCleanup)
        with tempfile.TemporaryDirectory() as folder:
            more = {"JOBDIR": os.path.join(folder, "job")}
            self.kill_at("/page/7", daemon)
            first = self.crawl("links", daemon.url, URIFILTER_WHEN_AWAY="raise", **more)
            self.assertEqual(first.stats["item_scraped_count"] % LINKS, 0, first.log)
            fetched = self.web.pages()
            self.web.before = lambda path: None
            daemon.start()
            second = self.crawl("links", daemon.url, URIFILTER_WHEN_AWAY="raise", **more)
            self.assertEqual((fetched + self.web.pages(), second.stats["finish_reason"]), (ALL_PAGES, "finished"), second.log)

    def test_raise_with_batches(self) -> None:
        """The items of a response are not lost with its requests."""
        daemon = Daemon(self.addCleanup)
        self.kill_at("/page/7", daemon)
        done = self.crawl("links", daemon.url, URIFILTER_WHEN_AWAY="raise", SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual(done.stats["finish_reason"], "urifilter_away", done.log)
        self.assertEqual(done.stats["item_scraped_count"] % LINKS, 0)

    def test_pass(self) -> None:
        """The crawl goes on without the daemon, which is told when it is back."""
        daemon = Daemon(self.addCleanup)
        back = threading.Event()

        def before(path: str) -> None:
            if path == "/page/7":
                daemon.kill()
            elif len(self.web.served) > PAGES - 10:
                back.wait(60)  # the crawl has an end, and the daemon is there by then

        def watch(line: str) -> None:
            if "urifilter: away; " in line and not daemon.running():
                daemon.start()
                back.set()

        self.web.before = before
        done = self.crawl("links", daemon.url, watch=watch, URIFILTER_WHEN_AWAY="pass")
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
        self.assertEqual(done.log.count("urifilter: away;"), 1, done.log)
        self.assertGreater(self.stat(done, "urifilter/passed")[0], 0)
        client = FilterAPIClient(Settings(url=daemon.url))
        self.addCleanup(client.close)
        self.assertEqual(client.filter_info("links")["items_estimate"], PAGES + 1)  # whose filter it is

    def test_pass_without_a_daemon(self) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        done = self.crawl("links", url, URIFILTER_WHEN_AWAY="pass", SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
        self.assertIn(f"{PAGES} requests stay unknown to the daemon", done.log)

    def test_no_daemon_at_the_start(self) -> None:
        done = self.crawl("links", f"http://127.0.0.1:{free_port()}", URIFILTER_WAIT=0)
        self.assertEqual((done.stats, self.web.pages()), ({}, {}), done.log)
        self.assertIn("hint: is the daemon running", done.log)

    def test_answers_lost(self) -> None:
        """In doubt a request is rather fetched twice than never."""
        proxy = Proxy(self.addCleanup, self.daemon.port)
        counter = iter(range(1000))

        def before(path: str) -> None:
            if next(counter) in (3, 20, 40):
                proxy.cut(CUT_ANSWER, times=1)

        self.web.before = before
        done = self.crawl("links", proxy.url, arguments={"name": "doubtful"}, SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)

    def test_slow_daemon(self) -> None:
        proxy = Proxy(self.addCleanup, self.daemon.port)
        self.web.before = lambda path: proxy.cut(HOLD, times=1) if path == "/page/5" else None
        done = self.crawl("links", proxy.url, arguments={"name": "slow"}, URIFILTER_TIMEOUT=0.5)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)

    def test_refused(self) -> None:
        """What no waiting mends prevents the crawl from starting."""
        for settings, said in (
            ({"URIFILTER_TYPE": "misspelt"}, "404 unknown_filter"),
            ({"URIFILTER_WAIT": "long"}, "URIFILTER_WAIT: 'long': want a number"),
            ({"URIFILTER_TYPE": "huge", "URIFILTER_CAPACITY": 10**15}, "422 invalid_filter"),
        ):
            with self.subTest(**settings):
                done = self.crawl("seed", **settings)
                self.assertEqual((done.stats, self.web.pages()), ({}, {}), done.log)
                self.assertIn(said, done.log)

    def test_nothing_was_judged(self) -> None:
        """What was scheduled unjudged when the crawl was closed is not called seen."""
        client = FilterAPIClient(Settings(url=self.daemon.url))
        self.addCleanup(client.close)
        client.create_filter("timeless", kind="timing")
        done = self.crawl("seed", URIFILTER_TYPE="timeless")
        self.assertEqual(done.stats["finish_reason"], "urifilter_refused", done.log)
        self.assertIn("422 expire_missing", done.log)
        self.assertNotIn("remembered as seen", done.log)

    def test_filter_dropped_in_the_middle(self) -> None:
        client = FilterAPIClient(Settings(url=self.daemon.url))
        self.addCleanup(client.close)
        client.create_filter("dropped")
        self.web.before = lambda path: client.drop_filter("dropped", confirm="dropped") if path == "/page/7" else None
        done = self.crawl("links", URIFILTER_TYPE="dropped")
        self.assertEqual(done.stats["finish_reason"], "urifilter_refused", done.log)

    def test_dry_run(self) -> None:
        """What is known is a duplicate, the rest is fetched; nothing is remembered, however often."""
        for more in ({}, {"SPIDER_MIDDLEWARES": BATCH, "URIFILTER_CACHE": 0}):
            with self.subTest(**more):
                done = self.crawl("links", arguments={"name": "dry"}, URIFILTER_DRY_RUN=True, **more)
                self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
                self.assertNotIn("remembered", done.log.replace("nothing is remembered", ""))
                self.assertNotIn("dry", self.filters())
        self.crawl("links", arguments={"name": "half-dry"}, CLOSESPIDER_PAGECOUNT=5, CONCURRENT_REQUESTS=2)
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
        self.assertIn('hint: URIFILTER_TYPE = "%(project)s-%(spider)s" keeps them apart', second.log)
        apart = self.crawl("links", arguments=name, BOT_NAME="two", URIFILTER_TYPE="%(project)s-%(spider)s")
        self.assertEqual((self.web.pages(), apart.log.count(said)), (ALL_PAGES, 0), apart.log)
        self.assertIn("two-clash", self.filters())
        shared = self.crawl("links", arguments=name, BOT_NAME="two", URIFILTER_TYPE="clash")
        self.assertEqual((self.web.pages(), shared.log.count(said)), ({}, 0), shared.log)

    def filters(self) -> Dict[str, Any]:
        """How many items each filter of the daemon has."""
        with FilterAPIClient(Settings(url=self.daemon.url)) as client:
            return {f["name"]: f.get("items_estimate", f.get("items")) for f in client.filters()}

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

    def kill_at(self, path: str, daemon: Daemon) -> None:
        """Kills daemon when the page is fetched."""
        self.web.before = lambda asked: daemon.kill() if asked == path else None

    def restart_at(self, said: str, daemon: Daemon) -> Callable[[str], None]:
        """Starts daemon again when the crawl has logged this, once or more often."""
        return lambda line: daemon.start() if said in line and not daemon.running() else None
