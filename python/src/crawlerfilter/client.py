"""The client: which items are new?"""

from __future__ import annotations

import random
import secrets
import sys
import time
from datetime import timedelta
from itertools import islice
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Type, Union
from urllib.parse import urlencode

from . import _encoding, _invalid
from ._answer import error_of, member_of, object_of, strange
from ._arguments import Expire, documents_of, dumps, header_safe, items_of, path_of, portions, seconds_of, typeid_of
from ._connection import Answer, Connections, NoAnswer
from ._invalid import OnInvalid
from ._servers import Server, Servers
from ._waiting import Waiting, logger
from .errors import PASSING, FilterError, InDoubtError, ItemError, SettingsError, UnavailableError
from .settings import Settings

# Pauses between attempts, when all servers have been tried: doubled each time, half of
# it by chance, so that a fleet of crawlers does not come back in step.
_FIRST_PAUSE = 0.05
_LAST_PAUSE = 2.0

_FILTER = "/api/v1/filter"
_CHECK = "/api/v1/check"
_FORGET = "/api/v1/forget"
_NEAR = "/api/v1/near"
_RESERVE = "/api/v1/reserve"
_COMMIT = "/api/v1/commit"
_RELEASE = "/api/v1/release"

# A batch of more than one item that is answered so is sent in halves: the daemon's limits
# are lower than ours.
_TOO_LARGE = ("too_many_items", "body_too_large")


