"""The filter of a crawl: found, or made."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Optional

from ..client import FilterAPIClient
from ..errors import FilterError, SettingsError
from .options import Options, logger

#: Seconds for which a filter may be missing because somebody clears it.
CLEARING = 10.0

#: Seconds that an item of a filter of the kind timing can last: ten years.
MOST_EXPIRE = 315_360_000


def find(client: FilterAPIClient, options: Options) -> Optional[Dict[str, Any]]:
    """The filter; None if it does not exist and may be made."""
    try:
        return client.filter_info(options.typeid)
    except FilterError as err:
        if err.error_code != "unknown_filter" or not options.create or isinstance(options.typeid, int):
            raise
        return None


def find_or_make(client: FilterAPIClient, options: Options) -> Dict[str, Any]:
    """The filter, which is told if it differs from what the settings ask for."""
    info = find(client, options)
    if info is None:
        info = client.create_filter(str(options.typeid), **options.spec)
        logger.info("urifilter: filter %s made at %s", info["name"], client.settings.url)
        mark(client, options, info)
        return info
    _compare(info, options)
    if options.project is not None:
        _tell_a_clash(client, options, info)
    return info


def ask(client: FilterAPIClient, options: Options, fingerprints: List[str]) -> List[str]:
    """Those that are new. With a daemon that cannot clear in one step, a filter that is not
    there may be one that another crawler clears at this moment: it is asked again for a
    while, as nothing was remembered."""
    until = time.monotonic() + CLEARING
    while True:
        try:
            return client.filter(options.typeid, fingerprints, options.expire)
        except FilterError as err:
            if err.error_code != "unknown_filter" or err.judged or time.monotonic() > until:
                raise
        time.sleep(0.05)


def clear(client: FilterAPIClient, options: Options) -> None:
    """Clears the filter in one step. Nothing is to be done where somebody has dropped it."""
    try:
        info = client.filter_info(options.typeid)
        client.clear_filter(info["name"], confirm=info["name"])
    except FilterError as err:
        if err.error_code == "unknown_path":
            _make_anew(client, info)  # a daemon from before it could clear
        elif err.error_code == "unknown_filter":
            return
        else:
            raise
    mark(client, options, info)


def _make_anew(client: FilterAPIClient, info: Dict[str, Any]) -> None:
    """Drops a filter and makes it again with the same parameters. Others may do the same at
    the same moment, or re-create it before we do: then it is cleared too."""
    keep = ("id", "kind", "capacity", "error_rate", "on_full", "expire")
    try:
        client.drop_filter(info["name"], confirm=info["name"])
        client.create_filter(info["name"], **{k: info[k] for k in keep if info.get(k) is not None})
    except FilterError as err:
        if err.error_code not in ("unknown_filter", "filter_conflict"):
            raise


def mark(client: FilterAPIClient, options: Options, info: Dict[str, Any]) -> None:
    """Has a filter that is named after a spider remember whose spider that is: one item, a
    list, which is no request's fingerprint."""
    if options.project is not None:
        client.filter(options.typeid, [_owner(options)], MOST_EXPIRE if info["kind"] == "timing" else None)


def _owner(options: Options) -> List[str]:
    return ["crawlerfilter.scrapy", "BOT_NAME", str(options.project)]


def _tell_a_clash(client: FilterAPIClient, options: Options, info: Dict[str, Any]) -> None:
    if not client.check(options.typeid, [_owner(options)])[0]:
        return
    if info.get("items_estimate", info.get("items")) == 0:
        mark(client, options, info)  # somebody has made it for us
        return
    logger.warning(
        "urifilter: filter %s holds what project %s has not put there: does another project have a spider of that name? "
        "Neither fetches what the other has fetched"
        '\nhint: URIFILTER_FILTER = "%%(project)s-%%(spider)s" keeps them apart; with URIFILTER_FILTER = "%s" they share it on purpose',
        info["name"], options.project, info["name"],
    )  # fmt: skip


def _compare(info: Dict[str, Any], options: Options) -> None:
    if options.expire is not None and info["kind"] != "timing":
        raise SettingsError(
            f"URIFILTER_EXPIRE: filter {info['name']} is of the kind {info['kind']}, which does not forget"
            "\nhint: let URIFILTER_FILTER name another filter"
        )
    left_out = {"exact": {"digest": 128}, "bloom": {"layout": "of bits"}}
    have = {**left_out.get(info["kind"], {}), **info}
    for member, setting in options.set_by.items():
        if member in have and have[member] != options.spec[member]:
            said = f"there with {member} {have[member]}"
        elif member not in have:
            said = f"of the kind {info['kind']}"
        else:
            continue
        logger.warning("urifilter: %s %s is not used: filter %s is %s", setting, options.spec[member], info["name"], said)
