"""A TCP proxy before a daemon, that breaks connections where a test wants it."""

from __future__ import annotations

import socket
import threading
from typing import Any, Callable, List

PASS = "pass"
CUT_ANSWER = "cut answer"  # the daemon has answered; the client never learns what
CUT_REQUEST = "cut request"  # hangs up in the middle of the client's request
HOLD = "hold"  # takes the request and says nothing


class Proxy:
    """``mode`` holds for requests that begin from now on."""

    def __init__(self, cleanup: Callable[..., Any], to: int) -> None:
        self.mode = PASS
        self.times = -1  # how often mode applies before it is PASS again; -1: always
        self.of = ""  # only to requests with this path; "": to all
        self.after_cut: Callable[[], Any] = lambda: None  # before the client learns of it
        self._to = to
        self._open: List[socket.socket] = []
        self._threads: List[threading.Thread] = []
        self._end = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Else a socket's buffer can grow to 32 MiB, and a request is sent whole that is cut in its middle.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._go(self._accept)
        cleanup(self._close)

    def cut(self, mode: str, times: int = -1, of: str = "") -> None:
        """Sets mode for so many requests."""
        self.of, self.times, self.mode = of, times, mode

    def hang_up(self) -> None:
        """Closes the connections whose requests are held, and those that will be."""
        self._end.set()

    def _go(self, do: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=do, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _close(self) -> None:
        self.hang_up()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for s in list(self._open):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._go(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket() as daemon:
            self._open += [client, daemon]
            try:
                daemon.connect(("127.0.0.1", self._to))
                while self._one(client, daemon):
                    pass
            except OSError:
                pass

    def _one(self, client: socket.socket, daemon: socket.socket) -> bool:
        """One request and its answer; false when the connection is at its end."""
        head = _head(client)
        if not head:
            return False
        mode = self.mode if f" {self.of}".encode() in head else PASS
        if mode != PASS and self.times > 0:
            self.times -= 1
            if self.times == 0:
                self.mode = PASS
        length = _length(head)
        if mode == CUT_REQUEST:
            _exactly(client, length // 2)
            return False
        body = _exactly(client, length)
        if mode == HOLD:
            self._end.wait()
            return False
        daemon.sendall(head + body)
        answer = _head(daemon)
        answer += _exactly(daemon, _length(answer))
        if mode == CUT_ANSWER:
            self.after_cut()
            return False
        client.sendall(answer)
        return bool(answer)


def _head(s: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte:
            return b""
        data += byte
    return data


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _exactly(s: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = s.recv(length - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return bytes(data)
