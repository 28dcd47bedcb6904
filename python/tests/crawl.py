"""A web server that counts, and crawls of it by the command scrapy."""

from __future__ import annotations

import collections
import http.server
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional, Tuple

from .daemon import clean_environment
from .scrapyprocess import start

TESTS = pathlib.Path(__file__).resolve().parent

#: The tests that need Scrapy are skipped where the interpreter has none.
NO_SCRAPY = "" if importlib.util.find_spec("scrapy") else f"{sys.executable} has no Scrapy: on Debian, /usr/bin/python3 with python3-scrapy"

#: The file in which a spider writes its stats.
STATS = "stats.json"

#: Pages of the web server, each with links to LINKS others.
PAGES, LINKS = 120, 12


class Web:
    """A local site of PAGES pages, and /s?wd=... for all words."""

    def __init__(self, cleanup: Callable[..., Any]) -> None:
        self.served: Counter[str] = collections.Counter()
        self.before: Callable[[str], None] = lambda path: None  # called with every path
        # Called with every path, and how often it was asked for since the last call of pages:
        # status and headers; None: the connection is closed without an answer.
        self.answer: Callable[[str, int], Optional[Tuple[int, Dict[str, str]]]] = lambda path, times: (200, {})
        self.body: Callable[[str], str] = page
        web, lock = self, threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with lock:
                    web.served[self.path] += 1
                    times = web.served[self.path]
                    web.before(self.path)
                answer = web.answer(self.path, times)
                if answer is None:
                    self.close_connection = True
                    return
                body = web.body(self.path).encode()
                self.send_response(answer[0])
                for name, value in answer[1].items():
                    self.send_header(name, value)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True  # connections that a crawl has kept
            request_queue_size = 128  # not 5: a connection past that waits for seconds

            def handle_error(self, request: Any, client_address: Any) -> None:
                if not isinstance(sys.exc_info()[1], ConnectionError):  # a crawl that was killed, or did not wait
                    super().handle_error(request, client_address)

        server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        cleanup(thread.join)
        cleanup(server.server_close)
        cleanup(server.shutdown)

    def pages(self) -> Counter[str]:
        """How often each page was fetched since the last call."""
        served, self.served = self.served, collections.Counter()
        return served


def page(path: str) -> str:
    """Every page links to the next ones, so that all are found, most of them many times."""
    if not path.startswith("/page/"):
        return "<p>word</p>"
    number = int(path[len("/page/") :])
    links = [(number * step + step) % PAGES for step in range(1, LINKS)] + [(number + 1) % PAGES]
    return "".join(f'<a href="/page/{to}">{to}</a>' for to in links)


class Crawl(NamedTuple):
    """What became of one."""

    status: int
    stats: Dict[str, Any]
    log: str


def crawl(
    spider: str,
    web: Web,
    url: str,
    arguments: Optional[Dict[str, str]] = None,
    watch: Callable[[str], None] = lambda line: None,
    started: Callable[[Any], None] = lambda process: None,
    **settings: Any,
) -> Crawl:
    """Runs ``scrapy runspider``, forked as scrapyprocess does, with our dupefilter to its end. ``watch`` is called with
    every line that it logs, when it does, ``started`` with the process."""
    settings = {
        "DUPEFILTER_CLASS": "crawlerfilter.scrapy.RFPDupeFilter",
        "URIFILTER_URL": url,
        "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7",
        "TELNETCONSOLE_ENABLED": False,
        **settings,
    }
    command = ["runspider", str(TESTS / "spiders" / f"{spider}.py")]
    for name, value in settings.items():
        command += ["-s", f"{name}={json.dumps(value) if isinstance(value, dict) else value}"]
    for name, value in (arguments or {}).items():
        command += ["-a", f"{name}={value}"]
    with tempfile.TemporaryDirectory() as folder:
        lines: List[str] = []
        process, said = start(command, folder, _environment(folder, web))
        limit = threading.Timer(300, process.kill)
        limit.start()
        try:
            started(process)
            with said:
                for line in said:
                    lines.append(line.decode(errors="replace"))
                    watch(lines[-1])
            process.join()
        finally:
            limit.cancel()
            process.kill()
            process.join()
        return Crawl(process.exitcode, _written(folder), "".join(lines))


def project(command: List[str], web: Web, url: str) -> Crawl:
    """Runs a command of ``scrapy`` in a project with our dupefilter and these spiders."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "scrapy.cfg").write_text("[settings]\ndefault = project_settings\n", encoding="utf-8")
        pathlib.Path(folder, "project_settings.py").write_text(
            f"""
SPIDER_MODULES = ["tests.spiders"]
DUPEFILTER_CLASS = "crawlerfilter.scrapy.RFPDupeFilter"
URIFILTER_URL = "{url}"
REQUEST_FINGERPRINTER_IMPLEMENTATION = "2.7"
TELNETCONSOLE_ENABLED = False
""",
            encoding="utf-8",
        )
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", *command],
            cwd=folder, env=_environment(folder, web), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
        )  # fmt: skip
        return Crawl(done.returncode, _written(folder), done.stdout.decode(errors="replace"))


def _environment(folder: str, web: Web) -> Dict[str, str]:
    return clean_environment(
        URIFILTER_TEST_WEB=web.url,
        URIFILTER_TEST_STATS=str(pathlib.Path(folder, STATS)),
        PYTHONPATH=f"{TESTS.parent / 'src'}:{TESTS.parent}",
        PYTHONDONTWRITEBYTECODE="1",
    )


def _written(folder: str) -> Dict[str, Any]:
    stats = pathlib.Path(folder, STATS)
    return dict(json.loads(stats.read_text(encoding="utf-8"))) if stats.exists() else {}
