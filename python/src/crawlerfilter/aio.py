"""The client for programs on asyncio."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from typing import Any, AsyncIterable, AsyncIterator, Callable, Dict, Iterable, List, Optional, TypeVar, Union

from ._arguments import Expire, items_of
from ._connection import Answer
from ._invalid import OnInvalid, later
from ._servers import Server
from ._waiting import Waiting
from .client import FilterAPIClient
from .errors import FilterError, SettingsError
from .settings import Settings

_Result = TypeVar("_Result")


class _Ending(FilterAPIClient):
    """A client whose calls end before their next attempt, or batch, when they are cancelled."""

    def __init__(self, settings: Optional[Settings], **named: Any) -> None:
        super().__init__(settings, **named)
        self.own = threading.local()  # .cancelled: of the call that the thread makes

    def _attempt(
        self, server: Server, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], untimed: bool
    ) -> Answer:
        if self.own.cancelled.is_set():
            raise FilterError("the call is cancelled", error_code="cancelled")
        return super()._attempt(server, method, path, headers, body, untimed)


class AsyncFilterAPIClient:
    """:class:`~crawlerfilter.client.FilterAPIClient` with calls to await::

        async with AsyncFilterAPIClient(url="http://127.0.0.1:8000") as client:
            new = await client.filter("uri", ["https://example.com/a", "https://example.com/b"])

    The calls do what those of the other class do, and raise the same errors. They run in
    ``concurrency`` threads of the client's own: so many are on their way at once, those
    beyond wait for their turn, and the loop goes on meanwhile. Any number of tasks, of one
    loop or several, may share a client; the child of a fork makes its own.

    A call that is cancelled ends at once for its task. One that has not begun is not sent.
    One that is on its way may be carried out, so that its items are remembered although
    nobody was told; it is not made again, and batches that have not begun are not sent.
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
        concurrency: int = 16,
    ) -> None:
        """A Settings object, or single settings, which go before those of the environment."""
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
            raise SettingsError(f"concurrency: {concurrency!r}: want a whole number, 1 or more")
        self._client = _Ending(
            settings, url=url, token=token, timeout=timeout, patience=patience, in_doubt=in_doubt,
            batch_items=batch_items, batch_bytes=batch_bytes, ca_file=ca_file,
        )  # fmt: skip
        self.settings = self._client.settings
        self._client.on_wait = self._waits
        self._waiting: Waiting = self._client._waiting
        self._threads = ThreadPoolExecutor(concurrency, "crawlerfilter")

    async def filter(
        self,
        filter_typeid: Union[int, str],
        uri_list: Iterable[Any],
        expire: Expire = None,
        *,
        access_token: str = "",
        on_invalid: OnInvalid = None,
    ) -> List[Any]:
        """The items that are new, in their order; they are remembered. ``on_invalid`` is called
        in a thread of the client."""
        return await self._call(
            self._client.filter, filter_typeid, uri_list, expire, access_token=access_token, on_invalid=on_invalid
        )

    async def add(self, filter_typeid: Union[int, str], item: Any, expire: Expire = None, *, access_token: str = "") -> bool:
        """Whether one item is new; it is remembered."""
        return await self._call(self._client.add, filter_typeid, item, expire, access_token=access_token)

    async def add_many(
        self,
        filter_typeid: Union[int, str],
        items: Iterable[Any],
        expire: Expire = None,
        *,
        access_token: str = "",
        on_invalid: OnInvalid = None,
    ) -> List[bool]:
        """For every item whether it is new; they are remembered."""
        return await self._call(
            self._client.add_many, filter_typeid, items, expire, access_token=access_token, on_invalid=on_invalid
        )

    async def check(
        self, filter_typeid: Union[int, str], uri_list: Iterable[Any], *, access_token: str = "", on_invalid: OnInvalid = None
    ) -> List[bool]:
        """For every item whether it would be new. Nothing is remembered."""
        return await self._call(self._client.check, filter_typeid, uri_list, access_token=access_token, on_invalid=on_invalid)

    async def forget(self, filter_typeid: Union[int, str], uri_list: Iterable[Any], *, access_token: str = "") -> int:
        """Makes items new again, in a filter of the kind exact or timing; how many of them were seen."""
        return await self._call(self._client.forget, filter_typeid, uri_list, access_token=access_token)

    async def reserve(
        self,
        filter_typeid: Union[int, str],
        uri_list: Iterable[Any],
        lease: Union[float, timedelta],
        *,
        reservation: str = "",
        access_token: str = "",
    ) -> Dict[str, Any]:
        """Takes the new items for ``lease`` seconds, in a filter of the kind exact or timing."""
        return await self._call(
            self._client.reserve, filter_typeid, uri_list, lease, reservation=reservation, access_token=access_token
        )

    async def commit(
        self,
        filter_typeid: Union[int, str],
        reservation: str,
        uri_list: Optional[Iterable[Any]] = None,
        expire: Expire = None,
        *,
        access_token: str = "",
    ) -> Dict[str, Any]:
        """Makes items of a reservation seen, None: all that it has taken and not released."""
        return await self._call(self._client.commit, filter_typeid, reservation, uri_list, expire, access_token=access_token)

    async def release(
        self, filter_typeid: Union[int, str], reservation: str, uri_list: Optional[Iterable[Any]] = None, *, access_token: str = ""
    ) -> Dict[str, Any]:
        """Makes items of a reservation new again at once, None: all that it has taken and not committed."""
        return await self._call(self._client.release, filter_typeid, reservation, uri_list, access_token=access_token)

    async def near(
        self,
        filter_typeid: Union[int, str],
        documents: Iterable[Any],
        *,
        distance: Optional[int] = None,
        limit: Optional[int] = None,
        remember: bool = True,
        access_token: str = "",
    ) -> List[Dict[str, Any]]:
        """For every document what is nearly the same, in a filter of the kind simhash; they are remembered."""
        return await self._call(
            self._client.near, filter_typeid, documents, distance=distance, limit=limit, remember=remember, access_token=access_token
        )

    async def stream(
        self,
        filter_typeid: Union[int, str],
        items: Union[Iterable[Any], AsyncIterable[Any]],
        expire: Expire = None,
        *,
        access_token: str = "",
        on_invalid: OnInvalid = None,
    ) -> AsyncIterator[Any]:
        """Gives out the new ones of items without end, batch by batch, in constant memory."""
        source, taken = _parts(items, self.settings.batch_items), 0
        async for part in source:
            try:
                new = await self.filter(filter_typeid, part, expire, access_token=access_token, on_invalid=later(on_invalid, taken))
            except FilterError as err:
                raise err.later_by(taken)
            taken += len(part)
            for item in new:
                yield item

    async def filters(self) -> List[Dict[str, Any]]:
        """All filters."""
        return await self._call(self._client.filters)

    async def filter_info(self, filter_typeid: Union[int, str]) -> Dict[str, Any]:
        """One filter: its kind, size and fill."""
        return await self._call(self._client.filter_info, filter_typeid)

    async def create_filter(
        self,
        name: str,
        *,
        like: Optional[str] = None,
        kind: Optional[str] = None,
        capacity: Optional[int] = None,
        error_rate: Optional[float] = None,
        on_full: Optional[str] = None,
        layout: Optional[str] = None,
        expansion: Optional[int] = None,
        expire: Expire = None,
        store: Optional[str] = None,
        digest: Optional[int] = None,
        canonical: Optional[str] = None,
        canonical_drop: Optional[str] = None,
        distance: Optional[int] = None,
        feature_hash: Optional[str] = None,
        id: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Makes a filter, or finds it with these parameters. Wants a token with the scope admin."""
        return await self._call(
            self._client.create_filter,
            name,
            like=like,
            kind=kind,
            capacity=capacity,
            error_rate=error_rate,
            on_full=on_full,
            layout=layout,
            expansion=expansion,
            expire=expire,
            store=store,
            digest=digest,
            canonical=canonical,
            canonical_drop=canonical_drop,
            distance=distance,
            feature_hash=feature_hash,
            id=id,
        )

    async def merge_filter(self, from_name: str, into: str) -> Dict[str, Any]:
        """Makes all items of a filter seen in another one as well. Wants a token with the scope admin."""
        return await self._call(self._client.merge_filter, from_name, into)

    async def drop_filter(self, name: str, *, confirm: str = "") -> None:
        """Drops a filter; ``confirm`` is its name again. Wants a token with the scope admin."""
        await self._call(self._client.drop_filter, name, confirm=confirm)

    async def clear_filter(self, name: str, *, confirm: str = "") -> Dict[str, Any]:
        """Forgets all items of a filter, which stays; ``confirm`` is its name again. Wants a
        token with the scope admin."""
        return await self._call(self._client.clear_filter, name, confirm=confirm)

    async def ready(self) -> None:
        """Returns when a daemon is there and ready."""
        await self._call(self._client.ready)

    async def close(self) -> None:
        """Waits for the calls that are on their way, and closes the connections. The client
        cannot be used any more."""
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        self._client.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings!r})"  # which leaves out the token

    async def __aenter__(self) -> "AsyncFilterAPIClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def _call(self, do: Callable[..., _Result], *given: Any, **named: Any) -> _Result:
        cancelled = threading.Event()

        def work() -> _Result:
            self._client.own.cancelled = cancelled
            return do(*given, **named)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def _waits(self, err: FilterError, seconds: float) -> None:
        """Before each pause of a call, in its thread."""
        if self._client.own.cancelled.is_set():
            raise err
        self._waiting.begins(err, seconds)


async def _parts(items: Union[Iterable[Any], AsyncIterable[Any]], most: int) -> AsyncIterator[List[Any]]:
    """The items in lists of that many."""
    part: List[Any] = []
    if isinstance(items, AsyncIterable):
        async for item in items:
            part.append(item)
            if len(part) == most:
                yield part
                part = []
        if part:
            yield part
        return
    source = items_of(items)
    while True:
        part = list(islice(source, most))
        if not part:
            return
        yield part
