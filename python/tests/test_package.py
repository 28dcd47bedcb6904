"""The wheel and the source archive: they are built, installed, and used."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

import crawlerfilter
import make_dist

from .daemon import ROOT, Daemon, clean_environment

SOURCES = ROOT / "python" / "src"
CANNOT = make_dist.missing() or ("" if importlib.util.find_spec("ensurepip") else f"{sys.executable} has no ensurepip")


@unittest.skipIf(CANNOT, CANNOT)
class PackageTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_python(self, *command: str, python: str = sys.executable, **env: str) -> str:
        done = subprocess.run(
            [python, *command], cwd=self.folder, env=clean_environment(**env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def make(self, name: str, *version: str) -> "dict[str, bytes]":
        self.run_python(str(ROOT / "python" / "make_dist.py"), str(self.folder / name), *version)
        return {path.name: path.read_bytes() for path in (self.folder / name).iterdir()}

    def test_given_version(self) -> None:
        made = self.make("dist", "2.0.0-rc.1")
        self.assertIn("crawlerfilter-2.0.0rc1-py3-none-any.whl", made)
        with zipfile.ZipFile(self.folder / "dist" / "crawlerfilter-2.0.0rc1-py3-none-any.whl") as packed:
            self.assertIn('__version__ = "2.0.0-rc.1"', packed.read("crawlerfilter/__init__.py").decode())

    def test_install_and_use(self) -> None:
        version = crawlerfilter.__version__
        wheel = f"crawlerfilter-{version}-py3-none-any.whl"
        self.make("dist")
        sources = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py")} | {"crawlerfilter/py.typed"}
        with zipfile.ZipFile(self.folder / "dist" / wheel) as packed:
            names = {name.replace("licenses/", "") for name in packed.namelist()}
        self.assertEqual(sources, {name for name in names if name.startswith("crawlerfilter/")})
        self.assertIn(f"crawlerfilter-{version}.dist-info/LICENSE", names)
        self.assertFalse([name for name in names if not name.startswith("crawlerfilter")])
        with tarfile.open(self.folder / "dist" / f"crawlerfilter-{version}.tar.gz") as source:
            top = f"crawlerfilter-{version}/"
            self.assertLessEqual({top + "LICENSE", *(f"{top}src/{name}" for name in sources)}, set(source.getnames()))
        self.run_python("-m", "venv", "venv")
        python = str(self.folder / "venv" / "bin" / "python")
        self.run_python("-m", "pip", "install", "--no-index", "--no-deps", f"dist/{wheel}", python=python)
        daemon = Daemon(self.addCleanup)
        said = self.run_python(
            "-c", "import crawlerfilter; from crawlerfilter.api import FilterAPI; print(crawlerfilter.__version__, FilterAPI('uri', ['a', 'b', 'a']))",
            python=python, URIFILTER_URL=daemon.url,
        )  # fmt: skip
        self.assertEqual(said, f"{version} ['a', 'b']\n")

    def test_same_bytes(self) -> None:
        one, two = self.make("one"), self.make("two")
        self.assertEqual(sorted(one), sorted(two))
        for name in one:
            self.assertEqual(one[name], two[name], name)
