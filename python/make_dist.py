"""Makes the wheel and the source archive: ``python3 make_dist.py [FOLDER [VERSION]]``, else ../dist.

They have the version of the sources if none is given. It needs no network, only setuptools (and wheel, before setuptools 70.1) of the
interpreter, and makes the same bytes of the same sources.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

#: The time of all files, unless SOURCE_DATE_EPOCH says another: the first that zip has.
EPOCH = 315532800

BACKEND = "import sys; out = sys.argv[1]; from setuptools import build_meta as b; b.build_sdist(out); b.build_wheel(out)"


def main() -> int:
    """The command."""
    if missing():
        print(f"{missing()}\nhint: on Debian: apt-get install python3-setuptools python3-wheel", file=sys.stderr)
        return 1
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent / "dist").resolve()
    out.mkdir(parents=True, exist_ok=True)
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", EPOCH))
    with tempfile.TemporaryDirectory() as folder:
        tree, made = pathlib.Path(folder, "tree"), pathlib.Path(folder, "made")
        stage(tree, epoch, sys.argv[2] if len(sys.argv) > 2 else "")
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONDONTWRITEBYTECODE": "1"}
        built = subprocess.run([sys.executable, "-c", BACKEND, str(made)], cwd=tree, env=env, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            print(built.stdout + built.stderr, file=sys.stderr)
            return 1
        for path in sorted(made.iterdir()):
            if path.name.endswith(".tar.gz"):
                settle(path, epoch)
            shutil.copyfile(path, out / path.name)
            print(out / path.name)
    return 0


def missing() -> str:
    """What the interpreter lacks; nothing if it can build."""
    for ways in (["setuptools"], ["wheel", "setuptools.command.bdist_wheel"]):
        if not any(importlib.util.find_spec(name) for name in ways):
            return f"{sys.executable} has no {ways[0]}"
    return ""


def stage(tree: pathlib.Path, epoch: int, version: str) -> None:
    """Copies what is packed: setuptools leaves files beside the sources that it builds."""
    shutil.copytree(HERE / "src", tree / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc"))
    for path in (HERE / "pyproject.toml", HERE / "README.md", HERE.parent / "LICENSE"):
        shutil.copyfile(path, tree / path.name)
    if version:
        init = tree / "src" / "crawlerfilter" / "__init__.py"
        init.write_text(re.sub(r'(?m)^__version__ = .*', f'__version__ = "{version}"', init.read_text("utf-8")), "utf-8")
    for path in tree.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (epoch, epoch))


def settle(path: pathlib.Path, epoch: int) -> None:
    """Writes a source archive again without the time and the user of this build."""
    packed = io.BytesIO()
    with tarfile.open(path) as source, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as target:
        for member in sorted(source.getmembers(), key=lambda m: m.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = epoch, {}
            member.mode = 0o755 if member.isdir() else 0o644
            target.addfile(member, source.extractfile(member) if member.isfile() else None)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as zipped:
        zipped.write(packed.getvalue())


if __name__ == "__main__":
    sys.exit(main())
