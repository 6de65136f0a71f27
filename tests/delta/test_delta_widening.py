"""Files older than a type change, and every storage of a type, hash as values of the table's type."""

import datetime
import json
import random
import struct
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import puffin
from puffin.delta.schema import table_schema
from puffin.errors import CorruptDataFileError
from puffin.sketches.theta_sketch import ThetaSketch
from stats_jobs import Options, analyze
from tests.counting import count_rows

REPEATS = 30  # so that a dictionary is smaller than the rows
TENTH = struct.unpack("<f", struct.pack("<f", 0.1))[0]

BYTES = [-128, -1, 0, 127]
SHORTS = [-(2**15), -1, 0, 2**15 - 1]
INTS = [-(2**31), -1, 0, 7, 2**31 - 1]
LONGS = [-(2**63), -1, 0, 10**18, 2**63 - 1]
CENTS = [Decimal("-999.99"), Decimal("0.00"), Decimal("-0.01"), Decimal("1.27"), Decimal("999.99")]
DAYS = [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]


def decimals(values, precision, scale):
    return pa.array(map(Decimal, values), pa.decimal128(precision, scale))


def midnights(days):
    return pa.array([datetime.datetime.combine(day, datetime.time()) for day in days], pa.timestamp("us"))


WIDENED = {
    "byte to short or integer": ("integer", pa.array(BYTES, pa.int8()), pa.array(BYTES, pa.int32())),
    "short to integer": ("integer", pa.array(SHORTS, pa.int16()), pa.array(SHORTS, pa.int32())),
    "byte to long": ("long", pa.array(BYTES, pa.int8()), pa.array(BYTES, pa.int64())),
    "short to long": ("long", pa.array(SHORTS, pa.int16()), pa.array(SHORTS, pa.int64())),
    "integer to long": ("long", pa.array(INTS, pa.int32()), pa.array(INTS, pa.int64())),
    "byte to double": ("double", pa.array(BYTES, pa.int8()), pa.array(map(float, BYTES), pa.float64())),
    "short to double": ("double", pa.array(SHORTS, pa.int16()), pa.array(map(float, SHORTS), pa.float64())),
    "integer to double": ("double", pa.array(INTS, pa.int32()), pa.array(map(float, INTS), pa.float64())),
    "float to double": (
        "double",
        pa.array([0.1, -0.0, 0.0, float("nan"), float("inf")], pa.float32()),
        pa.array([TENTH, -0.0, 0.0, float("nan"), float("inf")], pa.float64()),
    ),
    "byte to decimal": ("decimal(10,0)", pa.array(BYTES, pa.int8()), decimals(BYTES, 10, 0)),
    "short to decimal": ("decimal(12,2)", pa.array(SHORTS, pa.int16()), decimals(SHORTS, 12, 2)),
    "integer to decimal": ("decimal(12,2)", pa.array(INTS, pa.int32()), decimals(INTS, 12, 2)),
    "integer to the finest decimal": ("decimal(38,28)", pa.array(INTS, pa.int32()), decimals(INTS, 38, 28)),
    "long to decimal": ("decimal(20,0)", pa.array(LONGS, pa.int64()), decimals(LONGS, 20, 0)),
    "long to the finest decimal": ("decimal(38,18)", pa.array(LONGS, pa.int64()), decimals(LONGS, 38, 18)),
    "decimal to more digits": ("decimal(20,2)", decimals(CENTS, 5, 2), decimals(CENTS, 20, 2)),
    "decimal to a finer one": ("decimal(20,5)", decimals(CENTS, 5, 2), decimals(CENTS, 20, 5)),
    "decimal to the finest": ("decimal(38,35)", decimals(CENTS, 5, 2), decimals(CENTS, 38, 35)),
    "wide decimal to a finer one": ("decimal(38,3)", decimals(CENTS, 20, 2), decimals(CENTS, 38, 3)),
    "date to timestamp without zone": ("timestamp_ntz", pa.array(DAYS), midnights(DAYS)),
}  # fmt: skip

