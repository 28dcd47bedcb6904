"""The settings of a client, from the environment or as an object."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Dict, Mapping, Optional

from .errors import SettingsError

#: What becomes of a filter call whose answer was lost; see Settings.in_doubt.
IN_DOUBT = ("error", "seen", "new")

#: Largest token that is read from a file: no daemon reads a longer header.
MOST_TOKEN = 4096


@dataclass(frozen=True)
class Settings:
    """How a client reaches the daemon. Each field is also an environment variable,
    ``URIFILTER_`` and its name in capitals, see :meth:`from_env`."""

    #: Address of the daemon. Several, with commas between them, are daemons that share
    #: one store (Redis): calls go to one of them until it fails, then to the next.
    url: str = "http://127.0.0.1:8000"
    #: Sent as ``Authorization: Bearer``; empty: none.
    token: str = field(default="", repr=False)
    #: Seconds that one attempt waits: to connect, to send, and for the next bytes of the answer;
    #: but for that of ``merge_filter``, as long as it takes.
    timeout: float = 30.0
    #: Seconds that a call goes on while nobody takes it: connections are refused, as in a
    #: restart, or the daemon answers that it is not ready. Each server is tried once in
    #: any case; with 0 that is all.
    patience: float = 10.0
    #: What becomes of a filter call whose answer was lost, so that its items may have
    #: been remembered although nobody was told which of them are new:
    #:
    #: * ``error``: it raises InDoubtError, and the caller decides
    #: * ``seen``: it is repeated; no item is new twice, some may be lost, as everybody is told that they are duplicates
    #: * ``new``: it is repeated, so that the items are remembered, and all of the batch
    #:   are returned as new; none is missed, some that were seen before are new again
    in_doubt: str = "error"
    #: Most items of one request. The daemon's own limit is 100,000 unless set otherwise.
    batch_items: int = 10_000
    #: Most bytes of one request's list. The daemon's own limit is 64 MiB unless set otherwise.
    batch_bytes: int = 8 << 20
    #: File of the certificates (PEM) that an https server may have; empty: the system's.
    ca_file: str = ""

    def __post_init__(self) -> None:
        for name in ("url", "token", "in_doubt", "ca_file"):
            if not isinstance(getattr(self, name), str):
                raise SettingsError(f"{name}: want a text, not {type(getattr(self, name)).__name__}")
        if not is_token(self.token):
            raise SettingsError("token: want printable ASCII without blanks (the value is not shown)")
        for name, least in (("timeout", 0.001), ("patience", 0.0)):
            value = getattr(self, name)
            if not _is_number(value) or not least <= value < 1e6:
                raise SettingsError(f"{name}: {value!r}: want seconds, at least {least:g}")
        for name in ("batch_items", "batch_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SettingsError(f"{name}: {value!r}: want a whole number, 1 or more")
        if self.in_doubt not in IN_DOUBT:
            raise SettingsError(f"in_doubt: {self.in_doubt!r}: want {', '.join(IN_DOUBT[:-1])} or {IN_DOUBT[-1]}")

    @classmethod
    def from_env(
        cls,
        environ: Optional[Mapping[str, str]] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: Optional[float] = None,
        patience: Optional[float] = None,
        in_doubt: Optional[str] = None,
        batch_items: Optional[int] = None,
        batch_bytes: Optional[int] = None,
        ca_file: Optional[str] = None,
    ) -> "Settings":
        """The settings of the environment (``URIFILTER_URL``, ``URIFILTER_TOKEN``,
        ``URIFILTER_TIMEOUT``, ...), those that are given (not None) going first. Where there is no
        token, ``URIFILTER_TOKEN_FILE`` may name the file that holds it.

        An empty variable is as good as none; a malformed one is an error.
        """
        values: Dict[str, Any] = {}
        asked = {
            "url": url, "token": token, "timeout": timeout, "patience": patience, "in_doubt": in_doubt,
            "batch_items": batch_items, "batch_bytes": batch_bytes, "ca_file": ca_file,
        }  # fmt: skip
        given = {name: value for name, value in asked.items() if value is not None}
        environ = os.environ if environ is None else environ
        for name, convert in _CONVERT.items():
            variable = "URIFILTER_" + name.upper()
            text = environ.get(variable, "").strip()
            if text and name not in given:
                try:
                    values[name] = convert(text)
                except ValueError:
                    raise SettingsError(f"{variable}: {text!r}: want a number") from None
        file = environ.get("URIFILTER_TOKEN_FILE", "").strip()
        if file and not values.get("token") and "token" not in given:
            values["token"] = read_token(file)
        return cls(**values, **given)


def read_token(path: str) -> str:
    """The token of a file that holds it alone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            token = file.read(MOST_TOKEN + 1).strip()
    except OSError as err:
        raise SettingsError(f"token file: {err}") from None
    if not token or len(token) > MOST_TOKEN or not is_token(token):
        raise SettingsError(f"token file {path}: want one token and nothing else")
    return token


def is_token(text: str) -> bool:
    """Whether a header can hold it."""
    return all("!" <= c <= "~" for c in text)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_CONVERT: Dict[str, Callable[[str], Any]] = {
    f.name: {"float": float, "int": int}.get(str(f.type), str) for f in fields(Settings)
}
