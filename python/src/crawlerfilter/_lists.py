"""Calls for lists of items, which are sent in batches."""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Set, Union

from . import _encoding, _invalid
from ._answer import is_too_large, list_of, member_of, strange
from ._arguments import Expire, dumps, items_of, seconds_of, sequence_of, typeid_of
from ._connection import Answer
from ._exchange import CHECK, FILTER, FORGET, Exchanges
from ._invalid import OnInvalid
from ._waiting import logger
from .errors import FilterError, InDoubtError, ItemError
from .settings import Settings


class ListCalls(Exchanges):
    """Which items of a list are new? They are remembered, looked at, or forgotten."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._told: Set[Union[int, str]] = set()  # filters that are past their capacity

    def filter(
        self,
        filter_typeid: Union[int, str],
        uri_list: Iterable[Any],
        expire: Expire = None,
        *,
        access_token: str = "",
        on_invalid: OnInvalid = None,
    ) -> List[Any]:
        """The items that are new, in their order; they are remembered.

        ``filter_typeid`` is the id or the name of a filter. Items are texts or any other
        values that JSON has. ``expire`` is for filters of the kind timing: for how many
        seconds the items found new are duplicates. An empty list is not sent.

        An item that cannot be taken raises ItemError, and nothing of the list is remembered.
        With ``on_invalid`` such items are skipped, and it is called with the ItemError of each,
        whose ``index`` is the position in the list: first for those that cannot be sent, before
        anything is; in the end for those that the daemon refuses, which are too large for it. Of
        more than 100 of these in a batch, one error without an index says how many.
        """
        sound = _invalid.sound(sequence_of(uri_list), on_invalid)
        return self._in_batches(FILTER, filter_typeid, sound, self._new_of, access_token, expire, on_invalid)

    def add(self, filter_typeid: Union[int, str], item: Any, expire: Expire = None, *, access_token: str = "") -> bool:
        """Whether one item is new; it is remembered. For many items :meth:`filter` and
        :meth:`add_many` are hundreds of times as quick."""
        return bool(self.filter(filter_typeid, [item], expire, access_token=access_token))

    def add_many(
        self,
        filter_typeid: Union[int, str],
        items: Iterable[Any],
        expire: Expire = None,
        *,
        access_token: str = "",
        on_invalid: OnInvalid = None,
    ) -> List[bool]:
        """For every item whether it is new; they are remembered. Of equal items in the
        list the first is new. Errors, and ``on_invalid``, are those of :meth:`filter`; what is
        skipped is not new."""
        listed = list(items_of(items))
        new = self.filter(filter_typeid, listed, expire, access_token=access_token, on_invalid=on_invalid)
        return _encoding.verdicts(listed, new)

    def stream(
        self,
        filter_typeid: Union[int, str],
        items: Iterable[Any],
        expire: Expire = None,
        *,
        access_token: str = "",
        on_invalid: OnInvalid = None,
    ) -> Iterator[Any]:
        """Like :meth:`filter`, for items without end: takes them batch by batch, and gives
        out the new ones as they are known, so that memory stays constant."""
        source, taken = items_of(items), 0
        while True:
            part = list(islice(source, self.settings.batch_items))
            if not part:
                return
            try:
                new = self.filter(
                    filter_typeid, part, expire, access_token=access_token, on_invalid=_invalid.later(on_invalid, taken)
                )
            except FilterError as err:
                raise err.later_by(taken)
            taken += len(part)
            yield from new

    def check(
        self, filter_typeid: Union[int, str], uri_list: Iterable[Any], *, access_token: str = "", on_invalid: OnInvalid = None
    ) -> List[bool]:
        """For every item whether it would be new. Nothing is remembered; equal items of
        one list are all reported alike. ``on_invalid`` is that of :meth:`filter`; the verdict
        of what is skipped is False."""
        listed = sequence_of(uri_list)
        sound = _invalid.sound(listed, on_invalid)
        return sound.spread(self._in_batches(CHECK, filter_typeid, sound, _verdicts_of, access_token, None, on_invalid), len(listed))

    def forget(self, filter_typeid: Union[int, str], uri_list: Iterable[Any], *, access_token: str = "") -> int:
        """Makes items new again, in a filter of the kind exact or timing; how many of them were
        seen. Wants a token with the scope forget. A call whose answer was lost is repeated, and
        the number is then that of the last attempt."""
        sound = _invalid.sound(sequence_of(uri_list), None)
        return sum(self._in_batches(FORGET, filter_typeid, sound, _forgotten_of, access_token))

    def _in_batches(
        self,
        path: str,
        filter_typeid: Union[int, str],
        sound: _invalid.Sound,
        read: Callable[[_encoding.Batch, Answer, bool], List[Any]],
        token: str,
        expire: Expire = None,
        on_invalid: OnInvalid = None,
    ) -> List[Any]:
        """Sends a list batch by batch. What is read of the answers, in their order: of a batch, its
        answer, and whether an attempt before it may have been carried out."""
        found: List[Any] = []
        done = 0
        refused: List[ItemError] = []
        pending = _encoding.batches(sound.items, self.settings.batch_items, self.settings.batch_bytes)[::-1]
        while pending:
            batch, doubted = pending.pop(), [False]
            try:
                answer = self._send(path, filter_typeid, batch, token, expire, on_invalid is not None, doubted)
                found += read(batch, answer, doubted[0])
            except FilterError as err:
                if is_too_large(err, batch.items):
                    pending += reversed(_encoding.halves(batch))
                    continue
                if err.index is not None:
                    err.index = sound.place(batch.start + err.index)
                if path == FILTER:
                    err.judged, err.new_items = done, found
                raise
            done += len(batch.items)
            if on_invalid is not None:
                refused += _invalid.skipped(answer.body, batch, sound)
        if on_invalid is not None:
            for item in refused:
                on_invalid(item)
        return found

    def _send(
        self,
        path: str,
        filter_typeid: Union[int, str],
        batch: _encoding.Batch,
        token: str,
        expire: Expire,
        skip: bool,
        doubted: List[bool],
    ) -> Answer:
        head: Dict[str, Any] = {"filter_typeid": typeid_of(filter_typeid)}
        if expire is not None:
            head["expire"] = seconds_of(expire)
        if skip:
            head["invalid"] = "skip"
        body = b"".join((dumps(head)[:-1], b',"uri_list":', batch.text, b"}"))
        again = path != FILTER or self.settings.in_doubt != "error"
        answer = self._exchange("POST", path, body, token=token, again=again, looks=path == CHECK, doubted=doubted)
        ratio = answer.headers.get("Urifilter-Over-Capacity")
        if ratio is not None and filter_typeid not in self._told:
            self._told.add(filter_typeid)
            logger.warning(
                "filter %s is past its capacity: of new items a share of %s is called seen"
                "\nhint: make a larger filter and use that one",
                filter_typeid, ratio,
            )  # fmt: skip
        return answer

    def _new_of(self, batch: _encoding.Batch, answer: Answer, doubted: bool) -> List[Any]:
        try:
            if doubted and self.settings.in_doubt == "new":
                return _encoding.distinct(batch, _invalid.places(answer.body))
            return _encoding.pick(batch, answer.body)
        except (ValueError, KeyError, TypeError) as err:
            raise strange(answer, InDoubtError) from err


def _verdicts_of(batch: _encoding.Batch, answer: Answer, _doubted: bool) -> List[bool]:
    verdicts = list_of(answer, "new", len(batch.items))
    return [bool(verdict) for verdict in verdicts] if None in verdicts else verdicts


def _forgotten_of(_batch: _encoding.Batch, answer: Answer, _doubted: bool) -> List[int]:
    forgotten = member_of(answer, "forgotten")
    if not isinstance(forgotten, int):
        raise strange(answer)
    return [forgotten]
