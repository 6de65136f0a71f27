"""Data and delete files in Avro and ORC have the same values, rows and summaries as in Parquet."""

import contextlib
import datetime
import decimal
import io
import itertools
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from puffin.errors import CorruptDataFileError, CorruptError, UnsupportedTableError
from puffin.files.avro import columns as avro_columns
from puffin.files.avro.container import Container
from puffin.files.orc import orc_file, orc_footer
from puffin.files.orc.zones import offsets, zone_named
from puffin.sketches.theta_sketch import ThetaSketch
from stats_jobs.plan import split_task
from tests.hand_made_table import sketches_of
from tests.without_disk import rewrite

FORMATS = ["avro", "orc"]
ALL_FORMATS = [*FORMATS, "parquet"]
MOMENTS = [-1, 0, 1, 1_700_000_000_123_456, -8_000_000_000_000_000, None]
FAR_MOMENTS = [-62_135_596_800_000_000, 253_402_300_799_999_999, None]
DECIMALS = [decimal.Decimal(text) for text in ("0.00", "-0.01", "99999.99", "1.27", "-1.28", "-327.68")]
TEXTS = ["", "a", "ü" * 20, "b" * 5000, None, "a"]
STORED = {
    "boolean": ("boolean", pa.array([True, False, None])),
    "int": ("int", pa.array([-(2**31), 2**31 - 1, 0, None], pa.int32())),
    "long": ("long", pa.array([-(2**63), 2**63 - 1, 0, -1, None], pa.int64())),
    "float": ("float", pa.array([0.0, -0.0, float("nan"), 1.5, -3e38, None], pa.float32())),
    "double": ("double", pa.array([0.0, -0.0, float("inf"), -1e300, None], pa.float64())),
    "date": ("date", pa.array([-1, 0, 2932896, -719162, None], pa.date32())),
    "timestamp": ("timestamp", pa.array(MOMENTS, pa.timestamp("us"))),
    "timestamptz": ("timestamptz", pa.array(MOMENTS, pa.timestamp("us", "UTC"))),
    "timestamp_ns": ("timestamp_ns", pa.array([-1, 0, 2**62, None], pa.timestamp("ns"))),
    "timestamptz_ns": ("timestamptz_ns", pa.array([-1, 0, 2**62, None], pa.timestamp("ns", "UTC"))),
    "string": ("string", pa.array(TEXTS)),
    "binary": ("binary", pa.array([b"", b"\0", b"\xff" * 300, None])),
    "decimal(7, 2)": ("decimal(7, 2)", pa.array([*DECIMALS, None], pa.decimal128(7, 2))),
    "decimal(38, 2)": ("decimal(38, 2)", pa.array([*DECIMALS, None], pa.decimal128(38, 2))),
    "nothing but null": ("long", pa.array([None, None], pa.int64())),
}
ONLY_AVRO = {
    "time": ("time", pa.array([0, 86_399_999_999, None], pa.time64("us"))),
    "fixed": ("fixed[3]", pa.array([b"abc", b"\0\0\0", None], pa.binary(3))),
    "uuid": ("uuid", pa.array([b"\0" * 16, b"\x80" + b"\0" * 15, None], pa.binary(16))),
    "far timestamp": ("timestamp", pa.array(FAR_MOMENTS, pa.timestamp("us"))),
    "far timestamptz": ("timestamptz", pa.array(FAR_MOMENTS, pa.timestamp("us", "UTC"))),
}
IN_ORC = {name: stored for name, stored in STORED.items() if orc_file.CHECKS_TIMESTAMPS or "time" not in name}
ALL_MOMENTS = {
    "near": [moment for moment in MOMENTS if moment is not None],
    "far": [*FAR_MOMENTS, *MOMENTS] * 500,
    "null": [None, None],
    "in order": [i * 86_400_000_001 - 62_135_596_800_000_000 for i in range(3000)],
    "a far one among near ones": [253_402_300_799_999_999 if i == 700 else 10**15 + i * i for i in range(1000)],
}
MAPPING = '[{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["b"]}]'
MOMENT_MAPPING = '[{"field-id": 1, "names": ["t"]}]'
FIXTURES = Path(__file__).parents[2] / "fixtures" / "orc-java"
TIME = pa.field("t", pa.int64(), metadata={"iceberg.long-type": "TIME"})


