"""Ten requests, then a hundred that contain them."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterator

from scrapy import Request

from tests.spiders.report import ReportingSpider


class SeedSpider(ReportingSpider):
    name = "seed"

    async def start(self) -> AsyncIterator[Request]:  # Scrapy 2.13 and later
        for request in self.start_requests():
            yield request

    def start_requests(self) -> Iterator[Request]:
        for i in range(10):
            yield Request(f"{self.web}/s?wd={i}")
        for i in range(100):
            yield Request(f"{self.web}/s?wd={i}")

    def parse(self, response: Any) -> None:
        pass
