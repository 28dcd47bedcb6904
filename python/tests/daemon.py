"""A daemon of a test's own."""

from __future__ import annotations

import http.client
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from typing import Any, Callable, Dict, List, Optional

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary() -> str:
    """The program; without it nothing can be tested, which is no reason to pass."""
    named = os.environ.get("URIFILTER_TEST_BINARY")
    path = pathlib.Path(named) if named else ROOT / "dist" / ("urifilter.exe" if os.name == "nt" else "urifilter")
    if not path.is_file():
        raise AssertionError(f"the daemon's program is missing: {path}\nhint: go tool mage build, or URIFILTER_TEST_BINARY=FILE")
    return str(path)


_claims: List[socket.socket] = []


def free_port() -> int:
    """A port outside the range from which the system gives ports to clients. It is this process's until
    its end: the UDP port of the same number shows it to other processes, as that of Go's package testserver does."""
    for _ in range(1000):
        address = ("127.0.0.1", random.randint(10_000, 19_999))
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            claim.bind(address)
            with socket.socket() as s:
                s.bind(address)
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return address[1]
    raise AssertionError("no free port between 10000 and 20000")


def clean_environment(**more: str) -> Dict[str, str]:
    """This process's without settings of ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("URIFILTER_") or k.startswith("URIFILTER_TEST_")}
    return {**kept, **more}


class Daemon:
    """Starts at once; ``cleanup`` is addCleanup of a test, or addClassCleanup."""

    def __init__(self, cleanup: Callable[..., Any], wait: bool = True, **env: str) -> None:
        # In memory, if there is such a folder with room, as there is not in every container: it survives
        # what these tests do, and a sync takes no time.
        memory = "/dev/shm"
        if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 1 << 30:
            memory = tempfile.gettempdir()
        folder = tempfile.TemporaryDirectory(prefix="urifilter-python-", dir=memory)
        cleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._args: List[str] = []
        self._env = {"URIFILTER_URI_NUM_SCALE": "200000", **env}
        self._process: Optional[subprocess.Popen[bytes]] = None
        # While one thread waits for the process to end, poll tells another one that it runs.
        self._lock = threading.RLock()
        cleanup(self.kill)
        if wait:
            self.start()

    def start(self, wait: bool = True, args: Optional[List[str]] = None) -> None:
        """Starts it (again), on the same address and data."""
        with self._lock, open(self.folder / "log", "ab") as log:
            assert not self.running(), "the daemon runs already, and nobody would end that one"
            self._args = self._args if args is None else args
            self._process = subprocess.Popen(
                [binary(), "serve", "--data-dir", str(self.folder / "data"), "--listen", f"127.0.0.1:{self.port}", *self._args],
                stderr=log,
                env=clean_environment(**self._env),
            )
        if wait:
            self.await_ready()

    def running(self) -> bool:
        """Whether it was started and has not ended."""
        with self._lock:
            return self._process is not None and self._process.poll() is None

    def await_ready(self) -> None:
        """Returns when it serves."""
        until = time.monotonic() + 300
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                try:
                    connection.request("GET", "/readyz")
                    if connection.getresponse().status == 200:
                        return
                finally:
                    connection.close()
            except OSError:
                pass
            time.sleep(0.02)
        raise AssertionError("the daemon did not become ready:\n" + self.log())

    def log(self) -> str:
        """What it has logged."""
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def kill(self) -> None:
        """Ends it without a warning."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None

    def requests(self) -> int:
        """How many filter calls it has answered."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        lines = [line for line in text.splitlines() if line.startswith('urifilter_requests_total{') and '"/api/v1/filter"' in line]
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines)

    def post(self, path: str, body: bytes, **headers: Any) -> "tuple[int, bytes]":
        """A call that no client is in the way of."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
