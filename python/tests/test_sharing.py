"""A client that threads share, and the child of a fork."""

from __future__ import annotations

import os
import signal
import threading
import unittest
from unittest import mock

from crawlerfilter import api
from crawlerfilter.api import FilterAPI

from .case import APICase


class SharingTest(APICase):
    def test_threads(self) -> None:
        """Of equal items from many threads one is new."""
        self.client.create_filter("threads", capacity=1_000_000)
        items = [f"thread item {i}" for i in range(2000)]
        new, errors = [], []

        def ask() -> None:
            try:
                for start in range(0, len(items), 100):
                    new.extend(self.client.filter("threads", items[start : start + 100]))
            except Exception as err:
                errors.append(err)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(sorted(new), sorted(items))

    def test_connections_are_renewed(self) -> None:
        """A client that calls all the time finds the other addresses of a name, too, and the daemons
        that a load balancer has got since."""
        now, made = 0.0, []
        with mock.patch("crawlerfilter._connection.monotonic", lambda: now):
            for pause in (20, 20, 20, 20, 20, 20, 3600, 0):
                self.client.filter("uri", ["renewed"])
                made.append(self.client._connections.dialled)
                now += pause
        self.assertEqual(made, [1, 1, 1, 2, 2, 2, 3, 4])

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_fork(self) -> None:
        """A child has connections of its own: its answers are not its parent's."""
        self.client.create_filter("forked")
        self.client.filter("forked", ["parent"])  # leaves a connection
        children = []
        for name in range(4):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    mine = [f"{name} {i}" for i in range(200)]
                    if [x for item in mine for x in self.client.filter("forked", [item])] == mine:
                        status = 0
                finally:
                    os._exit(status)
            children.append(child)
        mine = [f"parent {i}" for i in range(200)]
        self.assertEqual([x for item in mine for x in self.client.filter("forked", [item])], mine)
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_fork_while_threads_call(self) -> None:
        """A lock that another thread holds at that moment does not stay locked in the child."""
        FilterAPI("uri", ["parent of a fork"])
        client = api._client()
        with api._shared.lock, client._servers._lock, client._connections._lock:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    signal.alarm(20)
                    client._servers.failed(client._servers.now())
                    status = 0 if FilterAPI("uri", ["child of a fork"]) == ["child of a fork"] else 2
                finally:
                    os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
