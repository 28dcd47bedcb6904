"""The calls of crawlerfilter.api, as a crawler makes them."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
import unittest
from datetime import timedelta
from typing import Any
from unittest import mock

from crawlerfilter import AsyncFilterAPIClient, FilterError, ItemError, SettingsError
from crawlerfilter.api import FilterAPI, FilterAPIClient, bloom_filter_api, read_urilist_from_txt, timing_filter_api

from .case import APICase
from .daemon import Daemon

FRUIT = ["apple", "banana", "cherry", "apple", "durian", "banana"]
IPS = ["10.0.0.1", "10.0.0.2", "10.0.0.1", "2001:db8::1", "192.168.1.254"]
CHINESE = ["苹果", "香蕉", "樱桃", "苹果", "榴莲", "重庆森林"]


class APITest(APICase):
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

    def test_filter_that_becomes_another_kind(self) -> None:
        """The kind of a filter is asked for once a minute: it may be dropped and made again."""
        now = time.monotonic()
        with mock.patch("crawlerfilter._kinds.monotonic", lambda: now):
            for kind, expire in (("timing", 60), ("bloom", None), ("timing", 60)):
                self.client.create_filter("changing", kind=kind, expire=expire)
                with self.subTest(kind):
                    self.assertEqual(timing_filter_api("changing", ["a"], 60), ["a"])
                    stands = "changing" if kind == "timing" else "changing.timing"
                    self.assertEqual(self.client.check(stands, ["a"]), [False])
                    if kind == "timing":
                        with self.assertRaises(FilterError) as caught:
                            bloom_filter_api("changing", ["not remembered"])
                        self.assertEqual(caught.exception.error_code, "wrong_kind")
                    else:
                        self.assertEqual(bloom_filter_api("changing", ["a"]), ["a"])
                self.client.drop_filter("changing", confirm="changing")
                now += 61

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

    def test_digest(self) -> None:
        self.assertEqual(self.client.create_filter("short", kind="exact", digest=64)["digest"], 64)
        with self.assertRaises(FilterError) as caught:
            self.client.create_filter("short", kind="exact", digest=128)
        self.assertEqual(caught.exception.error_code, "filter_conflict")

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

    def test_near_in_batches(self) -> None:
        """batch_bytes are bytes as they are sent, whatever the language and the escapes."""
        with FilterAPIClient(url=self.daemon.url, batch_bytes=2000) as client:
            client.create_filter("many_texts", kind="simhash")
            original, sizes = client._connections.attempt, []

            def attempt(*given: Any) -> Any:
                sizes.append(len(given[4]))
                return original(*given)

            client._connections.attempt = attempt  # type: ignore[method-assign]
            texts = [(f"{i}", f"第{i}篇文章\n" + "内容" * 50 + "\"\n" * 50) for i in range(30)]
            self.assertEqual([found["id"] for found in client.near("many_texts", texts)], [id for id, _ in texts])
        self.assertLessEqual(max(sizes), 2000 + 100)
        self.assertGreater(len(sizes), 5)

    def test_txt(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "uris.txt")
            path.write_bytes("\ufeffhttp://txt.example/一\r\n\r\nhttp://txt.example/2\nhttp://txt.example/一\n".encode())
            self.assertEqual(FilterAPI(1, read_urilist_from_txt(str(path))), ["http://txt.example/一", "http://txt.example/2"])

    def test_repr(self) -> None:
        client = FilterAPIClient(url="http://a.example:1", token="secret-token", patience=3)
        for shown in (repr(client), repr(AsyncFilterAPIClient(client.settings))):
            self.assertRegex(shown, r"^(Async)?FilterAPIClient\(Settings\(url='http://a.example:1', .*patience=3,")
            self.assertNotIn("secret", shown)


if __name__ == "__main__":
    unittest.main()
