"""
Wall clocks in the time zones of ORC's writers, as Java's library reads them.

Java's zones have no changes before 1900: until then they have the standard time of today. Python knows zones only from
year 1 to 9999, but its rules for the future repeat every 400 years.
"""

from __future__ import annotations

import datetime
import zoneinfo

import numpy as np
import numpy.typing as npt

_Longs = npt.NDArray[np.int64]
_YEAR_1900, _YEAR_2100 = -2_208_988_800, 4_102_444_800  # in seconds since 1970
_CYCLE = 146_097 * 86_400  # 400 years, which are whole weeks
_UTC = frozenset((b"", b"UTC", b"GMT", b"Etc/UTC", b"Z"))


def zone_named(name: bytes) -> datetime.tzinfo | None:
    """The zone, None if it is UTC; NotImplementedError if Python does not know it."""
    if name in _UTC:
        return None
    try:
        return zoneinfo.ZoneInfo(name.decode())
    except (LookupError, ValueError, OSError) as exc:
        raise NotImplementedError(f"timestamps in time zone {name!r}") from exc


def offset_of_2015(zone: datetime.tzinfo) -> int:
    """What a clock there was ahead of UTC when 2015 began, from where ORC counts, in seconds."""
    return _seconds(datetime.datetime(2015, 1, 1, tzinfo=zone))


def offsets(zone: datetime.tzinfo, seconds: _Longs) -> _Longs:
    """What a clock there is ahead of UTC at these seconds since 1970, in seconds."""
    repeated = np.where(seconds < _YEAR_2100, seconds, (seconds - _YEAR_2100) % _CYCLE + _YEAR_2100)
    moments, places = np.unique(np.maximum(repeated, _YEAR_1900 - 1), return_inverse=True)
    standard = min(_seconds(datetime.datetime(2037, month, 1, tzinfo=zone)) for month in (1, 7))
    found = [
        standard if moment < _YEAR_1900 else _seconds(datetime.datetime.fromtimestamp(moment, zone))
        for moment in moments.tolist()
    ]
    return np.array(found, np.int64)[places]


def _seconds(moment: datetime.datetime) -> int:
    offset = moment.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())
