"""All tests, reported in the form of ``go test -json``: ``python3 -m tests [--basic]``.

So the tests of both languages are counted in one report. People use ``python3 -m
unittest``. ``--basic`` leaves out the modules that need more than the standard library.
As the tests wait more than they compute, each third of them has a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import platform
import subprocess
import sys
import threading
import time
import unittest
from typing import IO, Any, Dict, Iterator, List

#: What the names of modules begin with that need Scrapy, or what packages are built with.
NEEDY = ("test_scrapy_", "test_package")

#: Processes that run at the same time.
PARTS = 3


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
    return [f"tests.{name}" for name in found if not (basic and name.startswith(NEEDY))]


def run(names: List[str], out: IO[str], package: str, part: int = 0, parts: int = 1) -> bool:
    """Runs the tests of the modules, or one part of them."""
    result, began = EventResult(out, package), time.monotonic()
    tests = list(single(unittest.TestLoader().loadTestsFromNames(names)))
    unittest.TestSuite(tests[part::parts]).run(result)
    good = result.wasSuccessful() and result.ran > 0
    result.event("pass" if good else "fail", Elapsed=time.monotonic() - began)
    return good


def single(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The tests of a suite, and of those in it."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from single(test)
        else:
            yield test


def run_parts(command: List[str], parts: int, out: IO[str], package: str) -> bool:
    """Has a process run each part: the command, with the part's number. What they report is passed on,
    but that they have ended."""
    summary, began, lock = EventResult(out, package), time.monotonic(), threading.Lock()
    good = [False] * parts

    def run_part(part: int) -> None:
        ended = False
        with subprocess.Popen([*command, str(part)], stdout=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            for line in process.stdout:
                event = json.loads(line) if line.startswith("{") else {}
                ended = event.get("Action") in ("pass", "fail") and "Test" not in event
                if not ended:
                    with lock:
                        print(line, end="", file=out, flush=True)
        good[part] = ended and process.returncode == 0
        if not ended:
            with lock:
                summary.event("output", Output=f"part {part} of the tests broke off with status {process.returncode}\n")

    threads = [threading.Thread(target=run_part, args=(part,)) for part in range(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary.event("pass" if all(good) else "fail", Elapsed=time.monotonic() - began)
    return all(good)


def versions() -> str:
    """Which Python, and which Scrapy."""
    text = "python " + platform.python_version()
    if importlib.util.find_spec("scrapy"):
        text += ", scrapy " + __import__("scrapy").__version__
    return text


def main(arguments: List[str]) -> int:
    """The command."""
    basic = arguments[:1] == ["--basic"]
    rest = arguments[basic:]
    if not rest:
        return 0 if run_parts([sys.executable, "-m", "tests", *arguments, "--part"], PARTS, sys.stdout, versions()) else 1
    if len(rest) != 2 or rest[0] != "--part":
        print(__doc__, file=sys.stderr)
        return 2
    return 0 if run(modules(basic), sys.stdout, versions(), int(rest[1]), PARTS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