def longs(*values):
    return ThetaSketch.from_arrow(pa.array(values, pa.int64()), "long")


def texts(*values):
    return ThetaSketch.from_arrow(pa.array(values), "string")


# --- values -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("suffix", "type_string", "values"),
    [
        *(pytest.param("avro", *stored, id=f"avro, {name}") for name, stored in (STORED | ONLY_AVRO).items()),
        *(pytest.param("orc", *stored, id=f"orc, {name}") for name, stored in IN_ORC.items()),
    ],
)
def test_values_and_summaries_equal_parquet(make_table, suffix, type_string, values):
    """At the root and inside a struct that may be null."""
    mask = pa.array([i == 1 for i in range(len(values))])
    rows = pa.table({"top": values, "st": pa.StructArray.from_arrays([values], ["in"], mask=mask)})
    answers = []
    for format_ in (suffix, "parquet"):
        table = make_table([(1, "top", type_string), (2, "st", [(3, "in", type_string)])], version=3)
        path = table.write(f"1.{format_}", rows, {"top": 1, "st": (2, {"in": 3})})
        table.snapshot(table.data(path))
        answers.append(table.read())
    found, expected = answers
    assert found.sketches["top"] == ThetaSketch.from_arrow(values, type_string)
    assert found.sketches["st.in"] == ThetaSketch.from_arrow(values.filter(pc.invert(mask)), type_string)
    assert (found.rows, found.sketches) == (expected.rows, expected.sketches)
    for name, (_, counted) in expected.summaries.items():
        assert found.summaries[name] == (counted, counted)


def test_orc_stores_times_as_longs_and_uuids_and_fixed_as_binaries(make_table):
    table = make_table([(1, "t", "time"), (2, "st", [(3, "t", "time")]), (4, "u", "uuid"), (5, "f", "fixed[2]")])
    times, uuids = pa.array([0, 86_399_999_999, None]), [b"\0" * 16, b"\1" * 16, None]
    stored = pa.table(
        [times, pa.StructArray.from_arrays([times], fields=[TIME]), uuids, [b"ab", b"\0\0", None]],
        pa.schema([TIME, pa.field("st", pa.struct([TIME])), ("u", pa.binary()), ("f", pa.binary())]),
    )
    table.snapshot(table.data(table.write("1.orc", stored, {"t": 1, "st": (2, {"t": 3}), "u": 4, "f": 5})))
    found = table.read().sketches
    assert found["t"] == found["st.t"] == ThetaSketch.from_arrow(times.cast(pa.time64("us")), "time")
    assert found["u"] == ThetaSketch.from_arrow(pa.array(uuids, pa.binary(16)), "uuid")
    assert found["f"] == ThetaSketch.from_arrow(pa.array([b"ab", b"\0\0"], pa.binary(2)), "fixed[2]")


PROMOTED = {
    "int to long": ("long", pa.array([-1, 2**31 - 1, None], pa.int32()), pa.array([-1, 2**31 - 1])),
    "float to double": ("double", pa.array([1.1, -0.0, None], pa.float32()), pa.array([float(np.float32(1.1)), -0.0])),
    "decimal": ("decimal(38, 2)", pa.array(DECIMALS, pa.decimal128(7, 2)), pa.array(DECIMALS, pa.decimal128(38, 2))),
}


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(("type_string", "stored", "now"), PROMOTED.values(), ids=PROMOTED)
def test_file_from_before_a_promotion_has_values_of_the_current_type(make_table, suffix, type_string, stored, now):
    table = make_table([(1, "a", type_string)])
    table.snapshot(table.data(table.write(f"1.{suffix}", pa.table({"a": stored}), {"a": 1})))
    assert table.read().sketches["a"] == ThetaSketch.from_arrow(now, type_string)


