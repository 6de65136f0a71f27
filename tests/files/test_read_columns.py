"""Columns are found by field id, whatever their name and position in the file, and filled in if missing."""

import datetime
import decimal
import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.errors import CorruptDataFileError, CorruptMetadataError, UnsupportedTableError
from puffin.sketches.theta_sketch import ThetaSketch

EMPTY = ThetaSketch.from_arrow(pa.nulls(0), "int")
STRUCT = (2, {"x": 3, "y": 4})


def sketch_of(values, type_string):
    return ThetaSketch.from_arrow(pa.array(values) if isinstance(values, list) else values, type_string)


# --- renames, reorders, drops -------------------------------------------------------------------------------------


def test_renamed_and_moved_column_is_found_by_its_id(make_table):
    table = make_table([(2, "new_b", "string"), (1, "new_a", "int")])
    path = table.write(
        "1.parquet", pa.table({"a": pa.array([1, 2, 2], pa.int32()), "b": ["x", "y", "z"]}), {"a": 1, "b": 2}
    )
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.sketches == {
        "new_a": sketch_of(pa.array([1, 2], pa.int32()), "int"),
        "new_b": sketch_of(["x", "y", "z"], "string"),
    }
    assert answer.rows == 3


def test_column_dropped_and_added_again_does_not_see_old_values(make_table):
    table = make_table([(1, "a", "long")])
    old = table.write("old.parquet", pa.table({"a": [1, 2, 3]}), {"a": 1})
    table.evolve([(5, "a", "long")])
    new = table.write("new.parquet", pa.table({"a": [7]}), {"a": 5})
    table.snapshot(table.data(old), table.data(new))
    assert table.read("a").sketches["a"] == sketch_of([7], "long")


def test_columns_that_swapped_names_keep_their_values(make_table):
    table = make_table([(1, "b", "long"), (2, "a", "long")])
    path = table.write("1.parquet", pa.table({"a": [1], "b": [2]}), {"a": 1, "b": 2})
    table.snapshot(table.data(path))
    assert table.read().sketches == {"b": sketch_of([1], "long"), "a": sketch_of([2], "long")}


def test_renamed_struct_and_renamed_field_inside_are_found(make_table):
    table = make_table([(2, "point", [(4, "v", "long"), (3, "u", "long")])])
    rows = [{"x": 1, "y": 10}, None, {"x": None, "y": 11}]
    path = table.write("1.parquet", pa.table({"st": rows}), {"st": STRUCT})
    table.snapshot(table.data(path))
    assert table.read().sketches == {"point.v": sketch_of([10, 11], "long"), "point.u": sketch_of([1], "long")}


def test_older_snapshot_is_read_under_the_current_schema(make_table):
    table = make_table([(1, "a", "int"), (2, "gone", "int")])
    path = table.write(
        "1.parquet",
        pa.table({"a": pa.array([1, 2], pa.int32()), "gone": pa.array([3, 4], pa.int32())}),
        {"a": 1, "gone": 2},
    )
    old = table.snapshot(table.data(path))
    table.evolve([(1, "renamed", "long"), (3, "added", "string")])
    table.snapshot()
    answer = table.read(snapshot_id=old)
    assert answer.sketches == {"renamed": sketch_of([1, 2], "long"), "added": EMPTY}
    assert answer.rows == 2


# --- names --------------------------------------------------------------------------------------------------------


def test_name_with_a_dot_and_struct_field_are_two_columns(make_table):
    table = make_table([(1, "a.b", "long"), (2, "a", [(3, "b", "long"), (4, "b.c", "long")])])
    rows = pa.table({"a.b": [1, 2], "a": [{"b": 30, "b.c": 300}, {"b": 40, "b.c": 400}]})
    path = table.write("1.parquet", rows, {"a.b": 1, "a": (2, {"b": 3, "b.c": 4})})
    table.snapshot(table.data(path))
    whole, nested, deepest = table.state().columns
    assert (whole.path, nested.path, deepest.path) == ((1,), (2, 3), (2, 4))
    assert table.read("a.b").sketches["a.b"] == sketch_of([1, 2], "long")
    assert table.read("a.b.c").sketches["a.b.c"] == sketch_of([300, 400], "long")


