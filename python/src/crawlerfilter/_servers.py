"""The daemons that a client may call, and which one it calls now."""

from __future__ import annotations

import threading
import time
from typing import List
from urllib.parse import urlsplit

from ._forks import renew_in_children
from .errors import SettingsError

#: Seconds for which a server that failed is passed over while another may answer.
REST = 1.0


class Server:
    """One address."""

    def __init__(self, text: str) -> None:
        full = text if "://" in text else "http://" + text
        try:
            parts = urlsplit(full)
            port = parts.port
        except ValueError as err:
            shown = "" if "@" in full else f"{text!r}: "  # a password is not shown
            raise SettingsError(f"url: {shown}{err}: want http://HOST:PORT, an IPv6 address in brackets") from None
        if parts.username is not None or parts.password is not None:
            raise SettingsError("url: holds a user or password: want the token in URIFILTER_TOKEN")
        if parts.scheme not in ("http", "https"):
            raise SettingsError(f"url: {text!r}: scheme {parts.scheme!r}: want http or https")
        if not parts.hostname or not full.isascii() or any(c.isspace() for c in full):
            raise SettingsError(f"url: {text!r}: want http://HOST:PORT")
        if parts.query or parts.fragment:
            raise SettingsError(f"url: {text!r}: want no query and no fragment")
        try:
            parts.hostname.encode("idna")  # as the socket will
        except UnicodeError:
            raise SettingsError(f"url: {text!r}: a part of the host's name is empty or too long") from None
        if port == 0:
            raise SettingsError(f"url: {text!r}: want a port from 1 to 65535")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = port or (443 if self.tls else 80)
        self.prefix = parts.path.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.shown = f"{parts.scheme}://{host}:{self.port}{self.prefix}"
        self.rests = 0.0


class Servers:
    """All calls go to one server until it fails: a daemon that shares its store knows
    best what it has been asked itself. Safe for threads."""

    def __init__(self, urls: str) -> None:
        self.all: List[Server] = []
        for text in urls.split(","):
            server = Server(text.strip())
            if any(server.shown == other.shown for other in self.all):
                raise SettingsError(f"url: {server.shown} appears twice")
            self.all.append(server)
        self._current = 0
        self.after_fork()
        renew_in_children(self)

    def after_fork(self) -> None:
        """Another thread may have held it."""
        self._lock = threading.Lock()

    def now(self) -> Server:
        """The server to call."""
        return self.all[self._current]

    def failed(self, server: Server) -> None:
        """Lets server rest. The next one that does not becomes the one that is called;
        when all rest, the one that has rested longest."""
        now = time.monotonic()
        with self._lock:
            server.rests = now + REST
            if self.all[self._current] is not server:
                return  # another thread has moved on already
            after = self.all[self._current + 1 :] + self.all[: self._current + 1]
            awake = [s for s in after if s.rests < now]
            chosen = awake[0] if awake else min(after, key=lambda s: s.rests)
            self._current = self.all.index(chosen)