class FilterAPIClient:
    """A client of the daemon, or of several that share one store.

    It keeps its connections and may be used by many threads at once, and after a fork;
    make one and share it::

        client = FilterAPIClient(url="http://127.0.0.1:8000", token="...")
        new = client.filter("uri", ["https://example.com/a", "https://example.com/b"])

    A list of more than ``Settings.batch_items`` items, or ``batch_bytes`` bytes, is sent
    in several requests, one after the other. Each request is all or nothing. All items
    are looked at before the first one is sent; should the connection break off between
    two requests, the error's ``new_items`` has what was new in those that were answered.
    """

    def __init__(
        self,
        settings: Optional[Settings] = None,
        *,
        url: Optional[str] = None,
        token: Optional[str] = None,
        timeout: Optional[float] = None,
        patience: Optional[float] = None,
        in_doubt: Optional[str] = None,
        batch_items: Optional[int] = None,
        batch_bytes: Optional[int] = None,
        ca_file: Optional[str] = None,
    ) -> None:
        """A Settings object, or single settings, which go before those of the environment."""
        own = (url, token, timeout, patience, in_doubt, batch_items, batch_bytes, ca_file)
        if settings is not None and (not isinstance(settings, Settings) or own != (None,) * len(own)):
            raise SettingsError("FilterAPIClient: want a Settings object, or settings by name such as url='http://127.0.0.1:8000'")
        self.settings = settings or Settings.from_env(
            url=url, token=token, timeout=timeout, patience=patience, in_doubt=in_doubt,
            batch_items=batch_items, batch_bytes=batch_bytes, ca_file=ca_file,
        )  # fmt: skip
        #: Called before each pause of a call that is made again, with the error and the
        #: seconds; what it raises ends the call. None: the first pause is logged, by the
        #: logger ``crawlerfilter``, and that the daemon is back.
        self.on_wait: Optional[Callable[[FilterError, float], None]] = None
        self._waiting = Waiting(self.settings.patience)
        self._told: Set[Union[int, str]] = set()  # filters that are past their capacity
        self._servers = Servers(self.settings.url)
        self._connections = Connections(self.settings.timeout, self.settings.ca_file)

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
        new: List[Any] = []
        done = 0
        sound = _invalid.sound(_sequence(uri_list), on_invalid)
        refused: List[ItemError] = []
        pending = self._batches(sound.items)[::-1]
        while pending:
            batch = pending.pop()
            try:
                part, answer = self._filter(filter_typeid, batch, expire, access_token, on_invalid is not None)
                new += part
            except FilterError as err:
                if err.error_code in _TOO_LARGE and len(batch.items) > 1:
                    pending += reversed(_encoding.halves(batch))
                    continue
                raise _placed(err, sound, batch, done, new)
            done += len(batch.items)
            if on_invalid is not None:
                refused += _invalid.skipped(answer.body, batch, sound)
        if on_invalid is not None:
            for item in refused:
                on_invalid(item)
        return new

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
        verdicts: List[bool] = []
        listed = _sequence(uri_list)
        sound = _invalid.sound(listed, on_invalid)
        refused: List[ItemError] = []
        pending = self._batches(sound.items)[::-1]
        while pending:
            batch = pending.pop()
            try:
                answer = self._send(_CHECK, filter_typeid, batch, None, access_token, again=True, skip=on_invalid is not None)
                part = member_of(answer, "new")
                if not isinstance(part, list) or len(part) != len(batch.items):
                    raise strange(answer)
            except FilterError as err:
                if err.error_code in _TOO_LARGE and len(batch.items) > 1:
                    pending += reversed(_encoding.halves(batch))
                    continue
                raise _placed(err, sound, batch, 0, [])
            verdicts += [bool(verdict) for verdict in part] if None in part else part
            if on_invalid is not None:
                refused += _invalid.skipped(answer.body, batch, sound)
        if on_invalid is not None:
            for item in refused:
                on_invalid(item)
        return sound.spread(verdicts, len(listed))

    def forget(self, filter_typeid: Union[int, str], uri_list: Iterable[Any], *, access_token: str = "") -> int:
        """Makes items new again, in a filter of the kind exact or timing; how many of them were
        seen. Wants a token with the scope forget. A call whose answer was lost is repeated, and
        the number is then that of the last attempt."""
        forgotten = 0
        sound = _invalid.sound(_sequence(uri_list), None)
        pending = self._batches(sound.items)[::-1]
        while pending:
            batch = pending.pop()
            try:
                answer = self._send(_FORGET, filter_typeid, batch, None, access_token, again=True)
                part = member_of(answer, "forgotten")
                if not isinstance(part, int):
                    raise strange(answer)
            except FilterError as err:
                if err.error_code in _TOO_LARGE and len(batch.items) > 1:
                    pending += reversed(_encoding.halves(batch))
                    continue
                raise _placed(err, sound, batch, 0, [])
            forgotten += part
        return forgotten

    def reserve(
        self,
        filter_typeid: Union[int, str],
        uri_list: Iterable[Any],
        lease: Union[float, timedelta],
        *,
        reservation: str = "",
        access_token: str = "",
    ) -> Dict[str, Any]:
        """Takes the new items for ``lease`` seconds, in a filter of the kind exact or timing: nobody
        else is given them. :meth:`commit` makes them seen, :meth:`release` gives them back; otherwise
        they are new again when the lease ends.

        The result has ``uri_list`` (the new items, in order), ``reservation`` (what the other two
        want), ``total``, ``duplicates`` and ``reserved`` (how many others have). The list goes in one
        request. A call whose answer was lost is repeated, and answered alike: the daemon
        knows it by its ``reservation``, 32 hexadecimal digits that are random, and made up here by
        default. One that raises InDoubtError may have reserved items under that name.
        """
        more = {"lease": seconds_of(lease, "lease"), "reservation": reservation or secrets.token_hex(16)}
        return self._whole(_RESERVE, filter_typeid, uri_list, access_token, more, "reservation")

    def commit(
        self,
        filter_typeid: Union[int, str],
        reservation: str,
        uri_list: Optional[Iterable[Any]] = None,
        expire: Expire = None,
        *,
        access_token: str = "",
    ) -> Dict[str, Any]:
        """Makes items of a reservation seen, None: all that it has taken and not released. In a
        filter of the kind timing they are seen for its time, or ``expire`` seconds, from now on.

        The result has ``done``, ``lost`` (items of the list that another has taken after the lease
        had ended, that were forgotten, or that were never of the reservation) and ``lost_total``. A
        call whose answer was lost is repeated, and answered alike.
        """
        more: Dict[str, Any] = {"reservation": reservation}
        if expire is not None:
            more["expire"] = seconds_of(expire)
        return self._whole(_COMMIT, filter_typeid, uri_list, access_token, more, "lost")

    def release(
        self, filter_typeid: Union[int, str], reservation: str, uri_list: Optional[Iterable[Any]] = None, *, access_token: str = ""
    ) -> Dict[str, Any]:
        """Makes items of a reservation new again at once, None: all that it has taken and not
        committed. The result, and what is repeated, are those of :meth:`commit`."""
        return self._whole(_RELEASE, filter_typeid, uri_list, access_token, {"reservation": reservation}, "lost")

    def _whole(
        self,
        path: str,
        filter_typeid: Union[int, str],
        uri_list: Optional[Iterable[Any]],
        token: str,
        more: Dict[str, Any],
        wanted: str,
    ) -> Dict[str, Any]:
        """A call whose list, if it has one, goes in one request."""
        head = dumps({"filter_typeid": typeid_of(filter_typeid), **more})
        body = head
        if uri_list is not None:
            items = _sequence(uri_list)
            texts = [batch.text for batch in _encoding.batches(items, max(1, len(items)), sys.maxsize)]
            body = b"".join((head[:-1], b',"uri_list":', texts[0] if texts else b"[]", b"}"))
        answer = self._exchange("POST", path, body, token=token, again=True)
        member_of(answer, wanted)
        return object_of(answer)

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
        listed = documents_of(documents)
        options = {"distance": distance, "limit": limit, "remember": None if remember else False}
        head: Dict[str, Any] = {"filter_typeid": typeid_of(filter_typeid)}
        head.update({member: value for member, value in options.items() if value is not None})
        found: List[Dict[str, Any]] = []
        pending = portions(listed, self.settings.batch_items, self.settings.batch_bytes)[::-1]
        while pending:
            start, part = pending.pop()
            try:
                answer = self._exchange("POST", _NEAR, dumps({**head, "documents": part}), token=access_token, again=True)
                told = member_of(answer, "documents")
                if not isinstance(told, list) or len(told) != len(part):
                    raise strange(answer)
            except FilterError as err:
                if err.error_code in _TOO_LARGE and len(part) > 1:
                    half = len(part) // 2
                    pending += [(start + half, part[half:]), (start, part[:half])]
                    continue
                if err.index is not None:
                    err.index += start
                raise err
            found += told
        return found

    def filters(self) -> List[Dict[str, Any]]:
        """All filters."""
        listed = member_of(self._exchange("GET", "/api/v1/filters", None, again=True), "filters")
        return list(listed)

    def filter_info(self, filter_typeid: Union[int, str]) -> Dict[str, Any]:
        """One filter: its kind, size and fill."""
        return object_of(self._exchange("GET", path_of(filter_typeid), None, again=True))

    def create_filter(
        self,
        name: str,
        *,
        kind: Optional[str] = None,
        capacity: Optional[int] = None,
        error_rate: Optional[float] = None,
        on_full: Optional[str] = None,
        expire: Expire = None,
        store: Optional[str] = None,
        canonical: Optional[str] = None,
        canonical_drop: Optional[str] = None,
        distance: Optional[int] = None,
        feature_hash: Optional[str] = None,
        id: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Makes a filter, or finds it with these parameters; None is the daemon's default.
        Wants a token with the scope admin.

        A filter of that name with others is FilterError, ``filter_conflict``.
        """
        if isinstance(expire, timedelta):
            expire = seconds_of(expire)
        spec = {
            "kind": kind,
            "capacity": capacity,
            "error_rate": error_rate,
            "on_full": on_full,
            "expire": expire,
            "store": store,
            "canonical": canonical,
            "canonical_drop": canonical_drop,
            "distance": distance,
            "feature_hash": feature_hash,
            "id": id,
        }
        body = dumps({member: value for member, value in spec.items() if value is not None})
        return object_of(self._exchange("PUT", path_of(name), body, again=True))

    def drop_filter(self, name: str, *, confirm: str = "") -> None:
        """Drops a filter: all its items are forgotten, for everybody. ``confirm`` is its
        name again: ``drop_filter("shop", confirm="shop")``. Wants a token with the scope admin."""
        if confirm != name:
            raise SettingsError(
                f"drop_filter: all items of filter {name} would be forgotten\nhint: if that is meant: drop_filter({name!r}, confirm={name!r})",
                error_code="invalid_call",
            )
        doubted = [False]
        try:
            self._exchange("DELETE", path_of(name) + "?" + urlencode({"confirm": name}), None, again=True, doubted=doubted)
        except FilterError as err:
            if not (doubted[0] and err.error_code == "unknown_filter"):
                raise  # otherwise the attempt whose answer was lost has dropped it

    def clear_filter(self, name: str, *, confirm: str = "") -> Dict[str, Any]:
        """Forgets all items of a filter, for everybody, in one step: it keeps its id, name and
        parameters, and who asks meanwhile is answered. ``confirm`` is its name again. Made
        again where an answer was lost: what was remembered in between is forgotten too. Wants
        a token with the scope admin."""
        if confirm != name:
            raise SettingsError(
                f"clear_filter: all items of filter {name} would be forgotten\nhint: if that is meant: clear_filter({name!r}, confirm={name!r})",
                error_code="invalid_call",
            )
        path = path_of(name) + "/clear?" + urlencode({"confirm": name})
        return object_of(self._exchange("POST", path, None, again=True))

    def ready(self) -> None:
        """Returns when a daemon is there and ready; raises UnavailableError if there is
        none for as long as ``Settings.patience`` says."""
        self._exchange("GET", "/readyz", None, again=True)

    def close(self) -> None:
        """Closes the connections that are idle. The client can still be used."""
        self._connections.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"  # which leaves out the token

    def __enter__(self) -> "FilterAPIClient":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _batches(self, items: Sequence[Any]) -> List[_encoding.Batch]:
        return _encoding.batches(items, self.settings.batch_items, self.settings.batch_bytes)

    def _filter(
        self, filter_typeid: Union[int, str], batch: _encoding.Batch, expire: Expire, token: str, skip: bool
    ) -> Tuple[List[Any], Answer]:
        doubted = [False]
        again = self.settings.in_doubt != "error"
        answer = self._send(_FILTER, filter_typeid, batch, expire, token, again=again, doubted=doubted, skip=skip)
        if doubted[0] and self.settings.in_doubt == "new":
            return _encoding.distinct(batch), answer
        try:
            return _encoding.pick(batch, answer.body), answer
        except (ValueError, KeyError, TypeError) as err:
            raise strange(answer, InDoubtError) from err

    def _send(
        self,
        path: str,
        filter_typeid: Union[int, str],
        batch: _encoding.Batch,
        expire: Expire,
        token: str,
        again: bool,
        doubted: Optional[List[bool]] = None,
        skip: bool = False,
    ) -> Answer:
        head: Dict[str, Any] = {"filter_typeid": typeid_of(filter_typeid)}
        if expire is not None:
            head["expire"] = seconds_of(expire)
        if skip:
            head["invalid"] = "skip"
        body = b"".join((dumps(head)[:-1], b',"uri_list":', batch.text, b"}"))
        answer = self._exchange("POST", path, body, token=token, again=again, doubted=doubted)
        ratio = answer.headers.get("Urifilter-Over-Capacity")
        if ratio is not None and filter_typeid not in self._told:
            self._told.add(filter_typeid)
            logger.warning(
                "filter %s is past its capacity: of new items a share of %s is called seen"
                "\nhint: make a larger filter and ask that",
                filter_typeid, ratio,
            )  # fmt: skip
        return answer

    def _exchange(
        self,
        method: str,
        path: str,
        body: Optional[bytes],
        *,
        again: bool,
        token: str = "",
        doubted: Optional[List[bool]] = None,
    ) -> Answer:
        """Sends until there is an answer. ``again`` says that a call whose answer was lost
        may be repeated; one that is certain not to have been carried out is in any case.
        ``doubted[0]`` becomes true when an attempt before the last may have been."""
        headers = {"User-Agent": "crawlerfilter-python", "Accept-Encoding": "identity"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        token = token or self.settings.token
        if token:
            headers["Authorization"] = "Bearer " + header_safe(token)
        began, pause, made = time.monotonic(), _FIRST_PAUSE, 0
        lost: Optional[InDoubtError] = None
        while True:
            server = self._servers.now()
            try:
                answer = self._attempt(server, method, path, headers, body)
                self._waiting.ends()
                return answer
            except FilterError as err:
                made += 1
                if isinstance(err, InDoubtError):
                    lost = err
                    if doubted is not None:
                        doubted[0] = True
                wait = max(pause / 2 + random.random() * pause / 2, err.retry_after)
                too_late = time.monotonic() - began + wait > self.settings.patience
                # A daemon whose store broke off knows best, and at first alone, which items
                # it told nobody of; another one might call them seen.
                stay = err.error_code == "outcome_unknown" and not too_late
                if isinstance(err, (UnavailableError, InDoubtError)) and not stay:
                    self._servers.failed(server)
                if stay or made >= len(self._servers.all):
                    pause = min(2 * pause, _LAST_PAUSE)
                else:
                    wait, too_late = 0.0, False
                if too_late or not _repeatable(err, again):
                    if lost is not None and path in (_FILTER, _RESERVE):
                        raise lost from (None if lost is err else err)  # a later answer ends no doubt
                    if isinstance(err, InDoubtError) and (method == "GET" or path in (_CHECK, _FORGET, _NEAR)):
                        raise err.as_unavailable() from None  # a call that only looks leaves no doubt
                    raise
                if wait > 0:
                    (self.on_wait or self._waiting.begins)(err, wait)
                    time.sleep(wait)

    def _attempt(
        self, server: Server, method: str, path: str, headers: Dict[str, str], body: Optional[bytes]
    ) -> Answer:
        where = f"{method} {server.shown}{path.partition('?')[0]}"
        try:
            answer = self._connections.attempt(server, method, path, headers, body)
        except NoAnswer as err:
            kind: Type[FilterError] = InDoubtError if err.sent else UnavailableError
            more = " (items may have been remembered)" if err.sent and path == _FILTER else ""
            raise kind(f"{where}: {err}{more}", error_code=err.code, detail=str(err)) from None
        if not 200 <= answer.status < 300:
            raise error_of(where, answer)
        return answer


def _repeatable(err: FilterError, again: bool) -> bool:
    if isinstance(err, InDoubtError):
        return again
    return isinstance(err, UnavailableError) and (err.status in (0, 429) or err.error_code in PASSING)


def _sequence(uri_list: Iterable[Any]) -> Sequence[Any]:
    return uri_list if isinstance(uri_list, (list, tuple)) else list(items_of(uri_list))


def _placed(err: FilterError, of: _invalid.Sound, batch: _encoding.Batch, done: int, new: List[Any]) -> FilterError:
    """err of a batch as one of the whole list."""
    if err.index is not None:
        err.index = of.place(batch.start + err.index)
    err.judged, err.new_items = done, new
    return err
