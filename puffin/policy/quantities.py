"""The quantities of a policy as people write them: ``5%``, ``500 GiB``, ``2h``, ``22:00-06:00``."""

from __future__ import annotations

import dataclasses
import datetime
import re
import zoneinfo
from collections.abc import Callable, Mapping

from puffin.policy.yaml_nodes import WrongValue

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BYTES |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
_MOST_DAYS = 36_500  # datetime cannot go back much further
EVERY_OR_NONE: Mapping[str, tuple[str, ...]] = {"true": ("*",), "false": ()}  # patterns of columns
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])-([01][0-9]|2[0-4]):([0-5][0-9])")


def share(text: str) -> float:
    """A share of rows, from 0 to 1."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,9})?) ?%", text)
    if match is None or float(match[1]) > 100:
        raise WrongValue("a percentage from 0% to 100%, such as 5%")
    return float(match[1]) / 100


def size(text: str) -> int:
    """A number of bytes."""
    match = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?([KMGTP]i?B|B)", text)
    if match is None:
        raise WrongValue("a size such as 500 GiB or 20 MB")
    return int(float(match[1]) * _BYTES[match[2]])


def seconds(text: str) -> int:
    """A duration in seconds."""
    match = re.fullmatch(r"([0-9]{1,10})([smhd])", text)
    found = None if match is None else int(match[1]) * _SECONDS[match[2]]
    if found is None or found > _MOST_DAYS * _SECONDS["d"]:
        raise WrongValue(f"a duration such as 90s, 5m, 2h or 7d, of {_MOST_DAYS}d at most")
    return found


def seconds_or_more(text: str) -> int:
    """A duration in seconds after which something is done again, so that it is not done all the time."""
    found = seconds(text)
    if found < 1:
        raise WrongValue("a duration of 1s or more, such as 5m")
    return found


def hours_or_more(text: str) -> int:
    """A duration in seconds that no job takes to commit, so that what is older is nobody's work."""
    found = seconds(text)
    if found < _SECONDS["h"]:
        raise WrongValue("a duration of 1h or more, such as 7d")
    return found


def count(text: str) -> int:
    """A whole number from 1."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise WrongValue("a whole number from 1")
    return int(text)


def flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise WrongValue("true or false")
    return text == "true"


def rate(text: str) -> float:
    """A rate of false positives of an index."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.000001 <= found <= 0.5:
        raise WrongValue("a rate from 0.000001 to 0.5")
    return found


def joint(text: str) -> str:
    """A set of two to four columns: ``a+b``."""
    names = text.split("+")
    if not 2 <= len(set(names)) <= 4 or len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise WrongValue("names of two to four columns, such as a+b")
    return text


@dataclasses.dataclass(frozen=True, slots=True)
class Hours:
    """A part of the day, in minutes after midnight; it passes midnight if the end is before the start."""

    start: int
    end: int

    def __contains__(self, at: datetime.datetime) -> bool:
        minute = at.hour * 60 + at.minute
        if self.start <= self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end

    def __str__(self) -> str:
        return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in (self.start, self.end))


def hours(text: str) -> Hours:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise WrongValue("hours of the day such as 22:00-06:00")
    start, end = (int(match[i]) * 60 + int(match[i + 1]) for i in (1, 3))
    if start == end or end > 24 * 60:
        raise WrongValue("hours of the day such as 22:00-06:00")
    return Hours(start, end)


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone by its name; UTC needs no database of time zones, which small images lack."""
    return datetime.timezone.utc if name == "UTC" else zoneinfo.ZoneInfo(name)


def time_zone(text: str) -> str:
    """The name of a time zone that this system knows."""
    try:
        zone_of(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as exc:
        if zoneinfo.available_timezones():
            raise WrongValue("a time zone such as UTC or Europe/Berlin") from exc
        raise WrongValue("UTC, since this system has no database of time zones (run pip install tzdata)") from exc
    return text


DUE: Mapping[str, Callable[[str], float]] = {
    "rows-changed": share,
    "snapshots": count,
    "age": seconds,
    "index-files": count,
    "at-most-every": seconds,
}
"""The conditions under which a table is due, and the parsers of their values."""


def shown_seconds(value: float) -> str:
    """A duration in its largest whole unit: ``2h``."""
    whole = int(value)
    units = reversed(_SECONDS.items())
    return next((f"{whole // size}{unit}" for unit, size in units if whole and whole % size == 0), f"{whole}s")


def about_seconds(value: float) -> str:
    """A time that was measured, in its largest unit, rounded down: ``3d``."""
    whole = max(0, int(value))
    return next((f"{whole // size:,}{unit}" for unit, size in reversed(_SECONDS.items()) if whole >= size), "0s")


def shown_share(value: float) -> str:
    return f"{value * 100:g} %"
