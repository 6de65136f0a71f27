"""
For any file and any way of reading it, counts are exact or unknown, and no value is outside the bounds.

What is expected is counted value by value, from Python objects that never went through a file. Dates, times and
decimals are the integers behind them.
"""

import dataclasses
import decimal
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from puffin import kernels
from puffin.files.formats import DataFiles
from puffin.files.rows import Wants
from puffin.files.task_reader import TaskReader
from puffin.storage import store_for
from puffin.tables.base import Column
from puffin.tables.scan_task import ScanBatch, ScanContext
from puffin.values.chunk_summary import ChunkSummary
from puffin.values.column_bounds import Bounds, Missing
from puffin.values.column_chunk import ChunkStatistics
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary
from puffin.values.truncation import KEPT
from tests.scan_files import data_file, whole

EXACT = decimal.Context(prec=80)
NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
COLUMN_UNITS = {"date": DAY, "timestamp_ns": 1, "timestamptz_ns": 1}  # else microseconds
WIDTHS = {"boolean": 1, "int": 4, "float": 4, "date": 4, "uuid": 16, "fixed[20]": 20}  # else 8


def integers(low, high):
    return st.integers(low, high) | st.sampled_from([low, high, 0])


def digits(count):
    return integers(-(10**count) + 1, 10**count - 1)


INTS, LONGS = integers(-(2**31), 2**31 - 1), integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32) | st.sampled_from([math.nan, -0.0])
TEXTS = st.text(max_size=20) | st.sampled_from(["", "\U0010ffff" * 18, "\ud7ff" * 17, "a" * 40])
BYTES = st.binary(max_size=20) | st.sampled_from([b"", b"\xff" * 18])
UUIDS = st.binary(min_size=16, max_size=16)