FILES = {
    "dictionary": {},
    "dictionary, decimals as integers": {"store_decimal_as_integer": True},
    "dictionary, no arrow schema": {"store_schema": False},
    "plain": {"use_dictionary": False},
    "plain, decimals as integers": {"use_dictionary": False, "store_decimal_as_integer": True},
}


def one_column(type_name, name="c"):
    field = {"name": name, "type": type_name, "nullable": True, "metadata": {}}
    return table_schema(json.dumps({"type": "struct", "fields": [field]}), {}, {}, "t")


def write(path, values, **options):
    rows = pa.concat_arrays([*[values] * REPEATS, pa.nulls(3, values.type)])
    pq.write_table(pa.table({"c": rows}), path, **options)
    return path


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("options", FILES.values(), ids=FILES.keys())
@pytest.mark.parametrize(("type_name", "stored", "values"), WIDENED.values(), ids=WIDENED.keys())
def test_older_file_hashes_as_the_wider_type(tmp_path, read_files, type_name, stored, values, options):
    schema = one_column(type_name)
    type_ = schema.schema["fields"][0]["type"]
    old = write(tmp_path / "old.parquet", stored, **options)
    new = write(tmp_path / "new.parquet", values, **options)
    expected = ThetaSketch.from_arrow(values, type_)
    assert read_files(schema, old).sketches == {"c": expected}
    assert read_files(schema, old, new).sketches == {"c": expected}


def test_dictionary_page_of_an_older_file_is_enough(tmp_path, read_files):
    path = write(tmp_path / "1.parquet", pa.array(INTS, pa.int32()))
    chunk = pq.read_metadata(path).row_group(0).column(0)
    answer = read_files(one_column("decimal(12,2)"), path)
    assert 0 < answer.bytes_read < chunk.total_compressed_size


NARROWED = {
    "long to double": ("double", pa.array([1], pa.int64())),
    "long to integer": ("integer", pa.array([1], pa.int64())),
    "double to float": ("float", pa.array([1.0])),
    "integer to a decimal without room": ("decimal(11,2)", pa.array([1], pa.int32())),
    "long to a decimal without room": ("decimal(18,0)", pa.array([1], pa.int64())),
    "decimal to a coarser one": ("decimal(10,1)", decimals([1], 5, 2)),
    "decimal to a finer one without room": ("decimal(6,4)", decimals([1], 5, 2)),
    "double to decimal": ("decimal(38,2)", pa.array([1.0])),
    "date to timestamp with zone": ("timestamp", pa.array(DAYS)),
}


@pytest.mark.parametrize(("type_name", "stored"), NARROWED.values(), ids=NARROWED.keys())
def test_file_with_values_that_may_not_fit_is_refused_by_both_types(tmp_path, read_files, type_name, stored):
    path = write(tmp_path / "1.parquet", stored)
    with pytest.raises(CorruptDataFileError, match=r"a column of type .* cannot be read from Arrow"):
        read_files(one_column(type_name), path)


MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999000),
    datetime.datetime(9999, 12, 31),
]
MICROS = pa.array(MOMENTS, pa.timestamp("us"))
RECENT = pa.array([-1_500_000, 0, 1_700_000_000_123_456], pa.timestamp("us"))
PRICES = decimals(CENTS, 38, 2)
STORED = {
    "byte": ("byte", pa.array(BYTES, pa.int8()), pa.array(BYTES, pa.int32()), {}),
    "byte without annotation": ("byte", pa.array(BYTES, pa.int32()), pa.array(BYTES, pa.int32()), {}),
    "short": ("short", pa.array(SHORTS, pa.int16()), pa.array(SHORTS, pa.int32()), {}),
    "timestamp as INT96": ("timestamp", MICROS, MICROS, {"use_deprecated_int96_timestamps": True}),
    "timestamp without zone as INT96": ("timestamp_ntz", MICROS, MICROS, {"use_deprecated_int96_timestamps": True}),
    "timestamp adjusted to UTC": ("timestamp", MICROS.cast(pa.timestamp("us", "UTC")), MICROS, {}),
    "timestamp not adjusted": ("timestamp", MICROS, MICROS, {}),
    "timestamp without zone, adjusted": ("timestamp_ntz", MICROS.cast(pa.timestamp("us", "UTC")), MICROS, {}),
    "timestamp without zone, not adjusted": ("timestamp_ntz", MICROS, MICROS, {}),
    "timestamp in ms": ("timestamp", MICROS.cast(pa.timestamp("ms", "UTC")), MICROS, {}),
    "timestamp in ns": ("timestamp", RECENT.cast(pa.timestamp("ns", "UTC")), RECENT, {"version": "2.6"}),
    "decimal in 4 bytes": ("decimal(5,2)", decimals(CENTS, 5, 2), PRICES, {"store_decimal_as_integer": True}),
    "decimal in 8 bytes": ("decimal(18,2)", decimals(CENTS, 18, 2), PRICES, {"store_decimal_as_integer": True}),
    "decimal in as few bytes as it takes": ("decimal(18,2)", decimals(CENTS, 18, 2), PRICES, {}),
    "decimal of the largest": ("decimal(38,2)", decimals(CENTS, 38, 2), PRICES, {}),
}  # fmt: skip
PHYSICAL = {
    "byte": "INT32",
    "timestamp as INT96": "INT96",
    "decimal in 4 bytes": "INT32",
    "decimal in 8 bytes": "INT64",
    "decimal in as few bytes as it takes": "FIXED_LEN_BYTE_ARRAY",
}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("name", STORED)
def test_every_storage_of_a_type_hashes_the_same(tmp_path, read_files, name, use_dictionary):
    type_name, stored, values, options = STORED[name]
    schema = one_column(type_name)
    path = write(tmp_path / "1.parquet", stored, use_dictionary=use_dictionary, **options)
    physical = pq.read_metadata(path).row_group(0).column(0).physical_type
    assert physical == PHYSICAL.get(name, physical)
    expected = ThetaSketch.from_arrow(values, schema.schema["fields"][0]["type"])
    assert read_files(schema, path).sketches == {"c": expected}


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("use_dictionary", [True, False])
def test_decimal_in_bytes_of_any_length_hashes_the_same(tmp_path, read_files, use_dictionary):
    """Parquet allows BINARY for decimals; pyarrow writes none, so its footer is told that these bytes are decimals."""
    unscaled = [int(value.scaleb(2)) for value in CENTS]
    texts = pa.array([value.to_bytes(4, "big", signed=True).lstrip(b"\0") or b"\0" for value in unscaled])
    path = write(tmp_path / "1.parquet", texts, use_dictionary=use_dictionary, store_schema=False)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    as_bytes = b"\x15\x0c\x25\x02\x18\x01c\x00"  # type 6, repetition 1, name "c"
    as_decimal = as_bytes[:-1] + b"\x25\x0a\x15\x04\x15\x0a\x00"  # converted_type 5, scale 2, precision 5
    assert footer.count(as_bytes) == 1
    patched = footer.replace(as_bytes, as_decimal)
    path.write_bytes(data[: -8 - len(footer)] + patched + len(patched).to_bytes(4, "little") + data[-4:])
    assert pq.read_schema(path).field("c").type == pa.decimal128(5, 2)
    expected = decimals(CENTS, 5, 2)
    assert read_files(one_column("decimal(5,2)"), path).sketches == {
        "c": ThetaSketch.from_arrow(expected, "decimal(5,2)")
    }
    assert read_files(one_column("decimal(9,4)"), path).sketches == {
        "c": ThetaSketch.from_arrow(decimals(CENTS, 9, 4), "decimal(9,4)")
    }


