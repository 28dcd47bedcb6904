"""What tests of the dupefilter without a crawl begin with."""

from __future__ import annotations

from typing import Any

from .case import DaemonCase
from .crawl import NO_SCRAPY

if not NO_SCRAPY:
    from scrapy import Spider
    from scrapy.utils.test import get_crawler


class ContractCase(DaemonCase):
    """Dupefilters made for crawlers that do not run."""

    def settings(self, **more: Any) -> Any:
        return {"URIFILTER_URL": self.daemon.url, "URIFILTER_WAIT": 0, "URIFILTER_TIMEOUT": 60, "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7", **more}

    def spider(self, name: str, **more: Any) -> Any:
        crawler = get_crawler(Spider, self.settings(**more))
        crawler.spider = crawler._create_spider(name)
        return crawler.spider

    def closing(self, dupefilter: Any) -> Any:
        self.addCleanup(dupefilter.close, "finished")
        return dupefilter
