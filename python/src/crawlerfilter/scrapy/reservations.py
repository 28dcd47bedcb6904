"""URIFILTER_SEEN = "downloaded": a request is reserved when it is scheduled, and seen when it
has been downloaded."""

from __future__ import annotations

import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, List, Optional, Set

from ..client import FilterAPIClient
from ..errors import FilterError
from .engine import later
from .leases import NONE, Judged, Leases, Pair
from .options import Options, logger
from .seen import Seen

#: Of Request.meta: what the request has reserved, fingerprint and reservation, its own last;
#: those before it are of the requests that were redirected to it. Retries and redirects copy
#: it with the rest of the meta, and queues on disk or in Redis keep it. It is there until the
#: request is settled. Lists are never changed in place, as copies share them.
KEY = "urifilter"

#: Seconds for which commits are collected.
COMMITS_WAIT = 1.0

#: Fingerprints that have failed here, of which is known how often.
MOST_FAILURES = 100_000


class Entry:
    """A request of this crawl that is scheduled or being downloaded."""

    __slots__ = ("reservation", "until", "followers", "watch")

    def __init__(self, reservation: str, until: float) -> None:
        self.reservation = reservation
        self.until = until  # time.monotonic at which the lease ends
        self.followers: List[Pair] = []  # whose redirects led to it: they share its fate
        self.watch: Any = None  # weak reference to the request, while it is being downloaded


