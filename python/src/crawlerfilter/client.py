"""The client: which items are new?"""

from __future__ import annotations

from typing import Any, Dict, Optional

from ._documents import DocumentCalls
from ._filters import FilterCalls
from ._lists import ListCalls
from ._reservations import ReservationCalls
from .errors import SettingsError
from .settings import Settings


class FilterAPIClient(ListCalls, ReservationCalls, DocumentCalls, FilterCalls):
    """A client of the daemon, or of several that share one store.

    It keeps its connections and may be used by many threads at once, and after a fork;
    make one and share it::

        client = FilterAPIClient(url="http://127.0.0.1:8000", token="...")
        new = client.filter("uri", ["https://example.com/a", "https://example.com/b"])

    A list of more than ``Settings.batch_items`` items, or ``batch_bytes`` bytes, is sent
    in several requests, one after the other. Each request is all or nothing. All items
    are looked at before the first one is sent; should the connection break off between
    two requests, the error's ``new_items`` has what was new in those that were answered.
    """

    def __init__(
        self,
        settings: Optional[Settings] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: Optional[float] = None,
        patience: Optional[float] = None,
        in_doubt: Optional[str] = None,
        batch_items: Optional[int] = None,
        batch_bytes: Optional[int] = None,
        ca_file: Optional[str] = None,
    ) -> None:
        """A Settings object, or single settings, which go before those of the environment."""
        own: Dict[str, Any] = {
            "url": url, "token": token, "timeout": timeout, "patience": patience, "in_doubt": in_doubt,
            "batch_items": batch_items, "batch_bytes": batch_bytes, "ca_file": ca_file,
        }  # fmt: skip
        if settings is not None and (not isinstance(settings, Settings) or any(value is not None for value in own.values())):
            raise SettingsError("FilterAPIClient: want a Settings object, or settings by name such as url='http://127.0.0.1:8000'")
        super().__init__(settings or Settings.from_env(**own))

    def __enter__(self) -> "FilterAPIClient":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
