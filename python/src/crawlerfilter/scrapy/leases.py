"""What the dupefilter and the daemon tell each other of reservations."""

from __future__ import annotations

import secrets
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ..client import FilterAPIClient
from ..errors import FilterError, InDoubtError
from .options import Options, logger

#: The reservation of a request that nobody could judge.
NONE = ""

#: What a reservation begins with that may not have the request.
DOUBT = "?"

#: Fingerprint and reservation.
Pair = Tuple[str, str]


class Judged(NamedTuple):
    """What the daemon says of a batch."""

    new: Dict[str, str]  # fingerprint to its reservation
    reserved: int  # how many of the others are reserved by somebody
    until: float  # time.monotonic at which the lease ends


class Leases:
    """The calls, which raise FilterError. ``count`` counts in the stats."""

    def __init__(self, client: FilterAPIClient, options: Options, count: Callable[[str, int], None]) -> None:
        self._client, self._options, self._count = client, options, count
        self._lost_logged = False
        #: Of fingerprints whose call failed, which reservation may have them nevertheless.
        self.doubted: Dict[str, str] = {}

    def reserve(self, fingerprints: List[str]) -> Judged:
        """Reserves those that are new. One that a call may have reserved which failed is asked for alone, by
        that call's name; its lease may end at any time."""
        name, until = secrets.token_hex(16), time.monotonic() + self._options.lease
        if len(fingerprints) == 1 and fingerprints[0] in self.doubted:
            name, until = _name(self.doubted[fingerprints[0]]), time.monotonic()
        try:
            answer = self._client.reserve(self._options.typeid, fingerprints, self._options.lease, reservation=name)
        except InDoubtError:
            self.doubted.update(dict.fromkeys(fingerprints, DOUBT + name))
            raise
        for fingerprint in fingerprints:
            self.doubted.pop(fingerprint, None)
        self._count("calls", 1)
        self._count("asked", len(fingerprints))
        if answer["reserved"]:
            self._count("reserved", int(answer["reserved"]))
        return Judged(dict.fromkeys(answer["uri_list"], name), int(answer["reserved"]), until)

    def renew(self, chain: List[Pair]) -> Judged:
        """Gives back and reserves again. What another has taken in between is theirs."""
        try:
            for fingerprint, reservation in chain:
                if reservation != NONE:
                    self._known(lambda: self._client.release(self._options.typeid, _name(reservation), [fingerprint]))
            return self.reserve([fingerprint for fingerprint, _ in chain])
        except FilterError:
            for fingerprint, reservation in chain:
                if reservation != NONE:
                    self.doubted.setdefault(fingerprint, DOUBT + _name(reservation))
            raise

    def commit(self, reservation: str, fingerprints: List[str]) -> None:
        """Has the filter remember what was downloaded."""
        options, answer = self._options, None
        doubted = reservation == NONE or reservation.startswith(DOUBT)
        if reservation != NONE:
            answer = self._known(lambda: self._client.commit(options.typeid, _name(reservation), fingerprints, options.expire))
        done, lost = (0, fingerprints) if answer is None else (int(answer["done"]), answer["lost"])
        if lost and (doubted or answer is None):  # there was none, or the daemon has let go of it
            new = len(self._client.filter(options.typeid, lost, options.expire))
            done, lost = done + new, [] if doubted else lost[new:]
        self._count("committed", done)
        if lost:
            self._count("lost", len(lost))
            if not self._lost_logged:
                logger.warning(
                    "urifilter: downloads took longer than their leases of %g s, so that others have them too (urifilter/lost counts them)"
                    "\nhint: URIFILTER_LEASE must be several times as long as a download with its retries",
                    options.lease,
                )
            self._lost_logged = True

    def release(self, reservation: str, fingerprints: List[str]) -> None:
        """Makes new again what was not downloaded."""
        answer = self._known(lambda: self._client.release(self._options.typeid, _name(reservation), fingerprints))
        if answer is not None:
            self._count("released", answer["done"])

    def _known(self, do: Callable[[], Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        try:
            return do()
        except FilterError as err:
            if err.error_code != "unknown_reservation":
                raise
            return None


def _name(reservation: str) -> str:
    return reservation[len(DOUBT) :] if reservation.startswith(DOUBT) else reservation
