"""What can go wrong, as exceptions to branch on."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Tuple

#: Codes of answers with a status of 500 or more that promise that nothing was done.
CERTAIN = frozenset(
    "not_ready overloaded filter_restoring archive_unavailable store_unavailable "
    "filter_quarantined insufficient_storage filter_full".split()
)

#: Those of them that another attempt, or another server, may not get.
PASSING = CERTAIN - {"filter_quarantined", "insufficient_storage", "filter_full"}

_HINTS = {
    "unauthorized": "set URIFILTER_TOKEN or URIFILTER_TOKEN_FILE, or pass access_token",
    "forbidden": "use a token with the scope that is named",
    "too_many_refusals": "set URIFILTER_TOKEN or URIFILTER_TOKEN_FILE to a token that the daemon knows",
    "cross_site": "URIFILTER_URL must name the daemon localhost or 127.0.0.1, or by a name of its auth.allowed_hosts",
    "filter_full": "make a larger filter, or one that grows: on_full: grow; memory: limits.memory_bytes, limits.filter_bytes",
    "insufficient_storage": "the disk of the server is full; the daemon goes on by itself once there is space",
    "unreachable": "is the daemon running, and is URIFILTER_URL its address?",
    "unknown_path": "URIFILTER_URL is the daemon's address alone, without the path of a call: http://HOST:PORT",
    "forget_not_supported": "make a filter of the kind exact or timing, or forget all with clear_filter",
    "reserve_not_supported": "make a filter of the kind exact or timing",
    "unknown_reservation": "items that were not committed are new: reserve them again",
    "near_not_supported": "make a filter of the kind simhash for texts: create_filter('pages', kind='simhash')",
    "items_not_supported": "this filter is for texts: call near",
    "text_too_large": "send the main text of the page only, or raise limits.text_bytes of the daemon",
    "expire_not_supported": "this filter never forgets; expire is for filters of the kind timing",
    "expire_missing": "pass expire, in seconds",
}


class FilterError(Exception):
    """A call that has no result.

    Branch on ``error_code``, a stable word: that of the daemon's answer (its
    ``/openapi.yaml`` lists them), or one of this package: ``unreachable``, ``timeout``,
    ``connection_lost``, ``invalid_answer``, ``invalid_settings``, ``invalid_call``, ``wrong_kind``. The
    text shows no token and no item.
    """

    def __init__(
        self,
        message: str,
        *,
        error_code: str = "",
        status: int = 0,
        detail: str = "",
        index: Optional[int] = None,
        known: Iterable[str] = (),
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(message)
        #: The stable word.
        self.error_code = error_code
        #: HTTP status of the answer; 0 when there was none.
        self.status = status
        #: What the daemon, or the system, said of it.
        self.detail = detail
        #: Position in ``uri_list`` of the item at fault, from 0; None when it is no item's.
        self.index = index
        #: Values that would have been accepted.
        self.known: Tuple[str, ...] = tuple(known)
        #: Seconds that the daemon asks to wait.
        self.retry_after = retry_after
        #: Of a list that was sent in several batches: how many items had been judged
        #: before the batch that failed, and which of them were new. They are remembered,
        #: so that this is the only place that tells of them.
        self.judged = 0
        self.new_items: List[Any] = []

    def later_by(self, items: int) -> "FilterError":
        """The same, of a list that has so many judged items before it."""
        if self.index is not None:
            self.index += items
        self.judged += items
        return self

    @property
    def in_doubt(self) -> bool:
        """Whether the call may have been carried out although no answer tells of it."""
        return isinstance(self, InDoubtError)

    def __str__(self) -> str:
        text = str(self.args[0]) if self.args else self.error_code
        if self.status and self.index is not None:  # without an answer it is in the text
            text += f" (item {self.index})"
        hint = _HINTS.get(self.error_code)
        if self.error_code == "unknown_filter" and self.known:
            hint = "there are " + ", ".join(self.known) + "; make one with: urifilter filters create NAME [--kind timing]"
        return text + ("\nhint: " + hint if hint else "")

    def __reduce__(self) -> Any:
        # Exceptions with keyword arguments do not survive multiprocessing by themselves.
        return _restore, (type(self), self.args, dict(self.__dict__))


def _restore(kind: Any, args: Any, state: Any) -> FilterError:
    error: FilterError = kind(*args)
    error.__dict__.update(state)
    return error


class ItemError(FilterError, ValueError):
    """An item that cannot be sent, or that the daemon refuses; ``index`` says which.

    Nothing of its batch is remembered.
    """


class UnavailableError(FilterError):
    """The daemon cannot be reached or cannot answer now; nothing was remembered.

    The same call may go well later.
    """


class InDoubtError(FilterError):
    """The answer was lost: the items of this batch may have been remembered, or forgotten,
    as the call wanted.

    Asked again, the daemon may call them duplicates although nobody was told that they
    are new. ``Settings.in_doubt`` chooses what becomes of such a call.
    """

    def as_unavailable(self) -> UnavailableError:
        """The same of a call that remembers nothing."""
        error = UnavailableError(*self.args)
        error.__dict__.update(self.__dict__)
        return error


class SettingsError(FilterError, ValueError):
    """A setting or an argument that cannot be."""

    def __init__(self, message: str, *, error_code: str = "invalid_settings") -> None:
        super().__init__(message, error_code=error_code)
