"""Calls that manage filters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, List, Optional, Union
from urllib.parse import urlencode

from ._answer import member_of, object_of
from ._arguments import Expire, dumps, path_of, seconds_of
from ._exchange import Exchanges
from .errors import FilterError, SettingsError


class FilterCalls(Exchanges):
    """Filters are listed, made, cleared and dropped."""

    def filters(self) -> List[Dict[str, Any]]:
        """All filters."""
        listed = member_of(self._exchange("GET", "/api/v1/filters", None, again=True), "filters")
        return list(listed)

    def filter_info(self, filter_typeid: Union[int, str]) -> Dict[str, Any]:
        """One filter: its kind, size and fill."""
        return object_of(self._exchange("GET", path_of(filter_typeid), None, again=True))

    def create_filter(
        self,
        name: str,
        *,
        like: Optional[str] = None,
        kind: Optional[str] = None,
        capacity: Optional[int] = None,
        error_rate: Optional[float] = None,
        on_full: Optional[str] = None,
        layout: Optional[str] = None,
        expansion: Optional[int] = None,
        expire: Expire = None,
        store: Optional[str] = None,
        digest: Optional[int] = None,
        canonical: Optional[str] = None,
        canonical_drop: Optional[str] = None,
        distance: Optional[int] = None,
        feature_hash: Optional[str] = None,
        id: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Makes a filter, or finds it with these parameters; None is the daemon's default.
        Wants a token with the scope admin. With ``like``, the name of another filter, it has
        that one's parameters and its secret, so that the two can be merged.

        A filter of that name with others is FilterError, ``filter_conflict``.
        """
        if isinstance(expire, timedelta):
            expire = seconds_of(expire)
        spec = {
            "like": like,
            "kind": kind,
            "capacity": capacity,
            "error_rate": error_rate,
            "on_full": on_full,
            "layout": layout,
            "expansion": expansion,
            "expire": expire,
            "store": store,
            "digest": digest,
            "canonical": canonical,
            "canonical_drop": canonical_drop,
            "distance": distance,
            "feature_hash": feature_hash,
            "id": id,
        }
        body = dumps({member: value for member, value in spec.items() if value is not None})
        return object_of(self._exchange("PUT", path_of(name), body, again=True))

    def merge_filter(self, from_name: str, into: str) -> Dict[str, Any]:
        """Makes all items of a filter seen in another one as well, and returns the latter. It may
        take minutes, which ``timeout`` does not limit, and can be repeated. What cannot be merged
        is FilterError, ``filters_differ``, with the reason. Wants a token with the scope admin."""
        query = "/merge?" + urlencode({"from": from_name})
        return object_of(self._exchange("POST", path_of(into) + query, None, again=True, untimed=True))

    def drop_filter(self, name: str, *, confirm: str = "") -> None:
        """Drops a filter: all its items are forgotten, for everybody. ``confirm`` is its
        name again: ``drop_filter("shop", confirm="shop")``. Wants a token with the scope admin."""
        confirmed = _confirmed("drop_filter", name, confirm)
        doubted = [False]
        try:
            self._exchange("DELETE", path_of(name) + confirmed, None, again=True, doubted=doubted)
        except FilterError as err:
            if not (doubted[0] and err.error_code == "unknown_filter"):
                raise  # otherwise the attempt whose answer was lost has dropped it

    def clear_filter(self, name: str, *, confirm: str = "") -> Dict[str, Any]:
        """Forgets all items of a filter, for everybody, in one step: it keeps its id, name and
        parameters, and who asks meanwhile is answered. ``confirm`` is its name again. Made
        again where an answer was lost: what was remembered in between is forgotten too. Wants
        a token with the scope admin."""
        confirmed = _confirmed("clear_filter", name, confirm)
        return object_of(self._exchange("POST", path_of(name) + "/clear" + confirmed, None, again=True))


def _confirmed(call: str, name: str, confirm: str) -> str:
    """The query of a call for which the name has been given twice."""
    if confirm != name:
        raise SettingsError(
            f"{call}: all items of filter {name} would be forgotten\nhint: if that is meant: {call}({name!r}, confirm={name!r})",
            error_code="invalid_call",
        )
    return "?" + urlencode({"confirm": name})
