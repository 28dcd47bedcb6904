"""What tests with a daemon begin with."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from crawlerfilter import api
from crawlerfilter.api import FilterAPIClient

from .daemon import Daemon, clean_environment


class DaemonCase(unittest.TestCase):
    """Tests that share a daemon."""

    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup)


class APICase(DaemonCase):
    """Tests with the client, and the functions, of an environment that names the daemon."""

    client: FilterAPIClient

    def setUp(self) -> None:
        patch = mock.patch.dict(os.environ, clean_environment(URIFILTER_URL=self.daemon.url), clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(lambda: [client.close() for client in api._shared.clients.values()])
        self.client = FilterAPIClient()
        self.addCleanup(self.client.close)
