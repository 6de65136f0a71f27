"""
Contradictions in a Parquet footer that make pyarrow abort the process.

Where pyarrow makes the metadata of a column chunk, and where it decodes the statistics of one, Arrow C++ throws through
functions that must not throw. So both are checked before pyarrow is asked for them.
"""

from __future__ import annotations

from puffin.files.parquet.parquet_footer import BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY, WIDTHS, ColumnChunk
from puffin.files.parquet.thrift import MALFORMED, read_struct

_MIN_AND_MAX = (1, 2, 5, 6)  # max, min, max_value, min_value


def check_chunk(chunk: ColumnChunk) -> None:
    """Raise ValueError if the chunk's type or its size statistics contradict the schema."""
    leaf = chunk.leaf
    expected = leaf.physical_type
    if chunk.physical_type != expected:
        raise _contradiction(chunk, "a chunk of physical type", expected, chunk.physical_type)
    if chunk.size_statistics is None:
        return
    stored, _ = read_struct(chunk.size_statistics, 0, {1: None, 2: None, 3: None})
    if 1 in stored and expected != BYTE_ARRAY:
        raise _contradiction(chunk, "bytes of strings in physical type", BYTE_ARRAY, expected)
    for field_id, most in ((2, leaf.max_repetition_level), (3, leaf.max_definition_level)):
        levels = stored.get(field_id, ())
        if levels and len(levels) != most + 1:
            raise _contradiction(chunk, "a histogram of levels of length", most + 1, len(levels))


def has_sound_statistics(chunk: ColumnChunk) -> bool:
    """Whether each minimum and maximum has as many bytes as a value of the chunk's type; empty ones do not count."""
    if chunk.statistics is None or chunk.physical_type == BYTE_ARRAY:
        return True
    is_fixed = chunk.physical_type == FIXED_LEN_BYTE_ARRAY
    size = chunk.leaf.type_length if is_fixed else WIDTHS.get(chunk.physical_type, 0)
    try:
        stored, _ = read_struct(chunk.statistics, 0, dict.fromkeys(_MIN_AND_MAX))
        return all(len(value) >= size for value in stored.values() if value)
    except (*MALFORMED, TypeError):
        return False


def _contradiction(chunk: ColumnChunk, what: str, expected: int, found: int) -> ValueError:
    return ValueError(f"column {'.'.join(chunk.leaf.path)}: expected {what} {expected}, found {found}")
