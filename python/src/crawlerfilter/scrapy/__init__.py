"""Scrapy asks the daemon which requests are new.

    DUPEFILTER_CLASS = "crawlerfilter.scrapy.RFPDupeFilter"

and, so that the requests of a response are asked for in one call,

    SPIDER_MIDDLEWARES = {"crawlerfilter.scrapy.BatchMiddleware": 10}

A request is remembered when it is scheduled: a crawler that is killed (``kill -9``) never
fetches what it had scheduled. A JOBDIR keeps that for crawls that are stopped in order. To
have it remembered when it was downloaded:

    URIFILTER_SEEN = "downloaded"
    DOWNLOADER_MIDDLEWARES = {"crawlerfilter.scrapy.SettleMiddleware": 10}

The settings are in :mod:`crawlerfilter.scrapy.options`. The rest of the package does not
import Scrapy.
"""

from .dupefilter import RFPDupeFilter
from .middleware import BatchMiddleware
from .settle import SettleMiddleware

__all__ = ["BatchMiddleware", "RFPDupeFilter", "SettleMiddleware"]