@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_are_found_by_field_id_and_missing_ones_are_filled_in(make_table, suffix):
    """With a default, an identity partition value, null, or a default inside a struct that may be null."""
    table = make_table(
        [
            *((1, "renamed", "long"), (2, "missing", "long"), (3, "defaulted", "long", 7), (4, "p", "long")),
            (5, "st", [(6, "x", "long"), (7, "later", "long", 8)]),
        ],
        version=3,
        spec=[(4, "identity")],
    )
    struct = pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int64())]))
    rows = pa.table({"missing": [1, 2, 2], "other": ["a", "b", "c"], "st": struct})
    path = table.write(f"1.{suffix}", rows, {"missing": 1, "other": 99, "st": (5, {"x": 6})})
    table.snapshot(table.data(path, partition=(40,)))
    answer = table.read()
    assert answer.sketches == {
        "renamed": longs(1, 2),
        "missing": longs(),
        "defaulted": longs(7),
        "p": longs(40),
        "st.x": longs(1, 3),
        "st.later": longs(8),
    }
    assert answer.summaries["st.later"][0].null_count == 1
    assert table.read("p").sketches == {"p": longs(40)}
    assert table.read("p").rows == 3


@pytest.mark.parametrize("suffix", FORMATS)
def test_file_without_field_ids_uses_the_name_mapping(make_table, suffix):
    inside = '{"field-id": 2, "names": ["st"], "fields": [{"field-id": 3, "names": ["y"]}]}'
    mapping = f'[{{"field-id": 1, "names": ["b"]}}, {inside}]'
    fields = [(1, "a", "long"), (2, "st", [(3, "x", "long")])]
    rows = pa.table({"b": [1, 2], "st": pa.array([{"y": 5}, {"y": 6}])})
    for properties in ({"schema.name-mapping.default": mapping}, {}):
        table = make_table(fields, properties=properties)
        table.snapshot(table.data(table.write(f"1.{suffix}", rows)))
        if properties:
            assert table.read().sketches == {"a": longs(1, 2), "st.x": longs(5, 6)}
        else:
            with pytest.raises(UnsupportedTableError, match=rf"1\.{suffix}: the file has no field ids"):
                table.read()


def test_name_with_a_dot_is_one_name(make_table):
    table = make_table([(1, "a.b", "long")])
    rows = pa.table({"a.b": [1, 2], "a": pa.array([{"b": 5}, {"b": 6}])})
    table.snapshot(table.data(table.write("1.orc", rows, {"a.b": 1, "a": (2, {"b": 3})})))
    assert table.read().sketches["a.b"] == longs(1, 2)


@pytest.mark.parametrize("name", ["__filename", "__fragment_index", "__batch_index", "__last_in_fragment"])
def test_name_that_data_sets_give_to_columns_of_their_own_is_a_name(make_table, name):
    table = make_table([(1, name, "long"), (2, "b", "long")])
    table.snapshot(table.data(table.write("1.orc", pa.table({name: [1, 2], "b": [3, 4]}), {name: 1, "b": 2})))
    assert table.read().sketches == {name: longs(1, 2), "b": longs(3, 4)}
    assert table.read("b").sketches == {"b": longs(3, 4)}


