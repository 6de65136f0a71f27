"""
Read timestamps at the root of an ORC file in microseconds, which range further than pyarrow's nanoseconds.

A timestamp is two integers: seconds since 2015, and nanoseconds without trailing zeros. Instants are in UTC, and so are
all of Iceberg's own files. Other timestamps are in the zone of the writer's JVM, and what they mean is the time that a
clock showed there. pyarrow's clocks differ from Java's before 1900, and by a second at some fractions around 1970.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.files.orc.integers import read_bits, read_integers
from puffin.files.orc.orc_footer import (
    TIMESTAMP,
    TIMESTAMP_INSTANT,
    Footer,
    Message,
    Stripe,
    decompress,
    integer,
    read_message,
)
from puffin.files.orc.zones import offset_of_2015, offsets, zone_named

_PRESENT, _SECONDS, _NANOS = 0, 1, 5  # kinds of streams
_DIRECT_V2 = 2
_EPOCH = 1_420_070_400  # 2015-01-01, in seconds
_SECOND = 10**9  # in nanoseconds
_MOST_SECONDS = (1 << 63) // 10**6 - 1
_MOST_MILLIS = (1 << 63) // 10**6 - 2 * 86_400_000  # the range of nanoseconds in any time zone
_SAFE_MILLIS = 2 * 86_400_000  # after 1970 has begun in every zone


def is_misread(source: pa.NativeFile, footer: Footer, name: str) -> bool:
    """Whether pyarrow may read a timestamp column wrongly or not at all; False for any other column."""
    number, kind = footer.columns.get(name, (0, 0))
    if kind not in (TIMESTAMP, TIMESTAMP_INSTANT):
        return False
    low, high = footer.millis.get(number, (-_MOST_MILLIS - 1, 0))
    if low < -_MOST_MILLIS or high > _MOST_MILLIS:
        return True
    is_early = kind == TIMESTAMP and low < _SAFE_MILLIS
    return is_early and any(_zone(_layout(source, footer, stripe)) is not None for stripe in footer.stripes[:1])


def read_timestamps(source: pa.NativeFile, footer: Footer, name: str) -> Iterator[pa.TimestampArray]:
    """The timestamps by stripe; NotImplementedError for unknown time zones, or if stored in an unknown way."""
    number, kind = footer.columns[name]
    for stripe in footer.stripes:
        yield _read_stripe(source, footer, stripe, number, is_instant=kind == TIMESTAMP_INSTANT)


def _read(source: pa.NativeFile, footer: Footer, offset: int, length: int) -> bytes:
    if offset + length > source.size():
        raise ValueError(f"expected {length} bytes at offset {offset}, found the end of the file")
    return decompress(source.read_at(length, offset), footer.compression, footer.block_size)


def _layout(source: pa.NativeFile, footer: Footer, stripe: Stripe) -> Message:
    """The footer of a stripe."""
    begin = stripe.offset + stripe.index_length + stripe.data_length
    return read_message(_read(source, footer, begin, stripe.footer_length))


def _zone(layout: Message) -> datetime.tzinfo | None:
    name = layout.get(3, [b""])[-1]
    return zone_named(name if isinstance(name, bytes) else b"")


def _read_stripe(
    source: pa.NativeFile, footer: Footer, stripe: Stripe, number: int, *, is_instant: bool
) -> pa.TimestampArray:
    begin = stripe.offset
    layout = _layout(source, footer, stripe)
    streams: dict[int, bytes] = {}
    for stream in (read_message(found) for found in layout.get(1, ()) if isinstance(found, bytes)):
        if integer(stream, 2) == number and integer(stream, 1) in (_PRESENT, _SECONDS, _NANOS):
            streams[integer(stream, 1)] = _read(source, footer, begin, integer(stream, 3))
        begin += integer(stream, 3)
    encodings = [read_message(found) for found in layout.get(2, ()) if isinstance(found, bytes)]
    if integer(encodings[number], 1) != _DIRECT_V2:
        raise NotImplementedError("timestamps of ORC version 0.11")
    zone = None if is_instant else _zone(layout)
    # Allocate nothing for claimed rows before the streams confirm their number.
    present = read_bits(streams[_PRESENT], stripe.rows) if _PRESENT in streams else None
    count = stripe.rows if present is None else int(present.sum())
    seconds = read_integers(streams.get(_SECONDS, b""), count, signed=True) + _EPOCH
    if zone is not None:
        seconds -= offset_of_2015(zone)
    stored = read_integers(streams.get(_NANOS, b""), count, signed=False)
    zeros = stored & 7
    nanos = (stored >> 3) * np.where(zeros > 0, 10 ** (zeros + 1), 1)
    # Before 1970 Java cuts a fraction off the seconds and stores it as if it had not; Arrow stores a negative one.
    seconds -= (seconds < 0) & (nanos > 999_999)
    if zone is not None:
        seconds += offsets(zone, seconds)
    if not _are_within(seconds, _MOST_SECONDS) or not _are_within(nanos, _SECOND - 1):
        raise ValueError("a timestamp beyond 64 bits of microseconds, or an invalid fraction of a second")
    valid = np.ones(count, np.bool_) if present is None else present
    micros = np.zeros(stripe.rows, np.int64)
    micros[valid] = seconds * 1_000_000 + nanos // 1000
    return pa.array(micros, pa.timestamp("us"), mask=~valid)


def _are_within(numbers: npt.NDArray[np.int64], most: int) -> bool:
    return bool(((numbers >= -most) & (numbers <= most)).all())
