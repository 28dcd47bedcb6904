"""What an answer of the daemon says, or what is wrong with it."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Sequence, Type

from ._connection import Answer
from .errors import CERTAIN, FilterError, InDoubtError, ItemError, UnavailableError


def error_of(where: str, answer: Answer) -> FilterError:
    """The answer that is no success as an exception."""
    problem: Dict[str, Any] = {}
    if answer.headers.get("Content-Type", "").startswith("application/problem+json"):
        try:
            problem = object_of(answer)
        except FilterError:
            pass
    code, status = str(problem.get("error_code", "")), answer.status
    detail = str(problem.get("detail") or problem.get("title") or "")
    if not detail and answer.headers.get("Content-Type", "text/plain").startswith("text/plain"):
        line = answer.body[:300].decode("ascii", "replace").strip().partition("\n")[0]
        detail = line if line.isprintable() else ""
    if not detail and 300 <= status < 400:
        detail = f"redirected to {answer.headers.get('Location')}, which is not followed: use that address"
    index = problem.get("index")
    kind: Type[FilterError] = FilterError
    if isinstance(index, int):
        kind = ItemError
    elif code in CERTAIN or status == 429 and code != "too_many_refusals":
        kind = UnavailableError
    elif status >= 500:
        kind = InDoubtError
    text = f"{where}: {status}" + (f" {code}" if code else "") + (f": {detail}" if detail else "")
    return kind(
        text,
        error_code=code or "invalid_answer",
        status=status,
        detail=detail,
        index=index if isinstance(index, int) else None,
        known=problem.get("known") or (),
        retry_after=retry_after(answer.headers.get("Retry-After", "")),
    )


def retry_after(value: str) -> float:
    return float(value) if value.isascii() and value.isdigit() else 0.0


def object_of(answer: Answer) -> Dict[str, Any]:
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise strange(answer)
    return value


def member_of(answer: Answer, member: str) -> Any:
    value = object_of(answer)
    if member not in value:
        raise strange(answer)
    return value[member]


def list_of(answer: Answer, member: str, length: int) -> List[Any]:
    value = member_of(answer, member)
    if not isinstance(value, list) or len(value) != length:
        raise strange(answer)
    return value


def is_too_large(err: FilterError, batch: Sequence[Any]) -> bool:
    """Whether a batch is to be sent in halves: the daemon's limits are lower than ours."""
    return err.error_code in ("too_many_items", "body_too_large") and len(batch) > 1


def strange(answer: Answer, kind: Type[FilterError] = FilterError) -> FilterError:
    return kind(
        f"answer of {len(answer.body)} bytes, status {answer.status}: not what urifilter answers: "
        "does another program listen at this address?",
        error_code="invalid_answer",
        status=answer.status,
    )
