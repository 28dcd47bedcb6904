"""The command scrapy in a process that is forked where Scrapy is imported already.

To import it takes most of the processor time of a small crawl. The process from which the
crawls are forked imports nothing of ours, and no reactor, so that they differ in nothing else
from crawls of their own.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import tempfile
from multiprocessing.connection import Connection
from typing import IO, Any, Dict, List, Tuple

_IMPORTED = [
    __name__,
    "scrapy.cmdline",
    "scrapy.commands.runspider",
    "scrapy.core.downloader.contextfactory",
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.engine",
    "scrapy.core.scheduler",
    "scrapy.core.scraper",
    "scrapy.downloadermiddlewares.cookies",
    "scrapy.downloadermiddlewares.httpcompression",
    "scrapy.downloadermiddlewares.redirect",
    "scrapy.downloadermiddlewares.retry",
    "scrapy.extensions.logstats",
    "scrapy.extensions.memusage",
    "scrapy.logformatter",
    "scrapy.pqueues",
    "scrapy.resolver",
    "scrapy.spidermiddlewares.httperror",
    "scrapy.spidermiddlewares.offsite",
    "scrapy.spidermiddlewares.referer",
    "scrapy.squeues",
    "scrapy.statscollectors",
]


_compiled: List[Any] = []  # the folder in which crawls find our modules compiled, once there is one


def start(command: List[str], folder: str, env: Dict[str, str]) -> Tuple[Any, IO[bytes]]:
    """The process, and what it says."""
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload(_IMPORTED)
    if not _compiled:
        _compiled.append(tempfile.TemporaryDirectory(prefix="urifilter-python-"))
    said, says = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(command, folder, env, _compiled[0].name, says))
    process.start()
    says.close()
    with said:
        return process, os.fdopen(os.dup(said.fileno()), "rb")


def _run(command: List[str], folder: str, env: Dict[str, str], compiled: str, says: Connection) -> None:
    for stream in (1, 2):
        os.dup2(says.fileno(), stream)
    says.close()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    sys.dont_write_bytecode, sys.pycache_prefix = False, compiled
    assert not any(name.startswith("crawlerfilter") or name == "twisted.internet.reactor" for name in sys.modules)
    from scrapy.cmdline import execute

    code: Any = 0
    try:
        execute(["scrapy", *command])
    except SystemExit as err:
        code = err.code
    gc.collect()  # as at the end of any other process: an error in a Deferred that nobody handles is logged then
    sys.exit(code)
