"""Follows all links of the site."""

from __future__ import annotations

import json
from typing import Any, AsyncIterator, Iterator

from scrapy import Request, Spider


class BenchSpider(Spider):
    name = "bench"
    site = out = ""  # scrapy -a

    async def start(self) -> AsyncIterator[Request]:  # Scrapy 2.13 and later
        for request in self.start_requests():
            yield request

    def start_requests(self) -> Iterator[Request]:
        yield Request(f"{self.site}/0")

    def parse(self, response: Any) -> Iterator[Request]:
        for link in response.css("a::attr(href)").getall():
            yield Request(self.site + link)

    def closed(self, reason: str) -> None:
        with open(self.out, "w", encoding="utf-8") as file:
            json.dump(self.crawler.stats.get_stats(), file, default=str)