def test_dotted_path_is_used_if_no_column_has_the_whole_name(make_table):
    table = make_table([(2, "a", [(3, "b", "long")]), (5, "a.c", "long")])
    rows = pa.table({"a": [{"b": 30}], "a.c": [5]})
    path = table.write("1.parquet", rows, {"a": (2, {"b": 3}), "a.c": 5})
    table.snapshot(table.data(path))
    assert table.read("a.b", "a.c").sketches == {"a.b": sketch_of([30], "long"), "a.c": sketch_of([5], "long")}


# --- structs, lists, maps -----------------------------------------------------------------------------------------


def test_value_inside_a_null_struct_is_null_at_every_depth(make_table):
    fields = [(1, "o", [(2, "m", [(3, "v", "long")])])]
    inner = pa.StructArray.from_arrays([pa.array([1, 2, 3, 4])], ["v"], mask=pa.array([False, False, True, False]))
    outer = pa.StructArray.from_arrays([inner], ["m"], mask=pa.array([False, True, False, False]))
    table = make_table(fields)
    path = table.write("1.parquet", pa.table({"o": outer}), {"o": (1, {"m": (2, {"v": 3})})})
    table.snapshot(table.data(path))
    assert table.read().sketches["o.m.v"] == sketch_of([1, 4], "long")


def test_lists_and_maps_beside_a_column_are_not_read(make_table):
    rows = pa.table(
        {
            "id": [1, 2],
            "li": [list(range(1000)), []],
            "mp": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            "st": [{"v": 1, "li": ["x" * 1000]}, {"v": 2, "li": []}],
        }
    )
    ids = {"id": 1, "li": 2, "mp": 3, "st": (4, {"v": 5, "li": 6})}
    table = make_table([(1, "id", "long"), (4, "st", [(5, "v", "long")])])
    path = table.write("1.parquet", rows, ids, compression="none")
    table.snapshot(table.data(path))
    answer = table.read()
    assert answer.sketches == {"id": sketch_of([1, 2], "long"), "st.v": sketch_of([1, 2], "long")}
    group = pq.read_metadata(path).row_group(0)
    chunks = {group.column(i).path_in_schema: group.column(i).total_compressed_size for i in range(group.num_columns)}
    assert 0 < answer.bytes_read <= chunks["id"] + chunks["st.v"]


def test_file_without_the_tables_struct_is_corrupt(make_table):
    table = make_table([(2, "st", [(3, "x", "long")])])
    path = table.write("1.parquet", pa.table({"st": [1, 2]}), {"st": 2})
    table.snapshot(table.data(path))
    with pytest.raises(CorruptDataFileError, match=r"1\.parquet.*st\.x.*expected a struct.*int64"):
        table.read()


# --- what a file lacks --------------------------------------------------------------------------------------------


def file_with_id_only(table, rows=3):
    path = table.write("1.parquet", pa.table({"id": list(range(rows))}), {"id": 1})
    table.snapshot(table.data(path))


def test_missing_column_is_null(make_table):
    table = make_table([(1, "id", "long"), (9, "late", "string"), (2, "st", [(3, "x", "long")])])
    file_with_id_only(table)
    answer = table.read("late", "st.x")
    assert answer.sketches == {"late": EMPTY, "st.x": EMPTY}
    assert (answer.rows, answer.bytes_read) == (3, 0)


