"""What tests of crawls begin with."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional, Tuple

from crawlerfilter import FilterAPIClient, Settings

from .case import DaemonCase
from .crawl import NO_SCRAPY, PAGES, Crawl, Web, crawl, page
from .daemon import Daemon

if not NO_SCRAPY:
    from scrapy import Request
    from scrapy.utils.request import fingerprint

BATCH = {"crawlerfilter.scrapy.BatchMiddleware": 10}
SETTLE = {"crawlerfilter.scrapy.SettleMiddleware": 10}
ALL_PAGES = {f"/page/{i}": 1 for i in range(PAGES)}
Answer = Optional[Tuple[int, Dict[str, str]]]
OK: Answer = (200, {})


class CrawlCase(DaemonCase):
    """Crawls of a local web server."""

    web: Web

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.web = Web(cls.addClassCleanup)

    def setUp(self) -> None:
        self.web.pages()
        self.web.before = lambda path: None
        self.web.body = page

    def crawl(self, spider: str, url: str = "", **more: Any) -> Crawl:
        return crawl(spider, self.web, url or self.daemon.url, **more)

    def early(self) -> bool:
        """Whether this is the eighth page. Which page that is depends on how fast the crawl is; a named one might be
        the last."""
        return len(self.web.served) == 8

    def kill_early(self, daemon: Daemon) -> None:
        """Kills daemon while most pages are not fetched."""
        self.web.before = lambda path: daemon.kill() if self.early() else None

    def stat(self, done: Crawl, *names: str) -> Any:
        return [done.stats.get(name, 0) for name in names]

    def filters(self) -> Dict[str, Any]:
        """How many items each filter of the daemon has."""
        with FilterAPIClient(Settings(url=self.daemon.url)) as client:
            return {f["name"]: f.get("items_estimate", f.get("items")) for f in client.filters()}


class DownloadedCase(CrawlCase):
    """Crawls with ``URIFILTER_SEEN = "downloaded"``."""

    def setUp(self) -> None:
        super().setUp()
        self.web.answer = lambda path, times: OK
        self.client = FilterAPIClient(Settings(url=self.daemon.url))
        self.addCleanup(self.client.close)
        self.type = self.id().rpartition(".")[2]

    def crawl(self, spider: str, url: str = "", **more: Any) -> Crawl:
        more = {"URIFILTER_TYPE": self.type, "URIFILTER_SEEN": "downloaded", "DOWNLOADER_MIDDLEWARES": SETTLE, "RETRY_TIMES": 1, **more}
        return crawl(spider, self.web, url or self.daemon.url, **more)

    def fetch(self, *paths: str, url: str = "", handled: str = "", **more: Any) -> Crawl:
        return self.crawl("fetch", url, arguments={"paths": " ".join(paths), "handled": handled}, **more)

    def item(self, path: str) -> str:
        return str(fingerprint(Request(path if path.startswith("http") else self.web.url + path)).hex())

    def new(self, *paths: str) -> List[bool]:
        return self.client.check(self.type, [self.item(path) for path in paths])

    def stats(self, done: Crawl, *names: str) -> List[Any]:
        return [done.stats.get(f"urifilter/{name}", 0) for name in names]

    def until(self, what: Any) -> None:
        limit = time.monotonic() + 120
        while not what():
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.02)
