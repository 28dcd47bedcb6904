"""Calls for reservations."""

from __future__ import annotations

import secrets
import sys
from datetime import timedelta
from typing import Any, Dict, Iterable, Optional, Union

from . import _encoding
from ._answer import member_of, object_of
from ._arguments import Expire, dumps, seconds_of, sequence_of, typeid_of
from ._exchange import COMMIT, RELEASE, RESERVE, Exchanges


class ReservationCalls(Exchanges):
    """For filters of the kinds exact and timing."""

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
        return self._whole(RESERVE, filter_typeid, uri_list, access_token, more, "reservation")

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
        return self._whole(COMMIT, filter_typeid, uri_list, access_token, more, "lost")

    def release(
        self, filter_typeid: Union[int, str], reservation: str, uri_list: Optional[Iterable[Any]] = None, *, access_token: str = ""
    ) -> Dict[str, Any]:
        """Makes items of a reservation new again at once, None: all that it has taken and not
        committed. The result, and what is repeated, are those of :meth:`commit`."""
        return self._whole(RELEASE, filter_typeid, uri_list, access_token, {"reservation": reservation}, "lost")

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
            items = sequence_of(uri_list)
            texts = [batch.text for batch in _encoding.batches(items, max(1, len(items)), sys.maxsize)]
            body = b"".join((head[:-1], b',"uri_list":', texts[0] if texts else b"[]", b"}"))
        answer = self._exchange("POST", path, body, token=token, again=True)
        member_of(answer, wanted)
        return object_of(answer)
