"""What a client says and does when something is wrong, over real connections."""

from __future__ import annotations

import os
import pathlib
import pickle
import threading
import time
import unittest
from typing import Any, List, Tuple, Type
from unittest import mock

from crawlerfilter import FilterAPIClient, FilterError, InDoubtError, Settings, SettingsError, UnavailableError, api

from .daemon import Daemon, free_port
from .proxy import CUT_ANSWER, CUT_REQUEST, HOLD, Proxy

TOKENS = """
- {name: reader, token: a-token-that-may-read, scopes: [read]}
- {name: crawler, token: a-token-that-may-filter, scopes: [filter]}
"""


class FailureTest(unittest.TestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup)

    def client(self, url: str, **settings: Any) -> FilterAPIClient:
        """With little patience, so that the tests are quick."""
        client = FilterAPIClient(Settings(url=url, **{"patience": 0.0, "timeout": 20.0, **settings}))
        self.addCleanup(client.close)
        return client

    def raises(self, kind: Type[FilterError], code: str, status: int, do: Any, *args: Any) -> FilterError:
        with self.assertRaises(kind) as caught:
            do(*args)
        self.assertEqual((type(caught.exception), caught.exception.error_code, caught.exception.status), (kind, code, status), caught.exception)
        return caught.exception

    def proxied(self, **settings: Any) -> Tuple[Proxy, FilterAPIClient]:
        proxy = Proxy(self.addCleanup, self.daemon.port)
        return proxy, self.client(proxy.url, **settings)

    def test_unknown_type(self) -> None:
        err = self.raises(FilterError, "unknown_filter", 404, self.client(self.daemon.url).filter, "nope", ["a"])
        self.assertIn("uri_parse", err.known)
        self.assertIn("\nhint: there are ", str(err))

    def test_expire_of_a_bloom_filter(self) -> None:
        client = self.client(self.daemon.url)
        self.raises(FilterError, "expire_not_supported", 422, client.filter, "uri", ["not remembered"], 60)
        self.assertEqual(client.filter("uri", ["not remembered"]), ["not remembered"])

    def test_tokens(self) -> None:
        daemon = Daemon(self.addCleanup, wait=False)
        (daemon.folder / "tokens.yaml").write_text(TOKENS, encoding="utf-8")
        (daemon.folder / "tokens.yaml").chmod(0o600)
        daemon.start(args=["--tokens-file", str(daemon.folder / "tokens.yaml")])
        wrong = self.client(daemon.url, token="a-token-that-is-wrong")
        err = self.raises(FilterError, "unauthorized", 401, wrong.filter, "uri", ["a"])
        self.assertNotIn("a-token-that-is-wrong", str(err) + repr(wrong.settings))
        self.assertEqual(wrong.filter("uri", ["a"], access_token="a-token-that-may-filter"), ["a"])
        with mock.patch.dict(os.environ, {"URIFILTER_URL": daemon.url}):
            self.addCleanup(lambda: [client.close() for client in api._shared.clients.values()])
            self.assertEqual(api.FilterAPI("uri", ["a", "first"], access_token="a-token-that-may-filter"), ["first"])
            self.raises(FilterError, "unauthorized", 401, api.FilterAPI, "uri", ["a"], "a-token-that-is-wrong")
        self.raises(FilterError, "unauthorized", 401, self.client(daemon.url).check, "uri", ["a"])
        reader = self.client(daemon.url, token="a-token-that-may-read")
        self.assertEqual(reader.check("uri", ["a", "b"]), [False, True])
        self.raises(FilterError, "forbidden", 403, reader.filter, "uri", ["b"])
        self.raises(FilterError, "forbidden", 403, self.client(daemon.url, token="a-token-that-may-filter").create_filter, "made")

    def test_nobody_there(self) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        err = self.raises(UnavailableError, "unreachable", 0, self.client(url).filter, "uri", ["a"])
        self.assertIn(url, str(err))
        self.assertIn("hint: is the daemon running", str(err))
        self.raises(UnavailableError, "unreachable", 0, self.client("http://name.invalid:80").filter, "uri", ["a"])

    def test_patience_has_a_bound(self) -> None:
        client = self.client(f"http://127.0.0.1:{free_port()}", patience=0.5)
        began = time.monotonic()
        self.raises(UnavailableError, "unreachable", 0, client.filter, "uri", ["a"])
        self.assertGreater(time.monotonic() - began, 0.02)  # more than one attempt

    def test_killed_and_restarted(self) -> None:
        """A call waits for the daemon that comes back; what it has answered stays."""
        daemon = Daemon(self.addCleanup)
        client = self.client(daemon.url, patience=60.0)
        self.assertEqual(client.filter("uri", ["before", "again"]), ["before", "again"])
        daemon.kill()
        waits: List[float] = []

        def restart(_err: FilterError, seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 2:
                daemon.start(wait=False)

        client.on_wait = restart
        self.assertEqual(client.filter("uri", ["before", "after"]), ["after"])
        self.assertGreaterEqual(len(waits), 2)
        client.on_wait = None
        # A connection that was kept is no reason for doubt when it is closed meanwhile.
        daemon.kill()
        daemon.start()
        self.assertEqual(self.client(daemon.url).settings.in_doubt, "error")
        self.assertEqual(client.filter("uri", ["again", "last"]), ["last"])

    def test_killed_under_load(self) -> None:
        """Every item is new once, or its batch is in doubt; none is lost without a word."""
        daemon = Daemon(self.addCleanup)
        client = self.client(daemon.url, patience=60.0)
        kills = threading.Event()

        def kill() -> None:
            for kill_ in range(3):
                while len(ended) < 20 * (kill_ + 1) and not over.is_set():
                    time.sleep(0.001)
                daemon.kill()
                daemon.start(wait=False)
            daemon.await_ready()
            kills.set()

        ended: List[int] = []
        over = threading.Event()
        killer = threading.Thread(target=kill)
        killer.start()
        self.addCleanup(killer.join)
        self.addCleanup(over.set)
        new, doubtful, round_ = [], [], 0
        while not kills.is_set():
            items = [f"load {round_} {i}" for i in range(50)]
            try:
                new += client.filter("uri", items)
            except InDoubtError:
                doubtful += items
            round_ += 1
            ended.append(round_)
        self.assertEqual(len(new) + len(doubtful), 50 * round_)
        self.assertEqual(client.check("uri", new), [False] * len(new))

    def test_answer_lost(self) -> None:
        items = ["lost 1", "lost 2", "lost 1", 7, 7]
        self.daemon_filter("lost", ["lost 2"])
        proxy, client = self.proxied()
        proxy.cut(CUT_ANSWER)
        err = self.raises(InDoubtError, "connection_lost", 0, client.filter, "lost", items)
        self.assertTrue(err.in_doubt)
        self.assertIn("items may have been remembered", str(err))
        self.assertEqual(self.client(self.daemon.url).check("lost", items), [False] * 5)

    def test_answer_lost_then_seen(self) -> None:
        self.daemon_filter("seen", ["b"])
        proxy, client = self.proxied(in_doubt="seen", patience=60.0)
        proxy.cut(CUT_ANSWER, times=2)
        self.assertEqual(client.filter("seen", ["a", "b", "c"]), [])

    def test_answer_lost_then_new(self) -> None:
        self.daemon_filter("new", ["b"])
        proxy, client = self.proxied(in_doubt="new", patience=60.0)
        proxy.cut(CUT_ANSWER, times=1)
        self.assertEqual(client.filter("new", ["a", "b", "a", 1, 1, (2,)]), ["a", "b", 1, (2,)])
        self.assertEqual(client.filter("new", ["a", "b", 1, (2,), "z"]), ["z"])

    def test_answer_lost_then_new_without_what_is_skipped(self) -> None:
        self.daemon_filter("skipped", [])
        proxy, client = self.proxied(in_doubt="new", patience=60.0)
        proxy.cut(CUT_ANSWER, times=1)
        skipped: List[FilterError] = []
        verdicts = client.add_many("skipped", ["a", "x" * 100_000, "b", 1], on_invalid=skipped.append)
        self.assertEqual((verdicts, [err.index for err in skipped]), ([True, False, True, True], [1]))

    def test_answer_lost_until_the_end(self) -> None:
        """The doubt of the first attempt stays, though the last one is certain."""
        daemon = Daemon(self.addCleanup)
        proxy = Proxy(self.addCleanup, daemon.port)
        client = self.client(proxy.url + f",http://127.0.0.1:{free_port()}", in_doubt="new")
        proxy.cut(CUT_ANSWER)
        self.raises(InDoubtError, "connection_lost", 0, client.filter, "uri", ["a"])

    def test_answer_lost_then_refused(self) -> None:
        """Nor does an answer to the repeated call end the doubt."""
        self.daemon_filter("refused", [])
        proxy, client = self.proxied(in_doubt="seen", patience=60.0)
        admin = self.client(self.daemon.url)
        proxy.cut(CUT_ANSWER, times=1)
        proxy.after_cut = lambda: admin.drop_filter("refused", confirm="refused")
        err = self.raises(InDoubtError, "connection_lost", 0, client.filter, "refused", ["a"])
        self.assertEqual(getattr(err.__cause__, "error_code", ""), "unknown_filter")

    def test_tls(self) -> None:
        pem = str(pathlib.Path(__file__).parent / "testdata" / "tls.pem")
        daemon = Daemon(self.addCleanup, wait=False, URIFILTER_TLS_CERT_FILE=pem, URIFILTER_TLS_KEY_FILE=pem)
        daemon.start(wait=False)
        url = f"https://127.0.0.1:{daemon.port}"
        client = self.client(url, ca_file=pem, patience=60.0)
        client.ready()
        before = client._connections.dialled
        for i in range(5):
            self.assertEqual(client.filter("uri", [f"tls {i}"]), [f"tls {i}"])
        self.assertEqual(client._connections.dialled, before)  # it is kept
        self.assertIn("CERTIFICATE_VERIFY_FAILED", str(self.raises(UnavailableError, "unreachable", 0, self.client(url).filter, "uri", ["a"])))
        plain = self.raises(FilterError, "invalid_answer", 400, self.client(daemon.url).filter, "uri", ["a"])
        self.assertIn("HTTPS", plain.detail)
        with self.assertRaises(SettingsError):
            self.client(url, ca_file="/nowhere.pem").filter("uri", ["a"])
        tls = self.raises(UnavailableError, "unreachable", 0, self.client(self.daemon.url.replace("http:", "https:")).filter, "uri", ["a"])
        self.assertIn("want http://", tls.detail)

    def test_address_with_a_path(self) -> None:
        legacy = self.client(self.daemon.url + "/cr-clawr/uri_filter/api/uri_filter")
        err = self.raises(FilterError, "unknown_path", 404, legacy.filter, "uri", ["a"])
        self.assertIn("hint: URIFILTER_URL is the daemon's address alone", str(err))

    def test_request_cut(self) -> None:
        """A request that did not arrive whole has done nothing, and is sent again."""
        items = ["%01000d" % i for i in range(16_000)]  # half of it is more than the sockets hold
        proxy, client = self.proxied(timeout=300.0, patience=300.0, batch_items=100_000, batch_bytes=64 << 20)
        proxy.cut(CUT_REQUEST, times=1)
        self.daemon_filter("cut", [])
        self.assertEqual(client.filter("cut", items), items)

    def test_slow_daemon(self) -> None:
        proxy, client = self.proxied(timeout=0.3)
        proxy.cut(HOLD, times=1)
        self.raises(InDoubtError, "timeout", 0, client.filter, "uri", ["slow"])
        while proxy.mode == HOLD:  # the proxy may be slower than the client's timeout
            time.sleep(0.01)
        client._connections._timeout = 60.0
        self.assertEqual(client.filter("uri", ["slow"]), ["slow"])  # a connection of its own
        proxy.cut(HOLD, times=1)
        self.assertEqual(self.client(proxy.url, timeout=0.3, patience=60.0).check("uri", ["slow"]), [False])

    def test_merge_takes_its_time(self) -> None:
        """The timeout is for the other calls, also over the same connection."""
        admin = self.client(self.daemon.url)
        admin.create_filter("from")
        admin.create_filter("into", like="from")
        proxy, client = self.proxied()
        client.filter("from", ["a"])
        client._connections._timeout = 0.3  # not before: the daemon may be slow
        proxy.cut(CUT_ANSWER, times=1, of="/api/v1/filters/into/merge")
        asked = threading.Event()

        def slowly() -> None:
            asked.set()
            time.sleep(1)

        proxy.after_cut = slowly
        err = self.raises(InDoubtError, "connection_lost", 0, client.merge_filter, "from", "into")
        self.assertTrue(asked.is_set(), err)
        self.assertEqual(client.merge_filter("from", "into")["name"], "into")
        proxy.cut(HOLD, times=1)
        self.raises(InDoubtError, "timeout", 0, client.filter, "into", ["b"])

    def test_calls_that_only_look_leave_no_doubt(self) -> None:
        proxy, client = self.proxied(timeout=0.3)
        proxy.cut(HOLD)
        for do, arguments in ((client.check, ("uri", ["a"])), (client.ready, ()), (client.filter_info, ("uri",))):
            self.raises(UnavailableError, "timeout", 0, do, *arguments)
        self.raises(UnavailableError, "timeout", 0, lambda: client.near("uri", [("1", "some text")], remember=False))

    def test_calls_that_change_leave_doubt(self) -> None:
        proxy, client = self.proxied(timeout=0.3)
        proxy.cut(HOLD)
        for do, argument in ((client.filter, "a"), (client.forget, "a"), (client.near, ("1", "some text"))):
            self.raises(InDoubtError, "timeout", 0, do, "uri", [argument])
        reservation = "5" * 32
        for change in (
            lambda: client.reserve("uri", ["a"], 60),
            lambda: client.commit("uri", reservation),
            lambda: client.release("uri", reservation, ["a"]),
            lambda: client.create_filter("doubtful"),
            lambda: client.clear_filter("doubtful", confirm="doubtful"),
            lambda: client.drop_filter("doubtful", confirm="doubtful"),
        ):
            self.raises(InDoubtError, "timeout", 0, change)

    def test_commit_lost_then_refused(self) -> None:
        """The answer to a repeated commit does not say what became of the first."""
        self.client(self.daemon.url).create_filter("committed", kind="exact")
        proxy, client = self.proxied(patience=60.0)
        admin = self.client(self.daemon.url)
        reservation = admin.reserve("committed", ["a"], 60)["reservation"]
        proxy.cut(CUT_ANSWER, times=1)
        proxy.after_cut = lambda: admin.drop_filter("committed", confirm="committed")
        err = self.raises(InDoubtError, "connection_lost", 0, client.commit, "committed", reservation)
        self.assertEqual(getattr(err.__cause__, "error_code", ""), "unknown_filter")

    def test_part_of_a_list(self) -> None:
        """What was new in the batches before the one that failed is not lost."""
        self.daemon_filter("part", [])
        proxy, client = self.proxied(batch_items=10)
        items = [f"part {i}" for i in range(35)]
        original = client._connections.attempt
        sent = []

        def attempt(*args: Any) -> Any:
            sent.append(args)
            if len(sent) == 3:
                proxy.cut(CUT_ANSWER, times=1)
            return original(*args)

        client._connections.attempt = attempt  # type: ignore[method-assign]
        err = self.raises(InDoubtError, "connection_lost", 0, client.filter, "part", items)
        self.assertEqual((err.judged, err.new_items), (20, items[:20]))
        self.assertEqual(err.new_items + items[20:30] + client.filter("part", items[30:]), items)

    def test_failover(self) -> None:
        dead = f"http://127.0.0.1:{free_port()}"
        client = self.client(f"{dead},{self.daemon.url}")
        for i in range(3):
            self.assertEqual(client.filter("uri", [f"failover {i}"]), [f"failover {i}"])
        self.assertEqual(client._servers.now().shown, self.daemon.url)

    def test_restart_of_one_of_two(self) -> None:
        one, two = Daemon(self.addCleanup), Daemon(self.addCleanup)
        client = self.client(f"{one.url},{two.url}")
        self.assertEqual(client.filter("uri", ["a"]), ["a"])
        one.kill()
        self.assertEqual(client.filter("uri", ["b"]), ["b"])
        one.start()
        self.assertEqual(client.filter("uri", ["b"]), [])  # stays where it is
        two.kill()
        self.assertEqual(client.filter("uri", ["a", "c"]), ["c"])

    def test_error_survives_pickling(self) -> None:
        err = self.raises(FilterError, "unknown_filter", 404, self.client(self.daemon.url).filter, "nope", ["a"])
        err.new_items = ["x"]
        again = pickle.loads(pickle.dumps(err))
        self.assertEqual((type(again), str(again), again.known, again.new_items), (type(err), str(err), err.known, ["x"]))

    def daemon_filter(self, name: str, items: Any) -> None:
        client = self.client(self.daemon.url)
        client.create_filter(name)
        client.filter(name, items)
