"""Crawls while the daemon is away, or refuses."""

from __future__ import annotations

import os
import tempfile
import threading
import unittest
from typing import Callable

from crawlerfilter import FilterAPIClient, Settings

from .crawl import LINKS, NO_SCRAPY, PAGES
from .crawlcase import ALL_PAGES, BATCH, CrawlCase
from .daemon import Daemon, free_port
from .proxy import CUT_ANSWER, HOLD, Proxy


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class AwayTest(CrawlCase):
    def test_daemon_killed_and_restarted(self) -> None:
        """The crawl waits, and goes on; no page is lost, none fetched twice."""
        for more in ({}, {"SPIDER_MIDDLEWARES": BATCH}):
            with self.subTest(**more):
                daemon = Daemon(self.addCleanup)
                self.kill_early(daemon)
                done = self.crawl("links", daemon.url, watch=self.restart_at("urifilter: the crawl waits", daemon), **more)
                self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
                for said in ("urifilter: the crawl waits, for 60 s at most: ", "urifilter: back"):
                    self.assertEqual(done.log.count(said), 1, done.log)

    def test_daemon_stays_away(self) -> None:
        """The crawl is closed after the wait; with a JOBDIR the next run loses nothing."""
        daemon = Daemon(self.addCleanup)
        with tempfile.TemporaryDirectory() as folder:
            more = {"JOBDIR": os.path.join(folder, "job"), "SPIDER_MIDDLEWARES": BATCH}
            self.kill_early(daemon)
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
        self.kill_early(daemon)
        done = self.crawl("links", daemon.url, URIFILTER_WHEN_AWAY="raise")
        self.assertEqual(done.stats["finish_reason"], "urifilter_away", done.log)
        self.assertRegex(done.log, r"\ncrawlerfilter.errors.(Unavailable|InDoubt)Error: POST")

    def test_raise_loses_nothing_of_the_callback(self) -> None:
        """What it yields after the request that could not be judged, and that one too."""
        daemon = Daemon(self.addCleanup)
        with tempfile.TemporaryDirectory() as folder:
            more = {"JOBDIR": os.path.join(folder, "job")}
            self.kill_early(daemon)
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
        self.kill_early(daemon)
        done = self.crawl("links", daemon.url, URIFILTER_WHEN_AWAY="raise", SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual(done.stats["finish_reason"], "urifilter_away", done.log)
        self.assertEqual(done.stats["item_scraped_count"] % LINKS, 0)

    def test_pass(self) -> None:
        """The crawl goes on without the daemon, which is told when it is back."""
        daemon = Daemon(self.addCleanup)
        back = threading.Event()

        def before(path: str) -> None:
            if self.early():
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
        """The crawl is closed before it has fetched anything, and loses nothing by it."""
        daemon = Daemon(self.addCleanup)
        for name, more in (
            ("wait", {"URIFILTER_WAIT": 0}),
            ("raise", {"URIFILTER_WHEN_AWAY": "raise"}),
            ("asyncio", {"URIFILTER_WAIT": 0, "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor"}),
        ):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                more = {"JOBDIR": os.path.join(folder, "job"), "URIFILTER_FILTER": name, "URIFILTER_CREATE": True, "SPIDER_MIDDLEWARES": BATCH, **more}
                daemon.kill()
                done = self.crawl("links", daemon.url, **more)
                self.assertEqual((done.stats["finish_reason"], self.web.pages(), done.status), ("urifilter_away", {}, 1), done.log)
                self.assertEqual((done.log.count("hint: is the daemon running"), done.log.count("Traceback"), done.log.count("] ERROR: ")), (2 if name == "raise" else 1, name == "raise", 1), done.log)
                daemon.start()
                again = self.crawl("links", daemon.url, **more)
                self.assertEqual((self.web.pages(), again.stats["finish_reason"], again.status), (ALL_PAGES, "finished", 0), again.log)

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
        """What no waiting mends: the crawl is closed before it has fetched anything, or does not start if a setting is to be corrected."""
        for settings, reason, said in (
            ({"URIFILTER_FILTER": "misspelt"}, "urifilter_refused", "404 unknown_filter"),
            ({"URIFILTER_FILTER": "misspelt", "URIFILTER_WHEN_AWAY": "pass"}, "urifilter_refused", "404 unknown_filter"),
            ({"URIFILTER_FILTER": "huge", "URIFILTER_CAPACITY": 10**15}, "urifilter_refused", "422 invalid_filter"),
            ({"URIFILTER_WAIT": "long"}, None, "URIFILTER_WAIT: 'long': want a number"),
            ({"URIFILTER_TYP": "shop"}, None, "URIFILTER_TYP: unknown setting; did you mean URIFILTER_TYPE?"),
        ):
            with self.subTest(**settings):
                done = self.crawl("seed", **settings)
                self.assertEqual((done.stats.get("finish_reason"), self.web.pages()), (reason, {}), done.log)
                self.assertIn(said, done.log)
                if reason:
                    self.assertEqual((done.status, done.log.count("Traceback"), done.log.count("] ERROR: ")), (1, 0, 1), done.log)

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

    def restart_at(self, said: str, daemon: Daemon) -> Callable[[str], None]:
        """Starts daemon again when the crawl has logged this, once or more often."""
        return lambda line: daemon.start() if said in line and not daemon.running() else None