DEFAULTS = [
    ("boolean", True, pa.array([True])),
    ("int", 34, pa.array([34], pa.int32())),
    ("long", 2**40, pa.array([2**40])),
    ("float", 1.1, pa.array([1.1], pa.float32())),
    ("double", -0.0, pa.array([-0.0])),
    ("decimal(9,2)", "14.20", pa.array([decimal.Decimal("14.20")], pa.decimal128(9, 2))),
    ("date", "1960-02-29", pa.array([datetime.date(1960, 2, 29)])),
    ("time", "22:31:08.123456", pa.array([datetime.time(22, 31, 8, 123456)])),
    ("timestamp", "2017-11-16T22:31:08.123456", pa.array([datetime.datetime(2017, 11, 16, 22, 31, 8, 123456)])),
    ("timestamptz", "2017-11-16T22:31:08.123456+00:00", pa.array([datetime.datetime(2017, 11, 16, 22, 31, 8, 123456)])),
    ("timestamp_ns", "1960-11-16T22:31:08.123456789", pa.array([-287_890_131_876_543_211], pa.timestamp("ns"))),
    ("timestamptz_ns", "1960-11-16T22:31:08.123456789+00:00", pa.array([-287_890_131_876_543_211], pa.timestamp("ns"))),
    ("string", "iceberg", pa.array(["iceberg"])),
    (
        "uuid",
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        pa.array([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.binary(16)),
    ),
    ("fixed[4]", "000102ff", pa.array([b"\x00\x01\x02\xff"], pa.binary(4))),
    ("binary", "0001", pa.array([b"\x00\x01"])),
]


@pytest.mark.parametrize(("type_string", "default", "value"), DEFAULTS, ids=[case[0] for case in DEFAULTS])
def test_missing_column_has_its_initial_default_inside_structs_too(make_table, type_string, default, value):
    fields = [
        (1, "id", "long"),
        (5, "top", type_string, default),
        (2, "st", [(3, "x", "long"), (6, "new", type_string, default)]),
    ]
    table = make_table(fields, version=2)
    rows = pa.table({"id": [1, 2], "st": pa.array([None, {"x": None}], pa.struct([("x", pa.int64())]))})
    only_nulls = pa.table({"id": [3], "st": pa.array([None], pa.struct([("x", pa.int64())]))})
    ids = {"id": 1, "st": (2, {"x": 3})}
    nulls = table.data(table.write("null.parquet", only_nulls, ids))
    table.snapshot(nulls)
    expected = sketch_of(value, type_string)
    assert table.read("top", "st.new").sketches == {"top": expected, "st.new": EMPTY}
    table.snapshot(nulls, table.data(table.write("1.parquet", rows, ids)))
    assert table.read("top", "st.new").sketches == {"top": expected, "st.new": expected}


def test_default_inside_a_missing_struct_needs_defaults_all_the_way(make_table):
    leaf = (9, "v", "long", 7)
    table = make_table(
        [
            (1, "id", "long"),
            (2, "null_struct", [leaf]),
            (3, "empty_struct", [(10, "v", "long", 7), (11, "w", "long")], {}),
            (4, "outer", [(5, "inner", [(12, "v", "long", 7)])], {}),
            (6, "both", [(7, "inner", [(13, "v", "long", 7)], {})], {}),
        ]
    )
    file_with_id_only(table)
    seven = sketch_of([7], "long")
    assert table.read(
        "null_struct.v", "empty_struct.v", "empty_struct.w", "outer.inner.v", "both.inner.v"
    ).sketches == {
        "null_struct.v": EMPTY,
        "empty_struct.v": seven,
        "empty_struct.w": EMPTY,
        "outer.inner.v": EMPTY,
        "both.inner.v": seven,
    }


def test_default_of_another_type_is_corrupt_metadata(make_table):
    table = make_table([(1, "id", "long"), (5, "d", "date", "yesterday")])
    file_with_id_only(table)
    with pytest.raises(CorruptMetadataError, match=r"column d: expected a date.*'yesterday'"):
        table.read("d")


def test_rows_count_without_any_columns(make_table):
    table = make_table([(1, "id", "long"), (5, "d", "long", 7)])
    path = table.write("1.parquet", pa.table({"other": [1, 2, 3]}), {"other": 77}, row_group_size=2)
    table.snapshot(table.data(path))
    answer = table.read()
    assert (answer.sketches, answer.rows) == ({"id": EMPTY, "d": sketch_of([7], "long")}, 3)


def test_file_without_any_columns_is_read_as_constants(make_table):
    table = make_table([(5, "d", "long", 7)])
    path = table.write("1.parquet", pa.table({"a": [1, 2]}).select([]))
    table.snapshot(table.data(path))
    assert pq.read_metadata(path).num_columns == 0
    answer = table.read()
    assert answer.rows == pq.read_metadata(path).num_rows


# --- identity partition values ------------------------------------------------------------------------------------


def test_partition_value_wins_over_the_file(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "string", "default")], spec=[(2, "identity")])
    stored = table.write("stored.parquet", pa.table({"id": [1], "p": ["stored"]}), {"id": 1, "p": 2})
    bare = table.write("bare.parquet", pa.table({"id": [2, 3]}), {"id": 1})
    null = table.write("null.parquet", pa.table({"id": [4]}), {"id": 1})
    table.snapshot(
        table.data(stored, partition=("other",)),
        table.data(bare, partition=("from the manifest",)),
        table.data(null, partition=(None,)),
    )
    assert table.read("p").sketches["p"] == sketch_of(["other", "from the manifest"], "string")


