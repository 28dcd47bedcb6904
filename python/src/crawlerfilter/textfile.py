"""Lists of items in text files."""

from __future__ import annotations

import os
from typing import List, Union

from .errors import ItemError


def read_urilist_from_txt(path: Union[str, "os.PathLike[str]"], encoding: str = "utf-8") -> List[str]:
    """The lines of a text file, one item a line.

    Lines end with LF or CR LF, the last one also with the file. A byte-order mark at the start
    is skipped, and so are empty lines. Everything else is kept as it is, blanks at the
    ends of a line too: the daemon takes lines in the same way.

    A line that is not in ``encoding`` raises ItemError with the line's number, from 0, as
    ``index``; files of Chinese Windows programs are often ``gb18030``.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as err:
        line = data[: err.start].count(b"\n")
        raise ItemError(
            f"read {os.fspath(path)}: line {line + 1}: not {encoding}\nhint: name its encoding, such as encoding='gb18030'",
            error_code="invalid_utf8",
            detail=f"not {encoding}",
            index=line,
        ) from None
    lines = text[1:] if text.startswith("\ufeff") else text
    # Not splitlines, which also cuts at form feeds and other marks that a URI may hold.
    *ended, last = lines.split("\n")
    stripped = [line[:-1] if line.endswith("\r") else line for line in ended]
    return [line for line in [*stripped, last] if line]
