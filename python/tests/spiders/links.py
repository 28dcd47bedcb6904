"""Follows all links from page 0 on."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterator

from scrapy import Request

from tests.spiders.report import ReportingSpider


class LinksSpider(ReportingSpider):
    name = "links"
    fault = asynchronous = unfiltered = None  # scrapy -a fault=1
    start_page = "/page/0"

    async def start(self) -> AsyncIterator[Request]:  # Scrapy 2.13 and later
        for request in self.start_requests():
            yield request

    def start_requests(self) -> Iterator[Request]:
        yield Request(f"{self.web}{self.start_page}", callback=self.parse_async if self.asynchronous else self.parse)

    def parse(self, response: Any) -> Iterator[Any]:
        for at, link in enumerate(response.css("a::attr(href)").getall()):
            yield {"from": response.url, "to": link}
            yield response.follow(link, callback=self.parse, dont_filter=bool(self.unfiltered) and at == 0 and response.url.endswith("/119"))
            if self.fault and at == 3 and response.url.endswith("/0"):
                raise RuntimeError("a fault of the spider's")

    async def parse_async(self, response: Any) -> AsyncIterator[Any]:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, callback=self.parse_async)
