"""Which kind a filter is of, for callers who know its name only."""

from __future__ import annotations

import logging
from typing import Any, Dict, Iterable, List, Tuple, Union

from ._arguments import Expire, items_of, seconds_of, typeid_of
from .client import FilterAPIClient
from .errors import FilterError, SettingsError
from .settings import Settings

logger = logging.getLogger("crawlerfilter")

#: Added to the name of a bloom filter, the name of the timing filter that stands beside it.
TIMING = ".timing"


class Kinds:
    """What the daemons have said, so that each is asked once for a filter."""

    def __init__(self) -> None:
        # The filter that a call is for, by what the caller named.
        self._bloom: Dict[Tuple[Settings, Union[int, str]], Union[int, str]] = {}
        self._timing: Dict[Tuple[Settings, Union[int, str]], Union[int, str]] = {}

    def bloom(self, client: FilterAPIClient, typeid: Union[int, str], uri_list: Iterable[Any]) -> List[Any]:
        """Asks a filter that must not be of the kind timing."""
        key = client.settings, typeid_of(typeid)
        if key not in self._bloom:
            info = client.filter_info(typeid)
            if info["kind"] == "timing":
                raise _wrong_kind(info, "call timing_filter_api, with expire in seconds")
            self._bloom[key] = typeid
        return client.filter(typeid, uri_list)

    def timing(self, client: FilterAPIClient, typeid: Union[int, str], uri_list: Iterable[Any], expire: Expire) -> List[Any]:
        """Asks a filter of the kind timing: the one that is named, or the one beside it."""
        key = client.settings, typeid_of(typeid)
        items = list(items_of(uri_list))
        if expire is not None and not seconds_of(expire) > 0:  # nothing is made for a call that cannot be
            raise SettingsError("expire: want seconds, more than 0", error_code="expire_invalid")
        for known in (key in self._timing, False):
            if not known:
                self._timing[key] = _timing_beside(client, typeid)
            try:
                return client.filter(self._timing[key], items, expire)
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
