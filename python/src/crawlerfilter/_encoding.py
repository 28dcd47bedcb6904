"""Items as JSON: lists cut into batches, and answers read back.

What would merge different items without a word is refused before anything is sent: a
number that JSON lacks or a double cannot hold, half a surrogate pair, a key that is no text.
"""

from __future__ import annotations

import json
import math
from typing import Any, Container, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from .errors import ItemError

#: How deep lists and dicts may be nested. The daemon takes 10,000; Python's own encoder
#: does not come that far.
MOST_DEPTH = 200

_CONTROLS = bytes(range(0x20))
dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class Batch(NamedTuple):
    """Some items of a list, encoded."""

    start: int  # of the first item in the caller's list
    items: Sequence[Any]
    text: bytes  # a JSON list
    each: Optional[List[str]]  # the JSON of every item; None: all are plain texts


def batches(items: Sequence[Any], most_items: int, most_bytes: int) -> List[Batch]:
    """The whole list in batches. Raises ItemError for the first item that cannot be sent,
    so that nothing is sent of a list that has one."""
    cut: List[Batch] = []
    for start in range(0, len(items), most_items):
        part = items if len(items) <= most_items else items[start : start + most_items]
        _cut(cut, _encode(part, start), most_bytes)
    return cut


def _cut(into: List[Batch], batch: Batch, most_bytes: int) -> None:
    if len(batch.text) <= most_bytes or len(batch.items) == 1:
        into.append(batch)
        return
    for half in halves(batch):
        _cut(into, half, most_bytes)


def halves(batch: Batch) -> Tuple[Batch, Batch]:
    """A batch of two items or more as two."""
    middle = len(batch.items) // 2
    return (
        _encode(batch.items[:middle], batch.start),
        _encode(batch.items[middle:], batch.start + middle),
    )


def _encode(items: Sequence[Any], start: int) -> Batch:
    text = _plain(items)
    if text is not None:
        return Batch(start, items, text, None)
    if set(map(type, items)) == {str} and "" not in items:
        try:
            return Batch(start, items, dumps(items).encode(), None)
        except UnicodeEncodeError:
            pass  # the following says where
    each = [_value(item, start + i) for i, item in enumerate(items)]
    return Batch(start, items, ("[" + ",".join(each) + "]").encode(), each)


def _plain(items: Sequence[Any]) -> Optional[bytes]:
    """The list if all items are texts that need no escape, as URIs are: twice as quick as
    the encoder of module json."""
    try:
        text = ('["' + '","'.join(items) + '"]').encode()
    except (TypeError, UnicodeEncodeError):
        return None
    if text.count(b'"') == 2 * len(items) and b"\\" not in text and "" not in items:
        if len(text.translate(None, _CONTROLS)) == len(text):
            return text
    return None


def is_plain(items: Sequence[Any]) -> bool:
    """Whether all items are texts that need no escape. False says nothing."""
    return _plain(items) is not None


def look(item: Any, index: int) -> None:
    """Raises ItemError for an item that cannot be sent."""
    _value(item, index)


def _value(item: Any, index: int) -> str:
    if item is None:
        _refuse("null_item", "None", index)
    if isinstance(item, str) and item == "":
        _refuse("empty_item", "an empty text", index)
    _check(item, index, 0)
    text = dumps(item)
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse("invalid_utf8", "a text with half a surrogate pair, which is no Unicode", index)
    return text


def _check(value: Any, index: int, depth: int) -> None:
    if depth > MOST_DEPTH:
        _refuse("invalid_item", f"nested deeper than {MOST_DEPTH}", index)
    if value is None or isinstance(value, (str, bool)):
        return
    if isinstance(value, int):
        try:
            exact = int(float(value)) == value
        except OverflowError:
            exact = False
        if not exact:
            _refuse("invalid_item", "an integer that is not exact as a double; send it as a text", index)
    elif isinstance(value, float):
        if not math.isfinite(value):
            _refuse("invalid_item", "a number that JSON does not have (NaN or infinite)", index)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check(inner, index, depth + 1)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                _refuse("invalid_item", f"a key of the type {type(key).__name__}; JSON's are texts", index)
            _check(inner, index, depth + 1)
    else:
        more = "; decode it to a text" if isinstance(value, (bytes, bytearray)) else ""
        _refuse("invalid_item", f"of the type {type(value).__name__}, which JSON does not have{more}", index)


def _refuse(code: str, what: str, index: int) -> NoReturn:
    raise ItemError(f"item {index}: {what}", error_code=code, detail=what, index=index)


def pick(batch: Batch, answer: bytes) -> List[Any]:
    """The items of batch that the answer calls new: the caller's own objects.

    Raises ValueError for an answer that is not one.
    """
    if batch.each is None:
        fresh = json.loads(answer)["uri_list"]
        if not isinstance(fresh, list) or len(fresh) > len(batch.items):
            raise ValueError("uri_list")
        return fresh
    # The daemon sends new items back as the text that it got, in order.
    text, at, picked = answer.decode(), 0, []
    head = '{"uri_list":['
    if not text.startswith(head):
        raise ValueError("uri_list")
    at = len(head)
    for item, own in zip(batch.items, batch.each):
        end = at + len(own)
        if text.startswith(own, at) and text[end : end + 1] in (",", "]"):
            picked.append(item)
            at = end
            if text[end] == "]":
                break
            at = end + 1
    if text[at : at + 1] != "]":
        raise ValueError("uri_list: an item that was not sent")
    return picked


def verdicts(items: Sequence[Any], new: Sequence[Any]) -> List[bool]:
    """For every item whether it is one of new, which has some of the items, in their order:
    texts that are equal, or the very objects (1, 1.0 and True are equal in Python)."""
    found, at = [], 0
    for item in items:
        hit = at < len(new) and (item is new[at] or isinstance(item, str) and isinstance(new[at], str) and item == new[at])
        found.append(hit)
        at += hit
    return found


def distinct(batch: Batch, without: Container[int]) -> List[Any]:
    """The items of batch, of equal ones the first, without those at some positions."""
    own = batch.items if batch.each is None else batch.each
    first: Dict[Any, Any] = {}
    for at, item in enumerate(batch.items):
        if at not in without:
            first.setdefault(own[at], item)
    return list(first.values())
