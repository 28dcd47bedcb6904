"""A call of the daemon: sent until there is an answer, or no more use in it."""

from __future__ import annotations

import random
import time
from typing import Callable, Dict, List, Optional, Type

from ._answer import error_of
from ._arguments import header_safe
from ._connection import Answer, Connections, NoAnswer
from ._servers import Server, Servers
from ._waiting import Waiting
from .errors import PASSING, FilterError, InDoubtError, UnavailableError
from .settings import Settings

# Pauses between attempts, when all servers have been tried: doubled each time, half of
# it by chance, so that a fleet of crawlers does not come back in step.
_FIRST_PAUSE = 0.05
_LAST_PAUSE = 2.0

FILTER = "/api/v1/filter"
CHECK = "/api/v1/check"
FORGET = "/api/v1/forget"
NEAR = "/api/v1/near"
RESERVE = "/api/v1/reserve"
COMMIT = "/api/v1/commit"
RELEASE = "/api/v1/release"


class Exchanges:
    """What all calls of a client share: its settings, its servers and its connections."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Called before each pause of a call that is made again, with the error and the
        #: seconds; what it raises ends the call. None: the first pause is logged, by the
        #: logger ``crawlerfilter``, and that the daemon is back.
        self.on_wait: Optional[Callable[[FilterError, float], None]] = None
        self._waiting = Waiting(settings.patience)
        self._servers = Servers(settings.url)
        self._connections = Connections(settings.timeout, settings.ca_file)

    def ready(self) -> None:
        """Returns when a daemon is there and ready; raises UnavailableError if there is
        none for as long as ``Settings.patience`` says."""
        self._exchange("GET", "/readyz", None, again=True)

    def close(self) -> None:
        """Closes the connections that are idle. The client can still be used."""
        self._connections.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"  # which leaves out the token

    def _exchange(
        self,
        method: str,
        path: str,
        body: Optional[bytes],
        *,
        again: bool,
        token: str = "",
        looks: bool = False,
        doubted: Optional[List[bool]] = None,
        untimed: bool = False,
    ) -> Answer:
        """Sends until there is an answer. ``again`` says that a call whose answer was lost
        may be repeated; one that is certain not to have been carried out is in any case.
        ``looks`` says that it changes nothing, which a GET never does, so that it leaves no doubt.
        ``doubted[0]`` becomes true when an attempt before the last may have been carried out.
        ``untimed`` is for calls whose answer may take minutes."""
        looks = looks or method == "GET"
        headers = {"User-Agent": "crawlerfilter-python", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        token = token or self.settings.token
        if token:
            headers["Authorization"] = "Bearer " + header_safe(token)
        began, pause, made = time.monotonic(), _FIRST_PAUSE, 0
        lost: Optional[InDoubtError] = None
        while True:
            server = self._servers.now()
            try:
                answer = self._attempt(server, method, path, headers, body, untimed)
                self._waiting.ends()
                return answer
            except FilterError as err:
                made += 1
                if isinstance(err, InDoubtError):
                    lost = err
                    if doubted is not None:
                        doubted[0] = True
                wait = max(pause / 2 + random.random() * pause / 2, err.retry_after)
                too_late = time.monotonic() - began + wait > self.settings.patience
                # A daemon whose store broke off knows best, and at first alone, which items
                # it told nobody of; another one might call them seen.
                stay = err.error_code == "outcome_unknown" and not too_late
                if isinstance(err, (UnavailableError, InDoubtError)) and not stay:
                    self._servers.failed(server)
                if stay or made >= len(self._servers.all):
                    pause = min(2 * pause, _LAST_PAUSE)
                else:
                    wait, too_late = 0.0, False
                if too_late or not _repeatable(err, again):
                    if lost is not None and method == "POST" and not looks:
                        raise lost from (None if lost is err else err)  # a later answer ends no doubt
                    if isinstance(err, InDoubtError) and looks:
                        raise err.as_unavailable() from None
                    raise
                if wait > 0:
                    (self.on_wait or self._waiting.begins)(err, wait)
                    time.sleep(wait)

    def _attempt(
        self, server: Server, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], untimed: bool
    ) -> Answer:
        where = f"{method} {server.shown}{path.partition('?')[0]}"
        try:
            answer = self._connections.attempt(server, method, path, headers, body, untimed)
        except NoAnswer as err:
            kind: Type[FilterError] = InDoubtError if err.sent else UnavailableError
            more = " (items may have been remembered)" if err.sent and path == FILTER else ""
            raise kind(f"{where}: {err}{more}", error_code=err.code, detail=str(err)) from None
        if not 200 <= answer.status < 300:
            raise error_of(where, answer)
        return answer


def _repeatable(err: FilterError, again: bool) -> bool:
    if isinstance(err, InDoubtError):
        return again
    return isinstance(err, UnavailableError) and (err.status in (0, 429) or err.error_code in PASSING)
