"""The settings of the dupefilter, as they stand in a Scrapy project.

====================== ============== ====================================================
setting                default        meaning
====================== ============== ====================================================
URIFILTER_URL          see below      address of the daemon; several with commas
URIFILTER_TOKEN        see below      token, with the scope ``filter``, or ``admin`` where
                                      filters are to be made or cleared
URIFILTER_TOKEN_FILE   see below      file that holds the token alone
URIFILTER_FILTER       %(spider)s     name or id of the filter; spiders that share it do
                                      not fetch what another has fetched. %(project)s is
                                      the project's BOT_NAME. URIFILTER_TYPE is its old name
URIFILTER_DRY_RUN      see below      whether only to look: nothing is remembered, and no
                                      filter is made
URIFILTER_SEEN         scheduled      when a request is seen: ``scheduled`` or ``downloaded``,
                                      which wants SettleMiddleware
URIFILTER_LEASE        600            seconds for which ``downloaded`` reserves a request;
                                      a day at most
URIFILTER_TRIES        3              how often ``downloaded`` lets this crawl have a request
                                      that fails for good, each time with its retries
URIFILTER_FAILED_CODES see below      statuses of responses with which a download has failed
URIFILTER_CREATE       see below      whether a filter that is missing is made
URIFILTER_KIND         the daemon's   kind of a filter that is made: ``bloom``, ``timing`` or
                                      ``exact``, which wants no capacity
URIFILTER_DIGEST       128            bits that ``exact`` keeps of each hash: 64 take half
                                      the memory
URIFILTER_LAYOUT       bits           of ``bloom``: ``fingerprints``, where the daemon has
                                      store: redis
URIFILTER_CAPACITY     the daemon's   items that a filter is made for
URIFILTER_ERROR_RATE   the daemon's   its false positives at capacity, as a ratio
URIFILTER_EXPIRE       none           seconds; the filter is then of the kind timing, and
                                      what was seen longer ago is fetched again
URIFILTER_WHEN_AWAY    wait           ``wait``, ``raise`` or ``pass``
URIFILTER_WAIT         60             seconds that ``wait`` waits
URIFILTER_TIMEOUT      10             seconds that one attempt waits for its answer
URIFILTER_IN_DOUBT     new            what is done when an answer was lost: ``new`` takes
                                      the request, ``seen`` may drop it, ``error`` is as
                                      if the daemon were away
URIFILTER_CACHE        200000         fingerprints that this process keeps, so that it
                                      need not ask twice: about 100 bytes each; 0: none
URIFILTER_BATCH        500            requests that BatchMiddleware asks for in one call
====================== ============== ====================================================

URL, TOKEN, TOKEN_FILE, TIMEOUT, IN_DOUBT and CA_FILE are also read from the environment. DRY_RUN
is true in the commands bench, check, fetch, parse, shell and view. CREATE is
true where the name is that of the spider, or KIND, LAYOUT, CAPACITY, ERROR_RATE, EXPIRE or one of
the two below is set. FAILED_CODES are those of RETRY_HTTP_CODES. ``BLOOMFILTER_BIT`` and ``BLOOMFILTER_HASH_NUMBER``, of those who come
from scrapy-redis-bloomfilter, give a capacity, see :func:`old_capacity`.
"""

from __future__ import annotations

import difflib
import hashlib
import logging
import math
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, NamedTuple, Optional, Tuple, Union

from ..errors import SettingsError
from ..settings import Settings, read_token
from .commands import looking_command

logger = logging.getLogger("crawlerfilter.scrapy")

WHEN_AWAY = ("wait", "raise", "pass")
SEEN = ("scheduled", "downloaded")
KINDS = ("bloom", "timing", "exact")
DIGESTS = (64, 128)
LAYOUT = "fingerprints"

#: Seconds that a lease can last.
MOST_LEASE = 86_400

