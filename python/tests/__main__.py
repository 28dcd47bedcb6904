"""All tests, reported in the form of ``go test -json``: ``python3 -m tests [--basic]``.

So the tests of both languages are counted in one report. People use ``python3 -m
unittest``. ``--basic`` leaves out the modules that need more than the standard library.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import platform
import sys
import time
import unittest
from typing import IO, Any, Dict, List

#: Modules that need Scrapy, or what packages are built with.
NEEDY = ("test_scrapy_crawl", "test_scrapy_downloaded", "test_scrapy_parts", "test_package")


class EventResult(unittest.TestResult):
    """Writes an event a line. What a test prints is shown when it fails."""

    def __init__(self, out: IO[str], package: str) -> None:
        super().__init__()
        self.buffer = True
        self._out, self._package = out, package
        self._test = ""
        self._action, self._said = "pass", ""
        self.ran = 0

    def event(self, action: str, test: str = "", **more: Any) -> None:
        """Writes one."""
        line: Dict[str, Any] = {"Action": action, "Package": self._package, **more}
        if test:
            line["Test"] = test
        print(json.dumps(line), file=self._out, flush=True)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._test, self._action, self._said = test.id(), "pass", ""
        self.event("run", self._test)

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        self._end(self._test, self._action, self._said)
        self._test = ""

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        self._bad(test, self.errors[-1][1])

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        self._bad(test, self.failures[-1][1])

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        before = len(self.errors), len(self.failures)
        super().addSubTest(test, subtest, err)
        for text in [t for _, t in self.errors[before[0] :]] + [t for _, t in self.failures[before[1] :]]:
            self._bad(test, f"{subtest.id()}\n{text}")

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        self._bad(test, "passes, though it is expected to fail\n")

    def addSkip(self, test: Any, reason: str) -> None:
        super().addSkip(test, reason)
        self._note(test, "skip", reason + "\n")

    def _bad(self, test: Any, text: str) -> None:
        self._mirrorOutput = False  # the text has it; stdout is for events
        self._note(test, "fail", f"--- FAIL: {test.id()}\n{text}\n")

    def _note(self, test: Any, action: str, text: str) -> None:
        if not self._test:  # of a class or a module, before its tests
            self._end(test.id(), action, text)
            return
        if self._action != "fail":
            self._action = action
        self._said += text

    def _end(self, test: str, action: str, said: str) -> None:
        self.ran += 1
        if said:
            self.event("output", test, Output=said)
        self.event(action, test)


def modules(basic: bool) -> List[str]:
    """The names of the modules with tests."""
    found = sorted(path.stem for path in pathlib.Path(__file__).parent.glob("test_*.py"))
    return [f"tests.{name}" for name in found if not (basic and name in NEEDY)]


def run(names: List[str], out: IO[str], package: str) -> bool:
    """Runs the tests of the modules."""
    result, began = EventResult(out, package), time.monotonic()
    unittest.TestLoader().loadTestsFromNames(names).run(result)
    good = result.wasSuccessful() and result.ran > 0
    result.event("pass" if good else "fail", Elapsed=time.monotonic() - began)
    return good


def versions() -> str:
    """Which Python, and which Scrapy."""
    text = "python " + platform.python_version()
    if importlib.util.find_spec("scrapy"):
        text += ", scrapy " + __import__("scrapy").__version__
    return text


def main(arguments: List[str]) -> int:
    """The command."""
    if arguments not in ([], ["--basic"]):
        print(__doc__, file=sys.stderr)
        return 2
    return 0 if run(modules(bool(arguments)), sys.stdout, versions()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
