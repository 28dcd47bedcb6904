"""What a client makes of answers that are not the daemon's."""

from __future__ import annotations

import http.server
import socket
import threading
import unittest
from typing import Any

from crawlerfilter import FilterAPIClient, FilterError, InDoubtError, Settings, UnavailableError


class OtherServerTest(unittest.TestCase):
    """Something else listens at the address."""

    def serve(self, status: int, body: bytes, **headers: str) -> FilterAPIClient:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        client = FilterAPIClient(Settings(url=f"http://127.0.0.1:{server.server_port}", patience=0))
        self.addCleanup(client.close)
        return client

    def test_answers(self) -> None:
        html = b"<html>"
        for status, body, headers, kind, code in (
            (200, html, {}, InDoubtError, "invalid_answer"),
            (200, b'{"uri_list":["a","b","c"]}', {}, InDoubtError, "invalid_answer"),
            (200, b'{"uri_list":7}', {}, InDoubtError, "invalid_answer"),
            (200, b"[]", {}, InDoubtError, "invalid_answer"),
            (404, html, {}, FilterError, "invalid_answer"),
            (302, b"", {"Location": "https://other.example/"}, FilterError, "invalid_answer"),
            (502, html, {}, InDoubtError, "invalid_answer"),
            (503, html, {"Content_Type": "application/problem+json"}, InDoubtError, "invalid_answer"),
            (503, b'{"error_code":"outcome_unknown"}', {"Content_Type": "application/problem+json"}, InDoubtError, "outcome_unknown"),
            (503, b'{"error_code":"store_unavailable"}', {"Content_Type": "application/problem+json", "Retry_After": "1"}, UnavailableError, "store_unavailable"),
            (507, b'{"error_code":"filter_full"}', {"Content_Type": "application/problem+json"}, UnavailableError, "filter_full"),
            (429, b"", {}, UnavailableError, "invalid_answer"),
        ):
            with self.subTest(status=status, body=body):
                with self.assertRaises(kind) as caught:
                    self.serve(status, body, **headers).filter("uri", ["a", "b"])
                self.assertEqual((type(caught.exception), caught.exception.error_code), (kind, code))
        with self.assertRaises(FilterError) as moved:
            self.serve(302, b"", Location="https://other.example/").filter("uri", ["a"])
        self.assertIn("https://other.example/", str(moved.exception))

    def test_unknown_outcome_stays_with_the_server(self) -> None:
        """A daemon whose store broke off knows best which items it told nobody of: it is
        asked again, not another one that may call them seen."""
        asked = []

        def serve(name: str) -> str:
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_POST(self) -> None:
                    self.rfile.read(int(self.headers["Content-Length"]))
                    asked.append(name)
                    first = len(asked) == 1
                    body = b'{"error_code":"outcome_unknown"}' if first else b'{"uri_list":["a"],"total":1,"duplicates":0}'
                    self.send_response(503 if first else 200)
                    self.send_header("Content-Type", "application/problem+json" if first else "application/json")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_: Any) -> None:
                    pass

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        url = serve("one") + "," + serve("two")
        for in_doubt, patience, want in (("seen", 60.0, ["one", "one"]), ("new", 60.0, ["one", "one"]), ("seen", 0.0, ["one", "two"])):
            with self.subTest(in_doubt=in_doubt, patience=patience):
                asked.clear()
                with FilterAPIClient(Settings(url=url, patience=patience, in_doubt=in_doubt)) as client:
                    self.assertEqual(client.filter("uri", ["a"]), ["a"])
                self.assertEqual(asked, want)

    def test_no_http(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join)
        with FilterAPIClient(Settings(url=f"127.0.0.1:{listener.getsockname()[1]}", patience=0)) as client:
            with self.assertRaises(InDoubtError) as caught:
                client.filter("uri", ["a"])
        self.assertEqual(caught.exception.error_code, "connection_lost")
