"""Which kind a filter is of, for callers who know its name only."""

from __future__ import annotations

from typing import Set, Tuple, Union

from ._arguments import typeid_of
from .client import FilterAPIClient
from .errors import FilterError
from .settings import Settings


class Kinds:
    """What the daemons have said, so that each is asked once for a filter."""

    def __init__(self) -> None:
        self._bloom: Set[Tuple[Settings, Union[int, str]]] = set()

    def want_bloom(self, client: FilterAPIClient, typeid: Union[int, str]) -> None:
        """Refuses a filter of the kind timing."""
        key = client.settings, typeid_of(typeid)
        if key in self._bloom:
            return
        info = client.filter_info(typeid)
        if info["kind"] != "timing":
            self._bloom.add(key)
        else:
            raise FilterError(
                f"filter {info['name']} is of the kind timing\nhint: call timing_filter_api, with expire in seconds",
                error_code="wrong_kind",
            )
