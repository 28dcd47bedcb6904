"""The filter of a crawl: found, or made."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..client import FilterAPIClient
from ..errors import FilterError, SettingsError
from .options import Options, logger


def find(client: FilterAPIClient, options: Options) -> Optional[Dict[str, Any]]:
    """The filter; None if it is not there and may be made."""
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
        return info
    _compare(info, options)
    return info


def _compare(info: Dict[str, Any], options: Options) -> None:
    if options.expire is not None and info["kind"] != "timing":
        raise SettingsError(
            f"URIFILTER_EXPIRE: filter {info['name']} is of the kind {info['kind']}, which does not forget"
            "\nhint: let URIFILTER_TYPE name another filter"
        )
    for member, setting in options.set_by.items():
        if member in info and info[member] != options.spec[member]:
            said = f"there with {member} {info[member]}"
        elif member not in info:
            said = f"of the kind {info['kind']}"
        else:
            continue
        logger.warning("urifilter: %s %s is not used: filter %s is %s", setting, options.spec[member], info["name"], said)