def test_only_identity_partition_values_replace_columns(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "int")], spec=[(2, "bucket[16]"), (2, "void")])
    bare = table.write("bare.parquet", pa.table({"id": [2, 3]}), {"id": 1})
    table.snapshot(table.data(bare, partition=(5, 6)))
    assert table.read("p").sketches["p"] == EMPTY


IDENTITIES = [
    ("boolean", True, pa.array([True])),
    ("int", -5, pa.array([-5], pa.int32())),
    ("long", 2**40, pa.array([2**40])),
    ("float", 1.5, pa.array([1.5], pa.float32())),
    ("double", 0.1, pa.array([0.1])),
    ("decimal(9, 2)", decimal.Decimal("-14.20"), pa.array([decimal.Decimal("-14.20")], pa.decimal128(9, 2))),
    ("decimal(38, 0)", decimal.Decimal(10**37), pa.array([decimal.Decimal(10**37)], pa.decimal128(38, 0))),
    ("date", -1, pa.array([-1], pa.date32())),
    ("time", 1, pa.array([1], pa.time64("us"))),
    ("timestamp", -1, pa.array([-1], pa.timestamp("us"))),
    ("timestamptz", 1_700_000_000_000_001, pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))),
    ("timestamp_ns", -1, pa.array([-1], pa.timestamp("ns"))),
    ("timestamptz_ns", 1_700_000_000_000_000_001, pa.array([1_700_000_000_000_000_001], pa.timestamp("ns", "UTC"))),
    ("string", "ü", pa.array(["ü"])),
    ("uuid", uuid.UUID(int=7), pa.array([uuid.UUID(int=7).bytes], pa.binary(16))),
    ("fixed[3]", b"\x00\xff\x01", pa.array([b"\x00\xff\x01"], pa.binary(3))),
    ("binary", b"\x00\xff", pa.array([b"\x00\xff"])),
]


@pytest.mark.parametrize(("type_string", "physical", "value"), IDENTITIES, ids=[case[0] for case in IDENTITIES])
def test_identity_partition_values_of_every_type_come_from_the_manifest(make_table, type_string, physical, value):
    table = make_table([(1, "id", "long"), (2, "p", type_string)], spec=[(2, "identity")])
    bare = table.write("bare.parquet", pa.table({"id": [2, 3]}), {"id": 1})
    table.snapshot(table.data(bare, partition=(physical,)))
    answer = table.read()
    assert answer.sketches == {"id": sketch_of([2, 3], "long"), "p": sketch_of(value, type_string)}


def test_promoted_partition_column_hashes_as_its_current_type(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "int")], spec=[(2, "identity")])
    bare = table.write("bare.parquet", pa.table({"id": [2, 3]}), {"id": 1})
    table.snapshot(table.data(bare, partition=(-5,)))
    table.evolve([(1, "id", "long"), (2, "p", "long")])
    assert table.read("p").sketches["p"] == sketch_of([-5], "long")


def test_dropped_partition_column_is_no_obstacle(make_table):
    table = make_table([(1, "id", "long"), (2, "p", "date")], spec=[(2, "identity"), (1, "identity")])
    bare = table.write("bare.parquet", pa.table({"x": [2, 3]}), {"x": 3})
    table.snapshot(table.data(bare, partition=(5, 6)))
    table.evolve([(1, "id", "long")])
    assert table.read().sketches["id"] == sketch_of([6], "long")
    del table.document["schemas"][0]
    assert table.read().sketches["id"] == sketch_of([6], "long")


def test_transforms_are_read_in_any_case(make_table):
    """As Iceberg's Java library does."""
    table = make_table([(1, "id", "long"), (2, "p", "string")], spec=[(2, "identity")])
    bare = table.write("bare.parquet", pa.table({"id": [2, 3]}), {"id": 1})
    table.snapshot(table.data(bare, partition=("x",)))
    table.document["partition-specs"][0]["fields"][0]["transform"] = "Identity"
    assert table.read("p").sketches["p"] == sketch_of(["x"], "string")


@pytest.mark.parametrize("rewrite", ["source-ids", "no field-id"])
def test_partition_fields_of_versions_1_and_3_are_read(make_table, rewrite):
    table = make_table(
        [(1, "id", "long"), (2, "p", "string"), (3, "q", "string")], spec=[(2, "identity"), (3, "identity")]
    )
    bare = table.write("bare.parquet", pa.table({"id": [2, 3]}), {"id": 1})
    table.snapshot(table.data(bare, partition=("x", "y")))
    for field in table.document["partition-specs"][0]["fields"]:
        if rewrite == "source-ids":
            field["source-ids"] = [field.pop("source-id")]
        else:
            del field["field-id"]
    if rewrite == "no field-id":
        table.document["partition-spec"] = table.document.pop("partition-specs")[0]["fields"]
    assert table.read("p", "q").sketches == {"p": sketch_of(["x"], "string"), "q": sketch_of(["y"], "string")}


