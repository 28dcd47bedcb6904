"""Which of Scrapy's commands runs here."""

from __future__ import annotations

import sys
import threading
from typing import Any, Optional

#: Those that look at pages and are no crawl.
LOOKING = frozenset("bench check fetch parse shell view".split())


def looking_command() -> Optional[str]:
    """The name of the command, if it is one of those."""
    for base in type(_command()).__mro__:
        package, _, name = base.__module__.rpartition(".")
        if package == "scrapy.commands" and name in LOOKING:
            return name
    return None


def fail_command() -> None:
    """Has the command end with status 1, as it does when a crawl cannot start."""
    command = _command()
    if command is not None:
        command.exitcode = 1


def _command() -> Any:
    """The command that runs, None in other programs. Scrapy tells its parts of no command,
    and the program's arguments are not those of ``scrapy.cmdline.execute([...])``: so the
    main thread is looked at, which runs it from the beginning to the end."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "_run_command" and frame.f_globals.get("__name__") == "scrapy.cmdline":
            return frame.f_locals.get("cmd")
        frame = frame.f_back
    return None
