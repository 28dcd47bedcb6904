"""What callers give, checked before anything is sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, Iterable, Iterator, Sequence, Union
from urllib.parse import quote

from . import _encoding
from .errors import SettingsError
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


def sequence_of(uri_list: Iterable[Any]) -> Sequence[Any]:
    """The items as a list or a tuple."""
    return uri_list if isinstance(uri_list, (list, tuple)) else list(items_of(uri_list))


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
