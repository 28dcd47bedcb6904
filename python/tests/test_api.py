"""The calls of crawlerfilter.api, as a crawler makes them."""

from __future__ import annotations

import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest
from datetime import timedelta
from unittest import mock

from crawlerfilter import AsyncFilterAPIClient, FilterError, ItemError, SettingsError, api
from crawlerfilter.api import FilterAPI, FilterAPIClient, bloom_filter_api, read_urilist_from_txt, timing_filter_api

from .daemon import Daemon, clean_environment

FRUIT = ["apple", "banana", "cherry", "apple", "durian", "banana"]
IPS = ["10.0.0.1", "10.0.0.2", "10.0.0.1", "2001:db8::1", "192.168.1.254"]
CHINESE = ["苹果", "香蕉", "樱桃", "苹果", "榴莲", "重庆森林"]


class APITest(unittest.TestCase):
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon(cls.addClassCleanup)

    def setUp(self) -> None:
        patch = mock.patch.dict(os.environ, clean_environment(URIFILTER_URL=self.daemon.url), clear=True)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(lambda: [client.close() for client in api._shared.clients.values()])
        self.client = FilterAPIClient()
        self.addCleanup(self.client.close)

    def test_unique_list(self) -> None:
        for typeid, items, first in (
            (1, FRUIT, ["apple", "banana", "cherry", "durian"]),
            ("ip", IPS, ["10.0.0.1", "10.0.0.2", "2001:db8::1", "192.168.1.254"]),
            ("3", CHINESE, ["苹果", "香蕉", "樱桃", "榴莲", "重庆森林"]),
        ):
            with self.subTest(typeid=typeid):
                self.assertEqual(FilterAPI(typeid, items), first)
                self.assertEqual(FilterAPI(typeid, items), [])
                self.assertEqual(FilterAPI(typeid, items + ["kumquat"], access_token="any-token-will-do"), ["kumquat"])

    def test_bloom_filter_api(self) -> None:
        self.assertEqual(bloom_filter_api("uri_download", ["https://www.baidu.com/", "http://www.2cto.com"]), ["https://www.baidu.com/", "http://www.2cto.com"])
        self.assertEqual(bloom_filter_api(4, ("http://www.2cto.com", "http://a.example/")), ["http://a.example/"])

    def test_timing_filter_api(self) -> None:
        self.client.create_filter("news", kind="timing")
        self.assertEqual(timing_filter_api("news", ["a", "b", "a"], 3600), ["a", "b"])
        self.assertEqual(timing_filter_api("news", ["b", "c"], timedelta(hours=1)), ["c"])
        self.assertEqual(timing_filter_api("news", ["short"], 0.05), ["short"])
        while not timing_filter_api("news", ["short"], 3600):  # which does not renew it
            time.sleep(0.01)
        self.assertEqual(timing_filter_api("news", ["a", "short"], 0.05), [])
        self.assertEqual(self.client.check("news", ["a", "d"]), [False, True])

    def test_old_manual_on_a_fresh_daemon(self) -> None:
        """The line of the older manual: uri_parse is of the kind bloom here, so that its
        timing filter stands beside it."""
        daemon = Daemon(self.addCleanup)
        with mock.patch.dict(os.environ, {"URIFILTER_URL": daemon.url}):
            client = FilterAPIClient()
            self.addCleanup(client.close)
            ids = {f["name"]: (f["id"], f["kind"]) for f in client.filters()}
            uri_list, expire = ["http://a.example/", "http://b.example/", "http://a.example/"], 3600
            with self.assertLogs("crawlerfilter", "INFO") as logs:
                self.assertEqual(timing_filter_api('uri_parse', uri_list, expire), uri_list[:2])
            self.assertIn("filter uri_parse.timing, of the kind timing, stands for uri_parse, which is of the kind bloom", logs.output[-1])
            self.assertEqual(timing_filter_api("uri_parse", iter(uri_list), expire), [])
            self.assertEqual(timing_filter_api(5, uri_list, expire), [])  # the same filter by its id
            self.assertEqual(bloom_filter_api("uri_parse", uri_list), uri_list[:2])  # another one
            self.assertEqual(client.filter_info("uri_parse.timing")["kind"], "timing")
            self.assertEqual({name: ids[name] for name in ids}, {f["name"]: (f["id"], f["kind"]) for f in client.filters() if f["name"] in ids})
            self.assertEqual(timing_filter_api("uri_parse", ["soon"], 0.05), ["soon"])
            while not timing_filter_api("uri_parse", ["soon"], 3600):
                time.sleep(0.01)
            client.drop_filter("uri_parse.timing", confirm="uri_parse.timing")  # by an operator: it is made again
            self.assertEqual(timing_filter_api("uri_parse", uri_list, expire), uri_list[:2])
            client.drop_filter("uri_parse.timing", confirm="uri_parse.timing")
            client.create_filter("uri_parse.timing")  # and one of that name that is none
            with self.assertRaises(FilterError) as taken:
                timing_filter_api("uri_parse", uri_list, expire)
            self.assertIn("filter uri_parse.timing is of the kind bloom", str(taken.exception))
            for wrong in (0, -1, "3600"):
                with self.subTest(wrong), self.assertRaises(FilterError):
                    timing_filter_api("ip", ["not remembered"], wrong)  # type: ignore[arg-type]
            self.assertNotIn("ip.timing", [f["name"] for f in client.filters()])

    def test_timing_filter_that_a_token_may_not_make(self) -> None:
        daemon = Daemon(self.addCleanup, wait=False)
        tokens = daemon.folder / "tokens.yaml"
        tokens.write_text(
            "[{name: crawler, token: a-token-that-may-filter, scopes: [filter]}, {name: boss, token: a-token-that-may-all, scopes: [admin]}]",
            encoding="utf-8",
        )
        tokens.chmod(0o600)
        daemon.start(args=["--tokens-file", str(tokens)])
        with mock.patch.dict(os.environ, {"URIFILTER_URL": daemon.url, "URIFILTER_TOKEN": "a-token-that-may-filter"}):
            with self.assertRaises(FilterError) as caught:
                timing_filter_api("uri_parse", ["a"], 60)
            self.assertEqual((caught.exception.error_code, caught.exception.status), ("forbidden", 403))
            self.assertIn("urifilter filters create uri_parse.timing --kind timing", str(caught.exception))
        with FilterAPIClient(url=daemon.url, token="a-token-that-may-all") as boss:
            boss.create_filter("uri_parse.timing", kind="timing")
        with mock.patch.dict(os.environ, {"URIFILTER_URL": daemon.url, "URIFILTER_TOKEN": "a-token-that-may-filter"}):
            self.assertEqual(timing_filter_api("uri_parse", ["a"], 60), ["a"])

    def test_bloom_filter_api_on_a_timing_filter(self) -> None:
        self.client.create_filter("hours", kind="timing")
        self.client.create_filter("days", kind="timing", expire=86400)
        for name in ("hours", "days", self.client.filter_info("days")["id"]):
            with self.subTest(name), self.assertRaises(FilterError) as caught:
                bloom_filter_api(name, ["not remembered"])
            self.assertEqual(caught.exception.error_code, "wrong_kind")
            self.assertIn("is of the kind timing\nhint: call timing_filter_api, with expire in seconds", str(caught.exception))
        self.assertEqual(self.client.check("hours", ["not remembered"]), [True])
        self.assertEqual(self.client.check("days", ["not remembered"]), [True])

    def test_wrong_expire(self) -> None:
        self.client.create_filter("times", kind="timing")
        for typeid, expire, code in (
            ("times", 0, "expire_invalid"),
            ("times", -1, "expire_invalid"),
            ("times", 1e12, "expire_invalid"),
            ("times", float("inf"), "expire_invalid"),
            ("times", 10**400, "expire_invalid"),
            ("times", "3600", "expire_invalid"),
            ("times", None, "expire_missing"),
        ):
            with self.subTest(expire=expire, typeid=typeid), self.assertRaises(FilterError) as caught:
                timing_filter_api(typeid, ["not remembered"], expire)  # type: ignore[arg-type]
            self.assertEqual(caught.exception.error_code, code)
        self.assertEqual(timing_filter_api("times", ["not remembered"], 60), ["not remembered"])
        with self.assertRaises(FilterError) as unknown:
            timing_filter_api("no-such-filter", ["a"], 60)
        self.assertEqual(unknown.exception.error_code, "unknown_filter")

    def test_types_are_apart(self) -> None:
        self.assertEqual(FilterAPI("uri", ["apart"]), ["apart"])
        self.assertEqual(FilterAPI("uri_parse", ["apart"]), ["apart"])

    def test_forget(self) -> None:
        self.client.create_filter("jobs", kind="exact")
        self.assertEqual(self.client.filter("jobs", ["a", {"b": 1}, "c"]), ["a", {"b": 1}, "c"])
        self.assertEqual(self.client.forget("jobs", ["a", {"b": 1.0}, "a", "d"]), 2)
        self.assertEqual(self.client.check("jobs", ["a", {"b": 1}, "c"]), [True, True, False])
        self.assertEqual(self.client.forget("jobs", []), 0)
        with self.assertRaises(FilterError) as caught:
            self.client.forget("uri", ["a"])
        self.assertEqual(caught.exception.error_code, "forget_not_supported")

    def test_reserve(self) -> None:
        self.client.create_filter("work", kind="exact")
        mine = self.client.reserve("work", ["a", {"b": 1}, "a", "c"], 60)
        self.assertEqual((mine["uri_list"], mine["total"], mine["duplicates"], mine["reserved"]), (["a", {"b": 1}, "c"], 4, 1, 0))
        other = self.client.reserve("work", ["c", "d"], timedelta(minutes=1))
        self.assertEqual((other["uri_list"], other["reserved"]), (["d"], 1))
        self.assertEqual(self.client.filter("work", ["a", "d"]), [])
        for _ in range(2):  # the second call is one that is made again
            done = self.client.commit("work", mine["reservation"], ["a", "d"])
            self.assertEqual(done, {"done": 1, "lost": ["d"], "lost_total": 1})
            self.assertEqual(self.client.release("work", mine["reservation"], [{"b": 1.0}])["done"], 1)
        self.assertEqual(self.client.commit("work", mine["reservation"], [])["done"], 0)
        self.assertEqual(self.client.commit("work", mine["reservation"]), {"done": 2, "lost": [], "lost_total": 0})
        self.assertEqual(self.client.release("work", other["reservation"])["done"], 1)
        self.assertEqual(self.client.check("work", ["a", {"b": 1}, "c", "d"]), [False, True, False, True])
        self.assertEqual(self.client.reserve("work", [], 1)["uri_list"], [])
        self.client.create_filter("moments", kind="timing")
        moment = self.client.reserve("moments", ["a"], 60)["reservation"]
        for code, call in (
            ("reserve_not_supported", lambda: self.client.reserve("uri", ["a"], 60)),
            ("lease_invalid", lambda: self.client.reserve("work", ["a"], 100_000)),
            ("unknown_reservation", lambda: self.client.commit("work", "1" * 32)),
            ("expire_missing", lambda: self.client.commit("moments", moment)),
        ):
            with self.assertRaises(FilterError) as caught:
                call()
            self.assertEqual(caught.exception.error_code, code)
        self.assertEqual(self.client.commit("moments", moment, expire=60)["done"], 1)

    def test_near(self) -> None:
        made = self.client.create_filter("pages", kind="simhash", distance=2, feature_hash="md5")
        self.assertEqual((made["distance"], made["feature_hash"]), (2, "md5"))
        fox = "The quick brown fox jumps over the lazy dog, and over the cat."
        pages = [("a", fox), {"id": "b", "text": fox.upper() + "!"}, ("é", "你好，世界！　　呼噜。")]
        self.assertEqual([found["new"] for found in self.client.near("pages", pages, remember=False)], [True, True, True])
        found = self.client.near("pages", pages)
        self.assertEqual([one["new"] for one in found], [True, False, True])
        self.assertEqual(found[1]["near"], [{"id": "a", "distance": 0}])
        self.assertEqual(found[2], {"id": "é", "fingerprint": "222a820580050201", "new": True, "near": []})
        self.assertEqual([one["new"] for one in self.client.near("pages", iter(pages))], [True, False, True])
        single = FilterAPIClient(batch_items=1)
        self.addCleanup(single.close)
        self.assertEqual([len(one["near"]) for one in single.near("pages", [("c", fox), ("d", fox)], limit=1, distance=0)], [1, 1])
        self.assertEqual(self.client.near("pages", []), [])
        for documents, code, index in (
            ([("x", fox), ("y", "..")], "text_too_short", 1),
            ([("x", fox), ("", fox)], "id_invalid", 1),
            ([("x", fox), ("y", "\ud800 and more")], "invalid_utf8", 1),
            ([("x", fox), ("y",)], "invalid_call", 1),
            ([("x", fox), {"id": "y", "txt": fox}], "invalid_call", 1),
        ):
            with self.assertRaises(ItemError) as refused:
                single.near("pages", documents, remember=False)
            self.assertEqual((refused.exception.error_code, refused.exception.index), (code, index))
        for call, code in (
            (lambda: self.client.near("uri", pages), "near_not_supported"),
            (lambda: self.client.filter("pages", ["a"]), "items_not_supported"),
            (lambda: self.client.near("pages", pages, distance=3), "distance_invalid"),
        ):
            with self.assertRaises(FilterError) as caught:
                call()
            self.assertEqual(caught.exception.error_code, code)
        with self.assertRaises(SettingsError):
            self.client.near("pages", "one text")

    def test_any_values(self) -> None:
        values = [1, "1", 1.0, True, False, (1, 2), [1, 2], {"b": 1, "a": None}, {"a": None, "b": 1.0}, 0.5, [], {}]
        self.client.create_filter("values")
        new = self.client.filter("values", values)
        self.assertEqual(list(map(repr, new)), list(map(repr, [1, "1", True, False, (1, 2), {"b": 1, "a": None}, 0.5, [], {}])))
        self.assertIs(new[4], values[5])
        self.assertEqual(self.client.filter("values", values), [])
        self.assertEqual(self.client.check("values", [1, 2, "2", (1, 2)]), [False, True, True, False])

    def test_txt(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "uris.txt")
            path.write_bytes("\ufeffhttp://txt.example/一\r\n\r\nhttp://txt.example/2\nhttp://txt.example/一\n".encode())
            self.assertEqual(FilterAPI(1, read_urilist_from_txt(str(path))), ["http://txt.example/一", "http://txt.example/2"])

    def test_many_items(self) -> None:
        self.client.create_filter("many", capacity=1_000_000)
        items = [f"http://many.example/{i % 130_000}" for i in range(250_000)]
        before = self.daemon.requests()
        self.assertEqual(FilterAPI("many", items), items[:130_000])
        self.assertEqual(self.daemon.requests() - before, 25)
        self.assertEqual(FilterAPI("many", iter(items)), [])
        self.assertEqual(self.client.check("many", items[-100_001:] + ["x"]), [False] * 100_001 + [True])

    def test_batches_by_bytes(self) -> None:
        client = FilterAPIClient(batch_bytes=1000, batch_items=50)
        self.addCleanup(client.close)
        items = ["%0100d" % i for i in range(100)]
        before = self.daemon.requests()
        self.assertEqual(client.filter("uri_generator", items), items)
        self.assertGreaterEqual(self.daemon.requests() - before, 11)
        self.assertEqual(client.filter("uri_generator", ["x" * 5000]), ["x" * 5000])

    def test_stream(self) -> None:
        client = FilterAPIClient(batch_items=7)
        self.addCleanup(client.close)
        taken = []

        def source():
            for i in range(30):
                taken.append(i)
                yield f"stream {i % 20}"

        new = client.stream("uri", source())
        self.assertEqual(next(new), "stream 0")
        self.assertEqual(len(taken), 7)
        self.assertEqual(list(new), [f"stream {i}" for i in range(1, 20)])
        with self.assertRaises(ItemError) as caught:
            list(client.stream("uri", [f"later {i}" for i in range(20)] + [None]))
        self.assertEqual((caught.exception.index, caught.exception.judged), (20, 14))

    def test_no_items(self) -> None:
        self.assertEqual(FilterAPI("uri", []), [])
        self.assertEqual(self.client.check("uri", []), [])

    def test_wrong_calls(self) -> None:
        for call in (
            lambda: FilterAPI(1, "http://one.example/"),
            lambda: FilterAPI(1, {"a": 1}),
            lambda: FilterAPI("", ["a"]),
            lambda: FilterAPI(True, ["a"]),
            lambda: FilterAPI(None, ["a"]),  # type: ignore[arg-type]
            lambda: FilterAPI(1, None),  # type: ignore[arg-type]
            lambda: FilterAPI(1, 7),  # type: ignore[arg-type]
            lambda: FilterAPI(1, memoryview(b"a")),
            lambda: list(self.client.stream(1, "http://one.example/")),
        ):
            with self.assertRaises(SettingsError) as caught:
                call()
            self.assertEqual(caught.exception.error_code, "invalid_call")
        for token in (b"a-token", 7):
            with self.subTest(token), self.assertRaises(SettingsError):
                FilterAPI(1, ["a"], token)  # type: ignore[arg-type]
        with self.assertRaises(SettingsError) as address:
            FilterAPIClient("http://127.0.0.1:8000")  # type: ignore[arg-type]
        self.assertIn("url='http://", str(address.exception))
        with self.assertRaises(ItemError) as faulty:
            self.client.filter("uri", ["a"] * 3 + ["x" * 70_000])
        self.assertIn("(item 3)", str(faulty.exception))
        for unknown in (-1, 10**30, "9" * 5000, "a/b", "../uri", "一"):
            with self.subTest(unknown), self.assertRaises(FilterError) as refused:
                FilterAPI(unknown, ["a"])
            self.assertIn(refused.exception.status, (400, 404))
            with self.subTest(unknown), self.assertRaises(FilterError) as refused:
                self.client.filter_info(unknown)
            self.assertIn(refused.exception.status, (400, 404))

    def test_add(self) -> None:
        self.assertEqual([self.client.add("uri", "added") for _ in range(2)], [True, False])
        self.assertIs(self.client.add("uri", {"any": ["value"]}), True)
        self.client.create_filter("hour", kind="timing")
        self.assertEqual([self.client.add("hour", "added", timedelta(hours=1)) for _ in range(2)], [True, False])
        self.assertEqual(self.client.add_many("uri", ["added", "b", "c", "b", "added"]), [False, True, True, False, False])
        self.client.create_filter("added", capacity=100_000)
        values = [True, 1, 1.0, "1", "é", "é", [1], [1.0], "1", 2, True]
        self.assertEqual(self.client.add_many("added", values), [True, True, False, True, True, False, True, False, False, True, False])
        items = [f"added {i % 30_000}" for i in range(50_000)]
        self.assertEqual(self.client.add_many("added", iter(items)), [True] * 30_000 + [False] * 20_000)
        self.assertEqual(self.client.add_many("added", []), [])

    def test_repr(self) -> None:
        client = FilterAPIClient(url="http://a.example:1", token="secret-token", patience=3)
        for shown in (repr(client), repr(AsyncFilterAPIClient(client.settings))):
            self.assertRegex(shown, r"^(Async)?FilterAPIClient\(Settings\(url='http://a.example:1', .*patience=3,")
            self.assertNotIn("secret", shown)

    def test_arguments_are_typed(self) -> None:
        with self.assertRaises(TypeError):
            FilterAPIClient(pacience=3)  # type: ignore[call-arg]
        with self.assertRaises(TypeError):
            self.client.create_filter("typed", capacty=1000)  # type: ignore[call-arg]

    def test_drop_asks_for_the_name(self) -> None:
        self.client.create_filter("precious")
        for confirm in ({}, {"confirm": "other"}, {"confirm": True}):
            with self.subTest(**confirm), self.assertRaises(SettingsError) as caught:
                self.client.drop_filter("precious", **confirm)
            self.assertIn("drop_filter('precious', confirm='precious')", str(caught.exception))
        self.client.drop_filter("precious", confirm="precious")

    def test_past_its_capacity(self) -> None:
        self.client.create_filter("small", capacity=1000, error_rate=0.01, on_full="warn")
        with self.assertLogs("crawlerfilter", "WARNING") as logged:
            for part in range(3):
                self.client.filter("small", [f"item {part} {i}" for i in range(2000)])
            self.client.check("small", ["item"])
        self.assertEqual(len(logged.output), 1)
        self.assertIn("filter small is past its capacity", logged.output[0])

    def test_clear(self) -> None:
        made = self.client.create_filter("emptied", capacity=1000)
        self.client.filter("emptied", ["a"])
        with self.assertRaises(SettingsError):
            self.client.clear_filter("emptied")
        cleared = self.client.clear_filter("emptied", confirm="emptied")
        self.assertEqual((cleared["id"], cleared["generation"]), (made["id"], made["generation"] + 1))
        self.assertEqual(self.client.filter("emptied", ["a"]), ["a"])

    def test_filters(self) -> None:
        made = self.client.create_filter("made", capacity=1000, error_rate=0.01)
        self.assertEqual((made["capacity"], made["error_rate"]), (1000, 0.01))
        self.assertEqual(self.client.create_filter("made"), made)
        self.assertEqual(self.client.create_filter("made-for-an-hour", kind="timing", expire=timedelta(hours=1))["expire"], 3600)
        self.assertEqual(self.client.filter_info("made")["id"], made["id"])
        self.assertEqual(self.client.filter_info(made["id"])["name"], "made")
        self.assertIn("made", [f["name"] for f in self.client.filters()])
        with self.assertRaises(FilterError) as conflict:
            self.client.create_filter("made", capacity=2000)
        self.assertEqual(conflict.exception.error_code, "filter_conflict")
        self.client.drop_filter("made", confirm="made")
        with self.assertRaises(FilterError) as gone:
            self.client.drop_filter("made", confirm="made")
        self.assertEqual(gone.exception.error_code, "unknown_filter")
        self.client.ready()

    def test_a_lower_limit_of_the_daemon(self) -> None:
        daemon = Daemon(self.addCleanup, URIFILTER_LIMITS_ITEMS="100")
        client = FilterAPIClient(url=daemon.url)
        self.addCleanup(client.close)
        items = [f"limit {i}" for i in range(1234)]
        self.assertEqual(client.filter("uri", items), items)
        self.assertEqual(client.check("uri", items + ["more"]), [False] * 1234 + [True])
        with self.assertRaises(ItemError) as caught:
            client.filter("uri", items + ["y" * 70_000])
        self.assertEqual((caught.exception.error_code, caught.exception.index), ("item_too_large", 1234))

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


if __name__ == "__main__":
    unittest.main()
