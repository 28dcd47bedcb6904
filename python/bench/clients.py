"""How fast the Python client and Scrapy are, beside what limits them.

    python3 bench/clients.py --url http://127.0.0.1:8000 [--seconds 3] [--json FILE]

The client is measured beside http.client with json.dumps and json.loads, which do the
same calls without it; Scrapy with our dupefilter beside its own in memory. What is
compared runs in turns, so that both meet the same machine. Prints a table, and the same
as JSON to the file ("-": only JSON, to stdout). Makes filters of its own, and drops them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import pathlib
import statistics
import sys
import time
from typing import Any, Callable, Dict, Iterator, List

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))

from crawlerfilter import FilterAPIClient
from crawlerfilter._servers import Server

import crawls

ROUNDS = 5


def batches(size: int, name: str) -> Iterator[List[str]]:
    """Lists of 66-byte URIs, of which half were there before."""
    start = 0
    while True:
        yield [f"https://www.example.com/{name}/%035d.html" % i for i in range(start, start + size)]
        start += size // 2 or 1


class Raw:
    """The limit: one connection, and nothing but what a call needs."""

    def __init__(self, client: FilterAPIClient) -> None:
        server = Server(client.settings.url.split(",")[0].strip())
        kind = http.client.HTTPSConnection if server.tls else http.client.HTTPConnection
        self._connection = kind(server.host, server.port, timeout=60)
        self._path = server.prefix + "/api/v1/filter"
        self._headers = {"Content-Type": "application/json"}
        if client.settings.token:
            self._headers["Authorization"] = "Bearer " + client.settings.token

    def filter(self, filter_typeid: str, uri_list: List[str]) -> List[str]:
        """One call."""
        body = json.dumps({"filter_typeid": filter_typeid, "uri_list": uri_list})
        self._connection.request("POST", self._path, body, self._headers)
        response = self._connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise SystemExit(f"bench: {answer}")
        new: List[str] = answer["uri_list"]
        return new


def rate(call: Callable[[str, List[str]], List[str]], name: str, source: Iterator[List[str]], seconds: float) -> float:
    """Items a second."""
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        items = next(source)
        call(name, items)
        done += len(items)
    return done / (time.perf_counter() - began)


def measure(client: FilterAPIClient, size: int, seconds: float) -> Dict[str, Any]:
    """Client and limit in turns, each on a filter of its own."""
    raw = Raw(client)
    calls = {"client": client.filter, "limit": raw.filter}
    sources, rates = {}, {who: [] for who in calls}  # type: Dict[str, Iterator[List[str]]], Dict[str, List[float]]
    for who in calls:
        sources[who] = batches(size, who[:1])
        client.create_filter(f"bench_{who}_{size}", capacity=10_000_000)
    try:
        for _ in range(ROUNDS):
            for who, call in calls.items():
                rates[who].append(rate(call, f"bench_{who}_{size}", sources[who], seconds / ROUNDS))
    finally:
        for who in calls:
            client.drop_filter(f"bench_{who}_{size}", confirm=f"bench_{who}_{size}")
    ours, limit = (statistics.median(rates[who]) for who in calls)
    return {"name": f"python, batches of {size:,}", "unit": "items/s", "value": ours, "beside": "http.client and json", "limit": limit, "ratio": ours / limit}


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="the daemon; else URIFILTER_URL, else http://127.0.0.1:8000")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each figure of the client")
    parser.add_argument("--rounds", type=int, default=3, help="crawls for each figure of Scrapy")
    parser.add_argument("--json", metavar="FILE", help="where to write the figures; -: stdout, without the table")
    parser.add_argument("--scrapy", metavar="PYTHON", help="the interpreter that has Scrapy; none: no figures of it")
    arguments = parser.parse_args()
    client = FilterAPIClient(**({"url": arguments.url} if arguments.url else {}))
    client.ready()
    results = [measure(client, size, arguments.seconds) for size in (1, 100, 1000, 10_000)]
    interpreter = arguments.scrapy or crawls.interpreter()
    if interpreter and interpreter != "none":
        results += crawls.measure(interpreter, client, arguments.rounds)
    else:
        print("left out: Scrapy: no interpreter has it; on Debian: apt-get install python3-scrapy", file=sys.stderr)
    text = json.dumps({"results": results}, indent=1)
    if arguments.json != "-":
        print(table(results))
        if arguments.json:
            pathlib.Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return 0


def table(results: List[Dict[str, Any]]) -> str:
    """For people."""
    lines = ["| what | rate | beside it | its rate | ratio |", "|---|---|---|---|---|"]
    for r in results:
        lines.append(f"| {r['name']} | {r['value']:,.0f} {r['unit']} | {r['beside']} | {r['limit']:,.0f} | {r['ratio']:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