def test_widened_values_keep_their_row_counts():
    """Even values that take bytes of several lengths."""
    from puffin.sketches.row_counts import RowCountsBuilder

    values = pa.array(INTS, pa.int32())
    rows = np.arange(1, len(INTS) + 1)
    counted, plain = RowCountsBuilder(64), RowCountsBuilder(64)
    count_rows(counted, values, "decimal(14, 4)", rows)
    count_rows(plain, decimals(np.repeat(INTS, rows).tolist(), 14, 4), "decimal(14, 4)")
    assert counted.compact() == plain.compact()


def drawn_float(r):
    (found,) = struct.unpack("<f", r.randbytes(4))
    return found if np.isfinite(found) else np.finfo(np.float32).max.item()


def test_statistics_of_floats_hold_for_the_doubles_that_these_became(tmp_path):
    """The log has the shortest text of a float, 0.1, and a reader the double that is equal to it, 0.100000001490116."""
    r = random.Random(1)
    values = [[drawn_float(r) for _ in range(r.randint(1, 3))] for _ in range(40)]
    values += [[r.choice((0.1, 1e300, -1e300, -0.0))] for _ in range(5)]  # a file of doubles
    was = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    field = {"name": "x", "type": "double", "nullable": True, "metadata": was}
    metadata = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": [field]}),
        "partitionColumns": [],
        "configuration": {"delta.enableTypeWidening": "true"},
    }
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    actions = [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, {"metaData": metadata}]
    for number, of_file in enumerate(values):
        low, high = (float(str(np.float32(end))) if number < 40 else end for end in (min(of_file), max(of_file)))
        stats = {"numRecords": len(of_file), "minValues": {"x": low}, "maxValues": {"x": high}, "nullCount": {"x": 0}}
        add = {"path": f"{number}.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
        actions.append({"add": {**add, "stats": json.dumps(stats)}})
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    lookup = puffin.Lookup()
    for number, of_file in enumerate(values):
        for value in of_file:
            for where in (f"x = '{value!r}'", f"x <= '{min(of_file)!r}'", f"x >= '{max(of_file)!r}'"):
                plan = lookup.plan(str(tmp_path), where)
                assert f"{number}.parquet" in [Path(task.data_file.file_path).name for task in plan.files], where
    assert lookup.plan(str(tmp_path), "x < '-1e301'").files_matched == 0
    (column,) = puffin.ndv(str(tmp_path), ["x"], manifests=True).columns
    assert column.summary.min <= min(map(min, values))
    assert column.summary.max >= max(map(max, values))


def test_partition_column_of_floats_that_became_doubles_has_other_values(tmp_path):
    """The log's text 0.1 was the float 0.100000001490116, and is the double 0.1."""
    table = str(tmp_path)
    write_deltalake(table, pa.table({"x": [1, 2, 3], "v": pa.array([0.1, 0.5, 0.5], pa.float32())}), partition_by=["v"])
    analyze(table, Options(partitions=True))
    log = tmp_path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1] |= {"type": "double", "metadata": {"delta.typeChanges": [{"fromType": "float"}]}}
    metadata |= {"schemaString": json.dumps(schema), "configuration": {"delta.enableTypeWidening": "true"}}
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    (log / f"{2:020}.json").write_text(f"{json.dumps({'protocol': protocol})}\n{json.dumps({'metaData': metadata})}\n")
    (column,) = puffin.ndv(table, ["v"]).columns
    assert (column.ndv, column.summary.min, column.summary.max) == (2, None, None)
    (of_partition,) = puffin.ndv(table, ["x"], partitions=["v=0.1"]).columns
    assert of_partition.ndv is None
    for where, rows in (("v = 0.1", 1), ("v <= 0.1", 1), ("v > 0.1", 2), ("v = 0.100000001490116", 0)):
        found = puffin.estimate(table, where).rows
        assert (found.lower, found.rows, found.upper) == (rows, rows, rows), where
