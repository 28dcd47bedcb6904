"""Items as JSON: the client's bytes, and what the daemon takes them for."""

from __future__ import annotations

import enum
import json
import unittest
from typing import Any, Dict, List

from crawlerfilter import FilterAPIClient, ItemError, Settings, _encoding

from .daemon import ROOT, Daemon

VECTORS: List[Dict[str, Any]] = json.loads((ROOT / "client" / "testdata" / "json_vectors.json").read_text(encoding="utf-8"))


def encoded(value: Any) -> str:
    """What the client sends for one item."""
    (batch,) = _encoding.batches([value], 10, 1 << 20)
    return batch.text.decode()[1:-1]


def canonical(value: Any) -> str:
    """RFC 8785, for the tests: of a value as module json reads it."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(canonical(key) + ":" + canonical(value[key]) for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(float(value))
    return json.dumps(value, ensure_ascii=False)


def number(value: float) -> str:
    """Number.prototype.toString of ECMAScript, from the shortest digits, which repr has too."""
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = int(exponent or 0) + len(whole) - (len(whole + fraction) - len(digits))  # before which digit
    digits = digits.rstrip("0")
    if not digits:
        return "0"
    if 0 < point <= 21:
        return sign + digits[:point].ljust(point, "0") + ("." + digits[point:] if digits[point:] else "")
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    return sign + digits[0] + ("." + digits[1:] if digits[1:] else "") + f"e{point - 1:+d}"


class VectorTest(unittest.TestCase):
    """The file is shared with the Go client and the daemon, whose tests read it too."""

    def test_bytes(self) -> None:
        for v in VECTORS:
            if "canonical" in v:
                with self.subTest(v["name"]):
                    sent = json.loads(encoded(json.loads(v["json"])))
                    self.assertEqual(isinstance(sent, str), v["string"])
                    self.assertEqual(sent if v["string"] else canonical(sent), v["canonical"])

    def test_refused(self) -> None:
        for v in VECTORS:
            if "error_code" not in v:
                continue
            try:
                value = json.loads(v["json"])
            except ValueError:
                continue
            if "key twice" in v["name"]:  # not so in Python, where it is one already
                continue
            with self.subTest(v["name"]):
                with self.assertRaises(ItemError) as caught:
                    encoded(value)
                want = "invalid_item" if v["error_code"] == "malformed_json" else v["error_code"]
                self.assertEqual((caught.exception.error_code, caught.exception.index), (want, 0))

    def test_daemon(self) -> None:
        """The daemon takes for equal what the file does, spelled as in it and as the client does."""
        daemon = Daemon(self.addCleanup)
        client = FilterAPIClient(Settings(url=daemon.url))
        self.addCleanup(client.close)
        taken = [v for v in VECTORS if "canonical" in v]
        distinct = {(v["string"], v["canonical"]): v for v in taken}
        raw = b'{"filter_typeid":1,"uri_list":[' + ",".join(v["json"] for v in taken).encode() + b"]}"
        status, answer = daemon.post("/api/v1/filter", raw)
        self.assertEqual((status, json.loads(answer)["total"], len(json.loads(answer)["uri_list"])), (200, len(taken), len(distinct)))
        for v in taken:
            with self.subTest(v["name"]):
                self.assertEqual(client.check(1, [json.loads(v["json"])]), [False])
        spelled = client.filter(2, [json.loads(v["json"]) for v in taken])
        self.assertEqual(len(spelled), len(distinct))
        for v in VECTORS:
            if "error_code" in v:
                with self.subTest(v["name"]):
                    status, answer = daemon.post("/api/v1/filter", b'{"filter_typeid":1,"uri_list":["good",' + v["json"].encode() + b"]}")
                    problem = json.loads(answer)
                    self.assertEqual((status, problem["error_code"]), (400, v["error_code"]))
        self.assertEqual(client.check(1, ["good"]), [True])


class EncodingTest(unittest.TestCase):
    def test_quick_way_is_the_same(self) -> None:
        """What goes without the encoder of module json is what it would have written."""
        for items in (
            ["a"], ["a", "b"], ["http://例.example/路?q=1#f", "\x7f", "é", "😀", "\u2028", "\ufeff"], ['say "a"'], ['","'],
            ["a", '"'], ["back\\slash"], ["\n"], ["\x1f", "a"], ["\x00"], [" "], ["'", "/", "<>&"],
        ):  # fmt: skip
            with self.subTest(items):
                (batch,) = _encoding.batches(items, 10, 1 << 20)
                self.assertEqual(batch.text.decode(), json.dumps(items, ensure_ascii=False, separators=(",", ":")))

    def test_index_of_the_first_fault(self) -> None:
        good = [f"item {i}" for i in range(25)]
        for fault, code in (
            (None, "null_item"),
            ("", "empty_item"),
            ("\ud800", "invalid_utf8"),
            ({"a": "\udcff"}, "invalid_utf8"),
            (float("nan"), "invalid_item"),
            ([float("-inf")], "invalid_item"),
            (2**53 + 1, "invalid_item"),
            (10**400, "invalid_item"),
            ({1: "a"}, "invalid_item"),
            ({None: "a"}, "invalid_item"),
            (b"bytes", "invalid_item"),
            ({"a", "set"}, "invalid_item"),
            (object(), "invalid_item"),
        ):
            for at in (0, 7, 24):
                with self.subTest(fault=repr(fault), at=at):
                    with self.assertRaises(ItemError) as caught:
                        _encoding.batches([*good[:at], fault, *good[at:], None], 10, 1 << 20)
                    self.assertEqual((caught.exception.error_code, caught.exception.index), (code, at))
                    self.assertIsInstance(caught.exception, ValueError)

    def test_nothing_is_sent_of_a_faulty_list(self) -> None:
        with FilterAPIClient(Settings(url="http://127.0.0.1:1", patience=0, batch_items=1)) as client:
            with self.assertRaises(ItemError):
                client.filter("uri", ["good", "good too", None])

    def test_depth(self) -> None:
        def nested(depth: int) -> Any:
            value: Any = "x"
            for _ in range(depth):
                value = [value]
            return value

        self.assertEqual(encoded(nested(_encoding.MOST_DEPTH)).count("["), _encoding.MOST_DEPTH)
        with self.assertRaises(ItemError):
            encoded(nested(_encoding.MOST_DEPTH + 1))
        with self.assertRaises(ItemError):
            encoded(nested(100_000))

    def test_kinds_of_texts_and_numbers(self) -> None:
        class Colour(str, enum.Enum):
            RED = "red"

        class Size(enum.IntEnum):
            SMALL = 1

        self.assertEqual([encoded(v) for v in (Colour.RED, Size.SMALL, True, 1e16, -0.0, 2**53)], ['"red"', "1", "true", "1e+16", "-0.0", "9007199254740992"])

    def test_pick(self) -> None:
        (batch,) = _encoding.batches([1, 10, "1", [1], 1, "a]", {"k": "],"}], 10, 1 << 20)
        for answer, want in (
            ('{"uri_list":[],"total":7,"duplicates":7}', []),
            ('{"uri_list":[10,"1"],"total":7,"duplicates":5}', [10, "1"]),
            ('{"uri_list":[1,10,"1",[1],"a]",{"k":"],"}],"total":7,"duplicates":1}', [1, 10, "1", [1], "a]", {"k": "],"}]),
        ):
            self.assertEqual(_encoding.pick(batch, answer.encode()), want)
        for wrong in ("", "[]", '{"total":7}', '{"uri_list":[11]}', '{"uri_list":["1",10]}', '{"uri_list":[1', '{"uri_list":[1,'):
            with self.subTest(wrong), self.assertRaises(ValueError):
                _encoding.pick(batch, wrong.encode())
