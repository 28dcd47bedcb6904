"""Tests against a real daemon: ``python3 -m unittest`` in the folder python.

``URIFILTER_TEST_BINARY`` names the program (``go tool mage build`` makes dist/urifilter,
which is taken otherwise). Those of Scrapy need an interpreter that has it.
"""

import pathlib
import sys

for folder in ("", "src"):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))
