"""A daemon that does not answer."""

from __future__ import annotations

import time

from ..errors import FilterError
from .options import logger

#: Seconds after which ``pass`` asks a daemon again that was away, and how many times as
#: long as it took to learn that: one that hangs must not hold up the crawl.
ASK_AGAIN = 2.0
ASK_AGAIN_FACTOR = 10


def may_pass(err: FilterError) -> bool:
    """Whether the daemon may answer otherwise another time."""
    return err.status == 0 and err.error_code not in ("invalid_settings", "invalid_call") or err.status == 429 or err.status >= 500


class Absence:
    """Logs once that the daemon is away, and once that it is back."""

    def __init__(self, patience: float) -> None:
        #: time.monotonic before which it is not worth asking.
        self.until = 0.0
        self._patience = patience
        self._logged = False

    def waits(self, err: FilterError, seconds: float) -> None:
        """The client asks again in some seconds."""
        if not self._logged:
            logger.warning("urifilter: the crawl waits, for %g s at most: %s", self._patience, err)
        self._logged = True

    def passes(self, err: FilterError, began: float) -> None:
        """Nobody is asked for a while, after a call that began at that time."""
        now = time.monotonic()
        self.until = now + max(ASK_AGAIN, ASK_AGAIN_FACTOR * (now - began))
        if not self._logged:
            logger.warning("urifilter: away; requests pass unless this process has seen them: %s", err)
        self._logged = True

    def ends(self) -> None:
        """It has answered."""
        if self._logged:
            logger.info("urifilter: back")
        self._logged, self.until = False, 0.0
