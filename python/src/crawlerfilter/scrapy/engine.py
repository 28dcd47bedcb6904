"""What differs between Scrapy's versions."""

from __future__ import annotations

from typing import Any, Callable

from scrapy.utils.defer import deferred_from_coro

try:
    from scrapy.utils.asyncio import call_later  # there need be no reactor
except ImportError:
    call_later = None


def later(seconds: float, do: Callable[..., None], *args: Any) -> Any:
    """Has the event loop do something, unless ``cancel()`` of the result is called before."""
    if call_later is not None:
        return call_later(seconds, do, *args)
    from twisted.internet import reactor  # here, as Scrapy chooses which reactor it is

    return reactor.callLater(seconds, do, *args)  # type: ignore[attr-defined]


def close_soon(crawler: Any, reason: str) -> None:
    """Closes the crawl, but not at once: the engine is in the middle of something."""
    later(0, _close, crawler, reason)


def _close(crawler: Any, reason: str) -> None:
    if hasattr(crawler.engine, "close_spider_async"):
        deferred_from_coro(crawler.engine.close_spider_async(reason=reason))
    else:
        crawler.engine.close_spider(crawler.spider, reason)


def unfetched(crawler: Any) -> int:
    """How many requests the crawl's scheduler will lose when it is closed."""
    if crawler is None or crawler.settings.get("JOBDIR"):
        return 0
    scheduler = _scheduler_of(crawler)
    # Only Scrapy's own, whose queue is in memory: others keep theirs elsewhere.
    if type(scheduler).__module__ != "scrapy.core.scheduler":
        return 0
    return len(scheduler)


def _scheduler_of(crawler: Any) -> Any:
    """The scheduler; None before the crawl."""
    try:
        engine = crawler.engine
    except RuntimeError:
        return None
    for place in (engine, getattr(engine, "slot", None), getattr(engine, "_slot", None)):
        scheduler = getattr(place, "scheduler", None)
        if scheduler is not None:
            return scheduler
    return None
