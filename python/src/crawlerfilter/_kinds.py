"""Which kind a filter is of, for callers who know its name only."""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import Any, Dict, Iterable, List, Tuple, Union

from ._arguments import Expire, items_of, seconds_of, typeid_of
from .client import FilterAPIClient
from .errors import FilterError, SettingsError
from .settings import Settings

logger = logging.getLogger("crawlerfilter")

#: Added to the name of a bloom filter, the name of the timing filter that stands beside it.
TIMING = ".timing"

#: Seconds until a kind is asked for once more: a filter may be dropped, and made again as another kind.
KNOWN_FOR = 60.0


class Kinds:
    """What the daemons have said, so that each is seldom asked for a filter."""

    def __init__(self) -> None:
        # When it was asked, by what the caller named.
        self._bloom: Dict[Tuple[Settings, Union[int, str]], float] = {}
        # Also the filter that the call is for.
        self._timing: Dict[Tuple[Settings, Union[int, str]], Tuple[Union[int, str], float]] = {}

    def bloom(self, client: FilterAPIClient, typeid: Union[int, str], uri_list: Iterable[Any]) -> List[Any]:
        """Asks a filter that must not be of the kind timing."""
        key = client.settings, typeid_of(typeid)
        now = monotonic()
        if now - self._bloom.get(key, -inf) >= KNOWN_FOR:
            info = client.filter_info(typeid)
            if info["kind"] == "timing":
                raise _wrong_kind(info, "call timing_filter_api, with expire in seconds")
            self._bloom[key] = now
        return client.filter(typeid, uri_list)

    def timing(self, client: FilterAPIClient, typeid: Union[int, str], uri_list: Iterable[Any], expire: Expire) -> List[Any]:
        """Asks a filter of the kind timing: the one that is named, or the one beside it."""
        key = client.settings, typeid_of(typeid)
        items = list(items_of(uri_list))
        if expire is not None and not seconds_of(expire) > 0:  # nothing is made for a call that cannot be
            raise SettingsError("expire: want seconds, more than 0", error_code="expire_invalid")
        now = monotonic()
        beside, asked = self._timing.get(key, (typeid, -inf))
        for known in (now - asked < KNOWN_FOR, False):
            if not known:
                beside = _timing_beside(client, typeid)
                self._timing[key] = beside, now
            try:
                return client.filter(beside, items, expire)
            except FilterError as err:
                # It was dropped, or made again as another kind, since it was asked for.
                if not known or err.error_code not in ("unknown_filter", "expire_not_supported"):
                    raise
        raise AssertionError("unreachable")


def _timing_beside(client: FilterAPIClient, typeid: Union[int, str]) -> Union[int, str]:
    info = client.filter_info(typeid)
    if info["kind"] == "timing":
        return typeid
    name = info["name"] + TIMING
    try:
        beside = client.filter_info(name)
    except FilterError as err:
        if err.error_code != "unknown_filter":
            raise
        beside = _make(client, info, name)
    if beside["kind"] != "timing":
        raise _wrong_kind(beside, f"drop it, or call timing_filter_api with a filter of the kind timing instead of {info['name']}")
    logger.info("urifilter: filter %s, of the kind timing, stands for %s, which is of the kind %s", name, info["name"], info["kind"])
    return name


def _make(client: FilterAPIClient, info: Dict[str, Any], name: str) -> Dict[str, Any]:
    try:
        return client.create_filter(name, kind="timing")
    except FilterError as err:
        if err.error_code == "forbidden":
            err.args = (
                f"{err.args[0]}: filter {info['name']} is of the kind {info['kind']}, and {name}, which stands for it, does not exist yet"
                f"\nhint: have it made: urifilter filters create {name} --kind timing",
            )
        raise


def _wrong_kind(info: Dict[str, Any], hint: str) -> FilterError:
    return FilterError(f"filter {info['name']} is of the kind {info['kind']}\nhint: {hint}", error_code="wrong_kind")
