"""The sketch does not depend on how Arrow holds the values."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from puffin.errors import CorruptDataFileError
from puffin.sketches.hashing import hash_array
from puffin.sketches.theta_sketch import ThetaSketch

Column = Callable[[str, int], pa.Array]
N = 500


def int32_buffer(*values: int) -> pa.Buffer:
    return pa.array(values, pa.int32()).buffers()[1]


def strings_at(*offsets: int) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, [None, int32_buffer(*offsets), pa.py_buffer(b"abc")])


def entries_at(*indices: int) -> pa.Array:
    of = pa.dictionary(pa.int32(), pa.string())
    return pa.DictionaryArray.from_buffers(of, len(indices), [None, int32_buffer(*indices)], pa.array(["a", "b"]))


@pytest.fixture
def values(any_type: str, column: Column) -> pa.Array:
    return column(any_type, N)


@pytest.fixture
def whole(any_type: str, values: pa.Array) -> ThetaSketch:
    return ThetaSketch.from_arrow(values, any_type)


def test_slice_counts_only_its_own_values(any_type: str, values: pa.Array, whole: ThetaSketch) -> None:
    padded = pa.concat_arrays([values[-7:], values, values[:3]])[7 : 7 + N]
    assert ThetaSketch.from_arrow(padded, any_type) == whole
    part, alone = values[3:8], pa.concat_arrays([values[3:4], values[4:8]])  # the latter has buffers of its own
    assert ThetaSketch.from_arrow(part, any_type) == ThetaSketch.from_arrow(alone, any_type)


def test_chunks_are_one_column(any_type: str, values: pa.Array, whole: ThetaSketch) -> None:
    """Empty chunks included; a column without chunks is empty."""
    chunked = pa.chunked_array([values[:0], values[:13], values[13:]])
    assert ThetaSketch.from_arrow(chunked, any_type) == whole
    assert ThetaSketch.from_arrow(pa.chunked_array([], values.type), any_type).empty


def test_nulls_are_not_counted(any_type: str, values: pa.Array, whole: ThetaSketch) -> None:
    """Even with bytes left under them."""
    mixed = pa.concat_arrays([pa.nulls(5, values.type), values, pa.nulls(9, values.type)])
    assert ThetaSketch.from_arrow(mixed, any_type) == whole
    assert ThetaSketch.from_arrow(mixed[2:-2], any_type) == whole
    assert ThetaSketch.from_arrow(pa.nulls(20, values.type), any_type).empty


def test_dictionary_counts_only_used_values(any_type: str, values: pa.Array, whole: ThetaSketch) -> None:
    unused = pa.DictionaryArray.from_arrays(pa.array([None, 2, 2, None], pa.int16()), values)
    assert ThetaSketch.from_arrow(unused, any_type) == ThetaSketch.from_arrow(values[2:3], any_type)
    rows = pa.array([*range(N), *range(N), None], pa.int32())
    encoded = pa.DictionaryArray.from_arrays(rows, values)
    assert ThetaSketch.from_arrow(encoded, any_type) == whole
    assert ThetaSketch.from_arrow(pa.chunked_array([encoded[:N], encoded[N:]]), any_type) == whole


def test_null_dictionary_entries_are_not_counted() -> None:
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array(["a", None]))
    assert ThetaSketch.from_arrow(encoded, "string").retained == 1


def test_dictionary_entry_is_hashed_once() -> None:
    """Thousands of rows of three values cost three hashes."""
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 1000, pa.int8()), pa.array(["a", "b", "c"]))
    assert sum(len(hashes) for hashes in hash_array(encoded, "string")) == 3


@pytest.mark.parametrize(
    ("column_type", "arrow_type"),
    [
        ("string", pa.large_string()),
        ("string", pa.string_view()),
        ("string", pa.binary()),
        ("string", pa.large_binary()),
        ("string", pa.binary_view()),
        ("binary", pa.large_binary()),
        ("binary", pa.binary_view()),
        ("uuid", pa.binary_view()),
        ("fixed[5]", pa.large_binary()),
        ("decimal(9, 2)", pa.decimal256(9, 2)),
    ],
    ids=str,
)
def test_arrow_variants_of_a_type_have_the_same_sketch(
    column_type: str, arrow_type: pa.DataType, column: Column
) -> None:
    """Large and view layouts and wider decimals, sliced and with NULL."""
    values = column(column_type, N)
    plain = values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
    other = pa.array([None, *plain.to_pylist()], arrow_type)[1:]
    assert ThetaSketch.from_arrow(other, column_type) == ThetaSketch.from_arrow(values, column_type)
    assert ThetaSketch.from_arrow(other[3:9], column_type) == ThetaSketch.from_arrow(values[3:9], column_type)


def test_empty_string_is_not_counted() -> None:
    """As in every other engine."""
    sketch = ThetaSketch.from_arrow(pa.array(["", "a", ""]), "string")
    assert sketch == ThetaSketch.from_arrow(pa.array(["a"]), "string")
    assert ThetaSketch.from_arrow(pa.array([""]), "string").empty


def test_zeros_and_nans_are_distinguished_by_their_bits() -> None:
    """-0.0 and 0.0 are two values; equal NaNs are one."""
    sketch = ThetaSketch.from_arrow(pa.array([0.0, -0.0, float("nan"), float("nan")]), "double")
    assert sketch.ndv == 3


@pytest.mark.parametrize("view", [pa.string_view(), pa.binary_view()])
def test_nulls_in_view_arrays_are_not_counted(view: pa.DataType) -> None:
    """In dictionaries of views too."""
    array = pa.array(["a", None, "b", "longer than a view holds", None], pa.string()).cast(view)
    whole = ThetaSketch.from_arrow(array, "string")
    assert whole == ThetaSketch.from_arrow(pa.array(["a", "b", "longer than a view holds"]), "string")


@pytest.mark.parametrize(
    "array",
    [
        *(strings_at(0, 1_000_000_000, 3), strings_at(0, -5, 3), strings_at(0, 3, 1), entries_at(9), entries_at(-7)),
        *(pa.chunked_array([strings_at(0, 9, 3)]), pa.ExtensionArray.from_storage(pa.json_(), strings_at(0, 9, 3))),
    ],
)
def test_array_that_leads_out_of_its_buffers_is_refused(array: pa.Array | pa.ChunkedArray) -> None:
    """Compiled kernels would read memory that is not theirs."""
    with pytest.raises(CorruptDataFileError, match="array: expected a valid one of Arrow type "):
        ThetaSketch.from_arrow(array, "string")


def test_string_may_have_any_bytes() -> None:
    """As in the data files of some writers."""
    array = pa.array([b"\xff\xfe", b"a"], pa.binary())
    text = array.view(pa.string())
    for each in (text, array.cast(pa.binary_view()).view(pa.string_view()), text.dictionary_encode()):
        assert ThetaSketch.from_arrow(each, "string") == ThetaSketch.from_arrow(array, "binary")
