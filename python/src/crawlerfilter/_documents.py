"""The call for documents that are nearly the same."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

from ._answer import is_too_large, list_of
from ._arguments import dumps, typeid_of
from ._exchange import NEAR, Exchanges
from .errors import FilterError, ItemError, SettingsError


class DocumentCalls(Exchanges):
    """For filters of the kind simhash."""

    def near(
        self,
        filter_typeid: Union[int, str],
        documents: Iterable[Any],
        *,
        distance: Optional[int] = None,
        limit: Optional[int] = None,
        remember: bool = True,
        access_token: str = "",
    ) -> List[Dict[str, Any]]:
        """For every document what is nearly the same, in a filter of the kind simhash; they are
        remembered.

        A document is a pair of id and text, or ``{"id": ..., "text": ...}``. The result has one dict
        for each, in their order: ``id``, ``fingerprint`` (16 hexadecimal digits), ``new`` (no document
        of another id that came before is near), ``near`` (a list of ``{"id", "distance"}``, nearest
        first, at most ``limit``, 10 by default) and, if that leaves some out, ``more``.

        ``distance`` may be less than that of the filter. With ``remember=False`` nothing is remembered,
        and the documents are not compared with each other. Many documents are sent in several
        requests, one after the other; each is all or nothing, and a call that failed can be repeated:
        it calls the same documents new. An error's ``index`` is the position in ``documents``.
        """
        listed = [dumps(document) for document in _documents_of(documents)]
        options = {"distance": distance, "limit": limit, "remember": None if remember else False}
        head: Dict[str, Any] = {"filter_typeid": typeid_of(filter_typeid)}
        head.update({member: value for member, value in options.items() if value is not None})
        found: List[Dict[str, Any]] = []
        pending = _portions(listed, self.settings.batch_items, self.settings.batch_bytes)[::-1]
        while pending:
            start, part = pending.pop()
            try:
                body = b"".join((dumps(head)[:-1], b',"documents":[', b",".join(part), b"]}"))
                answer = self._exchange("POST", NEAR, body, token=access_token, again=True, looks=not remember)
                found += list_of(answer, "documents", len(part))
            except FilterError as err:
                if is_too_large(err, part):
                    half = len(part) // 2
                    pending += [(start + half, part[half:]), (start, part[:half])]
                    continue
                if err.index is not None:
                    err.index += start
                raise
        return found


def _documents_of(documents: Iterable[Any]) -> List[Dict[str, str]]:
    """Documents as they are sent; what is none, or cannot be sent, is refused with its place."""
    if isinstance(documents, (str, bytes, dict)) or not hasattr(documents, "__iter__"):
        raise SettingsError(
            f"documents: want a list of pairs of id and text, not one {type(documents).__name__}", error_code="invalid_call"
        )
    listed: List[Dict[str, str]] = []
    for index, document in enumerate(documents):
        pair = document
        if isinstance(document, dict):
            pair = (document.get("id"), document.get("text")) if set(document) == {"id", "text"} else ()
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise ItemError(
                f'documents[{index}]: want a pair of texts, id and text, or {{"id": ..., "text": ...}}', error_code="invalid_call", index=index
            )
        for part in pair:
            if not _encodes(part):
                raise ItemError(f"documents[{index}]: not valid Unicode: half a surrogate pair", error_code="invalid_utf8", index=index)
        listed.append({"id": pair[0], "text": pair[1]})
    return listed


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _portions(documents: List[bytes], most: int, most_bytes: int) -> List[Tuple[int, List[bytes]]]:
    """Documents in parts for one request each, with the place of the first."""
    parts: List[Tuple[int, List[bytes]]] = []
    size = 0
    for index, document in enumerate(documents):
        own = len(document) + 1
        if not parts or len(parts[-1][1]) >= most or size + own > most_bytes:
            parts.append((index, []))
            size = 0
        parts[-1][1].append(document)
        size += own
    return parts
