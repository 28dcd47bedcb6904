"""The dupefilter."""

from __future__ import annotations

import logging
import weakref
from typing import Any, Iterable, Optional

from scrapy import signals
from scrapy.dupefilters import BaseDupeFilter
from scrapy.utils.request import referer_str

from ..client import FilterAPIClient
from ..errors import SettingsError
from .conversation import Conversation
from .dryrun import DryRun
from .engine import unfetched
from .filters import clear
from .options import Options, logger
from .reservations import Reservations
from .scheduled import Scheduled
from .settlers import is_installed

#: Seconds for which a crawl that is closed gives back what it has reserved, one call for
#: each reservation; or URIFILTER_WAIT, if that is more.
CLOSE_WITHIN = 60.0

_of_crawler: "weakref.WeakKeyDictionary[Any, RFPDupeFilter]" = weakref.WeakKeyDictionary()


def of_crawler(crawler: Any) -> Optional["RFPDupeFilter"]:
    """The dupefilter that was made for crawler."""
    return _of_crawler.get(crawler)


class RFPDupeFilter(BaseDupeFilter):
    """Asks the daemon whether a request's fingerprint is new, which remembers it.

    A request is remembered when it is scheduled, not when it has been fetched: what a
    crawler had scheduled when it was killed is never fetched, by no later crawl. With
    ``URIFILTER_SEEN = "downloaded"`` it is reserved then, and remembered when it has been
    downloaded, of which SettleMiddleware tells. It asks from the reactor's thread, which waits
    for the answer.

    When the daemon cannot answer, ``URIFILTER_WHEN_AWAY`` says what happens:

    * ``wait``: it is asked again for ``URIFILTER_WAIT`` seconds; then the crawl is closed
      with the reason ``urifilter_away``. The requests it could not judge stay scheduled,
      so that with a JOBDIR none is lost.
    * ``raise``: nothing is waited for: the FilterError is logged with its traceback, and
      the crawl closed in the same way. Without a crawl (:meth:`from_settings`) it is raised.
    * ``pass``: the request is new, unless this process has seen it. The daemon is told of
      all these requests when it is back.

    An answer that will not change by waiting, such as that the token is not valid, closes
    the crawl with the reason ``urifilter_refused``. All of this holds at the start, too: the
    crawl is then closed before it has fetched anything. A malformed or misspelt setting is
    a SettingsError, and the crawl does not start.
    """

    #: That of Scrapy's own filter, so that what a project has set for it holds.
    logger = logging.getLogger("scrapy.dupefilters")

    def __init__(self, options: Options, fingerprinter: Any = None, crawler: Any = None) -> None:
        self.options = options
        self.client = FilterAPIClient(options.client)
        self.fingerprinter = fingerprinter or _default_fingerprinter()
        self.debug = options.debug
        self.logdupes = True
        self._crawler = crawler
        self._conversation = Conversation(self.client, options, crawler)
        self._dry_run = DryRun(self.client, options) if options.dry_run else None
        self._reservations: Optional[Reservations] = None
        if options.downloaded and not options.dry_run:
            self._reservations = Reservations(
                self.client, options, lambda request: self.request_fingerprint(request), self._conversation.call, self._conversation.count
            )
        jobdir = "" if crawler is None or options.dry_run else crawler.settings.get("JOBDIR") or ""
        self._scheduled = Scheduled(self._conversation, jobdir)
        self._closed = False
        self._new = self._known = 0  # verdicts that were given
        if crawler is not None:
            _of_crawler[crawler] = self

    # The ways in which schedulers make a dupefilter.

    @classmethod
    def from_crawler(cls, crawler: Any) -> "RFPDupeFilter":
        """Scrapy's present contract."""
        options = Options.read(crawler.settings, _spider_name(crawler))
        if options.downloaded:
            _want_settling(crawler)
        dupefilter = cls(options, getattr(crawler, "request_fingerprinter", None), crawler)
        # What is wrong is said before anything is scheduled.
        dupefilter.open()
        crawler.signals.connect(dupefilter._spider_opened, signal=signals.spider_opened)
        # The scheduler of scrapy-redis does not close its dupefilter.
        crawler.signals.connect(dupefilter._spider_closed, signal=signals.spider_closed)
        if dupefilter._reservations is not None:
            crawler.signals.connect(dupefilter._request_scheduled, signal=signals.request_scheduled)
            crawler.signals.connect(dupefilter._request_dropped, signal=signals.request_dropped)
        return dupefilter

    @classmethod
    def from_spider(cls, spider: Any) -> "RFPDupeFilter":
        """What the scheduler of scrapy-redis calls."""
        return cls.from_crawler(spider.crawler)

    @classmethod
    def from_settings(cls, settings: Any, *, fingerprinter: Any = None) -> "RFPDupeFilter":
        """Scrapy's old contract. It tells of no spider, so that URIFILTER_FILTER must be a
        filter's name or id; there is no crawl to close either, so that errors are raised."""
        options = Options.read(settings, None)
        if options.downloaded:
            raise SettingsError("URIFILTER_SEEN: downloaded: this scheduler makes its dupefilter without a crawler, which tells of downloads")
        return cls(options, fingerprinter)

    # What schedulers call.

    def open(self) -> None:
        """Finds the filter, or makes it."""
        if self._dry_run is not None:
            self._dry_run.open()
        else:
            self._conversation.open()

    def request_seen(self, request: Any) -> bool:
        """Whether the request is a duplicate. A new one is remembered."""
        known = self._is_known(request)
        self._known += known
        self._new += not known
        return known

    def _is_known(self, request: Any) -> bool:
        fingerprint = self.request_fingerprint(request)
        if self._dry_run is not None:
            return self._dry_run.seen(fingerprint)
        if self._reservations is not None:
            return self._reservations.seen(request, fingerprint)
        return self._scheduled.seen(fingerprint)

    def request_fingerprint(self, request: Any) -> str:
        """The text that the daemon is asked for."""
        fingerprint: str = self.fingerprinter.fingerprint(request).hex()
        return fingerprint

    def log(self, request: Any, spider: Any) -> None:
        """Logs the first duplicate, or with DUPEFILTER_DEBUG all, and counts."""
        if self.debug:
            self.logger.debug(
                "Filtered duplicate request: %(request)s (referer: %(referer)s)",
                {"request": request, "referer": referer_str(request)},
                extra={"spider": spider},
            )
        elif self.logdupes:
            self.logger.debug(
                "Filtered duplicate request: %(request)s - no more duplicates will be shown"
                " (see DUPEFILTER_DEBUG to show all duplicates)",
                {"request": request},
                extra={"spider": spider},
            )
            self.logdupes = False
        for stat in ("dupefilter/filtered", "bloomfilter/filtered"):
            spider.crawler.stats.inc_value(stat)

    def clear(self) -> None:
        """Clears the filter: all is forgotten, for everybody who uses it. Wants a token with
        the scope admin."""
        if self._dry_run is not None:
            self._dry_run.clear()
            return
        clear(self.client, self.options)
        self._scheduled.clear()
        if self._reservations is not None:
            self._reservations.clear()

    def close(self, reason: str = "") -> None:
        """Tells the daemon what it has not been told yet, and logs what it was told in vain."""
        if self._closed:
            return
        self._closed = True
        if self._dry_run is not None:
            self.client.close()
            return
        if self._reservations is not None:
            self._reservations.close(0 if self._conversation.closing else max(CLOSE_WITHIN, self.options.client.patience))
        self._scheduled.close()
        if self._known and not self._new:
            logger.info(
                "urifilter: nothing was new: filter %s knows all %d requests, from an earlier crawl or another spider"
                "\nhint: URIFILTER_EXPIRE has pages fetched again after a while; another URIFILTER_FILTER starts with nothing",
                self.options.typeid, self._known,
            )  # fmt: skip
        waiting = unfetched(self._crawler) - self._scheduled.unjudged_at_end()
        if waiting > 0 and self._reservations is None:
            logger.warning(
                "urifilter: %d scheduled requests were not fetched, and are remembered as seen"
                "\nhint: a JOBDIR keeps them for the next run; without it, clear or choose another filter (URIFILTER_FILTER)",
                waiting,
            )
        self.client.close()

    def _spider_opened(self, spider: Any) -> None:
        self._conversation.begun()

    def _spider_closed(self, spider: Any, reason: str) -> None:
        self.close(reason)

    def _request_scheduled(self, request: Any) -> None:
        if self._reservations is not None:
            self._reservations.scheduled(request)

    def _request_dropped(self, request: Any) -> None:
        if self._reservations is not None:
            self._reservations.dropped(request)

    # For SettleMiddleware.

    def begins(self, request: Any) -> bool:
        """Before a download: whether the request is still this crawl's."""
        return self._reservations is None or self._reservations.begins(request)

    def ends(self, request: Any, downloaded: bool) -> None:
        """After a download, or when it has failed for good."""
        if self._reservations is not None:
            self._reservations.ends(request, downloaded)

    # For BatchMiddleware.

    def ask_ahead(self, requests: Iterable[Any]) -> None:
        """Asks for many requests in one call. request_seen then knows of them."""
        judge = self._dry_run or self._reservations or self._scheduled
        judge.ask_ahead(map(self.request_fingerprint, requests))


def _want_settling(crawler: Any) -> None:
    if not is_installed(crawler):
        raise SettingsError(
            "URIFILTER_SEEN: downloaded: nobody tells what was downloaded"
            '\nhint: DOWNLOADER_MIDDLEWARES = {"crawlerfilter.scrapy.SettleMiddleware": 10}'
        )


def _spider_name(crawler: Any) -> str:
    """Of the spider, else of its class. One without a name cannot crawl, though tests and
    tools make crawlers of such: it is called as its class."""
    for holder in (crawler.spider, crawler.spidercls):
        name = getattr(holder, "name", None)
        if name:
            return str(name)
    return str(crawler.spidercls.__name__)


def _default_fingerprinter() -> Any:
    from scrapy.utils.request import RequestFingerprinter

    return RequestFingerprinter()
