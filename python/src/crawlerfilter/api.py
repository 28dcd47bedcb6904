"""The calls, as plain functions over one shared client.

    from crawlerfilter.api import FilterAPI
    new = FilterAPI(1, ["https://example.com/a", "https://example.com/b"])

The server, the token and the rest come from the environment (see
:class:`crawlerfilter.settings.Settings`). All may be called from many threads.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterable, List, Union

from ._arguments import Expire
from ._forks import renew_in_children
from ._kinds import Kinds
from .client import FilterAPIClient
from .errors import FilterError
from .settings import Settings
from .textfile import read_urilist_from_txt

__all__ = [
    "FilterAPI",
    "FilterAPIClient",
    "FilterError",
    "bloom_filter_api",
    "read_urilist_from_txt",
    "timing_filter_api",
]

def FilterAPI(filter_typeid: Union[int, str], uri_list: Iterable[Any], access_token: str = "") -> List[Any]:
    """The unique list: the items of ``uri_list`` that filter ``filter_typeid`` has not
    seen, each once, in their order. They are remembered.

    ``access_token`` goes before ``URIFILTER_TOKEN``.
    """
    return _client().filter(filter_typeid, uri_list, access_token=access_token)


def bloom_filter_api(type: Union[int, str], uri_list: Iterable[Any]) -> List[Any]:
    """The items that filter ``type``, of the kind bloom, has never seen.

    A filter of the kind timing is FilterError, ``wrong_kind``.
    """
    return _kinds.bloom(_client(), type, uri_list)


def timing_filter_api(type: Union[int, str], uri_list: Iterable[Any], expire: Expire) -> List[Any]:
    """The items that filter ``type``, of the kind timing, has not found new in the last
    ``expire`` seconds (or timedelta). A hit does not renew the time of an item.

    Where that filter is of the kind bloom, as the five that every daemon has are, the call
    is for the timing filter beside it, named ``TYPE.timing``: it is made at the first call,
    which wants a token with the scope admin. The two share nothing.
    """
    return _kinds.timing(_client(), type, uri_list, expire)


class _Shared:
    """The clients of these functions, one for each environment that there has been."""

    def __init__(self) -> None:
        self.clients: Dict[Settings, FilterAPIClient] = {}
        self.after_fork()
        renew_in_children(self)

    def after_fork(self) -> None:
        """Another thread may have held it."""
        self.lock = threading.Lock()


_shared = _Shared()
_kinds = Kinds()


def _client() -> FilterAPIClient:
    settings = Settings.from_env()
    with _shared.lock:
        client = _shared.clients.get(settings)
        if client is None:
            client = _shared.clients[settings] = FilterAPIClient(settings)
        return client