# --- name mapping -------------------------------------------------------------------------------------------------

MAPPING = [
    {"field-id": 1, "names": ["id", "record_id"]},
    {"field-id": 2, "names": ["st"], "fields": [{"field-id": 3, "names": ["x", "a.b"]}, {"names": ["ignored"]}]},
    {"names": ["no_id"]},
]
MAPPED = [(1, "id", "long"), (2, "st", [(3, "x", "long"), (4, "y", "long")])]


@pytest.mark.parametrize(("name", "nested"), [("id", "x"), ("record_id", "a.b")])
def test_files_without_ids_use_the_name_mapping(make_table, name, nested):
    table = make_table(MAPPED, properties={"schema.name-mapping.default": json.dumps(MAPPING)})
    rows = pa.table({"no_id": ["-"], name: [1], "st": [{"y": 20, nested: 2, "ignored": 5}]})
    table.snapshot(table.data(table.write("1.parquet", rows)))
    answer = table.read()
    assert answer.sketches == {"id": sketch_of([1], "long"), "st.x": sketch_of([2], "long"), "st.y": EMPTY}


@pytest.mark.parametrize(("name", "taken"), [("1.parquet", "late"), ("1.orc", "late"), ("1.avro", "early")])
@pytest.mark.parametrize("names", [("c2", "c3"), ("c3", "c2")])
def test_of_two_names_of_a_field_engines_take_one_by_the_format(make_table, name, taken, names):
    """As after RENAME c3 TO x, RENAME c2 TO c3. Measured with Spark 4.1 and Iceberg 1.12."""
    mapping = [{"field-id": 1, "names": ["c2", "c3"]}, {"field-id": 2, "names": ["x"]}]
    table = make_table([(1, "c3", "long")], properties={"schema.name-mapping.default": json.dumps(mapping)})
    values = dict(zip(names, ([1, 2], [7, 7]), strict=True))
    table.snapshot(table.data(table.write(name, pa.table(values))))
    assert table.read().sketches == {"c3": sketch_of([7] if taken == "late" else [1, 2], "long")}


def test_files_with_ids_ignore_the_name_mapping(make_table):
    table = make_table(MAPPED, properties={"schema.name-mapping.default": json.dumps(MAPPING)})
    rows = pa.table({"id": [1], "st": [{"x": 2}]})
    table.snapshot(table.data(table.write("1.parquet", rows, {"id": None, "st": (2, {"x": None})})))
    assert table.read().sketches == {"id": EMPTY, "st.x": EMPTY, "st.y": EMPTY}


def test_partition_values_replace_columns_missing_from_a_mapped_file(make_table):
    properties = {"schema.name-mapping.default": json.dumps([*MAPPING[:1], {"field-id": 5, "names": ["p"]}])}
    table = make_table([*MAPPED, (5, "p", "date")], spec=[(5, "identity")], properties=properties)
    table.snapshot(table.data(table.write("p=1970-01-02/1.parquet", pa.table({"id": [1, 2]})), partition=(1,)))
    assert table.read("id", "p").sketches == {
        "id": sketch_of([1, 2], "long"),
        "p": sketch_of(pa.array([1], pa.date32()), "date"),
    }


def test_files_without_ids_are_refused_without_a_name_mapping(make_table):
    table = make_table(MAPPED)
    table.snapshot(table.data(table.write("1.parquet", pa.table({"id": [1]}))))
    with pytest.raises(UnsupportedTableError, match=r"1\.parquet: the file has no field ids"):
        table.read()


@pytest.mark.parametrize(
    "text", ["{", "{}", "[1]", '[{"field-id": 1}]', '[{"names": ["a"], "fields": [7]}]', "[" * 10000]
)
def test_broken_name_mapping_is_corrupt_metadata(make_table, text):
    table = make_table(MAPPED, properties={"schema.name-mapping.default": text})
    table.snapshot()
    with pytest.raises(CorruptMetadataError, match=r"schema\.name-mapping\.default"):
        table.read()
