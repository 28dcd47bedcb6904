"""A downloader middleware that tells what became of requests."""

from __future__ import annotations

from typing import Any

from scrapy.exceptions import IgnoreRequest, NotConfigured

from .dupefilter import of_crawler
from .options import seen_of
from .settlers import install


class SettleMiddleware:
    """Has the dupefilter commit what was downloaded, and release what has failed for good, if
    ``URIFILTER_SEEN`` is ``downloaded``; otherwise it is left out.

    It must be the first that requests and the last that responses go through: give it a number
    below those of all downloader middlewares (``DOWNLOADER_MIDDLEWARES`` 10). What the others
    retry or redirect is not settled yet, and it does not see it.
    """

    def __init__(self, crawler: Any) -> None:
        if seen_of(crawler.settings) != "downloaded":
            raise NotConfigured
        self._crawler = crawler
        self._allow_all = crawler.settings.getbool("HTTPERROR_ALLOW_ALL")
        self._allowed = crawler.settings.getlist("HTTPERROR_ALLOWED_CODES")
        install(crawler)

    @classmethod
    def from_crawler(cls, crawler: Any) -> "SettleMiddleware":
        """Called by Scrapy."""
        return cls(crawler)

    def process_request(self, request: Any, spider: Any = None) -> None:
        """Drops a request that somebody else has taken since its lease ended."""
        dupefilter = of_crawler(self._crawler)
        if dupefilter is not None and not dupefilter.begins(request):
            dupefilter.log(request, self._crawler.spider)
            raise IgnoreRequest("urifilter: it was taken by another when its lease had ended")

    def process_response(self, request: Any, response: Any, spider: Any = None) -> Any:
        """A response that no other middleware has made a request of."""
        dupefilter = of_crawler(self._crawler)
        if dupefilter is not None:
            failed = response.status in dupefilter.options.failed_codes and not self._reaches_spider(request, response)
            dupefilter.ends(request, not failed)
        return response

    def process_exception(self, request: Any, exception: Exception, spider: Any = None) -> None:
        """An exception that no other middleware has handled."""
        dupefilter = of_crawler(self._crawler)
        if dupefilter is not None:
            dupefilter.ends(request, False)

    def _reaches_spider(self, request: Any, response: Any) -> bool:
        """What Scrapy's HttpErrorMiddleware will say."""
        if 200 <= response.status < 300 or request.meta.get("handle_httpstatus_all", False):
            return True
        if "handle_httpstatus_list" in request.meta:
            return response.status in request.meta["handle_httpstatus_list"]
        return self._allow_all or response.status in getattr(self._crawler.spider, "handle_httpstatus_list", self._allowed)