#: All that there are: another that begins with URIFILTER_ is misspelt.
NAMES = frozenset(
    "URIFILTER_" + name
    for name in (
        "URL TOKEN TOKEN_FILE CA_FILE FILTER TYPE DRY_RUN SEEN LEASE TRIES FAILED_CODES CREATE KIND DIGEST LAYOUT CAPACITY ERROR_RATE EXPIRE "
        "WHEN_AWAY WAIT TIMEOUT IN_DOUBT CACHE BATCH"
    ).split()
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Options:
    """The settings, read and checked."""

    client: Settings
    typeid: Union[int, str]
    create: bool
    spec: Dict[str, Any]  # of the filter, if it is made
    set_by: Dict[str, str]  # the settings that its capacity and error rate come from
    expire: Optional[float]
    when_away: str
    cache: int
    debug: bool
    dry_run: str = ""  # why only to look; "": nothing is only looked at
    project: Optional[str] = None  # whose spider the filter is named after
    downloaded: bool = False  # whether requests are reserved first
    lease: float = 600.0
    tries: int = 3
    failed_codes: FrozenSet[int] = frozenset()

    @classmethod
    def read(cls, settings: Any, spider: Optional[str]) -> "Options":
        """From a crawler's settings. ``spider`` is None where no spider is known."""
        want_known(settings)
        setting = filter_of(settings)
        project = str(settings.get("BOT_NAME") or "")
        typeid, own = type_of(setting, spider, project)
        dry_run = dry_run_of(settings)
        when_away = settings.get("URIFILTER_WHEN_AWAY") or "wait"
        if when_away not in WHEN_AWAY:
            raise SettingsError(f"URIFILTER_WHEN_AWAY: {when_away!r}: want wait, raise or pass")
        wait = number(settings, "URIFILTER_WAIT", PAUSE, 60.0)
        expire = number(settings, "URIFILTER_EXPIRE", SECONDS, None)
        downloaded = seen_of(settings) == "downloaded"
        spec = spec_of(settings, expire, downloaded)
        create = settings.get("URIFILTER_CREATE")
        return cls(
            client=client_settings(settings, wait if when_away == "wait" and not dry_run else 0.0),
            typeid=typeid,
            create=settings.getbool("URIFILTER_CREATE") if create is not None else own or bool(spec),
            spec=spec,
            set_by={
                member: setting if settings.get(setting) else "the capacity of BLOOMFILTER_BIT,"
                for member, setting in (
                    ("kind", "URIFILTER_KIND"),
                    ("digest", "URIFILTER_DIGEST"),
                    ("layout", "URIFILTER_LAYOUT"),
                    ("capacity", "URIFILTER_CAPACITY"),
                    ("error_rate", "URIFILTER_ERROR_RATE"),
                )
                if member in spec and (member != "kind" or settings.get(setting))
            },
            expire=expire,
            when_away=when_away,
            cache=number(settings, "URIFILTER_CACHE", WHOLE, 200_000),
            debug=settings.getbool("DUPEFILTER_DEBUG"),
            dry_run=dry_run,
            project=project if own and "%(project)s" not in setting else None,
            downloaded=downloaded,
            lease=number(settings, "URIFILTER_LEASE", LEASE, 600.0),
            tries=number(settings, "URIFILTER_TRIES", COUNT, 3),
            failed_codes=codes_of(settings),
        )


def want_known(settings: Any) -> None:
    """A misspelt setting is an error: nothing else would tell that it has no effect."""
    for name in settings:
        if str(name).startswith("URIFILTER_") and name not in NAMES:
            near = difflib.get_close_matches(str(name), sorted(NAMES), 1)
            raise SettingsError(f"{name}: unknown setting" + (f"; did you mean {near[0]}?" if near else f": want one of {', '.join(sorted(NAMES))}"))


def filter_of(settings: Any) -> str:
    """What names the filter."""
    name, old = settings.get("URIFILTER_FILTER"), settings.get("URIFILTER_TYPE")
    if name and old and str(name) != str(old):
        raise SettingsError(f"URIFILTER_FILTER: {name!r}, and URIFILTER_TYPE, its old name: {old!r}: want one of them")
    return str(name or old or "%(spider)s")


class Number(NamedTuple):
    """What a setting may be."""

    want: str
    convert: Callable[[Any], Any]
    fits: Callable[[Any], bool]


def _whole(value: Any) -> int:
    whole = int(value)
    if isinstance(value, float) and whole != value:
        raise ValueError(value)
    return whole


WHOLE = Number("a whole number, 0 or more", _whole, lambda n: n >= 0)
COUNT = Number("a whole number, 1 or more", _whole, lambda n: n >= 1)
RATIO = Number("a number, more than 0 and less than 1", float, lambda x: 0 < x < 1)
PAUSE = Number("a number of seconds, 0 or more", float, lambda s: 0 <= s < math.inf)
SECONDS = Number("a number of seconds, more than 0", float, lambda s: 0 < s < math.inf)
DIGEST = Number("64 or 128", _whole, lambda n: n in DIGESTS)
LEASE = Number(f"a number of seconds, more than 0, at most {MOST_LEASE}", float, lambda s: 0 < s <= MOST_LEASE)


def number(settings: Any, name: str, kind: Number, default: Any) -> Any:
    """A setting that is a number. A malformed one is an error."""
    value = settings.get(name)
    if value is None or value == "":
        return default
    try:
        read = kind.convert(value)
    except (TypeError, ValueError, OverflowError):
        read = math.nan
    if isinstance(value, bool) or not kind.fits(read):
        raise SettingsError(f"{name}: {value!r}: want {kind.want}")
    return read


def client_settings(settings: Any, patience: float) -> Settings:
    """What the client is told: of the project, else of the environment."""
    given: Dict[str, Any] = {}
    for name in ("url", "token", "in_doubt", "ca_file"):
        value = settings.get("URIFILTER_" + name.upper())
        if value:
            given[name] = ",".join(value) if isinstance(value, (list, tuple)) else value
    file = settings.get("URIFILTER_TOKEN_FILE")
    if file and "token" not in given:
        given["token"] = read_token(file)
    timeout = number(settings, "URIFILTER_TIMEOUT", SECONDS, None)
    if timeout is not None:
        given["timeout"] = timeout
    # The crawl stands still while it waits, and must rather fetch twice than never.
    for name, default in (("timeout", 10.0), ("in_doubt", "new")):
        if name not in given and not os.environ.get("URIFILTER_" + name.upper(), "").strip():
            given[name] = default
    return Settings.from_env(patience=patience, **given)


def dry_run_of(settings: Any) -> str:
    """Why the dupefilter only looks; nothing if it does not."""
    if settings.get("URIFILTER_DRY_RUN") not in (None, ""):
        return "URIFILTER_DRY_RUN" if settings.getbool("URIFILTER_DRY_RUN") else ""
    command = looking_command()
    return f"scrapy {command}" if command else ""


def seen_of(settings: Any) -> str:
    """When a request is seen."""
    seen = settings.get("URIFILTER_SEEN") or "scheduled"
    if seen not in SEEN:
        raise SettingsError(f"URIFILTER_SEEN: {seen!r}: want scheduled or downloaded")
    return str(seen)


def codes_of(settings: Any) -> FrozenSet[int]:
    """The statuses with which a download has failed."""
    name = "RETRY_HTTP_CODES" if settings.get("URIFILTER_FAILED_CODES") is None else "URIFILTER_FAILED_CODES"
    try:
        return frozenset(int(code) for code in settings.getlist(name))
    except (TypeError, ValueError):
        raise SettingsError(f"{name}: {settings.get(name)!r}: want statuses of HTTP, such as [500, 503]") from None


def type_of(setting: Union[int, str], spider: Optional[str], project: str = "scrapybot") -> Tuple[Union[int, str], bool]:
    """The filter's id or name, and whether it was made of the names of spider and project."""
    setting = str(setting)
    if "%(spider)s" not in setting and "%(project)s" not in setting:
        is_id = setting.isascii() and setting.isdigit()
        if not is_id and not _NAME.fullmatch(setting):
            raise SettingsError(
                f"URIFILTER_FILTER: {setting!r}: want the id of a filter, or a name: "
                "a letter or _, then letters, digits, _ . -, 64 at most"
            )
        return (int(setting) if is_id else setting), False
    if spider is None and "%(spider)s" in setting:
        raise SettingsError(
            f"URIFILTER_FILTER: {setting!r}: there is no spider to take the name of"
            "\nhint: set URIFILTER_FILTER to the name of a filter"
        )
    name = setting.replace("%(project)s", project).replace("%(spider)s", spider or "")
    if _NAME.fullmatch(name):
        return name, True
    # The hash keeps apart what would look alike.
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:50] or "spider"
    mapped = ("" if plain[0].isalpha() else "_") + plain + "-" + hashlib.sha1(name.encode()).hexdigest()[:8]
    logger.info("urifilter: %r is no name of a filter; %s stands for it (URIFILTER_FILTER chooses another)", name, mapped)
    return mapped, True