# The column's type, what the file stores, and values of it.
KINDS = {
    "boolean": ("boolean", pa.bool_(), st.booleans()),
    "int": ("int", pa.int32(), INTS),
    "int, 8 bits": ("int", pa.int8(), integers(-128, 127)),
    "int, 16 bits unsigned": ("int", pa.uint16(), integers(0, 2**16 - 1)),
    "long": ("long", pa.int64(), LONGS),
    "long, 32 bits": ("long", pa.int32(), INTS),
    "long, 32 bits unsigned": ("long", pa.uint32(), integers(0, 2**32 - 1)),
    "long, as durations": ("long", pa.duration("ns"), LONGS),
    "long, as dictionary": ("long", pa.dictionary(pa.int32(), pa.int64()), LONGS),
    "float": ("float", pa.float32(), FLOATS),
    "double": ("double", pa.float64(), st.floats() | st.sampled_from([math.nan, -0.0])),
    "double, 32 bits": ("double", pa.float32(), FLOATS),
    "double, integers": ("double", pa.int32(), INTS),
    "date": ("date", pa.date32(), integers(-700_000, 2_000_000)),
    "time": ("time", pa.time64("us"), integers(0, 86_399_999_999)),
    "time, milliseconds": ("time", pa.time32("ms"), integers(0, 86_399_999)),
    "time, nanoseconds": ("time", pa.time64("ns"), integers(0, 86_399_999_999_999)),
    "timestamp": ("timestamp", pa.timestamp("us"), integers(-(10**16), 10**16)),
    "timestamp, milliseconds": ("timestamp", pa.timestamp("ms"), integers(-(10**13), 10**13)),
    "timestamp, nanoseconds": ("timestamp", pa.timestamp("ns"), integers(-(10**18), 10**18)),
    "timestamp, days": ("timestamp", pa.date32(), integers(-100_000, 100_000)),
    "timestamptz": ("timestamptz", pa.timestamp("us", "UTC"), integers(-(10**16), 10**16)),
    "timestamptz_ns": ("timestamptz_ns", pa.timestamp("ns", "UTC"), integers(-(10**18), 10**18)),
    "string": ("string", pa.string(), TEXTS),
    "string, large": ("string", pa.large_string(), TEXTS),
    "string, as dictionary": ("string", pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "binary": ("binary", pa.binary(), BYTES),
    "binary, of one length": ("binary", pa.binary(3), st.binary(min_size=3, max_size=3)),
    "fixed": ("fixed[20]", pa.binary(20), st.binary(min_size=20, max_size=20)),
    "uuid": ("uuid", pa.binary(16), UUIDS),
    "uuid, annotated": ("uuid", pa.uuid(), UUIDS),
    "decimal, 9 digits": ("decimal(9, 2)", pa.decimal128(9, 2), digits(9)),
    "decimal, 18 digits": ("decimal(18, 4)", pa.decimal128(18, 4), digits(18)),
    "decimal, 38 digits": ("decimal(38, 2)", pa.decimal128(38, 2), digits(38)),
    "decimal, 32 bits": ("decimal(9, 2)", pa.decimal32(9, 2), digits(9)),
    "decimal, 64 bits": ("decimal(18, 4)", pa.decimal64(18, 4), digits(18)),
    "decimal, widened": ("decimal(38, 2)", pa.decimal128(9, 2), digits(9)),
    "decimal, of another scale": ("decimal(20, 5)", pa.decimal128(9, 2), digits(9)),
}
WRITERS = [
    {},
    {"use_dictionary": False},
    {"use_dictionary": False, "data_page_version": "2.0", "version": "2.6"},
    {"write_statistics": False},
    {"write_statistics": False, "use_dictionary": False},
    {"store_schema": False},
    {"store_decimal_as_integer": True},
]


def array_of(values, stored):
    if isinstance(stored, pa.UuidType):
        return pa.ExtensionArray.from_storage(stored, pa.array(values, pa.binary(16)))
    if pa.types.is_dictionary(stored):
        return pa.array(values, stored.value_type).dictionary_encode()
    if pa.types.is_decimal(stored):
        values = [None if v is None else EXACT.scaleb(decimal.Decimal(v), -stored.scale) for v in values]
    if pa.types.is_temporal(stored):
        return pa.array(values, pa.int32() if stored.bit_width == 32 else pa.int64()).view(stored)
    return pa.array(values, stored)


def as_column(value, stored, type_):
    """A stored value as the table sees it: times in its unit, decimals in its scale."""
    if pa.types.is_temporal(stored) and not pa.types.is_duration(stored):
        return value * (DAY if stored == pa.date32() else NANOS[stored.unit]) // COLUMN_UNITS.get(type_, 1000)
    if type_.startswith("decimal"):
        return value * 10 ** (int(type_.rstrip(")").split(",")[1]) - stored.scale)
    return float(value) if type_ in ("float", "double") else value


def size(value, type_):
    if type_.startswith("decimal"):
        return (value if value >= 0 else ~value).bit_length() // 8 + 1
    if type_ in ("string", "binary"):
        return len(value.encode() if isinstance(value, str) else value)
    return WIDTHS.get(type_, 8)


def check(found, values, type_, *, is_complete):
    """Check a summary; ``is_complete`` if only a bound without a form may be unknown."""
    present = [value for value in values if value is not None]
    ordered = [value for value in present if value == value]
    total, nans = sum(size(value, type_) for value in present), len(present) - len(ordered)
    exact = {
        "row_count": len(values),
        "null_count": len(values) - len(present),
        "nan_count": nans if type_ in ("float", "double") else None,
        "total_bytes": total,
    }
    for name, expected in exact.items():
        assert getattr(found, name) in ((expected,) if is_complete else (expected, None)), name
    assert found.row_count == len(values)
    bounds = Bounds.from_json(type_, found.min, found.max)
    for bound, extreme, sign in ((bounds.lower, min, 1), (bounds.upper, max, -1)):
        if bound is Missing.UNKNOWN:
            # Without values, infinite, or beyond the longest code points or bytes.
            has_no_form = not ordered or extreme(ordered) in (math.inf, -math.inf) or type_ in ("string", "binary")
            assert has_no_form or type_ == "fixed[20]"
        elif ordered:
            value = extreme(ordered)
            assert bound <= value if sign == 1 else bound >= value
            assert bound == value or (isinstance(value, str | bytes) and len(value) > KEPT)


def task_of(path):
    return whole(data_file(path))


def summary_of_files(type_, *paths, each_row):
    column = Column(1, "c", type_, (1,), (None,))
    batch = ScanBatch((column,), tuple(map(task_of, paths)), ScanContext({}, None, {}))
    reader = TaskReader(batch, DataFiles(store_for), Wants(each_row=each_row, summaries=True))
    total = RowSummary()
    for rows in (rows for task in batch.tasks for rows in reader.read(task)):
        total = total.plus(rows.summaries.get(1, RowSummary()))
    return total.to_column(type_)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def columns_of(stored, strategy):
    repeated = st.lists(strategy, min_size=1, max_size=3).map(lambda values: values * 7)
    values = st.lists(st.none() | strategy, max_size=12) | repeated
    return st.lists(st.tuples(values, st.sampled_from(WRITERS), st.integers(1, 12)), min_size=1, max_size=2)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_exact_and_bounds_hold_for_any_writer_and_type(directory, kind, monkeypatch):
    type_, stored, strategy = KINDS[kind]
    kernels.load_kernels()

    @settings(max_examples=12)
    @given(columns_of(stored, strategy), st.booleans())
    def check_files(files, with_kernels):
        monkeypatch.setattr(kernels, "_is_ready", with_kernels)
        paths, values = [], []
        for number, (content, options, group) in enumerate(files):
            path = directory / f"{number}.parquet"
            field = pa.field("c", stored, metadata={"PARQUET:field_id": "1"})
            table = pa.Table.from_arrays([array_of(content, stored)], schema=pa.schema([field]))
            pq.write_table(table, path, row_group_size=group, **options)
            paths.append(path)
            values += [None if v is None else as_column(v, _plain(stored), type_) for v in content]
        check(summary_of_files(type_, *paths, each_row=True), values, type_, is_complete=True)
        check(summary_of_files(type_, *paths, each_row=False), values, type_, is_complete=False)

    check_files()


def _plain(stored):
    return stored.value_type if pa.types.is_dictionary(stored) else stored


# --- one column of 3,000 rows, read in many ways ------------------------------------------------------------------


WORDS = [None if i % 10 == 3 else f"word {i % 50}" for i in range(3000)]
CENTS = [i % 700 - 300 for i in range(3000)]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def table(make_table):
    return make_table([(1, "word", "string"), (2, "cents", "decimal(9, 2)"), (3, "x", "double")])


def write(table, name, **options):
    values = {
        "word": pa.array(WORDS),
        "cents": array_of(CENTS, pa.decimal128(9, 2)),
        "x": pa.array([math.nan if cents == 0 else cents / 3 for cents in CENTS]),
    }
    return table.write(name, pa.table(values), {"word": 1, "cents": 2, "x": 3}, row_group_size=700, **options)


def check_rows(answer, rows):
    """Check the rows at these positions, read as values alone and as every row."""
    words, cents = [WORDS[i] for i in rows], [CENTS[i] for i in rows]
    doubles = [math.nan if c == 0 else c / 3 for c in cents]
    for place, is_complete in ((0, False), (1, True)):
        check(answer.summaries["word"][place], words, "string", is_complete=is_complete)
        check(answer.summaries["cents"][place], cents, "decimal(9, 2)", is_complete=is_complete)
        check(answer.summaries["x"][place], doubles, "double", is_complete=is_complete)


@pytest.mark.parametrize("with_kernels", [False, True], ids=["numpy", "kernels"])
@pytest.mark.parametrize("options", WRITERS, ids=str)
def test_summaries_of_files_and_pieces_add_up(table, options, with_kernels, monkeypatch):
    kernels.load_kernels()
    monkeypatch.setattr(kernels, "_is_ready", with_kernels)
    table.snapshot(*(table.data(write(table, f"{i}.parquet", **options)) for i in range(2)))
    for target_bytes in (2**40, 3000):
        answer = table.read(target_bytes=target_bytes)
        assert target_bytes > 3000 or answer.pieces > 2
        check_rows(answer, [*range(3000), *range(3000)])


GONE = {i for i in range(3000) if CENTS[i] in (-300, 399) or WORDS[i] == "word 0" or 700 <= i < 1400}


def with_deletes(table, **options):
    path = write(table, "1.parquet", **options)
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, i) for i in sorted(GONE)]))
    return table.read()


