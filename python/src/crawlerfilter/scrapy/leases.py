"""What the dupefilter and the daemon tell each other of reservations."""

from __future__ import annotations

import time
from typing import Any, Callable, Container, Dict, List, NamedTuple, Optional, Tuple

from ..client import FilterAPIClient
from ..errors import FilterError, InDoubtError
from .options import Options, logger

#: The reservation of a request that nobody could judge.
NONE = ""

#: Fingerprint and reservation.
Pair = Tuple[str, str]


class Judged(NamedTuple):
    """What the daemon says of a batch."""

    new: Dict[str, str]  # fingerprint to its reservation
    reserved: int  # how many of the others are reserved by somebody


class Leases:
    """The calls, which raise FilterError. ``count`` counts in the stats; ``downloaded`` has what this
    crawl is known to have downloaded."""

    def __init__(
        self, client: FilterAPIClient, options: Options, downloaded: Container[str], count: Callable[[str, int], None]
    ) -> None:
        self._client, self._options, self._downloaded, self._count = client, options, downloaded, count
        self._lost_logged = False

    def reserve(self, fingerprints: List[str]) -> Judged:
        """Reserves those that are new. Which of them are, when an answer was lost, is up to
        ``URIFILTER_IN_DOUBT``; but what this crawl has downloaded is not."""
        began, doubted = time.monotonic(), False
        while True:
            try:
                answer = self._client.reserve(self._options.typeid, fingerprints, self._options.lease)
                break
            except InDoubtError:
                # What a lost answer has reserved is new again when the lease ends.
                if self._options.client.in_doubt == "error" or time.monotonic() - began >= self._options.client.patience:
                    raise
                doubted = True
                time.sleep(0.05)
        self._count("calls", 1)
        self._count("asked", len(fingerprints))
        new = dict.fromkeys(answer["uri_list"], str(answer["reservation"]))
        if doubted and self._options.client.in_doubt == "new":
            return Judged({**dict.fromkeys((f for f in fingerprints if f not in self._downloaded), NONE), **new}, 0)
        if answer["reserved"]:
            self._count("reserved", int(answer["reserved"]))
        return Judged(new, int(answer["reserved"]))

    def renew(self, chain: List[Pair]) -> Judged:
        """Gives back and reserves again. What another has taken in between is theirs."""
        for fingerprint, reservation in chain:
            if reservation != NONE:
                self._known(lambda: self._client.release(self._options.typeid, reservation, [fingerprint]))
        return self.reserve([fingerprint for fingerprint, _ in chain])

    def commit(self, reservation: str, fingerprints: List[str]) -> None:
        """Has the filter remember what was downloaded."""
        options, answer = self._options, None
        if reservation != NONE:
            answer = self._known(lambda: self._client.commit(options.typeid, reservation, fingerprints, options.expire))
        if answer is not None:
            done, lost = int(answer["done"]), int(answer["lost_total"])
        else:  # there was none, or the daemon has let go of it
            done = len(self._client.filter(options.typeid, fingerprints, options.expire))
            lost = 0 if reservation == NONE else len(fingerprints) - done
        self._count("committed", done)
        if lost:
            self._count("lost", lost)
            if not self._lost_logged:
                logger.warning(
                    "urifilter: downloads took longer than their leases of %g s, so that others have them too (urifilter/lost counts them)"
                    "\nhint: URIFILTER_LEASE must be several times as long as a download with its retries",
                    options.lease,
                )
            self._lost_logged = True

    def release(self, reservation: str, fingerprints: List[str]) -> None:
        """Makes new again what was not downloaded."""
        answer = self._known(lambda: self._client.release(self._options.typeid, reservation, fingerprints))
        if answer is not None:
            self._count("released", answer["done"])

    def _known(self, do: Callable[[], Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        try:
            return do()
        except FilterError as err:
            if err.error_code != "unknown_reservation":
                raise
            return None
