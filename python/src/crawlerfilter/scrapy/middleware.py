"""A spider middleware that asks for the requests of a response in one call."""

from __future__ import annotations

from typing import Any, AsyncIterator, Iterable, Iterator, List, Optional

from scrapy import Request

from .dupefilter import of_crawler
from .options import WHOLE, logger, number


#: How many times as much as the requests of a batch is held of what a callback yields: one that yields
#: items by the million has few requests between them, or none.
ITEMS_HELD = 10


class BatchMiddleware:
    """Holds what a callback yields until it has ``URIFILTER_BATCH`` requests, or ten times
    as much of anything, or all, and asks the daemon for the requests together. It drops
    nothing: the dupefilter is told, and says what is a duplicate when the scheduler asks it.

    What it asks for is remembered, so it must be the last to see the requests: give it a
    number below those of all middlewares that drop some (``SPIDER_MIDDLEWARES`` 10).
    Requests with ``dont_filter`` are not asked for, and the start requests one by one: a
    crawl that is stopped has then not claimed more of them than it has scheduled.
    """

    def __init__(self, crawler: Any) -> None:
        self._crawler = crawler
        self._most = max(1, number(crawler.settings, "URIFILTER_BATCH", WHOLE, 500))
        self._warned = False

    @classmethod
    def from_crawler(cls, crawler: Any) -> "BatchMiddleware":
        """Called by Scrapy."""
        return cls(crawler)

    def process_spider_output(self, response: Any, result: Iterable[Any], spider: Any = None) -> Iterator[Any]:
        """The result, unchanged and in its order."""
        source, more = iter(result), True
        while more:
            held, asked, failure = [], [], None  # type: List[Any], List[Any], Optional[Exception]
            while len(asked) < self._most and len(held) < ITEMS_HELD * self._most:
                try:
                    output = next(source)
                except StopIteration:
                    more = False
                    break
                except Exception as err:  # what came before it shall not be lost
                    failure = err
                    break
                held.append(output)
                if _filtered(output):
                    asked.append(output)
            self._ask(asked)
            yield from held
            if failure is not None:
                raise failure

    async def process_spider_output_async(
        self, response: Any, result: AsyncIterator[Any], spider: Any = None
    ) -> AsyncIterator[Any]:
        """The same for callbacks that are asynchronous generators."""
        source, more = result.__aiter__(), True
        while more:
            held, asked, failure = [], [], None  # type: List[Any], List[Any], Optional[Exception]
            while len(asked) < self._most and len(held) < ITEMS_HELD * self._most:
                try:
                    output = await source.__anext__()
                except StopAsyncIteration:
                    more = False
                    break
                except Exception as err:
                    failure = err
                    break
                held.append(output)
                if _filtered(output):
                    asked.append(output)
            self._ask(asked)
            for output in held:
                yield output
            if failure is not None:
                raise failure

    def _ask(self, requests: List[Any]) -> None:
        if not requests:
            return
        dupefilter = of_crawler(self._crawler)
        if dupefilter is not None:
            dupefilter.ask_ahead(requests)
        elif not self._warned:
            self._warned = True
            logger.warning("urifilter: BatchMiddleware does nothing: DUPEFILTER_CLASS is not crawlerfilter.scrapy.RFPDupeFilter")


def _filtered(output: Any) -> bool:
    return isinstance(output, Request) and not output.dont_filter
