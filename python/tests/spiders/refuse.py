"""A downloader middleware that refuses all requests."""

from __future__ import annotations

from typing import Any

from scrapy.exceptions import IgnoreRequest


class Refuse:
    def process_request(self, request: Any, spider: Any = None) -> None:
        raise IgnoreRequest("refused")
