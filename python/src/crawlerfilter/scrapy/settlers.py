"""Which crawlers have SettleMiddleware: the dupefilter asks, and that imports the dupefilter."""

from __future__ import annotations

import weakref
from typing import Any

_of_crawlers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def install(crawler: Any) -> None:
    """The crawler has the middleware."""
    _of_crawlers.add(crawler)


def is_installed(crawler: Any) -> bool:
    """Whether the crawler has the middleware."""
    return crawler in _of_crawlers
