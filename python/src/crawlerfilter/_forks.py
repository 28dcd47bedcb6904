"""What the child of a fork must not share with its parent.

A lock that another thread held at that moment stays locked in the child, where that thread
is not; and two processes that read from one connection take each other's answers.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

_owners: "weakref.WeakSet[Any]" = weakref.WeakSet()


def renew_in_children(owner: Any) -> None:
    """Has ``owner.after_fork()`` called in each child, before anything else runs there."""
    _owners.add(owner)


def _renew() -> None:
    for owner in _owners:
        owner.after_fork()


if hasattr(os, "register_at_fork"):  # else there are no forks
    os.register_at_fork(after_in_child=_renew)
