"""The conversation of a crawl with the daemon, and what happens when there is no answer."""

from __future__ import annotations

import time
from typing import Any, Callable

from ..client import FilterAPIClient
from ..errors import FilterError, SettingsError
from .away import Absence, may_pass
from .commands import fail_command
from .engine import close_soon
from .filters import find_or_make
from .options import Options, logger


class Conversation:
    """Finds or makes the filter before the first call. When the daemon cannot answer, it does
    what ``URIFILTER_WHEN_AWAY`` says."""

    def __init__(self, client: FilterAPIClient, options: Options, crawler: Any) -> None:
        self.client, self.options = client, options
        #: Where items are forgotten, only the daemon knows what is a duplicate.
        self.caching = options.expire is None
        #: The crawl is being closed, as the daemon has not answered.
        self.closing = False
        self._crawler = crawler
        self._close_reason = ""  # with which the crawl is closed once it has begun
        self._begun = False
        self._absence = Absence(options.client.patience)
        self._ready = False
        client.on_wait = self._absence.waits

    def open(self) -> None:
        """Finds the filter, or makes it. Without it the crawl is closed as soon as it has begun."""
        began = time.monotonic()
        if self._ready or self.closing or began < self._absence.until:
            return
        try:
            self._prepare()
        except SettingsError:
            raise  # to be corrected, as any other setting that Scrapy refuses
        except FilterError as err:
            self._gone(err, began)

    def begun(self) -> None:
        """The crawl has begun: from now on it can be closed."""
        self._begun = True
        if self.closing:
            close_soon(self._crawler, self._close_reason)

    def call(self, do: Callable[[], Any]) -> Any:
        """What do returns; None if the daemon is away, or the crawl is being closed for that."""
        began = time.monotonic()
        if self.closing or began < self._absence.until:
            return None
        try:
            if not self._ready:
                self._prepare()
            done = do()
        except FilterError as err:
            self._gone(err, began)
            return None
        self._absence.ends()
        return done

    def count(self, what: str, by: int = 1) -> None:
        """Counts in the stats of the crawl."""
        if self._crawler is not None:
            self._crawler.stats.inc_value("urifilter/" + what, by)

    def _prepare(self) -> None:
        info = find_or_make(self.client, self.options)
        self.caching = self.options.expire is None and info["kind"] == "bloom"
        if self.options.downloaded:
            self.client.reserve(self.options.typeid, [], self.options.lease)  # an error if that filter cannot
        self._ready = True
        self._absence.ends()

    def _gone(self, err: FilterError, began: float) -> None:
        if self._crawler is None and self.options.when_away != "pass":
            raise err
        if not may_pass(err):
            self._close_crawl("urifilter_refused", err)
        elif self.options.when_away == "pass":
            self._absence.passes(err, began)
        else:
            self._close_crawl("urifilter_away", err)

    def _close_crawl(self, reason: str, err: FilterError) -> None:
        if self.closing or self._crawler is None:
            return
        self.closing, self._close_reason = True, reason
        # Raised from here, it would end the callback whose requests are asked for, and lose the others.
        trace = err if self.options.when_away == "raise" else None
        logger.error("urifilter: the crawl is closed (%s): %s", reason, err, exc_info=trace)
        fail_command()
        if self._begun:
            close_soon(self._crawler, reason)
