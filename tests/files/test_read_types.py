"""Every type hashes as the values of the table's column, however a Parquet file stores it."""

import datetime
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from puffin.errors import CorruptDataFileError, CorruptError, FileNotFound
from puffin.files.data_file_errors import errors_about
from puffin.files.file_columns import FileColumn
from puffin.files.formats import DataFiles
from puffin.files.parquet import parquet_file
from puffin.files.rows import Wants
from puffin.files.task_reader import TaskReader
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.storage import store_for
from puffin.tables.base import Column
from puffin.tables.scan_task import ScanBatch, ScanContext
from tests.hand_made_table import sketches_of
from tests.without_disk import rewrite

DECIMALS = [decimal.Decimal(text) for text in ("0.00", "-0.01", "99999.99", "1.27", "-1.28")]
MOMENTS = [-1, 0, 1, 1_700_000_000_123_456, -62_135_596_800_000_000]
TEXTS = ["", "a", "ü" * 20, "b" * 5000, None, "a"]


def decimals(precision):
    return pa.array([*DECIMALS, None], pa.decimal128(precision, 2))


STORED = {
    "boolean": ("boolean", pa.array([True, False, None])),
    "int": ("int", pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32())),
    "long": ("long", pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64())),
    "float": ("float", pa.array([0.0, -0.0, float("nan"), 1.5, None], pa.float32())),
    "double": ("double", pa.array([0.0, -0.0, float("inf"), 1e300, None], pa.float64())),
    "date": ("date", pa.array([-1, 0, 2932896, None], pa.date32())),
    "time": ("time", pa.array([0, 86_399_999_999, None], pa.time64("us"))),
    "timestamp": ("timestamp", pa.array([*MOMENTS, None], pa.timestamp("us"))),
    "timestamptz": ("timestamptz", pa.array([*MOMENTS, None], pa.timestamp("us", "UTC"))),
    "timestamp_ns": ("timestamp_ns", pa.array([-1, 0, 2**62, None], pa.timestamp("ns"))),
    "timestamptz_ns": ("timestamptz_ns", pa.array([-1, 0, 2**62, None], pa.timestamp("ns", "UTC"))),
    "string": ("string", pa.array(TEXTS)),
    "large_string": ("string", pa.array(TEXTS, pa.large_string())),
    "string_view": ("string", pa.array(TEXTS, pa.string_view())),
    "dictionary of string": ("string", pa.array(TEXTS).dictionary_encode()),
    "dictionary of long": ("long", pa.array([5, 5, None, 6]).dictionary_encode()),
    "binary": ("binary", pa.array([b"", b"\0", b"\xff" * 300, None])),
    "large_binary": ("binary", pa.array([b"", b"\0", None], pa.large_binary())),
    "binary_view": ("binary", pa.array([b"", b"\0", None], pa.binary_view())),
    "fixed": ("fixed[3]", pa.array([b"abc", b"\0\0\0", None], pa.binary(3))),
    "uuid as fixed": ("uuid", pa.array([uuid.UUID(int=i).bytes for i in (0, 2**127)] + [None], pa.binary(16))),
    "uuid extension": ("uuid", pa.array([uuid.UUID(int=i).bytes for i in (0, 2**127)], pa.uuid())),
    "decimal in 32 bits": ("decimal(9, 2)", decimals(9)),
    "decimal in 64 bits": ("decimal(18, 2)", decimals(18)),
    "decimal in 16 bytes": ("decimal(38, 2)", decimals(38)),
}
PLAIN = {
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.dictionary(pa.int32(), pa.string()): pa.string(),
    pa.dictionary(pa.int32(), pa.int64()): pa.int64(),
}
FILES = {
    "v1 pages": {},
    "v2 pages": {"data_page_version": "2.0", "version": "2.6"},
    "no dictionary": {"use_dictionary": False},
    "no arrow schema": {"store_schema": False},
    "decimals as integers": {"store_decimal_as_integer": True},
    "small groups": {"row_group_size": 2, "data_page_size": 64},
}


