"""Crawls of a local site, with our dupefilter and with Scrapy's."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any, Dict, List, Optional

from crawlerfilter import FilterAPIClient

HERE = pathlib.Path(__file__).resolve().parent

WAYS: Dict[str, Dict[str, Any]] = {
    "scrapy, its own filter in memory": {},
    "scrapy, RFPDupeFilter": {"DUPEFILTER_CLASS": "crawlerfilter.scrapy.RFPDupeFilter"},
    "scrapy, RFPDupeFilter and BatchMiddleware": {
        "DUPEFILTER_CLASS": "crawlerfilter.scrapy.RFPDupeFilter",
        "SPIDER_MIDDLEWARES": {"crawlerfilter.scrapy.BatchMiddleware": 10},
    },
}

FILTER = "bench_scrapy"


def interpreter() -> Optional[str]:
    """The first Python that has Scrapy."""
    for name in (sys.executable, "python3", "/usr/bin/python3"):
        try:
            if subprocess.run([name, "-c", "import scrapy"], capture_output=True, check=False).returncode == 0:
                return name
        except OSError:
            pass
    return None


def measure(python: str, client: FilterAPIClient, rounds: int) -> List[Dict[str, Any]]:
    """All ways in turns."""
    rates: Dict[str, List[float]] = {way: [] for way in WAYS}
    site = subprocess.Popen([sys.executable, str(HERE / "pages.py")], stdout=subprocess.PIPE, text=True)
    try:
        assert site.stdout is not None
        address = site.stdout.readline().strip()
        for _ in range(rounds):
            for way, settings in WAYS.items():
                rates[way].append(crawl(python, client, address, settings))
    finally:
        site.kill()
        site.wait()
    middle = {way: statistics.median(found) for way, found in rates.items()}
    own, *ours = middle
    return [
        {"name": way, "unit": "pages/s", "value": middle[way], "beside": own, "limit": middle[own], "ratio": middle[way] / middle[own]}
        for way in ours
    ]


def crawl(python: str, client: FilterAPIClient, address: str, settings: Dict[str, Any]) -> float:
    """Pages a second of one crawl."""
    client.create_filter(FILTER, capacity=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        stats = pathlib.Path(folder, "stats.json")
        command = [python, "-m", "scrapy", "runspider", str(HERE / "spider.py"), "-a", f"site={address}", "-a", f"out={stats}"]
        everywhere = {
            "URIFILTER_URL": client.settings.url, "URIFILTER_TYPE": FILTER, "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False,
            "CONCURRENT_REQUESTS": 32, "CONCURRENT_REQUESTS_PER_DOMAIN": 32, "REQUEST_FINGERPRINTER_IMPLEMENTATION": "2.7",
        }  # fmt: skip
        for name, value in {**everywhere, **settings}.items():
            command += ["-s", f"{name}={json.dumps(value) if isinstance(value, dict) else value}"]
        env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}
        if client.settings.token:
            env["URIFILTER_TOKEN"] = client.settings.token
        try:
            subprocess.run(command, cwd=folder, env=env, check=True)
        finally:
            client.drop_filter(FILTER, confirm=FILTER)
        found = json.loads(stats.read_text(encoding="utf-8"))
    return float(found["response_received_count"]) / float(found["elapsed_time_seconds"])
