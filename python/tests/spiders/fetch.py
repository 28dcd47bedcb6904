"""Fetches what it is told."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterator

from scrapy import Request

from tests.spiders.report import ReportingSpider


class FetchSpider(ReportingSpider):
    name = "fetch"
    paths = ""  # scrapy -a paths="/a /b", or whole URLs
    then = ""  # those that are found on all of them
    handled = ""  # statuses that the callback takes

    async def start(self) -> AsyncIterator[Request]:  # Scrapy 2.13 and later
        for request in self.start_requests():
            yield request

    def start_requests(self) -> Iterator[Request]:
        self.handle_httpstatus_list = [int(status) for status in self.handled.split()]
        for path in self.paths.split():
            yield Request(path if path.startswith("http") else self.web + path, errback=self.failed)

    def parse(self, response: Any) -> Iterator[Any]:
        yield {"url": response.url, "status": response.status}
        for path in self.then.split():
            yield response.follow(path, callback=self.parse_found)
        self.logger.info("asked for all")

    def parse_found(self, response: Any) -> None:
        pass

    def failed(self, failure: Any) -> None:
        self.logger.info("errback: %s", type(failure.value).__name__)
