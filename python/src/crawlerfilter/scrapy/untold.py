"""What is scheduled here, and the daemon does not know."""

from __future__ import annotations

import os
from typing import Dict, List

from .options import logger

#: Fingerprints that ``pass`` keeps to tell the daemon of when it is back.
MOST_UNTOLD = 1_000_000

#: The file in a JOBDIR, a fingerprint a line: the next run tells the daemon before it
#: asks anything, so that what its queue holds is not scheduled again.
FILE = "urifilter.untold"


class Untold:
    """Fingerprints of two sorts. Those that ``pass`` let go are fetched, and told when the
    daemon is back. Those that came while the crawl was being closed are only scheduled: a
    JOBDIR keeps them for the next run, and without one they are lost, so that the daemon
    must not learn of them."""

    def __init__(self, jobdir: str = "") -> None:
        self._path = os.path.join(jobdir, FILE) if jobdir else ""
        self._passed: Dict[str, None] = {}
        self._at_end: Dict[str, None] = {}
        self._full_logged = False
        if self._path and os.path.exists(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._passed = dict.fromkeys(file.read().split("\n"))
            self._passed.pop("", None)

    def __contains__(self, fingerprint: str) -> bool:
        return fingerprint in self._passed or fingerprint in self._at_end

    def to_tell(self) -> List[str]:
        """What the daemon is to be told, in order."""
        return list(self._passed)

    def told(self, fingerprints: List[str]) -> None:
        """The daemon knows these."""
        for fingerprint in fingerprints:
            self._passed.pop(fingerprint, None)
        if not self._passed:
            self._remove()

    def passed(self, fingerprint: str) -> None:
        """Is fetched without having been judged."""
        if len(self._passed) < MOST_UNTOLD:
            self._passed[fingerprint] = None
        elif not self._full_logged:
            self._full_logged = True
            logger.warning("urifilter: the daemon will not be told of more than %d requests that passed", MOST_UNTOLD)

    def at_end(self, fingerprint: str) -> None:
        """Is scheduled while the crawl is being closed."""
        self._at_end[fingerprint] = None

    def unjudged_at_end(self) -> int:
        """How many were."""
        return len(self._at_end)

    def clear(self) -> None:
        """The filter was cleared."""
        self._passed.clear()
        self._remove()

    def keep(self) -> int:
        """At the end of a crawl. Returns how many the daemon will never be told of."""
        if not self._path:
            return len(self._passed)
        if self._passed or self._at_end:
            self._write()
        return 0

    def _write(self) -> None:
        """The file is the old one or the new one, whole, whenever the process is killed and
        whatever cannot be written."""
        beside = self._path + ".new"
        try:
            with open(beside, "w", encoding="utf-8") as file:
                file.writelines(fingerprint + "\n" for fingerprint in {**self._passed, **self._at_end})
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, self._path)
        except BaseException:
            if os.path.exists(beside):
                os.remove(beside)
            raise

    def _remove(self) -> None:
        if self._path and os.path.exists(self._path):
            os.remove(self._path)