def test_deleted_rows_are_subtracted_without_footer_statistics(table):
    check_rows(with_deletes(table, write_statistics=False), [i for i in range(3000) if i not in GONE])


def test_footer_bounds_hold_for_the_remaining_rows(table):
    """They may be wider; counts exclude the deleted rows as always."""
    answer, bare = with_deletes(table), with_deletes(table, write_statistics=False)
    assert (answer.summaries["cents"][0].min, bare.summaries["cents"][0].min) == ("-3.00", "-2.99")
    for column, found in answer.summaries.items():
        for one, other in zip(found, bare.summaries[column], strict=True):
            assert dataclasses.replace(one, min=None, max=None) == dataclasses.replace(other, min=None, max=None)


@pytest.mark.parametrize("options", WRITERS, ids=str)
def test_signalling_nan_hides_no_earlier_value(make_table, options):
    table = make_table([(1, "c", "double")])
    values = np.array([0xBFF0_0000_0000_0000, 0x7FF0_0000_0000_0001, 0x4000_0000_0000_0000], "<u8").view("<f8")
    path = table.write("1.parquet", pa.table({"c": values}), {"c": 1}, **options)
    table.snapshot(table.data(path))
    assert {(found.min, found.max) for found in table.read().summaries["c"]} == {(-1.0, 2.0)}


