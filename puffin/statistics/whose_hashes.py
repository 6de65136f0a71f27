"""
Finds out who hashed the values of a sketch: we build on or compare only hashes that follow the specification.

There are two kinds of evidence. The ``created-by`` of a statistics file names its writer, and we know how some writers
hash. But sketches are carried from file to file and merged on the way, so we also test the sketch itself. A value that
the table certainly has must be in it, or above what it keeps; and the hash that another writer gives the value must not
be in it. The first test finds a sketch of other hashes or other rows, the second also one to which correct hashes were
added later.

A lookup needs the name only, and does not import numpy or Arrow for it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

from puffin.values.value_type import ValueType
from puffin.version import is_our_name

if TYPE_CHECKING:
    import pyarrow as pa

    from puffin.sketches.theta_sketch import ThetaSketch

_ICEBERG = re.compile(r"(Iceberg )?Apache Iceberg [0-9]\S* \(commit [^\s()]+\)( Spark [0-9]\S*)?")
_TRINO = re.compile(r"Trino version [0-9]+")
_PRESTO = re.compile(r"presto-[0-9]\S*")
# Presto 0.287 hashes long, double and string as the specification says, and makes no sketch of booleans.
_HASHED_BY_PRESTO = {
    **dict.fromkeys(("int", "date"), "as a long"),
    "float": "by its bits as a long",
    "decimal": "by its unscaled value in 8 or 16 bytes",
    "timestamp": "in milliseconds",
}
_SHOWN = 40  # characters of a value or of a name


def writer_objection(created_by: str | None, type_: str) -> str | None:
    """
    Why a sketch may have other hashes than the specification's, in words that follow "the sketch"; None if it has not.

    Args:
        created_by: The writer of the sketch's statistics file.
        type_: The appendix C type of its column.

    Raises:
        UnsupportedTypeError: The type has no single-value bytes.
    """
    name = ValueType.parse(type_).name
    if created_by is None:
        return "is of a file that does not say who wrote it"
    if is_our_name(created_by) or _TRINO.fullmatch(created_by):
        return None
    writer = f"was written by {created_by[:_SHOWN]!r}"
    if _ICEBERG.fullmatch(created_by):
        return f"{writer}, which hashes the text of a uuid" if name == "uuid" else None
    if _PRESTO.fullmatch(created_by) and name in _HASHED_BY_PRESTO:
        return f"{writer}, and Presto hashes {name} {_HASHED_BY_PRESTO[name]}"
    return f"{writer}, whose way of hashing is not known"


def contradiction(sketch: ThetaSketch, type_: str, values: pa.Array) -> str | None:
    """
    Why a sketch cannot be of a column with these values, in words that follow "the sketch", or None.

    Args:
        type_: The appendix C type of the values that were hashed.
        values: Some of the column's; NULL and empty values, which have no hash, are ignored.

    Raises:
        UnsupportedTypeError: The type has no single-value bytes.
        CorruptDataFileError: The array cannot hold values of the type.
    """
    first = _first(values, lambda some: not all(map(all, _found(sketch, type_, some))))
    if first is not None:
        return f"lacks the hash of {first}, which the table has in this column of {type_}"
    first = _first(values, lambda some: _has_foreign(sketch, type_, some))
    if first is None:
        return None
    writer = "Iceberg's Spark action" if type_ == "uuid" else "Presto"
    return f"has the hash that {writer} makes of {first}, a value of this column of {type_}"


def _first(values: pa.Array, is_among: Callable[[pa.Array], bool]) -> str | None:
    """The first value for which the test holds, as text."""
    if not is_among(values):
        return None
    before = bisect_left(range(len(values)), True, key=lambda i: is_among(values[: i + 1]))
    return _shown(values[before : before + 1])


def _has_foreign(sketch: ThetaSketch, type_: str, values: pa.Array) -> bool:
    from puffin.statistics.other_hashes import as_hashed_elsewhere

    hashed = as_hashed_elsewhere(type_, values)
    return hashed is not None and any(any(found) for found in _found(sketch, *hashed))


def _found(sketch: ThetaSketch, type_: str, values: pa.Array) -> list[list[bool]]:
    """For each value that the sketch has room for, whether it has it; in slices."""
    import numpy as np

    from puffin.sketches.hashing import hash_array

    found = []
    for hashes in hash_array(values, type_):
        # Zero is the one hash that no sketch keeps.
        kept = hashes[(hashes > 0) & (hashes < np.uint64(sketch.theta))]
        start, stop = (np.searchsorted(sketch.hashes, kept, side) for side in ("left", "right"))
        found.append((start < stop).tolist())
    return found


def _shown(one: pa.Array) -> str:
    import pyarrow as pa

    from puffin.values.plain_arrays import plain_array

    plain = plain_array(one)
    if pa.types.is_dictionary(plain.type):
        plain = plain.dictionary_decode()
    if pa.types.is_temporal(plain.type):
        text = _time_shown(plain)
    elif isinstance(value := plain[0].as_py(), bytes):
        text = value.hex()
    else:
        text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _time_shown(value: pa.Array) -> str:
    """A time in ISO 8601, by Arrow, since Python's times have no nanoseconds; as a number if it has none."""
    import pyarrow as pa

    text = value.cast(pa.string())
    try:
        if text.cast(value.type).equals(value):
            return str(text[0])
    except pa.ArrowInvalid:
        pass
    return str(value[0].value)
