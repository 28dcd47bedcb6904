"""Scrapy asks the daemon which requests are new.

    DUPEFILTER_CLASS = "crawlerfilter.scrapy.RFPDupeFilter"

and, so that the requests of a response are asked for in one call,

    SPIDER_MIDDLEWARES = {"crawlerfilter.scrapy.BatchMiddleware": 10}

A request is remembered when it is scheduled: a crawler that is killed (``kill -9``) never
fetches what it had scheduled. A JOBDIR keeps that for crawls that are stopped in order.

The settings are in :mod:`crawlerfilter.scrapy.options`. The rest of the package does not
import Scrapy.
"""

from .dupefilter import RFPDupeFilter
from .middleware import BatchMiddleware

__all__ = ["BatchMiddleware", "RFPDupeFilter"]
