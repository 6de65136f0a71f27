"""
Read the statistics of a column chunk from the Parquet footer, without its values.

Whether to trust minimum and maximum depends on the writer, its release and the order of the type. pyarrow knows, and
returns no others, except those of decimals in bytes. It returns them as Parquet stores them, and this module converts
them to Arrow's form. They may be wider than the values, because long strings are cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as arrow_types

from puffin.files.parquet.contradictions import has_sound_statistics
from puffin.files.parquet.parquet_footer import BYTE_ARRAY, DELTA_BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY, ColumnChunk
from puffin.files.parquet.thrift import MALFORMED, read_struct
from puffin.values.column_chunk import ChunkStatistics, Stored
from puffin.values.plain_arrays import type_of_values

_COMPARES_BYTES = "parquet-cpp version "
"""Arrow C++ before 4.0, which compared the bytes of decimals, each as a signed number (PARQUET-1655)."""
_MIN_VALUE, _MAX_VALUE = 6, 5
_SUMS_STRINGS = tuple(
    f"{name} version " for name in ("parquet-mr", "parquet-cpp-arrow", "parquet-rs", "delta-rs", "datafusion")
)
"""
Writers whose files had the right sum of strings, also where the dictionary was full. ClickHouse counts twice those that
it had put into a dictionary which it then gave up.
"""


def chunk_statistics(
    metadata: pq.ColumnChunkMetaData, chunk: ColumnChunk | None, arrow_type: pa.DataType, created_by: str
) -> ChunkStatistics:
    """
    The statistics in the footer of a chunk that is not inside a list, in a file of this writer.

    ``chunk`` adds what pyarrow does not tell, if known; pyarrow reads the chunk as ``arrow_type``, without extensions.
    """
    arrow_type = type_of_values(arrow_type)
    null_count = bounds = string_bytes = None
    try:
        statistics = metadata.statistics if chunk is None or has_sound_statistics(chunk) else None
        if statistics is not None:
            null_count = statistics.null_count if statistics.has_null_count else None
            is_ordered = not arrow_types.is_decimal(arrow_type) or _orders_decimals(chunk, created_by)
            bounds = _bounds(statistics, arrow_type) if is_ordered else None
    except (pa.ArrowException, ValueError):
        bounds = None
    if null_count is not None and not 0 <= null_count <= metadata.num_values:
        null_count = None
    if chunk is not None:
        null_count = 0 if chunk.leaf.max_definition_level == 0 else null_count
        string_bytes = _string_bytes(chunk, created_by)
    return ChunkStatistics(arrow_type, null_count, bounds, string_bytes)


def _string_bytes(chunk: ColumnChunk, created_by: str) -> int | None:
    # In DELTA_BYTE_ARRAY, Arrow C++ omits repeated strings from the sum.
    is_sum = chunk.physical_type == BYTE_ARRAY and DELTA_BYTE_ARRAY not in chunk.encodings
    return chunk.unencoded_byte_array_data_bytes if is_sum and created_by.startswith(_SUMS_STRINGS) else None


def _orders_decimals(chunk: ColumnChunk | None, created_by: str) -> bool:
    """Whether decimals in bytes were compared as numbers; what the older fields mean depends on their writer."""
    if chunk is None or chunk.statistics is None:
        return False
    if chunk.physical_type not in (BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY):
        return True
    if created_by.startswith(_COMPARES_BYTES):
        return False
    try:
        stored, _ = read_struct(chunk.statistics, 0, {_MIN_VALUE: None, _MAX_VALUE: None})
    except MALFORMED:
        return False
    return len(stored) == 2


def _bounds(statistics: pq.Statistics, arrow_type: pa.DataType) -> tuple[Stored, Stored] | None:
    if not statistics.has_min_max:
        return None
    low, high = statistics.min_raw, statistics.max_raw
    physical = type(low)
    if arrow_types.is_decimal(arrow_type) and physical is bytes:
        low, high = (int.from_bytes(raw, "big", signed=True) for raw in (low, high))
    elif arrow_types.is_unsigned_integer(arrow_type) and physical is int:
        low, high = (raw % (1 << arrow_type.bit_width) for raw in (low, high))  # the same bits, signed
    elif not any(is_stored(arrow_type) for is_stored in _STORED_AS.get(physical, ())):
        return None
    return (low, high) if low <= high else None  # NaN fails the test too


# The Arrow types that pyarrow reads values of a physical type as.
_STORED_AS: Mapping[type, Collection[Callable[[pa.DataType], bool]]] = {
    bool: (arrow_types.is_boolean,),
    int: (
        *(arrow_types.is_signed_integer, arrow_types.is_decimal),
        *(arrow_types.is_date32, arrow_types.is_time, arrow_types.is_timestamp),
    ),
    float: (arrow_types.is_float32, arrow_types.is_float64),
    bytes: (
        *(arrow_types.is_string, arrow_types.is_large_string, arrow_types.is_string_view),
        *(arrow_types.is_binary, arrow_types.is_large_binary, arrow_types.is_binary_view),
        arrow_types.is_fixed_size_binary,
    ),
}