@pytest.mark.parametrize(
    ("type_string", "values", "options"),
    [
        pytest.param(*stored, options, id=f"{name}, {file}")
        for name, stored in STORED.items()
        for file, options in FILES.items()
        if not ("view" in name and "row_group_size" in options)  # pyarrow cannot slice views
    ],
)
def test_values_of_every_type_are_read_back(make_table, type_string, values, options):
    fields = [(1, "top", type_string), (2, "st", [(3, "in", type_string)])]
    table = make_table(fields)
    plain = values.cast(PLAIN.get(values.type, values.type))
    mask = pa.array([i == 1 for i in range(len(values))])
    nested = pa.StructArray.from_arrays([values], ["in"], mask=mask)
    path = table.write(
        "1.parquet", pa.table({"top": values, "st": nested}), {"top": 1, "st": (2, {"in": 3})}, **options
    )
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.sketches["top"] == ThetaSketch.from_arrow(plain, type_string)
    assert answer.sketches["st.in"] == ThetaSketch.from_arrow(plain.filter(pc.invert(mask)), type_string)
    assert answer.rows == len(values)
    group_bytes = pq.read_metadata(path)
    chunks = [group_bytes.row_group(i) for i in range(group_bytes.num_row_groups)]
    stored = sum(g.column(c).total_compressed_size for g in chunks for c in range(2))
    # Of a chunk that is all dictionary, the page that holds it is enough.
    assert answer.bytes_read == stored or (0 < answer.bytes_read < stored and options.get("use_dictionary", True))


DAYS, DAY = pa.array([-1, 0, 19_000], pa.date32()), 86_400_000_000
PROMOTED = {
    "int to long": ("long", pa.array([-1, 2**31 - 1, None], pa.int32()), pa.array([-1, 2**31 - 1])),
    "float to double": ("double", pa.array([1.1, -0.0, None], pa.float32()), pa.array([float(np.float32(1.1)), -0.0])),
    "decimal widened": ("decimal(38, 2)", decimals(9), decimals(38)),
    "decimal widened, in 32 bits": ("decimal(18, 2)", decimals(9), decimals(18)),
    "date to timestamp": ("timestamp", DAYS, pa.array([-DAY, 0, 19_000 * DAY], pa.timestamp("us"))),
    "date to timestamp_ns": ("timestamp_ns", DAYS, pa.array([-DAY * 1000, 0, 19_000_000 * DAY], pa.timestamp("ns"))),
}


@pytest.mark.parametrize(("type_string", "stored", "values"), PROMOTED.values(), ids=PROMOTED.keys())
def test_file_older_than_a_promotion_hashes_as_the_new_type(make_table, type_string, stored, values):
    table = make_table([(1, "c", type_string)])
    old = table.write("old.parquet", pa.table({"c": stored}), {"c": 1}, store_decimal_as_integer=True)
    new = table.write("new.parquet", pa.table({"c": values}), {"c": 1})
    table.snapshot(table.data(old), table.data(new))
    assert table.read().sketches["c"] == ThetaSketch.from_arrow(values, type_string)


@pytest.mark.parametrize("type_string", ["timestamp", "timestamptz"])
def test_int96_timestamps_are_microseconds_beyond_the_range_of_nanoseconds(make_table, type_string):
    table = make_table([(1, "c", type_string)])
    moments = [
        datetime.datetime(1, 1, 1),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(9999, 12, 31),
        None,
    ]
    values = pa.array(moments, pa.timestamp("us"))
    path = table.write("1.parquet", pa.table({"c": values}), {"c": 1}, use_deprecated_int96_timestamps=True)
    assert pq.read_metadata(path).row_group(0).column(0).physical_type == "INT96"
    table.snapshot(table.data(path))
    assert table.read().sketches["c"] == ThetaSketch.from_arrow(values, type_string)


def test_milliseconds_of_other_writers_become_microseconds(make_table):
    table = make_table([(1, "t", "time"), (2, "ts", "timestamp")])
    rows = pa.table({"t": pa.array([1, 86_399_999], pa.time32("ms")), "ts": pa.array([-1, 1], pa.timestamp("ms"))})
    path = table.write("1.parquet", rows, {"t": 1, "ts": 2})
    table.snapshot(table.data(path))
    assert table.read().sketches == {
        "t": ThetaSketch.from_arrow(pa.array([1000, 86_399_999_000], pa.time64("us")), "time"),
        "ts": ThetaSketch.from_arrow(pa.array([-1000, 1000], pa.timestamp("us")), "timestamp"),
    }


# --- empty and large ----------------------------------------------------------------------------------------------


def test_column_of_nulls_and_file_without_rows_give_the_empty_sketch(make_table):
    table = make_table([(1, "c", "long")])
    nulls = table.write("nulls.parquet", pa.table({"c": pa.nulls(5, pa.int64())}), {"c": 1})
    none = table.write("none.parquet", pa.table({"c": pa.array([], pa.int64())}), {"c": 1})
    table.snapshot(table.data(none))
    assert (table.read().sketches["c"].empty, table.read().rows) == (True, 0)
    table.snapshot(table.data(none), table.data(nulls))
    assert (table.read().sketches["c"].empty, table.read().rows) == (True, 5)