def test_row_group_without_live_rows_widens_no_bounds(make_table):
    table = make_table([(1, "c", "long")])
    path = table.write("1.parquet", pa.table({"c": [1, 99, 5, 7]}), {"c": 1}, row_group_size=2)
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, 0), (path, 1)]))
    assert [(found.min, found.max) for found in table.read().summaries["c"]] == [(5, 7), (5, 7)]


def test_name_with_a_dot_is_not_a_field_of_a_struct(make_table):
    table = make_table([(3, "a.b", "long"), (1, "a", [(2, "b", "long")])])
    values = pa.table({"a.b": [10, 20], "a": pa.array([{"b": 1}, {"b": 2}])})
    path = table.write("1.parquet", values, {"a": (1, {"b": 2}), "a.b": 3})
    table.snapshot(table.data(path))
    state = table.state()
    column = next(c for c in state.columns if c.field_id == 3)
    batch = ScanBatch((column,), table.plan(), ScanContext({}, None, {}))
    reader = TaskReader(batch, DataFiles(store_for), Wants(each_row=True, summaries=True))
    (found,) = [rows.summaries[3] for task in batch.tasks
                for rows in reader.read(task) if rows.summaries]  # fmt: skip
    assert found.to_column("long") == ColumnSummary(2, 0, None, 10, 20, 16)


def test_bounds_are_absent_without_live_rows(table):
    path = write(table, "1.parquet")
    table.snapshot(table.data(path), table.position_deletes("d.parquet", [(path, i) for i in range(3000)]))
    summaries = table.read().summaries["cents"]
    assert summaries
    for found in summaries:
        assert (found.row_count, found.null_count, found.total_bytes, found.min, found.max) == (0, 0, 0, None, None)


def test_footer_completes_the_summary_of_a_dictionary_page(table, monkeypatch):
    """It does not know how often a decimal or NaN occurs; the dictionary knows if there is no NaN."""
    path = write(table, "1.parquet")
    table.snapshot(table.data(path))
    monkeypatch.setattr(kernels, "_is_ready", False)
    word, cents, x = (table.read().summaries[name][0] for name in ("word", "cents", "x"))
    check(word, WORDS, "string", is_complete=True)
    assert (cents.row_count, cents.null_count, cents.total_bytes) == (3000, 0, None)
    assert (cents.min, cents.max) == ("-3.00", "3.99")
    assert (x.row_count, x.nan_count, x.total_bytes, x.min) == (3000, None, 24_000, -100.0)