# --- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of_data", ALL_FORMATS)
@pytest.mark.parametrize("of_deletes", ALL_FORMATS)
def test_delete_files_of_any_format_apply_to_data_files_of_any_format(make_table, of_data, of_deletes):
    """By position, and by one column and by two with nulls."""
    table = make_table([(1, "k", "long"), (2, "s", "string")])
    rows = pa.table({"k": pa.array(range(100)), "s": [None if i % 2 else f"s{i % 10}" for i in range(100)]})
    path = table.write(f"a.{of_data}", rows, {"k": 1, "s": 2})

    def by_equality(name, deleted, ids):
        entry = table.data(table.write(f"{name}.{of_deletes}", pa.table(deleted), ids))
        return entry | {"content": 2, "equality_ids": list(ids.values()), "sequence_number": 2}

    table.snapshot(
        table.data(path),
        table.position_deletes(
            f"p.{of_deletes}", [(path, 0), (path, 99), (table.root / "other", 50)], of_one_file=False
        ),
        by_equality("e1", {"k": pa.array([7, 8, 1000])}, {"k": 1}),
        by_equality("e2", {"s": pa.array([None, "s4"]), "k": pa.array([11, 14])}, {"s": 2, "k": 1}),
    )
    live = [i for i in range(100) if i not in (0, 99, 7, 8, 11, 14)]
    answer = table.read()
    assert (answer.rows, answer.sketches["k"]) == (len(live), longs(*live))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("suffix", FORMATS)
def test_row_positions_continue_across_batches_and_blocks(make_table, monkeypatch, suffix):
    """Batches end within a block, and blocks end within a batch."""
    monkeypatch.setattr(avro_columns, "MAX_BATCH_ROWS", 7)
    monkeypatch.setattr(avro_columns, "GROUP_BYTES", 100)
    monkeypatch.setattr(orc_file, "MAX_BATCH_ROWS", 7)
    table = make_table([(1, "k", "long"), (2, "s", "string")])
    rows = pa.table({"k": pa.array(range(300)), "s": [str(i) * (i % 5) for i in range(300)]})
    options = {"sync_interval": 50} if suffix == "avro" else {}
    path = table.write(f"a.{suffix}", rows, {"k": 1, "s": 2}, **options)
    deleted = [0, 6, 7, 13, 14, 100, 299]
    table.snapshot(table.data(path), table.position_deletes("p.parquet", [(path, i) for i in deleted]))
    answer = table.read()
    live = [i for i in range(300) if i not in deleted]
    assert answer.sketches["k"] == longs(*live)
    assert answer.sketches["s"] == ThetaSketch.from_arrow(pa.array([str(i) * (i % 5) for i in live]), "string")


@pytest.mark.parametrize("suffix", FORMATS)
def test_file_is_read_once_whole_or_in_pieces(make_table, suffix):
    table = make_table([(1, "k", "long")])
    path = table.write(f"a.{suffix}", pa.table({"k": pa.array(range(3000))}), {"k": 1})
    table.snapshot(table.data(path, split_offsets=[4, 100]))
    (task,) = table.plan()
    assert split_task(task, 1) == [task]
    answer = table.read(target_bytes=1)
    assert (answer.rows, answer.bytes_read) == (3000, path.stat().st_size)


@pytest.mark.parametrize("suffix", ALL_FORMATS)
def test_file_without_rows_has_no_values(make_table, suffix):
    table = make_table([(1, "k", "long")])
    path = table.write(f"a.{suffix}", pa.table({"k": pa.array([], pa.int64())}), {"k": 1})
    table.snapshot(table.data(path))
    assert (table.read().rows, table.read().sketches["k"]) == (0, longs())


# --- files that are not whole, or not what they should be ------------------------------------------------------------


def avro_table(make_table, **options):
    table = make_table([(1, "k", "long"), (2, "s", "string")])
    rows = pa.table({"k": pa.array(range(60)), "s": [str(i) for i in range(60)]})
    path = table.write("a.avro", rows, {"k": 1, "s": 2}, sync_interval=40, **options)
    table.snapshot(table.data(path))
    return table, path


@pytest.mark.usefixtures("both_ways")
def test_avro_file_cut_between_blocks_is_corrupt(make_table):
    table, path = avro_table(make_table)
    whole = path.read_bytes()
    with path.open("rb") as file:
        ends = [block.offset for block in fastavro.block_reader(file)]
    assert len(ends) > 5
    for end in ends:
        rewrite(path, whole[:end])
        with pytest.raises(CorruptDataFileError, match=r"a\.avro: expected a readable Avro file: expected 60 rows, as"):
            table.read()


