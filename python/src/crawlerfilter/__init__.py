"""Asks a urifilter daemon which items are new.

    from crawlerfilter.api import FilterAPI
    new = FilterAPI("uri", ["https://example.com/a", "https://example.com/b"])

The package needs Python 3.9 and its standard library. ``crawlerfilter.scrapy``, which is
imported only by those who use it, needs Scrapy.
"""

from .aio import AsyncFilterAPIClient
from .client import FilterAPIClient
from .errors import FilterError, InDoubtError, ItemError, SettingsError, UnavailableError
from .settings import Settings

__version__ = "0.1.0"

__all__ = [
    "AsyncFilterAPIClient",
    "FilterAPIClient",
    "FilterError",
    "InDoubtError",
    "ItemError",
    "Settings",
    "SettingsError",
    "UnavailableError",
    "__version__",
]
