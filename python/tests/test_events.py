"""The report of tests to mage, of which a failure must not be lost."""

from __future__ import annotations

import io
import json
import sys
import types
import unittest
from typing import Any, Dict, List

from .__main__ import run, run_parts


class EventTest(unittest.TestCase):
    def events(self, *cases: type) -> List[Dict[str, Any]]:
        module = types.ModuleType("sample")
        for case in cases:
            case.__module__, case.__qualname__ = "sample", case.__name__
            setattr(module, case.__name__, case)
        sys.modules["sample"] = module
        self.addCleanup(sys.modules.pop, "sample", None)
        out = io.StringIO()
        self.good = run(["sample"], out, "package")
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def actions(self, *cases: type) -> List[Any]:
        return [(e["Action"], e.get("Test", "").rpartition(".")[2]) for e in self.events(*cases) if e["Action"] not in ("run", "output")]

    def test_all_ways_to_end(self) -> None:
        class Sample(unittest.TestCase):
            def test_error(self) -> None:
                raise OSError("disk on fire")

            def test_failure(self) -> None:
                print("what it printed")
                self.fail()

            def test_pass(self) -> None:
                print("nobody reads this")

            def test_skip(self) -> None:
                self.skipTest("no moon")

            def test_sub(self) -> None:
                for i in range(3):
                    with self.subTest(i=i):
                        self.assertNotEqual(i, 1)

            @unittest.expectedFailure
            def test_unexpected(self) -> None:
                pass

        events = self.events(Sample)
        self.assertFalse(self.good)
        ended = {e["Test"].rpartition("_")[2]: e["Action"] for e in events if e["Action"] in ("pass", "fail", "skip") and "Test" in e}
        self.assertEqual(ended, {"error": "fail", "failure": "fail", "pass": "pass", "skip": "skip", "sub": "fail", "unexpected": "fail"})
        said = "".join(e.get("Output", "") for e in events)
        for text in ("disk on fire", "what it printed", "no moon", "(i=1)"):
            self.assertIn(text, said)
        self.assertNotIn("nobody reads this", said)
        self.assertEqual((events[-1]["Action"], events[-1]["Package"], "Test" in events[-1]), ("fail", "package", False))

    def test_of_a_class(self) -> None:
        class Broken(unittest.TestCase):
            @classmethod
            def setUpClass(cls) -> None:
                raise RuntimeError("no server")

            def test_one(self) -> None:
                pass

        @unittest.skip("not here")
        class Skipped(unittest.TestCase):
            def test_one(self) -> None:
                pass

        self.assertEqual([action for action, _ in self.actions(Broken)], ["fail", "fail"])
        self.assertEqual(self.actions(Skipped), [("skip", "test_one"), ("pass", "")])

    def test_parts(self) -> None:
        """Each test is run by one; one that fails, or breaks off, is told of."""
        said = [json.dumps({"Action": "pass", "Package": "package", **of}) for of in ({"Test": "a"}, {})]
        for source, good, last, told in (
            (f"print({said[0]!r}); print({said[1]!r})", True, "pass", ""),
            (f"print({said[0]!r}); print({said[1]!r}); sys.exit(int(sys.argv[1]))", False, "fail", ""),
            (f"print({said[0]!r}); int(sys.argv[1]) or print({said[1]!r}); os._exit(0)", False, "fail", "part 1 of the tests broke off with status 0"),
            (f"print({said[0]!r}); os.kill(os.getpid(), 9)", False, "fail", "part 1 of the tests broke off with status -9"),
        ):
            out = io.StringIO()
            command = [sys.executable, "-u", "-c", "import os, sys; " + source]
            self.assertIs(run_parts(command, 2, out, "package"), good)
            events = [json.loads(line) for line in out.getvalue().splitlines()]
            self.assertEqual(events[-1]["Action"], last)
            self.assertEqual([e.get("Test") for e in events if e["Action"] != "output"], ["a", "a", None])
            self.assertIn(told, "".join(e.get("Output", "") for e in events))
        tests = []
        for part in range(2):
            out = io.StringIO()
            self.assertTrue(run(["tests.test_settings"], out, "package", part, 2))
            tests.append({json.loads(line).get("Test", "") for line in out.getvalue().splitlines()} - {""})
        whole = unittest.TestLoader().loadTestsFromNames(["tests.test_settings"]).countTestCases()
        self.assertEqual((tests[0] & tests[1], len(tests[0] | tests[1])), (set(), whole))

    def test_no_tests(self) -> None:
        self.assertEqual(self.actions(), [("fail", "")])

    def test_module_that_does_not_load(self) -> None:
        out = io.StringIO()
        self.assertFalse(run(["tests.is_not_there"], out, "package"))
        self.assertIn("is_not_there", out.getvalue())