def test_avro_file_cut_anywhere_is_corrupt(make_table):
    table, path = avro_table(make_table)
    batch, whole = table.batch(), path.read_bytes()
    for length in range(0, len(whole), 7):
        rewrite(path, whole[:length])
        with pytest.raises(CorruptDataFileError, match=r"a\.avro: expected a readable Avro file: "):
            sketches_of(batch)


@pytest.mark.usefixtures("both_ways")
def test_damaged_avro_file_raises_only_our_errors(make_table):
    table, path = avro_table(make_table)
    batch, whole = table.batch(), path.read_bytes()
    for at, flip in zip(range(0, len(whole), 2), itertools.cycle((0x01, 0x80, 0xFF))):
        damaged = bytearray(whole)
        damaged[at] ^= flip
        rewrite(path, damaged)
        with contextlib.suppress(CorruptError, UnsupportedTableError):
            sketches_of(batch, is_sound=False)


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("record_count", [2, 4])
@pytest.mark.parametrize("kind", ["DATA", "POSITION_DELETES", "EQUALITY_DELETES"])
def test_file_with_another_number_of_rows_is_corrupt(make_table, suffix, record_count, kind):
    table = make_table([(1, "k", "long")])
    path = table.write(f"a.{suffix}", pa.table({"k": pa.array([1, 2, 3])}), {"k": 1})
    entry = table.data(path)
    deletes = {
        "DATA": None,
        "POSITION_DELETES": table.position_deletes(f"d.{suffix}", [(path, 0), (path, 1), (path, 2)]),
        "EQUALITY_DELETES": entry | {"content": 2, "equality_ids": [1], "sequence_number": 2},
    }[kind]
    wrong = {"record_count": record_count}
    table.snapshot(*([entry | wrong] if deletes is None else [entry, deletes | wrong]))
    with pytest.raises(
        CorruptDataFileError, match=f"expected {record_count} (rows, as the manifest says|records), found 3"
    ):
        table.read()


@pytest.mark.parametrize("suffix", FORMATS)
def test_file_of_another_format_is_corrupt(make_table, suffix):
    table = make_table([(1, "k", "long")])
    path = table.write("a.parquet", pa.table({"k": pa.array([1, 2, 3])}), {"k": 1})
    table.snapshot(table.data(path, file_format=suffix.upper()))
    with pytest.raises(CorruptDataFileError, match=r"a\.parquet: expected a readable (Avro|ORC) file: "):
        table.read()


@pytest.mark.parametrize("suffix", FORMATS)
def test_column_of_another_type_is_corrupt(make_table, suffix):
    table = make_table([(1, "k", "long")])
    path = table.write(f"a.{suffix}", pa.table({"k": ["x"]}), {"k": 1})
    table.snapshot(table.data(path))
    with pytest.raises(CorruptDataFileError, match="long"):
        table.read()


