"""One attempt at one server, over connections that are kept."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from email.message import Message
from time import monotonic
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

from ._forks import renew_in_children
from ._servers import Server
from .errors import SettingsError

#: Connections kept open to a server while nobody uses them.
MOST_IDLE = 32

#: Seconds for which a connection takes calls. Then the address is looked up once more, and a load
#: balancer chooses once more. NATs forget idle connections later, and daemons close them later.
OLDEST = 60.0

#: What OpenSSL says, by its version, of an answer in plain text.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: Message
    body: bytes


#: A connection, and when it was made.
_Dated = Tuple[http.client.HTTPConnection, float]


class NoAnswer(Exception):
    """An attempt without a whole answer. ``sent`` says that the whole request had left,
    so that the daemon may have carried it out."""

    def __init__(self, cause: BaseException, code: str, sent: bool) -> None:
        super().__init__(str(cause) or type(cause).__name__)
        self.code = code
        self.sent = sent


class Connections:
    """Safe for threads, and for a process that is forked: its child opens its own."""

    def __init__(self, timeout: float, ca_file: str) -> None:
        self._timeout = timeout
        self._ca_file = ca_file
        self._tls: Optional[ssl.SSLContext] = None
        self._lock = threading.Lock()
        self._idle: Dict[Server, List[_Dated]] = {}
        self.dialled = 0  # connections made
        renew_in_children(self)

    def attempt(
        self, server: Server, method: str, path: str, headers: Mapping[str, str], body: Optional[bytes], untimed: bool = False
    ) -> Answer:
        """Sends one request and reads its answer, or raises NoAnswer. With ``untimed`` the answer may
        take as long as it likes."""
        connection, made = self._take(server) or self._dial(server)
        kept = False
        try:
            answer = self._exchange(connection, method, server.prefix + path, headers, body, untimed)
            kept = connection.sock is not None  # http.client closes what cannot be used again
            return answer
        finally:
            if kept:
                self._keep(server, (connection, made))
            else:
                connection.close()

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        untimed: bool,
    ) -> Answer:
        broken: Optional[OSError] = None
        try:
            if untimed:
                _keep_alive(connection.sock)
            connection.request(method, path, body, dict(headers))
            if untimed:
                connection.sock.settimeout(None)  # until the connection is taken again
        except OSError as err:
            # The daemon may have answered before it had read all, and hung up.
            broken = err
        except http.client.HTTPException as err:
            raise NoAnswer(err, "connection_lost", sent=False) from err
        try:
            response = connection.getresponse()
            answer = Answer(response.status, response.headers, response.read())
        except (OSError, http.client.HTTPException) as err:
            cause: BaseException = broken or err
            code = "timeout" if isinstance(cause, socket.timeout) else "connection_lost"
            raise NoAnswer(cause, code, sent=broken is None) from cause
        if broken is not None:
            connection.close()
            if answer.status < 400:
                raise NoAnswer(broken, "connection_lost", sent=False) from broken
        return answer

    def after_fork(self) -> None:
        """The parent goes on using its connections."""
        self._lock = threading.Lock()
        self.close()

    def _dial(self, server: Server) -> _Dated:
        if server.tls:
            if self._tls is None:
                self._tls = _tls(self._ca_file)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                server.host, server.port, timeout=self._timeout, context=self._tls
            )
        else:
            connection = http.client.HTTPConnection(server.host, server.port, timeout=self._timeout)
        self.dialled += 1
        try:
            connection.connect()
        except OSError as err:
            connection.close()
            cause: BaseException = err
            if isinstance(err, ssl.SSLError) and err.reason in _NO_TLS:
                cause = ConnectionError(f"the server speaks no TLS: want http:// in its URL ({err.reason})")
            raise NoAnswer(cause, "unreachable", sent=False) from err
        return connection, monotonic()

    def _take(self, server: Server) -> Optional[_Dated]:
        while True:
            with self._lock:
                idle = self._idle.get(server)
                if not idle:
                    return None
                connection, made = idle.pop()
            if monotonic() - made < OLDEST and self._is_open(connection):
                return connection, made
            connection.close()

    def _is_open(self, connection: http.client.HTTPConnection) -> bool:
        """Whether nobody has closed it since. What is sent to one that the daemon has
        closed, as when it was restarted, would be in doubt without need."""
        sock = connection.sock
        try:
            sock.settimeout(0)
            # Not SSLSocket.recv, which takes no flags.
            socket.socket.recv(sock, 1, socket.MSG_PEEK)
        except BlockingIOError:
            sock.settimeout(self._timeout)
            return True
        except OSError:
            pass
        return False

    def _keep(self, server: Server, dated: _Dated) -> None:
        with self._lock:
            idle = self._idle.setdefault(server, [])
            if len(idle) < MOST_IDLE:
                idle.append(dated)
                return
        dated[0].close()

    def close(self) -> None:
        """Closes what is idle."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connections in idle.values():
            for connection, _ in connections:
                connection.close()


def _keep_alive(sock: socket.socket) -> None:
    """Makes a server that is gone without a word known within minutes, where the system's own
    setting is hours."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):  # not every system has all
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), 15)


def _tls(ca_file: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as err:  # ssl.SSLError is one
        raise SettingsError(f"ca_file: {ca_file}: {err}") from err
