"""What a test wants to know of a crawl."""

from __future__ import annotations

import json
import os
from typing import Any

from scrapy import Spider


class ReportingSpider(Spider):
    """Writes its stats to the file URIFILTER_TEST_STATS when it is closed."""

    web = os.environ["URIFILTER_TEST_WEB"]

    def closed(self, reason: str) -> None:
        stats: Any = {**self.crawler.stats.get_stats(), "finish_reason": reason}
        with open(os.environ["URIFILTER_TEST_STATS"], "w", encoding="utf-8") as file:
            json.dump(stats, file, default=str)
