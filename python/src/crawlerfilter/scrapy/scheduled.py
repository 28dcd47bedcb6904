"""URIFILTER_SEEN = "scheduled": a request is remembered when it is scheduled."""

from __future__ import annotations

from typing import Dict, Iterable, List, Optional, Set

from ..errors import FilterError
from .conversation import Conversation
from .filters import ask
from .options import logger
from .seen import Seen
from .untold import Untold


class Scheduled:
    """What the daemon has said of requests, and what it has not been told yet."""

    def __init__(self, conversation: Conversation, jobdir: str) -> None:
        self._conversation = conversation
        self._client, self._options = conversation.client, conversation.options
        self._seen = Seen(self._options.cache)
        # What was asked ahead: fingerprint to whether it is new. Entries that are new
        # stay until the request comes: nobody else will be told.
        self._verdicts: Dict[str, bool] = {}
        self._untold = Untold(jobdir)

    def seen(self, fingerprint: str) -> bool:
        """Whether the request is a duplicate. A new one is remembered."""
        verdict = self._verdicts.pop(fingerprint, None)
        if verdict is None:
            if self._is_cached(fingerprint):
                self._conversation.count("local")
                return True
            new = self._ask([fingerprint])
            if new is None:
                return self._unjudged(fingerprint)
            verdict = fingerprint in new
        self._cache(fingerprint)
        return not verdict

    def ask_ahead(self, fingerprints: Iterable[str]) -> None:
        """Asks for many in one call; seen then knows of them."""
        unknown = [f for f in dict.fromkeys(fingerprints) if f not in self._verdicts and not self._is_cached(f)]
        new = self._ask(unknown) if unknown else None
        if new is None:
            return  # seen will say what becomes of them
        for fingerprint in unknown:
            if fingerprint in new:
                self._verdicts[fingerprint] = True
            elif self._conversation.caching:
                self._cache(fingerprint)
            else:
                self._verdicts[fingerprint] = False

    def unjudged_at_end(self) -> int:
        """How many were scheduled while the crawl was being closed."""
        return self._untold.unjudged_at_end()

    def clear(self) -> None:
        """The filter was cleared."""
        self._seen.clear()
        self._verdicts.clear()
        self._untold.clear()

    def close(self) -> None:
        """Tells the daemon what it has not been told yet, and logs what it was told in vain."""
        failure: Optional[FilterError] = None
        if not self._conversation.closing:
            try:
                self._tell()
            except FilterError as err:
                failure = err
        lost = self._untold.keep()
        if lost:
            logger.warning("urifilter: %d requests stay unknown to the daemon: %s", lost, failure or "the crawl was closed")
        vain = sum(self._verdicts.values())
        if vain:
            logger.warning("urifilter: %d requests were asked for and remembered, but not scheduled: another middleware dropped them", vain)

    def _is_cached(self, fingerprint: str) -> bool:
        return self._conversation.caching and fingerprint in self._seen

    def _cache(self, fingerprint: str) -> None:
        if self._conversation.caching:
            self._seen.add(fingerprint)

    def _ask(self, fingerprints: List[str]) -> Optional[Set[str]]:
        """Which are new; None when nobody can tell."""

        def do() -> Set[str]:
            self._tell()
            return set(ask(self._client, self._options, fingerprints))

        new: Optional[Set[str]] = self._conversation.call(do)
        if new is not None:
            self._conversation.count("calls")
            self._conversation.count("asked", len(fingerprints))
        return new

    def _tell(self) -> None:
        untold = self._untold.to_tell()
        if not untold:
            return
        try:
            ask(self._client, self._options, untold)
        except FilterError as err:
            self._untold.told(untold[: err.judged])
            raise
        self._untold.told(untold)

    def _unjudged(self, fingerprint: str) -> bool:
        """A request that nobody could judge is taken for new, once."""
        if fingerprint in self._untold or self._is_cached(fingerprint):
            return True
        if self._conversation.closing:
            self._untold.at_end(fingerprint)
            return False  # stays scheduled, for a JOBDIR
        self._cache(fingerprint)
        self._untold.passed(fingerprint)
        self._conversation.count("passed")
        return False
