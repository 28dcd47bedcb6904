"""Judges requests, and has nothing remembered."""

from __future__ import annotations

import time
from typing import Dict, Iterable, List, Optional, Set

from ..client import FilterAPIClient
from ..errors import FilterError
from .away import Absence, may_pass
from .options import Options, logger


class DryRun:
    """What a filter knows is a duplicate, and what this process has met. No filter is made;
    where there is none, or no daemon, everything that was not met is new."""

    def __init__(self, client: FilterAPIClient, options: Options) -> None:
        self._client, self._options = client, options
        self._absence = Absence(0)
        self._there: Optional[bool] = None  # whether there is a filter; None: not asked yet
        self._verdicts: Dict[str, bool] = {}  # of what was asked ahead
        self._met: Set[str] = set()
        logger.info("urifilter: only looks (%s): nothing is remembered, and no filter is made", options.dry_run)

    def open(self) -> None:
        """Asks whether the filter is there."""
        try:
            self._find()
        except FilterError as err:
            if not may_pass(err):
                raise

    def seen(self, fingerprint: str) -> bool:
        """Whether the request is a duplicate."""
        if fingerprint in self._met:
            return True
        self._met.add(fingerprint)
        self.ask_ahead([fingerprint])
        return not self._verdicts.pop(fingerprint, True)

    def ask_ahead(self, fingerprints: Iterable[str]) -> None:
        """Asks for many in one call."""
        unknown: List[str] = [f for f in dict.fromkeys(fingerprints) if f not in self._verdicts]
        began = time.monotonic()
        if not unknown or self._there is False or began < self._absence.until:
            return
        try:
            if self._there is None:
                self._find()
            if self._there:
                self._verdicts.update(zip(unknown, self._client.check(self._options.typeid, unknown)))
        except FilterError as err:
            self._absence.passes(err, began)

    def clear(self) -> None:
        """Forgets what this process has met; the filter stays as it is."""
        self._met.clear()
        self._verdicts.clear()

    def _find(self) -> None:
        began = time.monotonic()
        try:
            info = self._client.filter_info(self._options.typeid)
        except FilterError as err:
            if err.error_code == "unknown_filter":
                self._there = False
                logger.info("urifilter: there is no filter %s: all requests are new", self._options.typeid)
                return
            if may_pass(err):
                self._absence.passes(err, began)
            raise
        self._there = True
        self._absence.ends()
        logger.info("urifilter: filter %s of %s is looked at", info["name"], self._client.settings.url)
