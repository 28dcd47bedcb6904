"""Settings, and text files."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
import unittest

from crawlerfilter import FilterAPIClient, ItemError, Settings, SettingsError
from crawlerfilter._servers import Servers
from crawlerfilter.api import read_urilist_from_txt

from .daemon import Daemon


class SettingsTest(unittest.TestCase):
    def test_environment(self) -> None:
        environ = {
            "URIFILTER_URL": "http://a:1, https://b/prefix/",
            "URIFILTER_TOKEN": "token",
            "URIFILTER_TIMEOUT": "2.5",
            "URIFILTER_PATIENCE": "0",
            "URIFILTER_IN_DOUBT": "new",
            "URIFILTER_BATCH_ITEMS": "500",
            "URIFILTER_BATCH_BYTES": "  1000 ",
            "URIFILTER_CA_FILE": "",
            "URIFILTER_OTHER": "not ours",
        }
        want = Settings("http://a:1, https://b/prefix/", "token", 2.5, 0.0, "new", 500, 1000)
        self.assertEqual(Settings.from_env(environ), want)
        self.assertEqual(Settings.from_env(environ, timeout=7, token="").timeout, 7)
        self.assertEqual(Settings.from_env({}), Settings())
        self.assertEqual([s.shown for s in Servers(want.url).all], ["http://a:1", "https://b:443/prefix"])
        self.assertNotIn("token'", repr(want))

    def test_malformed(self) -> None:
        for environ, text in (
            ({"URIFILTER_TIMEOUT": "soon"}, "URIFILTER_TIMEOUT: 'soon': want a number"),
            ({"URIFILTER_TIMEOUT": "0"}, "timeout: 0.0: want seconds"),
            ({"URIFILTER_TIMEOUT": "nan"}, "timeout: nan"),
            ({"URIFILTER_PATIENCE": "-1"}, "patience: -1.0"),
            ({"URIFILTER_BATCH_ITEMS": "1.5"}, "URIFILTER_BATCH_ITEMS: '1.5'"),
            ({"URIFILTER_BATCH_ITEMS": "0"}, "batch_items: 0"),
            ({"URIFILTER_IN_DOUBT": "perhaps"}, "in_doubt: 'perhaps': want error, seen or new"),
            ({"URIFILTER_TOKEN": "two words"}, "token: want printable ASCII"),
            ({"URIFILTER_TOKEN": "字"}, "token: want printable ASCII"),
        ):
            with self.subTest(environ), self.assertRaises(SettingsError) as caught:
                Settings.from_env(environ)
            self.assertIn(text, str(caught.exception))
        for name, value in (("url", None), ("timeout", True), ("timeout", "5"), ("batch_items", 2.0)):
            with self.subTest(name), self.assertRaises(SettingsError):
                Settings(**{name: value})  # type: ignore[arg-type]

    def test_token_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "token")
            path.write_text("  a-token-in-a-file\n")
            environ = {"URIFILTER_TOKEN_FILE": str(path)}
            self.assertEqual(Settings.from_env(environ).token, "a-token-in-a-file")
            self.assertEqual(Settings.from_env({**environ, "URIFILTER_TOKEN": "first"}).token, "first")
            self.assertEqual(Settings.from_env(environ, token="given").token, "given")
            for wrong in ("", "two words", "字", "x" * 5000):
                path.write_text(wrong, encoding="utf-8")
                with self.subTest(wrong), self.assertRaises(SettingsError) as caught:
                    Settings.from_env(environ)
                self.assertNotIn("two", str(caught.exception))
        with self.assertRaises(SettingsError):
            Settings.from_env(environ)

    def test_daemon_does_not_mind(self) -> None:
        """The daemon refuses variables that it does not know, but for ours."""
        Daemon(self.addCleanup, **{"URIFILTER_" + f.name.upper(): "x" for f in dataclasses.fields(Settings)}, URIFILTER_TOKEN_FILE="x")

    def test_addresses(self) -> None:
        for text, want in (
            ("127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("localhost", "http://localhost:80"),
            ("http://[::1]:8000/", "http://[::1]:8000"),
            ("https://filter.example/uri/", "https://filter.example:443/uri"),
        ):
            self.assertEqual(Servers(text).all[0].shown, want)
        for text in ("", "http://", "ftp://a", "http://a:b", "http://a:99999", "http://a b", "http://a/?q=1", "http://a,http://a:80", "http://a,", "http://例",
                     "http://a:0", "::1", "http://a..b:80", "http://" + "a" * 64 + ".example"):  # fmt: skip
            with self.subTest(text), self.assertRaises(SettingsError) as caught:
                Servers(text)
            self.assertIn(text.split(",")[-1], str(caught.exception))
        for text in ("http://user:secret@a:1", "http://user:secret@a:b"):
            with self.subTest(text), self.assertRaises(SettingsError) as caught:
                FilterAPIClient(url=text)
            self.assertNotIn("secret", str(caught.exception))


class TextFileTest(unittest.TestCase):
    def read(self, data: bytes, **kind: str) -> "list[str]":
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "items.txt")
            path.write_bytes(data)
            return read_urilist_from_txt(path, **kind)

    def test_lines(self) -> None:
        for data, want in (
            (b"", []),
            (b"a", ["a"]),
            (b"a\nb\n", ["a", "b"]),
            (b"a\r\nb\r\n\r\n\nc", ["a", "b", "c"]),
            (b"\xef\xbb\xbfa\nb", ["a", "b"]),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", ["\ufeffa"]),
            (b"\xef\xbb\xbf\r\n", []),
            (b" a \n \n\tb", [" a ", " ", "\tb"]),
            (b"a\r\nb\r", ["a", "b\r"]),
            (b"a\rb\x0cc\x1cd\r\r\n", ["a\rb\x0cc\x1cd\r"]),
            ("路\u2028径\n苹果".encode(), ["路\u2028径", "苹果"]),
        ):
            with self.subTest(data):
                self.assertEqual(self.read(data), want)

    def test_encodings(self) -> None:
        text = "苹果\r\n香蕉"
        self.assertEqual(self.read(text.encode("gb18030"), encoding="gb18030"), ["苹果", "香蕉"])
        self.assertEqual(self.read(text.encode("utf-16"), encoding="utf-16"), ["苹果", "香蕉"])
        with self.assertRaises(ItemError) as caught:
            self.read(b"a\nb\n" + text.encode("gb18030"))
        self.assertEqual((caught.exception.error_code, caught.exception.index), ("invalid_utf8", 2))
        self.assertIn("line 3: not utf-8\nhint:", str(caught.exception))

    def test_no_file(self) -> None:
        with self.assertRaises(FileNotFoundError):
            read_urilist_from_txt("/nowhere/items.txt")
