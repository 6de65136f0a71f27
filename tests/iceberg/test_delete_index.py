"""Which equality delete files apply to which data file by sequence number, partition and metrics."""

import math
import struct

import pytest

from puffin.errors import CorruptMetadataError, UnsupportedTableError
from puffin.iceberg.scan.deletes import DeleteIndex
from puffin.iceberg.scan.manifest_lists import manifest_files
from puffin.iceberg.scan.manifests import LiveFile, live_files_of
from puffin.storage import store_for
from puffin.tables.base import Column

EQUALITY = 2


def data(table, name="a.parquet", **fields):
    return table.data(table.root / name, **{"record_count": 10, "file_size_in_bytes": 100} | fields)


def deletes(table, name="d.parquet", **fields):
    """The manifest entry of an equality delete file by field 1, by default newer than data files."""
    return data(table, name, **{"content": EQUALITY, "equality_ids": [1], "sequence_number": 2} | fields)


def applying(table, *entries):
    """The names of the delete files of each data file."""
    table.snapshot(*entries)
    return [[delete.file_path.rpartition("/")[2] for delete in task.delete_files] for task in table.plan()]


@pytest.fixture(params=[2, 3], ids="v{}".format)
def table(request, make_table):
    return make_table([(1, "k", "long"), (2, "p", "string")], version=request.param)


@pytest.fixture
def partitioned(make_table):
    """A table whose spec 0 is by the columns p and q, 1 has only void fields, 2 is empty, and 3 is by p."""
    table = make_table(
        [(1, "k", "long"), (2, "p", "string"), (3, "q", "double")], spec=[(2, "identity"), (3, "identity")]
    )
    (spec,) = table.document["partition-specs"]
    void = [field | {"transform": "void"} for field in spec["fields"]]
    table.document["partition-specs"] += [
        {"spec-id": 1, "fields": void},
        {"spec-id": 2, "fields": []},
        {"spec-id": 3, "fields": spec["fields"][:1]},
    ]
    return table


# --- scope --------------------------------------------------------------------------------------------------------


def test_equality_deletes_apply_to_lower_sequence_numbers_only(table):
    """Rows of the same commit stay live, unlike with position deletes."""
    files = [data(table, f"{n}.parquet", sequence_number=n) for n in (1, 4, 5, 6)]
    found = applying(table, *files, *(deletes(table, f"d{n}", sequence_number=n) for n in (6, 1, 5)))
    assert found == [["d5", "d6"], ["d5", "d6"], ["d6"], []]


def test_position_deletes_apply_to_the_same_sequence_number(table):
    position = data(table, "p", content=1, sequence_number=2)
    assert applying(table, data(table, sequence_number=2), deletes(table), position) == [["p"]]


def test_partition_deletes_apply_within_their_partition_and_spec(partitioned):
    files = [
        data(partitioned, "0", partition=("x", math.nan)),
        data(partitioned, "1", partition=("x", 0.0)),
        data(partitioned, "2", partition=(None, math.nan)),
        data(partitioned, "3", partition=("x",), spec_id=3),
    ]
    gone = deletes(partitioned, partition=("x", math.nan)), deletes(partitioned, "e", partition=("x", -0.0))
    assert applying(partitioned, *files, *gone) == [["d.parquet"], [], [], []]


@pytest.mark.parametrize(("spec_id", "partition"), [(1, (None, None)), (2, ())], ids=["void fields", "no fields"])
def test_deletes_without_a_partition_apply_to_all(partitioned, spec_id, partition):
    files = [data(partitioned, "0", partition=("x", 1.0)), data(partitioned, "1", spec_id=3, partition=("y",))]
    gone = deletes(partitioned, spec_id=spec_id, partition=partition)
    assert applying(partitioned, *files, gone) == [["d.parquet"], ["d.parquet"]]


