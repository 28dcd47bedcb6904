"""What this process knows to have been seen."""

from __future__ import annotations

from typing import Set, Union


class Seen:
    """A bounded set of fingerprints that forgets those which were not met for longest.

    Two generations: when the young one is half of the whole, it becomes the old one, and
    what was in the old one and not met since is forgotten. About 100 bytes a fingerprint.
    """

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._young: Set[Union[bytes, str]] = set()
        self._old: Set[Union[bytes, str]] = set()

    def __contains__(self, fingerprint: str) -> bool:
        key = _key(fingerprint)
        if key in self._young:
            return True
        if key in self._old:
            self._add(key)
            return True
        return False

    def add(self, fingerprint: str) -> None:
        """Remembers fingerprint."""
        self._add(_key(fingerprint))

    def clear(self) -> None:
        """Forgets all."""
        self._young, self._old = set(), set()

    def __len__(self) -> int:
        return len(self._young | self._old)

    def _add(self, key: Union[bytes, str]) -> None:
        if self._half == 0:
            return
        if len(self._young) >= self._half:
            self._young, self._old = set(), self._young
        self._young.add(key)


def _key(fingerprint: str) -> Union[bytes, str]:
    try:
        return bytes.fromhex(fingerprint)  # half the size
    except ValueError:
        return fingerprint  # of a dupefilter with fingerprints of its own
