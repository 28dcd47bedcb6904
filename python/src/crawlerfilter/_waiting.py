"""Says that calls wait for a daemon."""

from __future__ import annotations

import logging

from .errors import FilterError

logger = logging.getLogger("crawlerfilter")


class Waiting:
    """Logs once that the daemon is away, and once that it is back."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._logged = False

    def begins(self, err: FilterError, seconds: float) -> None:
        """A call is made again in some seconds."""
        if not self._logged:
            self._logged = True
            logger.warning("urifilter: calls wait, for %g s each at most: %s", self._patience, err)

    def ends(self) -> None:
        """The daemon has answered."""
        if self._logged:
            self._logged = False
            logger.info("urifilter: back")