@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("type_string", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("moments", ALL_MOMENTS.values(), ids=ALL_MOMENTS)
def test_orc_timestamps_beyond_nanoseconds_are_read(make_table, monkeypatch, moments, type_string, compression):
    """Alone and beside another column, in batches of other sizes than stripes."""
    monkeypatch.setattr(orc_file, "MAX_BATCH_ROWS", 700)
    table = make_table([(1, "t", type_string), (2, "k", "long")])
    values = pa.array(moments, pa.timestamp("us", "UTC" if type_string == "timestamptz" else None))
    rows = pa.table({"t": values, "k": range(len(moments))})
    path = table.write("a.orc", rows, {"t": 1, "k": 2}, compression=compression, stripe_size=4096)
    table.snapshot(table.data(path), table.position_deletes("p.orc", [(path, 1)]))
    live = pa.concat_arrays([values.slice(0, 1), values.slice(2)])
    answer = table.read()
    assert answer.rows == len(moments) - 1
    assert answer.sketches["t"] == ThetaSketch.from_arrow(live, type_string)
    assert answer.sketches["k"] == longs(*(i for i in range(len(moments)) if i != 1))
    assert table.read("t").sketches["t"] == answer.sketches["t"]


def test_orc_timestamps_beyond_nanoseconds_in_structs_are_refused_by_name(make_table, monkeypatch):
    """pyarrow says so since version 25; before, it says something else, and none of it can be trusted."""
    table = make_table([(1, "st", [(2, "t", "timestamp")]), (3, "k", "long")])
    struct = pa.StructArray.from_arrays([pa.array(FAR_MOMENTS, pa.timestamp("us"))], ["t"])
    table.snapshot(
        table.data(table.write("a.orc", pa.table({"st": struct, "k": [1, 2, 3]}), {"st": (1, {"t": 2}), "k": 3}))
    )
    if orc_file.CHECKS_TIMESTAMPS:
        with pytest.raises(UnsupportedTableError, match=r"a\.orc: ORC file not supported: inside .*nanosecond"):
            table.read()
    monkeypatch.setattr(orc_file, "CHECKS_TIMESTAMPS", False)
    with pytest.raises(UnsupportedTableError, match=r"timestamps inside a struct or .* need pyarrow 25"):
        table.read()
    assert table.read("k").sketches["k"] == longs(1, 2, 3)


def test_orc_timestamps_that_are_all_null_are_read_in_any_zone(make_table):
    table = make_table([(1, "t", "timestamp")], properties={"schema.name-mapping.default": MOMENT_MAPPING})
    path = table.root / "nulls-berlin.orc"
    path.write_bytes((FIXTURES / "nulls-berlin.orc").read_bytes())
    table.snapshot(table.data(path))
    answer = table.read()
    assert (answer.rows, answer.sketches["t"]) == (
        10,
        ThetaSketch.from_arrow(pa.array([], pa.timestamp("us")), "timestamp"),
    )


def test_orc_timestamps_in_the_zone_of_their_writer_are_its_wall_clock(make_table):
    """As Java reads them: before 1582 by the Julian calendar, around 1970, in summer and winter, and far away."""
    table = make_table([(1, "t", "timestamp")], properties={"schema.name-mapping.default": MOMENT_MAPPING})
    path = table.root / "moments-berlin.orc"
    path.write_bytes((FIXTURES / "moments-berlin.orc").read_bytes())
    table.snapshot(table.data(path))
    early = [-62_135_769_600_000_000, -14_830_992_000_000_000, -5_348_980_800_000_000, -2_208_988_800_000_000]
    around = [-928_324_800_000_000, -43_199_500_000, -500_000, 1_800_500_000]
    late = [1_719_835_200_123_456, 1_729_996_200_000_000, 2_540_289_600_000_000, 253_402_300_799_999_999]
    expected = pa.array([*early, *around, *late], pa.timestamp("us"))
    assert table.read().sketches["t"] == ThetaSketch.from_arrow(expected, "timestamp")


def test_orc_clocks_before_1900_show_the_standard_time_of_today():
    """Java's do: Kolkata had other clocks then. And rules of the future hold for ever."""
    seconds = np.array([-3_000_000_000, 1_719_835_200, 253_402_300_799, 10**12])
    assert offsets(zone_named(b"Asia/Kolkata"), seconds).tolist() == [19_800] * 4
    summer_of_10024 = 1_719_835_200 + 20 * 146_097 * 86_400
    assert offsets(zone_named(b"Europe/Berlin"), np.array([summer_of_10024, -(10**12)])).tolist() == [7200, 3600]


@pytest.mark.parametrize(("type_string", "zone"), [("timestamptz", None), ("timestamp", "UTC")])
def test_orc_wall_clocks_are_no_moments(make_table, type_string, zone):
    """At the root and in a struct. Nothing tells in which zone the clock was, so Iceberg refuses such a file too."""
    times = pa.array([0, 1], pa.timestamp("us", zone))
    rows = pa.table({"t": times, "st": pa.StructArray.from_arrays([times], ["t"])})
    table = make_table([(1, "t", type_string), (2, "st", [(3, "t", type_string)])])
    table.snapshot(table.data(table.write("a.orc", rows, {"t": 1, "st": (2, {"t": 3})})))
    for name in ("t", "st.t"):
        with pytest.raises(UnsupportedTableError, match=rf"a\.orc: ORC file not supported: column {name}: expected"):
            table.read(name)


def test_unknown_time_zone_of_an_orc_file_is_refused_by_name():
    for name in (b"Nowhere/Else", b"../x", b"", b"\xff"):
        if name:
            with pytest.raises(NotImplementedError, match="timestamps in time zone"):
                zone_named(name)
        else:
            assert zone_named(name) is None


def test_damaged_orc_timestamps_raise_only_our_errors(make_table):
    table = make_table([(1, "t", "timestamp")])
    rows = pa.table({"t": pa.array([*FAR_MOMENTS, *MOMENTS] * 20, pa.timestamp("us"))})
    path = table.write("a.orc", rows, {"t": 1})
    table.snapshot(table.data(path))
    batch, whole = table.batch(), path.read_bytes()
    rng = np.random.default_rng(3)
    for at in rng.integers(3, len(whole), 200).tolist():
        rewrite(path, whole[:at] + bytes([whole[at] ^ int(rng.integers(1, 256))]) + whole[at + 1 :])
        with contextlib.suppress(CorruptError, UnsupportedTableError):
            sketches_of(batch, is_sound=False)


def test_encrypted_orc_file_is_refused_by_name(make_table):
    """pyarrow would give nulls; an unencrypted file of the same writer is read."""
    table = make_table([(1, "a", "long"), (2, "b", "long")], properties={"schema.name-mapping.default": MAPPING})
    for name in ("encrypted-column.orc", "plain.orc"):
        path = table.root / name
        path.write_bytes((FIXTURES / name).read_bytes())
        table.snapshot(table.data(path))
        if name == "plain.orc":
            assert table.read().sketches == {"a": longs(*range(10)), "b": longs(*range(10))}
        else:
            with pytest.raises(
                UnsupportedTableError, match=r"encrypted-column\.orc: ORC file not supported: encrypted"
            ):
                table.read("b")


def test_orc_char_values_have_no_padding(make_table):
    """As Java reads them: without any blanks at their end. Values of other types keep theirs."""
    both = '{"field-id": %d, "names": ["c"]}, {"field-id": %d, "names": ["v"]}'
    names = f'{both % (1, 2)}, {{"field-id": 3, "names": ["st"], "fields": [{both % (4, 5)}]}}'
    fields = [(1, "c", "string"), (2, "v", "string"), (3, "st", [(4, "c", "string"), (5, "v", "string")])]
    table = make_table(fields, properties={"schema.name-mapping.default": f"[{names}]"})
    path = table.root / "char.orc"
    path.write_bytes((FIXTURES / "char.orc").read_bytes())
    table.snapshot(table.data(path))
    assert table.read().sketches == {
        "c": texts("ab", "a", "abcde", ""),
        "v": texts("ab", "a", "ab   ", "abcde", ""),
        "st.c": texts("ab", "abc", ""),
        "st.v": texts("ab", "ab   ", "abcde", ""),
    }


def test_orc_strings_that_may_be_char_are_refused_if_the_footer_cannot_be_read(make_table, monkeypatch):
    """Files with field ids have no char; those of other codecs are read by pyarrow."""
    monkeypatch.setattr(orc_footer, "_CODECS", {})
    rows = pa.table({"a": [1, 2], "b": ["x", "y"]})
    for ids in (None, {"a": 1, "b": 2}):
        mapping = {"schema.name-mapping.default": MAPPING}
        table = make_table([(1, "a", "long"), (2, "b", "string")], properties=mapping)
        table.snapshot(table.data(table.write("a.orc", rows, ids, compression="zlib")))
        if ids is None:
            with pytest.raises(UnsupportedTableError, match=r"a\.orc: ORC file not supported: ORC compression 1"):
                table.read()
            assert table.read("a").sketches == {"a": longs(1, 2)}
        else:
            assert table.read().sketches == {"a": longs(1, 2), "b": texts("x", "y")}


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "zlib", "lz4", "zstd"])
def test_orc_file_with_each_codec_is_read(make_table, codec):
    table = make_table([(1, "k", "long")])
    path = table.write("a.orc", pa.table({"k": pa.array(range(3000))}), {"k": 1}, compression=codec)
    table.snapshot(table.data(path))
    assert table.read().sketches["k"] == longs(*range(3000))