def spec_of(settings: Any, expire: Optional[float], downloaded: bool = False) -> Dict[str, Any]:
    """What a filter that is missing is made with; what is left out is the daemon's default."""
    capacity = number(settings, "URIFILTER_CAPACITY", COUNT, None)
    rate = number(settings, "URIFILTER_ERROR_RATE", RATIO, None)
    digest = number(settings, "URIFILTER_DIGEST", DIGEST, None)
    asked = settings.get("URIFILTER_KIND")
    kind = asked or ("timing" if expire is not None else "exact" if downloaded else "")
    for wrong, said in (
        (asked and asked not in KINDS, "want bloom, timing or exact"),
        (kind == "timing" and expire is None, "want URIFILTER_EXPIRE, too"),
        (kind != "timing" and expire is not None, "with URIFILTER_EXPIRE the kind is timing"),
        (kind == "bloom" and downloaded, "with URIFILTER_SEEN = downloaded want exact, or timing"),
        (asked == "exact" and (capacity or rate), "has no capacity and no error rate: leave out URIFILTER_CAPACITY and URIFILTER_ERROR_RATE"),
    ):
        if wrong:
            raise SettingsError(f"URIFILTER_KIND: {asked!r}: {said}")
    if digest is not None and kind != "exact":
        raise SettingsError(f"URIFILTER_DIGEST: {digest}: is for URIFILTER_KIND = exact")
    layout = settings.get("URIFILTER_LAYOUT")
    if layout and layout != LAYOUT:
        raise SettingsError(f"URIFILTER_LAYOUT: {layout!r}: want {LAYOUT}, or nothing for bits")
    if layout and downloaded:
        raise SettingsError(f"URIFILTER_LAYOUT: {layout!r}: leave it out with URIFILTER_SEEN = downloaded, whose filters are exact or timing")
    if layout and kind not in ("", "bloom"):
        raise SettingsError(f"URIFILTER_LAYOUT: {layout!r}: is for URIFILTER_KIND = bloom")
    if kind == "timing" and expire is not None:
        return {"kind": kind, "expire": int(expire) if expire == int(expire) else expire}
    if kind == "exact":
        return {"kind": kind} if digest is None else {"kind": kind, "digest": digest}
    spec: Dict[str, Any] = {"kind": kind} if kind else {}
    bit = number(settings, "BLOOMFILTER_BIT", WHOLE, None)
    hashes = number(settings, "BLOOMFILTER_HASH_NUMBER", WHOLE, None)
    if capacity is None and (bit is not None or hashes is not None):
        bit, hashes = 30 if bit is None else bit, 6 if hashes is None else hashes
        capacity = old_capacity(bit, hashes, rate or 0.0001)
        logger.info(
            "urifilter: BLOOMFILTER_BIT = %d and BLOOMFILTER_HASH_NUMBER = %d had an error rate of %g at "
            "%d items: the capacity of a filter that is made (URIFILTER_CAPACITY sets another)",
            bit, hashes, rate or 0.0001, capacity,
        )  # fmt: skip
    if capacity is not None:
        spec["capacity"] = capacity
    if rate is not None:
        spec["error_rate"] = rate
    if layout:
        spec["layout"] = layout
    if spec:
        spec["kind"] = "bloom"
    return spec


def old_capacity(bit: int, hashes: int, error_rate: float) -> int:
    """At how many items a classic Bloom filter of ``2**bit`` bits and so many hash
    functions has the error rate: solved from ``(1 - exp(-k*n/m)) ** k``.

    The filter that is made for it has about as many bytes as the old one in Redis.
    """
    if not 1 <= bit <= 32 or not 1 <= hashes <= 64 or not 0 < error_rate < 1:
        raise SettingsError(
            f"BLOOMFILTER_BIT {bit}, BLOOMFILTER_HASH_NUMBER {hashes}: want 1 to 32 (512 MiB, all that a key of Redis holds)"
            " and 1 to 64, and an error rate between 0 and 1"
        )
    per_bit = -math.log1p(-(error_rate ** (1 / hashes))) / hashes
    return max(1, int(2**bit * per_bit))