def test_deletion_vectors_do_not_supersede_equality_deletes(make_table):
    table = make_table([(1, "k", "long")], version=3)
    path = table.root / "a.parquet"
    vector = table.vector("v", path, [1])
    position = data(table, "p", content=1, sequence_number=2)
    assert applying(table, data(table), vector, deletes(table, "d"), position) == [["d", "v"]]


def test_partition_is_the_same_after_its_decimal_is_widened():
    """A manifest written since pads the unscaled value."""
    index = DeleteIndex(
        {0: [{"source-id": 5, "field-id": 1000, "transform": "identity"}]},
        {5: Column(5, "p", "decimal(18, 2)", (5,), (None,))},
    )
    gone = live_file(content="POSITION_DELETES", partition={1000: b"\xff\xff\xff\xff\xff\xff\xff\x80"})
    index.add(gone)
    for value, found in ((b"\xff\xff\xff\x80", [gone]), (b"\0\0\0\x80", []), (None, [])):
        assert index.applying_to(live_file(content="DATA", partition={1000: value})) == found


def live_file(**fields):
    return LiveFile(
        **fields,
        file_path="x",
        file_format="PARQUET",
        sequence_number=1,
        spec_id=0,
        split_offsets=(),
        **dict.fromkeys(("record_count", "file_size_in_bytes"), 1),
        **dict.fromkeys(("referenced_data_file", "content_offset", "content_size_in_bytes")),
        encrypted=False,
        equality_ids=(),
        metrics={},
    )


# --- metrics ------------------------------------------------------------------------------------------------------

LONG, INT = struct.Struct("<q").pack, struct.Struct("<i").pack


def double(value):
    return struct.pack("<d", value)