# --- Avro's own -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_avro_file_with_each_codec_is_read(make_table, codec):
    table, _ = avro_table(make_table, codec=codec)
    assert table.read().sketches["k"] == longs(*range(60))


def test_unknown_codec_is_refused_by_name(make_table):
    table, path = avro_table(make_table, codec="deflate")
    path.write_bytes(path.read_bytes().replace(b"deflate", b"inflate"))
    with pytest.raises(UnsupportedTableError, match=r"a\.avro: .*Avro codec 'inflate': expected one of null"):
        table.read()


@pytest.mark.usefixtures("both_ways")
def test_other_spellings_of_an_avro_schema_give_the_same_values(make_table):
    """Required fields, nulls last, milliseconds, decimals as bytes, and skipped arrays, maps and unions."""
    record = {
        "type": "record",
        "name": "space.table",
        "fields": [
            {
                "name": "skipped",
                "type": {"type": "array", "items": {"type": "map", "values": ["null", "long", "string"]}},
            },
            {
                "name": "d",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 1},
                "field-id": 1,
            },
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
            {"name": "t", "type": ["long", "null"], "field-id": 2},
            {"name": "f", "type": {"type": "fixed", "name": "f4", "size": 4}},
            {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}, "field-id": 3},
            {"name": "again", "type": "f4", "field-id": 4},
            {"name": "many", "type": ["null", "long", "string"], "field-id": 5},
        ],
    }
    unscaled = [0, -1, 127, 128, -128, -129, 10**19]
    rows = [
        {
            "skipped": [{"a": 1, "b": "x" * i, "c": None}] * (i % 3),
            "d": n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True),
            "e": "AB"[i % 2],
            "t": None if i % 3 else i,
            "f": b"abcd",
            "ts": -i,
            "again": b"%04d" % i,
            "many": None,
        }
        for i, n in enumerate(unscaled)
    ]
    fields = [
        (1, "d", "decimal(20, 1)"),
        (2, "t", "long"),
        (3, "ts", "timestamptz"),
        (4, "x", "fixed[4]"),
        (5, "m", "long"),
    ]
    table = make_table(fields)
    path = table.root / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, record, rows)
    table.snapshot(table.data(path))
    found = table.read("d", "t", "ts", "x").sketches
    values = pa.array([decimal.Decimal(n).scaleb(-1) for n in unscaled], pa.decimal128(20, 1))
    assert found["d"] == ThetaSketch.from_arrow(values, "decimal(20, 1)")
    assert found["t"] == longs(0, 3, 6)
    moments = pa.array([datetime.timedelta(milliseconds=-i) // datetime.timedelta(microseconds=1) for i in range(7)])
    assert found["ts"] == ThetaSketch.from_arrow(moments.cast(pa.timestamp("us", "UTC")), "timestamptz")
    assert found["x"] == ThetaSketch.from_arrow(pa.array([b"%04d" % i for i in range(7)], pa.binary(4)), "fixed[4]")
    with pytest.raises(UnsupportedTableError, match=r"a\.avro: .* a union of several"):
        table.read("m")


def test_source_is_read_in_large_ranges(make_table):
    """Each request to an object store takes as long as many bytes."""
    _, path = avro_table(make_table)
    data = path.read_bytes()
    asked = []

    class Source(io.BytesIO):
        def read(self, size=-1, /):
            asked.append(size)
            return super().read(size)

    blocks = list(Container(Source(data), len(data)).blocks())
    assert sum(block.records for block in blocks) == 60
    assert asked == [1024 * 1024]