class Reservations:
    """What this crawl has reserved. ``call`` runs a conversation with the daemon, and answers
    None if it is away; ``count`` counts in the stats."""

    def __init__(
        self,
        client: FilterAPIClient,
        options: Options,
        fingerprint: Callable[[Any], str],
        call: Callable[[Callable[[], Any]], Any],
        count: Callable[[str, int], None],
    ) -> None:
        self._options = options
        self._ever_downloaded = Seen(options.cache)
        self._leases = Leases(client, options, count)
        self._fingerprint, self._call, self._count = fingerprint, call, count
        self._open: Dict[str, Entry] = {}
        self._sweep_at = 1000
        self._ahead: Dict[str, Optional[Entry]] = {}  # asked ahead; None: a duplicate
        self._failures: Dict[str, int] = {}
        self._commits: Dict[str, Dict[str, None]] = {}  # by reservation; to be told
        self._downloaded: Set[str] = set()  # fingerprints in _commits
        self._releases: Dict[str, Dict[str, None]] = {}
        self._vanished: Deque[List[Pair]] = deque()
        self._timer: Any = None
        self._timer_at = 0.0
        self._closed = False

    # What the scheduler asks.

    def seen(self, request: Any, fingerprint: str) -> bool:
        """Whether the request is a duplicate. A new one is reserved."""
        self._drain()
        # Open ones are of a request that was redirected to this one, or replaced by it.
        chain = [(f, r) for f, r in request.meta.pop(KEY, ()) if self._has(f, r)]
        entry = self._open.get(fingerprint)
        own = (fingerprint, entry.reservation if entry else NONE)
        if entry is not None and own in chain and _is_answer(request):
            # Back to where it came from, as where a cookie is set on the way: the page itself
            # comes now, or RedirectMiddleware ends it.
            request.meta[KEY] = [pair for pair in chain if pair != own] + [own]
            return False
        if entry is not None and entry.until > time.monotonic():
            self._count("local", 1)
            if own in chain:
                self._settle(chain, False)
            else:
                entry.followers += chain
            return True
        if fingerprint in self._downloaded or self._failed_enough(fingerprint):
            self._count("local", 1)
            self._settle(chain, fingerprint in self._downloaded)
            return True
        if fingerprint in self._ahead:
            entry, reserved = self._ahead.pop(fingerprint), True
        else:
            judged = self._call(lambda: self._leases.reserve([fingerprint]))
            if judged is None and fingerprint in self._ever_downloaded:
                self._count("local", 1)
                self._settle(chain, True)
                return True
            if judged is None:
                entry, reserved = Entry(self._leases.doubted.pop(fingerprint, NONE), float("inf")), False
                self._count("passed", 1)
            else:
                entry, reserved = self._entry_of(judged, fingerprint), judged.reserved > 0
        if entry is None:
            self._settle(chain, not reserved)
            return True
        self._put(fingerprint, entry)
        request.meta[KEY] = [*chain, (fingerprint, entry.reservation)]
        return False

    def ask_ahead(self, fingerprints: Iterable[str]) -> None:
        """Reserves many in one call; seen then knows of them."""
        self._drain()
        now = time.monotonic()
        unknown = []
        for fingerprint in dict.fromkeys(fingerprints):
            entry = self._open.get(fingerprint)
            known = fingerprint in self._ahead or fingerprint in self._downloaded or self._failed_enough(fingerprint)
            known = known or fingerprint in self._leases.doubted  # seen asks for it by another name
            if not known and not (entry and entry.until > now):
                unknown.append(fingerprint)
        judged = self._call(lambda: self._leases.reserve(unknown)) if unknown else None
        if judged is not None:
            for fingerprint in unknown:
                self._ahead[fingerprint] = self._entry_of(judged, fingerprint)

    # What becomes of requests.

    def begins(self, request: Any) -> bool:
        """Before a download: whether it is still this crawl's. A lease that has ended, or that
        may end during the download, is taken again, and so is what comes from another process:
        from a JOBDIR, or a queue that several crawlers share."""
        chain = self._chain(request)
        if not chain:
            return True
        fingerprint, reservation = chain[-1]
        entry = self._open.get(fingerprint)
        if entry is not None and entry.reservation != reservation:
            # The lease had ended when the link was found again: that one downloads it.
            entry.followers += chain[:-1]
            return self._taken(request)
        if entry is None or entry.until - time.monotonic() < self._options.lease / 2:
            renewed = self._call(lambda: self._leases.renew(chain))
            if renewed is not None:
                followers = [pair for f, r in chain for pair in self._forget(f, r)]
                chain = [(f, renewed.new[f]) for f, _ in chain if f in renewed.new]
                if fingerprint not in renewed.new:
                    self._settle(chain + followers, False)
                    return self._taken(request)
                for f, r in chain:
                    self._put(f, Entry(r, renewed.until))
                self._open[fingerprint].followers = followers
                self._count("renewed", 1)
                request.meta[KEY] = chain
            else:
                chain = [(f, self._doubt(f, r)) for f, r in chain]
                request.meta[KEY] = chain
                if entry is None:
                    reservation = chain[-1][1]
                    self._put(fingerprint, Entry(reservation, float("inf") if reservation == NONE else time.monotonic()))
        vanished = self._vanished
        # Another middleware's process_response may fail, of which nobody is told: the request
        # then is gone, and was not settled. The callback may come in any thread.
        self._open[fingerprint].watch = weakref.ref(request, lambda _, chain=chain: vanished.append(chain))
        if vanished:
            self._flush_in(0)
        return True

    def ends(self, request: Any, downloaded: bool) -> None:
        """After a download, and all retries: it is settled."""
        chain = self._chain(request)
        if chain:
            del request.meta[KEY]
            self._settle(chain, downloaded)

    def scheduled(self, request: Any) -> None:
        """Something, a retry or the target of a redirect, goes to the scheduler."""
        for fingerprint, reservation in request.meta.get(KEY, ()):
            if self._has(fingerprint, reservation):
                self._open[fingerprint].watch = None

    def dropped(self, request: Any) -> None:
        """The scheduler has not taken it."""
        self._settle([(f, r) for f, r in request.meta.pop(KEY, ()) if self._has(f, r)], False)

    def clear(self) -> None:
        """The filter was cleared."""
        for mine in (
            self._open, self._ahead, self._failures, self._commits, self._releases, self._downloaded, self._ever_downloaded, self._leases.doubted,
        ):  # fmt: skip
            mine.clear()  # type: ignore[attr-defined]

    def close(self, within: float) -> None:
        """Tells the daemon all that it has not been told, and gives back what is open; for so
        many seconds at most."""
        self._drain()
        self._closed = True
        waiting = {f: entry.reservation for f, entry in self._open.items() if entry.reservation != NONE}
        waiting.update({f: entry.reservation for f, entry in self._ahead.items() if entry is not None and entry.reservation != NONE})
        for fingerprint, reservation in waiting.items():
            self._releases.setdefault(reservation, {})[fingerprint] = None
        failure = None
        try:
            self._tell(time.monotonic() + within)
        except FilterError as err:
            failure = err
        if waiting and failure is None and not self._releases:
            logger.info("urifilter: %d reserved requests were not downloaded, and are new again", len(waiting))
        for what, left in (("downloads are not committed", self._commits), ("reserved requests were not given back", self._releases)):
            if left:
                logger.warning(
                    "urifilter: %d %s, and are new again when their leases of %g s have ended: %s",
                    sum(map(len, left.values())), what, self._options.lease, failure or "there was no time for it",
                )  # fmt: skip

    # Parts.

    def _chain(self, request: Any) -> List[Pair]:
        """What the request has reserved, or stands for: a middleware may have put it in the
        place of another, with dont_filter."""
        chain = [(f, r) for f, r in request.meta.get(KEY, ())]  # queues make lists of tuples
        if chain and chain[-1][0] != self._fingerprint(request):
            chain = [(f, r) for f, r in chain if self._has(f, r)]
            if not chain:
                del request.meta[KEY]
        return chain

    def _taken(self, request: Any) -> bool:
        request.meta.pop(KEY, None)
        self._count("taken", 1)
        return False

    def _has(self, fingerprint: str, reservation: str) -> bool:
        entry = self._open.get(fingerprint)
        return entry is not None and entry.reservation == reservation

    def _doubt(self, fingerprint: str, reservation: str) -> str:
        """The reservation that has it, as far as is known when a renewal has failed."""
        now = self._leases.doubted.pop(fingerprint, reservation)
        if self._has(fingerprint, reservation):
            self._open[fingerprint].reservation = now
        return now

    def _put(self, fingerprint: str, entry: Entry) -> None:
        self._open[fingerprint] = entry
        if len(self._open) >= self._sweep_at:
            # Those that are downloaded elsewhere, from a queue that is shared.
            now = time.monotonic()
            self._open = {f: e for f, e in self._open.items() if e.until > now or e.watch is not None or f == fingerprint}
            self._sweep_at = max(1000, 2 * len(self._open))

    def _forget(self, fingerprint: str, reservation: str) -> List[Pair]:
        """Closes an entry; its followers."""
        if not self._has(fingerprint, reservation):
            return []
        return self._open.pop(fingerprint).followers

    def _entry_of(self, judged: Judged, fingerprint: str) -> Optional[Entry]:
        reservation = judged.new.get(fingerprint)
        return None if reservation is None else Entry(reservation, judged.until)

    def _failed_enough(self, fingerprint: str) -> bool:
        return self._failures.get(fingerprint, 0) >= self._options.tries

    def _settle(self, chain: List[Pair], downloaded: bool) -> None:
        to_tell = self._commits if downloaded else self._releases
        pending = list(chain)
        while pending:
            fingerprint, reservation = pending.pop()
            pending += self._forget(fingerprint, reservation)
            if downloaded:
                self._downloaded.add(fingerprint)
                self._ever_downloaded.add(fingerprint)
                self._failures.pop(fingerprint, None)
            else:
                self._failures[fingerprint] = self._failures.pop(fingerprint, 0) + 1
                if len(self._failures) > MOST_FAILURES:
                    del self._failures[next(iter(self._failures))]
                if reservation == NONE:
                    continue
            to_tell.setdefault(reservation, {})[fingerprint] = None
        if chain:
            self._flush_in(COMMITS_WAIT if downloaded else 0)

    def _drain(self) -> None:
        while self._vanished:
            chain = self._vanished.popleft()
            entry = self._open.get(chain[-1][0])
            if entry is not None and entry.reservation == chain[-1][1] and entry.watch is not None and entry.watch() is None:
                self._settle(chain, False)

    # The conversation with the daemon.

    def _flush_in(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        if self._closed or (self._timer is not None and self._timer_at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = later(seconds, self._flush), at

    def _flush(self) -> None:
        self._timer = None
        self._drain()
        if not self._closed and (self._commits or self._releases) and self._call(self._tell) is None:
            self._flush_in(COMMITS_WAIT)

    def _tell(self, until: float = float("inf")) -> bool:
        for pending, tell in ((self._commits, self._leases.commit), (self._releases, self._leases.release)):
            while pending and time.monotonic() < until:
                reservation = next(iter(pending))
                fingerprints = list(pending[reservation])
                tell(reservation, fingerprints)
                del pending[reservation]
                self._downloaded.difference_update(fingerprints)
        return True


def _is_answer(request: Any) -> bool:
    """Whether a status of HTTP led to it. A page that reloads itself by <meta> gives the same
    page for ever, and is a duplicate to Scrapy too."""
    reasons = request.meta.get("redirect_reasons") or [None]
    return isinstance(reasons[-1], int)