def test_missing_footer_statistics_cause_no_extra_reads(table, monkeypatch):
    path = write(table, "1.parquet", write_statistics=False)
    table.snapshot(table.data(path))
    monkeypatch.setattr(kernels, "_is_ready", False)
    found = table.read("word").summaries["word"][0]
    assert (found.row_count, found.null_count, found.min, found.max) == (3000, None, "word 0", "word 9")


def test_empty_dictionary_means_that_every_row_is_null(make_table, monkeypatch):
    monkeypatch.setattr(kernels, "_is_ready", False)
    table = make_table([(1, "s", "string")])
    path = table.write("1.parquet", pa.table({"s": pa.nulls(9, pa.string())}), {"s": 1}, write_statistics=False)
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.bytes_read < pq.read_metadata(path).row_group(0).total_byte_size
    check(answer.summaries["s"][0], [None] * 9, "string", is_complete=True)


def test_decimal_sizes_are_those_of_single_values_and_not_of_the_file():
    """Some writers store decimals as byte arrays, and not always in the fewest bytes."""
    summary = ChunkSummary("decimal(9, 2)", ChunkStatistics(pa.decimal128(9, 2), 0, (1, 2), string_bytes=8))
    summary.see_rows(array_of([1, 2], pa.decimal128(9, 2)))
    assert summary.total(2).to_column("decimal(9, 2)") == ColumnSummary(2, 0, None, "0.01", "0.02", 2)


def test_missing_column_is_as_wide_as_its_constant(make_table):
    table = make_table([(1, "id", "long"), (2, "s", "string", "ab\u00fc"), (3, "n", "decimal(9, 2)")], version=3)
    path = table.write("1.parquet", pa.table({"id": pa.array(range(100), pa.int64())}), {"id": 1})
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.summaries["s"]
    assert answer.summaries["n"]
    for found in answer.summaries["s"]:
        check(found, ["ab\u00fc"] * 100, "string", is_complete=True)
    for found in answer.summaries["n"]:
        check(found, [None] * 100, "decimal(9, 2)", is_complete=True)


@pytest.mark.parametrize("each_row", [False, True])
@pytest.mark.parametrize("name", ["datafusion", "delta-rs", "polars", "parquet-mr-append"])
def test_footers_of_other_writers_are_correct(make_table, name, each_row):
    """Among them parquet-rs, which counts the bytes of each string in every row."""
    path = ROOT / "fixtures" / "parquet-writers" / f"{name}.parquet"
    fields = [(1, "dict", "string"), (2, "text", "string"), (3, "long", "long")]
    mapping = json.dumps([{"field-id": field_id, "names": [column]} for field_id, column, _ in fields])
    table = make_table(fields, properties={"schema.name-mapping.default": mapping})
    table.snapshot(table.data(path))
    answer = table.read()
    for _, column, type_ in fields:
        values = pq.read_table(path).column(column).to_pylist()
        check(answer.summaries[column][each_row], values, type_, is_complete=each_row)


@pytest.mark.parametrize("each_row", [False, True])
@pytest.mark.parametrize(
    ("name", "column", "type_"),
    [
        ("arrow-3", "d", "decimal(20, 2)"),
        ("arrow-3", "e", "decimal(12, 2)"),
        ("parquet-mr-1.8", "value", "decimal(25, 2)"),
    ],
)
def test_decimals_whose_bytes_were_compared_have_bounds_of_their_values(make_table, name, column, type_, each_row):
    path = ROOT / "fixtures" / "parquet-decimals" / f"{name}.parquet"
    mapping = json.dumps([{"field-id": 1, "names": [column]}])
    table = make_table([(1, column, type_)], properties={"schema.name-mapping.default": mapping})
    table.snapshot(table.data(path))
    values = [int(value.scaleb(2)) for value in pq.read_table(path).column(column).to_pylist()]
    check(table.read().summaries[column][each_row], values, type_, is_complete=True)
