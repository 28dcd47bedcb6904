"""URIFILTER_SEEN = "downloaded" while the daemon is away, or refuses."""

from __future__ import annotations

import os
import tempfile
import threading
import unittest

from crawlerfilter import FilterAPIClient, InDoubtError, Settings

from .crawl import NO_SCRAPY, PAGES
from .crawlcase import ALL_PAGES, BATCH, DownloadedCase
from .daemon import Daemon
from .proxy import CUT_ANSWER, Proxy

if not NO_SCRAPY:
    from scrapy.settings import Settings as ScrapySettings

    from crawlerfilter.scrapy.leases import Leases
    from crawlerfilter.scrapy.options import Options


@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class DownloadedAwayTest(DownloadedCase):
    def test_daemon_killed_and_restarted(self) -> None:
        for more in ({}, {"SPIDER_MIDDLEWARES": BATCH}):
            with self.subTest(**more):
                daemon = Daemon(self.addCleanup)
                self.kill_early(daemon)

                def watch(line: str, daemon: Daemon = daemon) -> None:
                    if "urifilter: the crawl waits" in line and not daemon.running():
                        daemon.start()

                done = self.crawl("links", daemon.url, watch=watch, **more)
                self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
                with FilterAPIClient(Settings(url=daemon.url)) as client:
                    self.assertEqual(client.filter_info(self.type)["items"], PAGES, done.log)

    def test_daemon_stays_away(self) -> None:
        """The crawl is closed; with a JOBDIR the next run fetches what is left."""
        daemon = Daemon(self.addCleanup)
        with tempfile.TemporaryDirectory() as folder:
            more = {"JOBDIR": os.path.join(folder, "job"), "SPIDER_MIDDLEWARES": BATCH}
            self.kill_early(daemon)
            first = self.crawl("links", daemon.url, URIFILTER_WAIT=0.5, **more)
            self.assertEqual(first.stats["finish_reason"], "urifilter_away", first.log)
            self.assertIn("are new again when their leases of 600 s have ended", first.log)
            fetched = self.web.pages()
            self.web.before = lambda path: None
            daemon.start()
            second = self.crawl("links", daemon.url, **more)
            self.assertEqual(second.stats["finish_reason"], "finished", second.log)
            self.assertEqual(set(fetched + self.web.pages()), set(ALL_PAGES), second.log)

    def test_pass(self) -> None:
        """What was fetched without the daemon is told when it is back."""
        daemon = Daemon(self.addCleanup)
        back = threading.Event()

        def before(path: str) -> None:
            if self.early():
                daemon.kill()
            elif len(self.web.served) > PAGES - 10:
                back.wait(60)

        def watch(line: str) -> None:
            if "urifilter: away; " in line and not daemon.running():
                daemon.start()
                back.set()

        self.web.before = before
        done = self.crawl("links", daemon.url, watch=watch, URIFILTER_WHEN_AWAY="pass")
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)
        self.assertGreater(self.stats(done, "passed")[0], 0)
        with FilterAPIClient(Settings(url=daemon.url)) as client:
            self.assertEqual(client.filter_info(self.type)["items"], PAGES, done.log)

    def test_answers_lost(self) -> None:
        proxy = Proxy(self.addCleanup, self.daemon.port)
        counter = iter(range(1000))
        self.web.before = lambda path: proxy.cut(CUT_ANSWER, times=1) if next(counter) in (3, 20, 40) else None
        done = self.crawl("links", proxy.url, SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), (ALL_PAGES, "finished"), done.log)

    def test_answer_to_reserve_lost(self) -> None:
        """What the call has reserved is known when it is repeated, or in the end committed in any case."""
        for name, more in (
            ("repeated", {}),
            ("repeated-batch", {"SPIDER_MIDDLEWARES": BATCH}),
            ("passed", {"URIFILTER_WHEN_AWAY": "pass", "URIFILTER_WAIT": 0}),
            ("passed-batch", {"URIFILTER_WHEN_AWAY": "pass", "URIFILTER_WAIT": 0, "SPIDER_MIDDLEWARES": BATCH}),
        ):
            with self.subTest(name):
                self.type = name
                daemon = Daemon(self.addCleanup)
                proxy = Proxy(self.addCleanup, daemon.port)

                def restart(daemon: Daemon = daemon) -> None:
                    daemon.kill()
                    daemon.start()

                proxy.after_cut = restart
                self.web.before = lambda path, proxy=proxy: proxy.cut(CUT_ANSWER, times=1, of="/api/v1/reserve") if path == "/first" else None
                done = self.crawl("fetch", proxy.url, arguments={"paths": "/first", "then": "/second /third"}, **more)
                self.assertEqual(self.web.pages(), {"/first": 1, "/second": 1, "/third": 1}, done.log)
                self.assertEqual(self.stats(done, "committed", "reserved", "lost"), [3, 0, 0], done.log)
                with FilterAPIClient(Settings(url=daemon.url)) as client:
                    self.assertEqual(client.filter_info(name)["items"], 3, done.log)

    def test_batch_whose_reserve_call_failed(self) -> None:
        """Each request of it is asked for by the name of that call when the daemon is back: nobody else has it."""
        proxy = Proxy(self.addCleanup, self.daemon.port)
        client = FilterAPIClient(Settings(url=proxy.url, patience=0))
        self.addCleanup(client.close)
        client.create_filter(self.type, kind="exact")
        leases = Leases(client, Options.read(ScrapySettings({"URIFILTER_TYPE": self.type, "URIFILTER_SEEN": "downloaded"}), "spider"), lambda *_: None)
        proxy.cut(CUT_ANSWER, times=1, of="/api/v1/reserve")
        with self.assertRaises(InDoubtError):
            leases.reserve(["a", "b"])
        for item in ("a", "b"):
            judged = leases.reserve([item])
            self.assertEqual((list(judged.new), judged.reserved), ([item], 0))
            leases.commit(judged.new[item], [item])
        self.assertEqual(leases.doubted, {})
        self.assertEqual(self.client.filter_info(self.type)["items"], 2)

    def test_refused(self) -> None:
        for settings, said in (
            ({"DOWNLOADER_MIDDLEWARES": {}}, 'hint: DOWNLOADER_MIDDLEWARES = {"crawlerfilter.scrapy.SettleMiddleware": 10}'),
            ({"URIFILTER_TYPE": "uri"}, "422 reserve_not_supported"),
            ({"URIFILTER_SEEN": "fetched"}, "URIFILTER_SEEN: 'fetched': want scheduled or downloaded"),
            ({"URIFILTER_LEASE": 0}, "URIFILTER_LEASE: '0': want a number of seconds, more than 0, at most 86400"),
            ({"URIFILTER_FAILED_CODES": "none"}, "URIFILTER_FAILED_CODES: 'none': want statuses of HTTP"),
        ):
            with self.subTest(**settings):
                done = self.crawl("fetch", arguments={"paths": "/a"}, **settings)
                reason = "urifilter_refused" if said.startswith("422") else None  # the others prevent the start
                self.assertEqual((done.stats.get("finish_reason"), self.web.pages()), (reason, {}), done.log)
                self.assertIn(said, done.log)