def unscaled(value):
    return value.to_bytes(max(1, (value.bit_length() + 8) // 8), "big", signed=True)


def bounds(lower, upper, nulls=0, values=10, column=1):
    """The metrics of a file; None leaves one out."""
    known = {"lower_bounds": lower, "upper_bounds": upper, "null_value_counts": nulls, "value_counts": values}
    return {name: {column: value} for name, value in known.items() if value is not None}


def applies(table, of_data, of_deletes):
    return applying(table, data(table, **of_data), deletes(table, **of_deletes)) == [["d.parquet"]]


BEYOND_LONG = 2**70
LONG_PREFIX = b"x" * 64
DISJOINT = {  # type: the bounds of two files, of which all values of the first are lower
    "int": ((INT(-5), INT(-1)), (INT(0), INT(5))),
    "long": ((LONG(-5), LONG(-1)), (LONG(0), LONG(5))),
    "date": ((INT(-5), INT(-1)), (INT(0), INT(5))),
    **dict.fromkeys(
        ("time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"),
        ((LONG(-5), LONG(255)), (LONG(256), LONG(257))),
    ),
    "decimal(9, 2)": ((unscaled(-300), unscaled(-1)), (unscaled(0), unscaled(127))),
    "decimal(38, 2)": ((unscaled(-BEYOND_LONG), unscaled(127)), (unscaled(128), unscaled(BEYOND_LONG))),
    "string": ((b"", b"caf"), (b"caf\xc3\xa9", b"\xf0\x9f\x90\xa7")),
    "binary": ((b"\0", b"\x7f\xff"), (b"\x80", b"\xff")),
    "fixed[2]": ((b"\0\0", b"\x7f\xff"), (b"\x80\0", b"\xff\xff")),
}


@pytest.mark.parametrize("type_", DISJOINT)
def test_delete_file_does_not_apply_outside_the_bounds(make_table, type_):
    table = make_table([(1, "k", type_)], version=3)
    low, high = DISJOINT[type_]
    assert not applies(table, bounds(*low), bounds(*high))
    assert not applies(table, bounds(*high), bounds(*low))
    assert applies(table, bounds(*low), bounds(low[1], high[1]))  # they touch
    assert applies(table, bounds(low[1], high[1]), bounds(*low))
    assert applies(table, bounds(*low), bounds(low[0], high[1]))


@pytest.mark.parametrize(
    ("type_", "low", "high"),
    [
        ("double", (double(1), double(2)), (double(3), double(4))),  # there may be NaN in both
        ("float", (struct.pack("<f", 1), struct.pack("<f", 2)), (struct.pack("<f", 3), struct.pack("<f", 4))),
        ("boolean", (b"\0", b"\0"), (b"\1", b"\1")),
        ("uuid", (b"\0" * 16, b"\x01" * 16), (b"\x02" * 16, b"\x03" * 16)),
        ("timestamp", (INT(1), INT(2)), (LONG(30), LONG(40))),  # days, from before a promotion
        ("long", (b"\1", b"\2"), (LONG(30), LONG(40))),
        ("decimal(9, 2)", (b"", b""), (unscaled(3), unscaled(4))),
        ("decimal(38, 2)", (unscaled(BEYOND_LONG), unscaled(2 * BEYOND_LONG)), (unscaled(3 * BEYOND_LONG),) * 2),
        ("string", (LONG_PREFIX + b"a", LONG_PREFIX + b"b"), (LONG_PREFIX + b"c", LONG_PREFIX + b"d")),
    ],
)  # fmt: skip
def test_delete_file_applies_if_bounds_leave_a_doubt(make_table, type_, low, high):
    table = make_table([(1, "k", type_)], version=3)
    assert applies(table, bounds(*low), bounds(*high))
    assert applies(table, bounds(*high), bounds(*low))


def test_bounds_from_before_and_after_a_promotion_are_compared(table):
    assert not applies(table, bounds(INT(-2), INT(-1)), bounds(LONG(0), LONG(1)))
    assert applies(table, bounds(INT(-2), INT(0)), bounds(LONG(0), LONG(1)))


LOW, HIGH = (LONG(1), LONG(2)), (LONG(3), LONG(4))


def test_unknown_bound_does_not_limit(table):
    assert applies(table, {}, bounds(*HIGH))
    assert applies(table, bounds(*LOW), {})
    assert applies(table, bounds(LOW[0], None), bounds(*HIGH))
    assert applies(table, bounds(*LOW), bounds(None, HIGH[1]))
    assert not applies(table, bounds(None, LOW[1]), bounds(HIGH[0], None))


def test_nulls_in_both_files_match_whatever_the_bounds(table):
    assert applies(table, bounds(*LOW, nulls=1), bounds(*HIGH, nulls=1))
    assert not applies(table, bounds(*LOW, nulls=1), bounds(*HIGH))
    assert not applies(table, bounds(*LOW), bounds(*HIGH, nulls=1))
    assert applies(table, bounds(*LOW, nulls=None), bounds(*HIGH, nulls=1))
    assert applies(table, bounds(*LOW, nulls=None), bounds(*HIGH, nulls=None))


def test_only_nulls_match_only_nulls(table):
    nulls = bounds(None, None, nulls=10)
    assert not applies(table, nulls, bounds(*LOW))
    assert not applies(table, bounds(*LOW), nulls)
    assert applies(table, nulls, nulls)
    assert applies(table, nulls, bounds(*LOW, nulls=None))
    assert applies(table, bounds(None, None, nulls=10, values=None), bounds(*LOW))  # whether there is more is not known


def test_one_column_that_cannot_match_is_enough(table):
    both = {"equality_ids": [2, 1]}
    of_data = {name: value | {2: b"x"} if "bounds" in name else value for name, value in bounds(*LOW).items()}
    assert applies(table, of_data, bounds(*LOW) | both)
    assert not applies(table, of_data, bounds(*HIGH) | both)


@pytest.mark.parametrize("other", [{"spec_id": 3, "partition": ("x",)}, {"partition": ("x", 2.0)}], ids=["spec", "p"])
def test_file_scoped_deletes_in_another_partition_are_corrupt(partitioned, other):
    """Iceberg's Java refuses them too; deletes of a whole partition are then about other files."""
    a = partitioned.root / "a.parquet"
    file = data(partitioned, partition=("x", 1.0))
    of_one, of_all = (
        partitioned.position_deletes(
            "d.parquet", [(a, 0)], of_one_file=of_one_file, **{"partition": ("x", 1.0)} | other
        )
        for of_one_file in (True, False)
    )
    assert applying(partitioned, file, of_all) == [[]]
    with pytest.raises(CorruptMetadataError, match=r"d\.parquet: expected deletes of the partition of their data file"):
        applying(partitioned, file, of_one)


def test_data_file_metrics_are_read_for_delete_columns_only(table):
    table.snapshot(data(table, **bounds(*LOW)))
    (manifest,) = manifest_files(table.document["snapshots"][-1]["manifest-list"], store_for)
    (alone,) = live_files_of(manifest, store_for)
    assert alone.metrics == {}
    (file,) = live_files_of(manifest, store_for, {1})
    assert file.metrics.keys() == {1}
    assert (file.metrics[1].lower_bound, file.metrics[1].null_value_count) == (LOW[0], 0)


def test_delete_columns_come_from_the_current_or_the_last_schema(table):
    table.document["schemas"][0]["fields"][0]["type"] = "int"
    table.evolve([(1, "then", "long"), (2, "p", "string")])
    table.evolve([(1, "now", "long")])
    table.document["schemas"].append(
        {"type": "struct", "schema-id": 9, "fields": table.document["schemas"][0]["fields"]}
    )
    table.snapshot(data(table), deletes(table, equality_ids=[2, 1, 2]))
    ((delete,),) = [task.delete_files for task in table.plan()]
    assert [(c.field_id, c.name, c.type) for c in delete.equality_columns] == [(1, "now", "long"), (2, "p", "string")]


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[], None, [7], [1, 7]], ids=str)
def test_equality_ids_without_a_column_are_corrupt(table, ids):
    table.snapshot(data(table), deletes(table, equality_ids=ids))
    with pytest.raises(CorruptMetadataError, match=r"d\.parquet: expected equality ids of primitive columns, found \["):
        table.plan()


