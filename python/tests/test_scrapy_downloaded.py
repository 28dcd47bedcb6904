"""URIFILTER_SEEN = "downloaded", in real crawls of a local web server with a real daemon."""

from __future__ import annotations

import os
import tempfile
import threading
import unittest
from typing import Any, List

from .crawl import NO_SCRAPY, PAGES
from .crawlcase import ALL_PAGES, BATCH, OK, SETTLE, Answer, DownloadedCase
from .daemon import free_port

@unittest.skipIf(NO_SCRAPY, NO_SCRAPY)
class DownloadedTest(DownloadedCase):
    def test_links(self) -> None:
        """Each page is fetched once, and seen when it was."""
        for name, more in (("single", {}), ("batched", {"SPIDER_MIDDLEWARES": BATCH}), ("timed", {"URIFILTER_EXPIRE": 3600})):
            with self.subTest(name):
                more = {"URIFILTER_TYPE": name, **more}
                first = self.crawl("links", **more)
                self.assertEqual((self.web.pages(), first.stats["finish_reason"]), (ALL_PAGES, "finished"), first.log)
                self.assertEqual(self.stats(first, "committed", "released", "lost", "taken"), [PAGES, 0, 0, 0], first.log)
                info = self.client.filter_info(name)
                self.assertEqual((info["kind"], info["items"]), ("timing" if name == "timed" else "exact", PAGES))
                again = self.crawl("links", **more)
                self.assertEqual((self.web.pages(), self.stats(again, "committed")), ({}, [0]), again.log)

    def test_asynchronous_reactor(self) -> None:
        done = self.crawl("links", TWISTED_REACTOR="twisted.internet.asyncioreactor.AsyncioSelectorReactor", SPIDER_MIDDLEWARES=BATCH)
        self.assertEqual((self.web.pages(), self.stats(done, "committed")), (ALL_PAGES, [PAGES]), done.log)

    def test_retries(self) -> None:
        """The reservation lives on with the retry."""
        self.web.answer = lambda path, times: (500, {}) if times == 1 else OK
        done = self.fetch("/a", "/b")
        self.assertEqual((self.web.pages(), self.stats(done, "committed", "released")), ({"/a": 2, "/b": 2}, [2, 0]), done.log)
        self.assertEqual(self.new("/a", "/b"), [False, False])

    def test_what_failed_is_fetched_by_another(self) -> None:
        failing = {"/500": (500, {}), "/429": (429, {}), "/cut": None}
        self.web.answer = lambda path, times: failing.get(path, OK)
        refused = f"http://127.0.0.1:{free_port()}/"
        paths = ["/good", *failing, refused]
        first = self.fetch(*paths)
        fetched = self.web.pages()
        self.assertGreaterEqual(fetched.pop("/cut"), 2)  # Twisted too makes some again
        self.assertEqual(fetched, {"/good": 1, "/500": 2, "/429": 2}, first.log)
        self.assertEqual(self.stats(first, "committed", "released"), [1, 4], first.log)
        self.assertNotIn("were not downloaded", first.log)  # they were released at once
        self.assertEqual(self.new(*paths), [False, True, True, True, True])
        self.web.answer = lambda path, times: OK
        second = self.fetch(*paths)
        self.assertEqual(self.web.pages(), {"/500": 1, "/429": 1, "/cut": 1}, second.log)
        self.assertEqual(self.stats(second, "committed", "released"), [3, 1], second.log)

    def test_timeout(self) -> None:
        hold = threading.Event()
        self.addCleanup(hold.set)
        self.web.answer = lambda path, times: OK if hold.wait(300) else None
        done = self.fetch("/slow", DOWNLOAD_TIMEOUT=1, RETRY_TIMES=0)
        self.assertEqual((self.new("/slow"), self.stats(done, "released")), ([True], [1]), done.log)

    def test_statuses(self) -> None:
        """An answer that another attempt would not change is a download, and so is what the spider handles."""
        statuses = {"/404": 404, "/403": 403, "/503": 503}
        self.web.answer = lambda path, times: (statuses[path], {})
        for name, more, committed in (
            ("default", {}, ["/404", "/403"]),
            ("handled", {"handled": "503"}, ["/404", "/403", "/503"]),
            ("allowed", {"HTTPERROR_ALLOW_ALL": True}, ["/404", "/403", "/503"]),
            ("failed", {"URIFILTER_FAILED_CODES": "403,503"}, ["/404"]),
        ):
            with self.subTest(name):
                self.type = f"statuses-{name}"
                done = self.fetch(*statuses, **more)
                self.assertEqual(self.stats(done, "committed", "released"), [len(committed), 3 - len(committed)], done.log)
                self.assertEqual(self.new(*statuses), [path not in committed for path in statuses])

    def test_redirects(self) -> None:
        """What was redirected shares the fate of its target."""
        to = {"/moved": "/a", "/moved-twice": "/moved-once", "/moved-once": "/b", "/also-moved": "/a", "/broken": "/500", "/round": "/round"}

        def answer(path: str, times: int) -> Answer:
            if path.startswith("/loop"):
                return 302, {"Location": path + "x"}
            return (302, {"Location": to[path]}) if path in to else (500, {}) if path == "/500" else OK

        self.web.answer = answer
        paths = ["/moved", "/moved-twice", "/also-moved", "/broken", "/round", "/loop"]
        first = self.fetch(*paths, REDIRECT_MAX_TIMES=3)
        self.assertEqual(self.web.pages()["/a"], 1)
        self.assertNotIn("were not downloaded", first.log)
        self.assertEqual(self.new(*paths), [False, False, False, True, True, True], first.log)
        self.assertEqual(self.new("/a", "/moved-once", "/b", "/500", "/loopxxx"), [False, False, False, True, True], first.log)
        again = self.fetch(*paths[:3])
        self.assertEqual(self.web.pages(), {}, again.log)
        # The target was seen before, or another has it.
        self.client.reserve(self.type, [self.item("/c")], 600)
        to.update({"/to-seen": "/b", "/to-reserved": "/c"})
        third = self.fetch("/to-seen", "/to-reserved")
        self.assertEqual((self.web.pages(), self.new("/to-seen", "/to-reserved")), ({"/to-seen": 1, "/to-reserved": 1}, [False, True]), third.log)

    def test_redirect_back_to_itself(self) -> None:
        """As where a cookie is set first, there or on the way: the page is fetched, and seen."""

        def answer(path: str, times: int) -> Answer:
            if path == "/bake":
                return 302, {"Location": "/detour", "Set-Cookie": "b=1; Path=/"}
            if path in ("/cookie", "/detour") and times == 1:
                return 302, {"Location": "/cookie" if path == "/cookie" else "/bake", "Set-Cookie": "a=1; Path=/"}
            return OK

        self.web.answer = answer
        first = self.fetch("/cookie", "/detour")
        self.assertEqual(self.web.pages(), {"/cookie": 2, "/detour": 2, "/bake": 1}, first.log)
        self.assertEqual((self.new("/cookie", "/detour", "/bake"), self.stats(first, "committed", "released")), ([False] * 3, [3, 0]), first.log)
        second = self.fetch("/cookie", "/detour")
        self.assertEqual(self.web.pages(), {}, second.log)
        # A lease that ends on the way is renewed.
        self.web.answer = lambda path, times: (302, {"Location": path}) if times < 3 else OK
        third = self.fetch("/short", URIFILTER_LEASE=0.01)
        self.assertEqual((self.web.pages(), self.new("/short")), ({"/short": 3}, [False]), third.log)

    def test_page_that_reloads_itself(self) -> None:
        """By <meta>, which ends as in Scrapy: as a duplicate."""
        self.web.body = lambda path: '<meta http-equiv="refresh" content="5; url=/reloads">'
        done = self.fetch("/reloads")
        self.assertEqual((self.web.pages(), self.new("/reloads")), ({"/reloads": 1}, [True]), done.log)

    def test_refused_by_a_middleware(self) -> None:
        """What is not fetched at all is not seen."""
        done = self.fetch("/a", DOWNLOADER_MIDDLEWARES={**SETTLE, "tests.spiders.refuse.Refuse": 50})
        self.assertEqual((self.web.pages().get("/a"), self.new("/a"), self.stats(done, "released")), (None, [True], [1]), done.log)

    def test_closed_in_the_middle(self) -> None:
        """The next crawl fetches the rest at once."""
        paths = [f"/s?wd={i}" for i in range(60)]
        first = self.fetch(*paths, CLOSESPIDER_PAGECOUNT=10, CONCURRENT_REQUESTS=2)
        self.assertEqual(first.stats["finish_reason"], "closespider_pagecount", first.log)
        fetched = self.web.pages()
        self.assertLess(len(fetched), 60)
        self.assertNotIn("remembered as seen", first.log)
        second = self.fetch(*paths)
        self.assertEqual(fetched + self.web.pages(), {path: 1 for path in paths}, second.log)

    def test_jobdir(self) -> None:
        """The queue on disk is resumed, without what others have fetched meanwhile."""
        for name, more in (("jobs", {}), ("batched-jobs", {"SPIDER_MIDDLEWARES": BATCH})):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.type = name
                more = {"JOBDIR": os.path.join(folder, "job"), **more}
                first = self.crawl("links", CLOSESPIDER_PAGECOUNT=10, CONCURRENT_REQUESTS=2, **more)
                fetched = self.web.pages()
                self.assertIn("reserved requests were not downloaded, and are new again", first.log)
                # Pages that are waiting: all of them are new again.
                waiting = [path for path in ALL_PAGES if path not in fetched][:3]
                self.assertEqual(self.new(*waiting), [True] * 3, first.log)
                self.client.filter(self.type, [self.item(path) for path in waiting])
                second = self.crawl("links", **more)
                self.assertEqual(second.stats["finish_reason"], "finished", second.log)
                self.assertEqual(max((fetched + self.web.pages()).values()), 1, second.log)
                self.assertGreater(self.stats(second, "renewed")[0], 0, second.log)

    def test_killed(self) -> None:
        """What a killed crawl had is new again when its leases end."""
        processes: List[Any] = []
        paths = ["/a", "/hang", "/b"]
        hold = threading.Event()
        self.addCleanup(hold.set)

        def answer(path: str, times: int) -> Answer:
            if path == "/hang" and not hold.is_set():
                self.until(lambda: self.new("/a") == [False] and not self.client.reserve(self.type, [self.item("/a")], 1)["reserved"])
                processes[0].kill()
                hold.wait(300)
            return OK

        self.web.answer = answer
        first = self.fetch(*paths, started=processes.append, URIFILTER_LEASE=20, CONCURRENT_REQUESTS=1)
        self.assertEqual(first.status, -9, first.log)
        self.web.pages()
        hold.set()
        self.assertEqual(self.new("/a"), [False])  # was committed
        self.until(lambda: self.new("/hang", "/b") == [True, True])
        second = self.fetch(*paths)
        self.assertEqual(self.web.pages(), {"/hang": 1, "/b": 1}, second.log)

    def test_lease_ends_during_the_download(self) -> None:
        """Another has it by then: it is counted, and his."""

        def answer(path: str, times: int) -> Answer:
            self.until(lambda: self.client.reserve(self.type, [self.item("/slow")], 600)["uri_list"])
            return OK

        self.web.answer = answer
        done = self.fetch("/slow", URIFILTER_LEASE=0.5)
        self.assertEqual(self.stats(done, "lost", "committed"), [1, 0], done.log)
        self.assertEqual(done.log.count("downloads took longer than their leases of 0.5 s"), 1)

    def test_lease_ends_in_the_queue(self) -> None:
        """It is renewed before the download, unless another has taken it."""
        queued = threading.Event()

        def answer(path: str, times: int) -> Answer:
            if path == "/second":
                queued.wait(300)
                self.until(lambda: self.client.reserve(self.type, [self.item("/third")], 600)["uri_list"])
                self.until(lambda: self.new("/fourth") == [True])
            return OK

        self.web.answer = answer
        done = self.crawl(
            "fetch", arguments={"paths": "/first", "then": "/second /third /fourth"}, watch=lambda line: queued.set() if "asked for all" in line else None,
            URIFILTER_LEASE=1, CONCURRENT_REQUESTS=1, SCHEDULER_MEMORY_QUEUE="scrapy.squeues.FifoMemoryQueue",
        )  # fmt: skip
        self.assertEqual(self.web.pages(), {"/first": 1, "/second": 1, "/fourth": 1}, done.log)
        self.assertEqual(self.stats(done, "taken", "committed", "lost"), [1, 3, 0], done.log)
        self.assertGreaterEqual(self.stats(done, "renewed")[0], 1)

    def test_reserved_by_another(self) -> None:
        self.client.create_filter(self.type, kind="exact")
        mine = self.client.reserve(self.type, [self.item("/a")], 600)
        done = self.fetch("/a", "/b")
        self.assertEqual((self.web.pages(), self.stats(done, "reserved", "committed")), ({"/b": 1}, [1, 1]), done.log)
        self.client.release(self.type, mine["reservation"])
        self.fetch("/a", "/b")
        self.assertEqual(self.web.pages(), {"/a": 1})

    def test_dry_run(self) -> None:
        done = self.fetch("/a", "/a", URIFILTER_DRY_RUN=True)
        self.assertEqual((self.web.pages(), done.stats["finish_reason"]), ({"/a": 1}, "finished"), done.log)
        self.assertNotIn(self.type, [f["name"] for f in self.client.filters()])

    def test_middleware_without_the_setting(self) -> None:
        done = self.crawl("fetch", arguments={"paths": "/a"}, URIFILTER_SEEN="scheduled", URIFILTER_CREATE=True)
        self.assertEqual((self.web.pages(), self.stats(done, "committed")), ({"/a": 1}, [0]), done.log)


if __name__ == "__main__":
    unittest.main()
