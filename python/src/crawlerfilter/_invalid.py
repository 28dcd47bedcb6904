"""Items that cannot be taken, where a call wants them skipped and to be told of each."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set

from . import _encoding
from .errors import ItemError

OnInvalid = Optional[Callable[[ItemError], Any]]

_COUNT = b',"invalid":'


class Sound(NamedTuple):
    """The items of a list that can be sent."""

    items: Sequence[Any]
    at: Optional[Sequence[int]]  # their positions in the caller's list; None: all of it is here

    def place(self, index: int) -> int:
        return index if self.at is None else self.at[index]

    def spread(self, verdicts: List[bool], length: int) -> List[bool]:
        """The verdicts as those of the caller's list: False for what was skipped."""
        if self.at is None:
            return verdicts
        spread = [False] * length
        for i, verdict in zip(self.at, verdicts):
            spread[i] = verdict
        return spread


def sound(items: Sequence[Any], on_invalid: OnInvalid) -> Sound:
    """The items without those that cannot be sent, of which on_invalid is told. Without it
    nothing is left out: encoding them fails."""
    if on_invalid is None or _encoding.is_plain(items):
        return Sound(items, None)
    at: List[int] = []
    for i, item in enumerate(items):
        try:
            _encoding.look(item, i)
        except ItemError as err:
            on_invalid(err)
            continue
        at.append(i)
    if len(at) == len(items):
        return Sound(items, None)
    return Sound([items[i] for i in at], at)


def later(on_invalid: OnInvalid, items: int) -> OnInvalid:
    """The same for a part of a stream that has so many items before it."""
    if on_invalid is None:
        return None
    tell = on_invalid

    def told(err: ItemError) -> None:
        if err.index is not None:
            err.index += items
        tell(err)

    return told


def skipped(body: bytes, batch: _encoding.Batch, of: Sound) -> List[ItemError]:
    """What an answer says that the daemon skipped of a batch."""
    answer = _counting(body)
    errors = []
    for item in answer.get("invalid_items", ()):
        index = of.place(batch.start + item["index"])
        errors.append(
            ItemError(f"item {index}: {item['detail']}", error_code=item["error_code"], detail=item["detail"], index=index)
        )
    more = answer.get("invalid", 0) - len(errors)
    if more > 0:
        detail = f"{more} more items of a batch were skipped; the daemon describes the first {len(errors)}"
        errors.append(ItemError(detail, error_code="invalid_item", detail=detail))
    return errors


def places(body: bytes) -> Set[int]:
    """The positions in a batch of those that an answer describes."""
    return {item["index"] for item in _counting(body).get("invalid_items", ())}


def _counting(body: bytes) -> Dict[str, Any]:
    """An answer that counts skipped items; empty for another."""
    at = body.rfind(_COUNT) + len(_COUNT)
    if at < len(_COUNT) or body[at : at + 1] == b"0":
        return {}
    answer: Dict[str, Any] = json.loads(body)
    return answer