def test_snapshot_without_files_has_empty_sketches(make_table):
    table = make_table([(1, "c", "long")])
    table.snapshot()
    answer = table.read()
    assert (answer.sketches["c"].empty, answer.rows, answer.pieces) == (True, 0, 0)


def largest_batch(table):
    state = table.state()
    batch = ScanBatch(columns=state.columns, tasks=table.plan(), context=ScanContext({}, None, {}))
    reader = TaskReader(batch, DataFiles(store_for), Wants())
    return max(live.columns[1].array.nbytes for task in batch.tasks for live in reader.read(task) if live.columns)


@pytest.mark.parametrize("distinct", [1, 20, 8000])
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_batches_of_wide_strings_stay_small(make_table, monkeypatch, distinct, use_dictionary):
    monkeypatch.setattr(parquet_file, "BATCH_BYTES", 1 << 20)
    table = make_table([(1, "c", "string")])
    values = pa.array([f"{i % distinct}" * 1000 for i in range(8000)])
    path = table.write(
        "1.parquet", pa.table({"c": values}), {"c": 1}, use_dictionary=use_dictionary, compression="zstd"
    )
    table.snapshot(table.data(path))
    assert values.nbytes > 7 << 20
    assert largest_batch(table) < 4 << 20
    assert table.read().sketches["c"] == ThetaSketch.from_arrow(values, "string")


# --- broken files -------------------------------------------------------------------------------------------------


def two_column_file(make_table):
    table = make_table([(1, "a", "long"), (2, "b", "string")])
    rows = pa.table({"a": list(range(2000)), "b": [f"value {i}" for i in range(2000)]})
    path = table.write("1.parquet", rows, {"a": 1, "b": 2}, row_group_size=500)
    table.snapshot(table.data(path))
    return table, path


def test_missing_data_file_is_named(make_table):
    table, path = two_column_file(make_table)
    path.unlink()
    with pytest.raises(FileNotFound, match=str(path)):
        table.read()


def test_truncated_data_file_is_corrupt_and_named(make_table):
    table, path = two_column_file(make_table)
    batch, whole = table.batch(), path.read_bytes()
    for length in [0, 1, 4, 8, 12, *range(100, len(whole), 997), len(whole) - 1]:
        rewrite(path, whole[:length])
        with pytest.raises(CorruptDataFileError, match=r"1\.parquet: expected a readable Parquet file") as caught:
            sketches_of(batch)
        assert "\n" not in str(caught.value)


def test_damaged_data_file_raises_only_our_errors(make_table):
    table, path = two_column_file(make_table)
    batch, whole = table.batch(), bytearray(path.read_bytes())
    random = np.random.default_rng(1)
    said = []
    for _ in range(60):
        damaged = whole.copy()
        for at in random.integers(0, len(whole), 8):
            damaged[at] ^= int(random.integers(1, 256))
        rewrite(path, damaged)
        try:
            sketches_of(batch, is_sound=False)
        except CorruptError as exc:
            said.append(str(exc))
    assert said
    assert all("1.parquet" in message and "\n" not in message for message in said)


def test_index_that_no_dictionary_has_is_named():
    column = FileColumn(Column(1, "c", "string", (1,), (None,)), ("c",), None)
    for wrong in (-1, 5):
        indices = pa.array([0, wrong], pa.int8())
        array = pa.DictionaryArray.from_arrays(indices, pa.array(["x"]), safe=False)
        with pytest.raises(ValueError, match=f"index {wrong} into a dictionary of 1 values"):
            column.read(pa.record_batch([array], ["c"]))


def test_error_in_the_middle_of_bytes_is_about_the_file():
    """Readers of pages raise IndexError past the end."""
    with pytest.raises(CorruptDataFileError, match="f: expected a readable X: "), errors_about("f", "X"):
        b""[0]


def test_two_fields_with_one_name_are_corrupt(make_table):
    table = make_table([(1, "a", "long"), (2, "b", "long")])
    fields = [pa.field("x", pa.int64(), metadata={"PARQUET:field_id": str(i)}) for i in (1, 2)]
    rows = pa.table([pa.array([1]), pa.array([2])], pa.schema(fields))
    table.snapshot(table.data(table.write("1.parquet", rows)))
    with pytest.raises(CorruptDataFileError, match=r"1\.parquet: column a: expected one field named 'x'"):
        table.read()
