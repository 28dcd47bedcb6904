"""What callers give, checked before anything is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, Iterable, Iterator, List, Tuple, Union
from urllib.parse import quote

from . import _encoding
from .errors import ItemError, SettingsError
from .settings import is_token

#: Seconds, or a timedelta.
Expire = Union[int, float, timedelta, None]


def items_of(uri_list: Iterable[Any]) -> Iterator[Any]:
    """The items; what is one item itself, or none, is refused."""
    if not isinstance(uri_list, (str, bytes, bytearray, memoryview, dict)):
        try:
            return iter(uri_list)
        except TypeError:
            pass
    raise SettingsError(f"uri_list: want a list of items, not one {type(uri_list).__name__}", error_code="invalid_call")


def documents_of(documents: Iterable[Any]) -> List[Dict[str, str]]:
    """Documents as they are sent; what is none, or cannot be sent, is refused with its place."""
    if isinstance(documents, (str, bytes, dict)) or not hasattr(documents, "__iter__"):
        raise SettingsError(
            f"documents: want a list of pairs of id and text, not one {type(documents).__name__}", error_code="invalid_call"
        )
    listed: List[Dict[str, str]] = []
    for index, document in enumerate(documents):
        pair = document
        if isinstance(document, dict):
            pair = (document.get("id"), document.get("text")) if set(document) == {"id", "text"} else ()
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise ItemError(
                f'documents[{index}]: want a pair of texts, id and text, or {{"id": ..., "text": ...}}', error_code="invalid_call", index=index
            )
        for part in pair:
            if not _encodes(part):
                raise ItemError(f"documents[{index}]: not valid Unicode: half a surrogate pair", error_code="invalid_utf8", index=index)
        listed.append({"id": pair[0], "text": pair[1]})
    return listed


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def portions(documents: List[Dict[str, str]], most: int, most_bytes: int) -> List[Tuple[int, List[Dict[str, str]]]]:
    """Documents in parts for one request each, with the place of the first."""
    parts: List[Tuple[int, List[Dict[str, str]]]] = []
    size = 0
    for index, document in enumerate(documents):
        own = len(document["id"]) + len(document["text"]) + 24
        if not parts or len(parts[-1][1]) >= most or size + own > most_bytes:
            parts.append((index, []))
            size = 0
        parts[-1][1].append(document)
        size += own
    return parts


def dumps(value: Dict[str, Any]) -> bytes:
    try:
        return _encoding.dumps(value).encode()
    except (TypeError, ValueError) as err:
        raise SettingsError(f"arguments: {err}", error_code="invalid_call") from None


def typeid_of(filter_typeid: Union[int, str]) -> Union[int, str]:
    """An id, or a name; an id may be given as a text."""
    if isinstance(filter_typeid, bool) or not isinstance(filter_typeid, (int, str)) or filter_typeid == "":
        raise SettingsError(
            "filter_typeid: want the id or the name of a filter, such as 1 or 'uri'", error_code="invalid_call"
        )
    if isinstance(filter_typeid, str) and filter_typeid.isascii() and filter_typeid.isdigit() and len(filter_typeid) < 19:
        return int(filter_typeid)
    return filter_typeid


def path_of(filter_typeid: Union[int, str]) -> str:
    return "/api/v1/filters/" + quote(str(typeid_of(filter_typeid)), safe="", errors="replace")


def seconds_of(expire: Union[int, float, timedelta], member: str = "expire") -> Union[int, float]:
    seconds = expire.total_seconds() if isinstance(expire, timedelta) else expire
    # Above the bound, which the daemon would refuse too, not every integer is a float.
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not abs(seconds) < 1e300:
        raise SettingsError(f"{member}: want seconds, as a number or a timedelta", error_code=f"{member}_invalid")
    return int(seconds) if seconds == int(seconds) else seconds


def header_safe(token: str) -> str:
    if not isinstance(token, str) or not is_token(token):
        raise SettingsError("access_token: want printable ASCII without blanks (the value is not shown)")
    return token