def test_column_with_incomparable_values_is_refused_by_name(make_table):
    table = make_table([(1, "k", "variant")], version=3)
    table.snapshot(data(table), deletes(table))
    with pytest.raises(UnsupportedTableError, match=r"d\.parquet: equality deletes by column k of type variant"):
        table.plan()


@pytest.mark.parametrize("file_format", ["LANCE", "PUFFIN"])
def test_equality_delete_files_of_other_formats_are_refused_by_name(table, file_format):
    table.snapshot(data(table), deletes(table, "d.file", file_format=file_format))
    with pytest.raises(
        UnsupportedTableError, match=rf"d\.file: delete files of format {file_format} are not supported"
    ):
        table.plan()


def test_unknown_partition_spec_is_corrupt(table):
    table.snapshot(data(table), deletes(table))
    table.document["partition-specs"] = [{"spec-id": 5, "fields": []}]
    with pytest.raises(CorruptMetadataError, match=r"d\.parquet: the table has no partition spec 0"):
        table.plan()


@pytest.mark.parametrize("is_dropped", [False, True])
def test_deletes_by_values_of_another_type_are_refused(table, is_dropped):
    """At a tag from before a CREATE OR REPLACE; their bounds would be compared as values of the later type."""
    tagged = table.snapshot(data(table), deletes(table))
    table.document["snapshots"][0]["schema-id"] = 0
    table.evolve([(1, "k", "string"), (2, "p", "string")])
    table.snapshot(data(table), deletes(table))
    if is_dropped:
        table.evolve([(2, "p", "string")])
    assert table.plan()
    with pytest.raises(UnsupportedTableError, match=r"snapshot 1: expected .* found k, of type long then"):
        table.plan(tagged)
