"""A row is gone if an equality delete file that applies to its data file has its key, beside any other deletes."""

import datetime
import decimal
import json
import math
import struct
import uuid
import zlib

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from puffin.errors import CorruptDataFileError, FileNotFound, UnsupportedTableError
from puffin.files import formats
from puffin.files.parquet import parquet_file
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.tables.scan_documents import BatchPacker
from puffin.tables.scan_task import ScanBatch, ScanContext
from tests.sent import sent
from tests.without_disk import rewrite

ROW = 9  # the field id of the column that numbers the rows


def numbered(keys, first=0):
    """Rows of a key beside their numbers, and the field ids of both."""
    numbers = pa.array(range(first, first + len(keys)), pa.int64())
    return pa.table({"k": keys, "row": numbers}), {"k": 1, "row": ROW}


def deletes(table, name, rows, ids, **fields):
    """The entry of an equality delete file that compares all its columns, by default with sequence number 2."""
    path = table.write(name, rows, ids)
    return table.data(path) | {"content": 2, "sequence_number": 2, "equality_ids": list(ids.values())} | fields


def live_rows(table, **options):
    """The numbers of the rows that are read, from their sketch, which must be exact."""
    answer = table.read("row", **options)
    assert answer.sketches["row"].ndv == answer.rows
    return answer.sketches["row"]


def rows(*numbers):
    return ThetaSketch.from_arrow(pa.array(numbers, pa.int64()), "long")


def one_column_table(make_table, type_, **options):
    return make_table([(1, "k", type_), (ROW, "row", "long")], version=3, **options)


@pytest.fixture
def table(make_table):
    return one_column_table(make_table, "long")


# --- which rows match ---------------------------------------------------------------------------------------------

NAN = math.nan
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
D = decimal.Decimal
BIG, LEAP_DAY, OLD_DAY = D(10**30), datetime.date(2020, 2, 29), datetime.date(1969, 12, 31)
KEYS = {  # of each type: some values in an Arrow type that a file may have, and which of them to delete
    "boolean": (pa.bool_(), [True, False, None], [True]),
    "int": (pa.int32(), [1, -1, None, 2**31 - 1], [-1, 2**31 - 1]),
    "long": (pa.int64(), [1, -1, None, 2**63 - 1], [None, 2**63 - 1]),
    "float": (pa.float32(), [1.5, 0.0, -0.0, NAN, None], [0.0, NAN]),
    "double": (pa.float64(), [1.5, 0.0, -0.0, NAN, OTHER_NAN, None], [-0.0, OTHER_NAN, 1.5]),
    "decimal(9, 2)": (pa.decimal128(9, 2), [D("1.25"), D("-1.25"), None], [D("-1.25")]),
    "decimal(38, 0)": (pa.decimal128(38, 0), [BIG, -BIG, D(10**30 + 1), None], [BIG]),
    "date": (pa.date32(), [OLD_DAY, LEAP_DAY, None], [LEAP_DAY]),
    "time": (pa.time64("us"), [datetime.time(0), datetime.time(23, 59, 59, 999_999), None], [datetime.time(0)]),
    "timestamp": (pa.timestamp("us"), [-1, 0, 1, None], [-1]),
    "timestamptz": (pa.timestamp("us", "UTC"), [-1, 0, 1, None], [0, None]),
    "timestamp_ns": (pa.timestamp("ns"), [-1, 0, 1, None], [1]),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), [-1, 0, 1, None], [1]),
    "string": (pa.string(), ["", "a", "a\0", "ä", None], ["a", ""]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", None], [b"\0"]),
    "fixed[2]": (pa.binary(2), [b"ab", b"ba", None], [b"ba"]),
    "uuid": (pa.binary(16), [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, None], [uuid.UUID(int=2).bytes]),
}


def as_java_sees(value):
    """A form that two values share exactly if Iceberg's comparators call them equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack("<d", value)
    return value


@pytest.mark.parametrize("type_", KEYS)
@pytest.mark.parametrize("is_dictionary", [False, True], ids=["plain", "dictionary"])
def test_rows_with_equal_values_of_every_type_are_deleted(make_table, type_, is_dictionary):
    """Null equals null, NaN equals any NaN, -0.0 differs from 0.0, and null differs from every value."""
    table = one_column_table(make_table, type_)
    arrow_type, values, deleted = KEYS[type_]
    array = pa.array(values * 3, arrow_type)
    if is_dictionary and type_ in ("string", "binary"):
        array = array.dictionary_encode()
    path = table.write("a.parquet", *numbered(array))
    keys = pa.table({"k": pa.array(deleted, arrow_type)})
    table.snapshot(table.data(path), deletes(table, "d.parquet", keys, {"k": 1}))
    gone = {as_java_sees(value) for value in deleted}
    kept = [i for i, value in enumerate(values * 3) if as_java_sees(value) not in gone]
    assert 0 < len(kept) < len(array)
    assert live_rows(table) == rows(*kept)
    assert table.read().rows == len(kept)  # with the key asked for too


@pytest.mark.table_kind("Equality deletes: one column, several, null keys; of a partition and of all", "3")
def test_all_of_several_columns_must_be_equal(make_table):
    fields = [(1, "a", "long"), (2, "b", "string"), (3, "c", "double"), (ROW, "row", "long")]
    table = make_table(fields, version=3)
    keys = [(1, "x", 0.5), (1, "x", None), (1, None, 0.5), (None, "x", 0.5), (None, None, None), (1, "", 0.5)]
    columns = {name: list(values) for name, values in zip("abc", zip(*keys, strict=True), strict=True)}
    ids = {"a": 1, "b": 2, "c": 3}
    path = table.write("a.parquet", pa.table(columns | {"row": list(range(6))}), ids | {"row": ROW})
    for number in range(6):
        one = pa.table(columns).slice(number, 1)
        table.snapshot(table.data(path), deletes(table, f"{number}.parquet", one, ids))
        assert live_rows(table) == rows(*(i for i in range(6) if i != number))


def test_other_columns_of_a_delete_file_are_not_compared(table):
    path = table.write("a.parquet", *numbered([1, 2, 3]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", *numbered([2], first=77), equality_ids=[1]))
    assert live_rows(table) == rows(0, 2)


def test_column_inside_a_null_struct_is_null(make_table):
    table = make_table([(1, "s", [(2, "k", "long")]), (ROW, "row", "long")], version=3)
    values = pa.array([{"k": 1}, {"k": None}, None, {"k": 2}], pa.struct([("k", pa.int64())]))
    data = pa.table({"s": values, "row": [0, 1, 2, 3]})
    ids = {"s": (1, {"k": 2})}
    path = table.write("a.parquet", data, ids | {"row": ROW})
    for deleted, kept in (([0, 3], (1, 2)), ([1], (0, 3)), ([2], (0, 3))):
        gone = deletes(table, "d.parquet", data.select(["s"]).take(deleted), ids, equality_ids=[2])
        table.snapshot(table.data(path), gone)
        assert live_rows(table) == rows(*kept)


# --- what a file has for a column ---------------------------------------------------------------------------------


@pytest.mark.parametrize("default", [None, 7])
def test_column_missing_from_an_older_file_has_its_initial_default_or_null(make_table, default):
    table = make_table([(1, "k", "long", default), (ROW, "row", "long")], version=3)
    old = table.write("a.parquet", pa.table({"row": [0, 1]}), {"row": ROW})
    new = table.write("b.parquet", *numbered([7, 8, None], first=2))
    table.snapshot(*map(table.data, (old, new)), deletes(table, "7.parquet", pa.table({"k": [7]}), {"k": 1}))
    assert live_rows(table) == (rows(3, 4) if default else rows(0, 1, 3, 4))
    nulls = pa.table({"k": pa.nulls(1, pa.int64())})
    table.snapshot(*map(table.data, (old, new)), deletes(table, "null.parquet", nulls, {"k": 1}))
    assert live_rows(table) == (rows(0, 1, 2, 3) if default else rows(2, 3))


PROMOTIONS = {
    "int": ("long", pa.int32(), pa.int64(), [-1, 7, None]),
    "float": ("double", pa.float32(), pa.float64(), [0.1, NAN, None]),
    "decimal(9, 2)": ("decimal(38, 2)", pa.decimal128(9, 2), pa.decimal128(38, 2), [D("-1.25"), D("7.00"), None]),
    "date": ("timestamp", pa.date32(), pa.timestamp("us"), [OLD_DAY, LEAP_DAY, None]),
}


@pytest.mark.parametrize("old", PROMOTIONS)
@pytest.mark.table_kind("Equality deletes: several files by sequence number; the schema evolved since", "3")
def test_values_from_before_and_after_a_promotion_are_equal(make_table, old):
    new, old_arrow, new_arrow, values = PROMOTIONS[old]
    table = one_column_table(make_table, old)
    table.evolve([(1, "k", new), (ROW, "row", "long")])
    before = pa.array(values, old_arrow)
    after = before.cast(new_arrow)
    paths = [table.write(f"{i}.parquet", *numbered(keys, first=10 * i)) for i, keys in enumerate((before, after))]
    for form in (before, after):
        gone = deletes(table, "d.parquet", pa.table({"k": form.slice(1, 1)}), {"k": 1})
        table.snapshot(*map(table.data, paths), gone)
        assert live_rows(table) == rows(0, 2, 10, 12)


@pytest.mark.table_kind("Equality deletes: several files by sequence number; the schema evolved since", "3")
def test_dropped_column_still_counts(make_table):
    table = one_column_table(make_table, "long")
    table.evolve([(ROW, "row", "long")])
    path = table.write("a.parquet", *numbered([1, 2, 3]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [3]}), {"k": 1}))
    assert live_rows(table) == rows(0, 1)


def test_identity_partition_value_replaces_a_missing_column(make_table):
    table = one_column_table(make_table, "string", spec=[(1, "identity")])
    table.document["partition-specs"].append({"spec-id": 1, "fields": []})
    files = [table.write(f"{p}.parquet", pa.table({"row": [p]}), {"row": ROW}) for p in range(2)]
    gone = deletes(table, "d.parquet", pa.table({"k": ["p1"]}), {"k": 1}, spec_id=1)
    table.snapshot(*(table.data(file, partition=(f"p{i}",)) for i, file in enumerate(files)), gone)
    assert live_rows(table) == rows(0)


def test_files_without_field_ids_use_the_name_mapping(make_table):
    mapping = json.dumps([{"field-id": 1, "names": ["key"]}, {"field-id": ROW, "names": ["row"]}])
    table = one_column_table(make_table, "long", properties={"schema.name-mapping.default": mapping})
    path = table.write("a.parquet", pa.table({"key": [1, 2], "row": [0, 1]}))
    table.write("d.parquet", pa.table({"key": [1]}))
    gone = table.data(table.root / "d.parquet") | {"content": 2, "sequence_number": 2, "equality_ids": [1]}
    table.snapshot(table.data(path), gone)
    assert live_rows(table) == rows(1)


# --- with other deletes -------------------------------------------------------------------------------------------


def test_delete_files_that_compare_different_columns_add_up(make_table):
    table = make_table([(1, "a", "long"), (2, "b", "string"), (ROW, "row", "long")], version=3)
    data = pa.table({"a": [1, 2, 3, 4, 5], "b": ["p", "q", "r", "s", None], "row": list(range(5))})
    path = table.write("a.parquet", data, {"a": 1, "b": 2, "row": ROW})
    table.snapshot(
        table.data(path),
        deletes(table, "1.parquet", pa.table({"a": [1]}), {"a": 1}),
        deletes(table, "2.parquet", pa.table({"b": ["q"]}), {"b": 2}, sequence_number=3),
        deletes(table, "3.parquet", pa.table({"b": ["r", "s"], "a": [3, 3]}), {"b": 2, "a": 1}, sequence_number=4),
        deletes(table, "4.parquet", pa.table({"b": pa.nulls(1, pa.string())}), {"b": 2}, sequence_number=5),
    )
    assert live_rows(table) == rows(3)


@pytest.mark.parametrize("is_vector", [False, True], ids=["position deletes", "deletion vector"])
def test_row_is_live_only_if_no_kind_of_delete_names_it(table, monkeypatch, is_vector):
    monkeypatch.setattr(parquet_file, "MAX_BATCH_ROWS", 3)
    path = table.write("a.parquet", *numbered([i % 4 for i in range(20)]), row_group_size=8)
    named = [0, 1, 13]
    other = table.vector("v", path, named) if is_vector else table.position_deletes("p", [(path, i) for i in named])
    table.snapshot(table.data(path), other, deletes(table, "d.parquet", pa.table({"k": [2, 0]}), {"k": 1}))
    kept = [i for i in range(20) if i % 4 not in (0, 2) and i not in named]
    for target in (100, 2**30):
        assert live_rows(table, target_bytes=target) == rows(*kept)


def test_all_rows_may_be_deleted(table):
    path = table.write("a.parquet", *numbered([1, 1, None]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [None, 1]}), {"k": 1}))
    answer = table.read()
    assert (answer.rows, answer.sketches["row"], answer.sketches["k"]) == (0, rows(), rows())


def test_empty_delete_file_deletes_nothing(table):
    path = table.write("a.parquet", *numbered([1, None]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": pa.array([], pa.int64())}), {"k": 1}))
    assert live_rows(table) == rows(0, 1)


def test_dictionary_page_is_not_enough_if_rows_are_deleted(make_table):
    """The only rows of one word are deleted; its entry in the dictionary stays."""
    table = one_column_table(make_table, "string")
    words = [f"word {i % 5}" for i in range(100)]
    path = table.write("a.parquet", *numbered(words))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": ["word 3"]}), {"k": 1}))
    answer = table.read("k")
    assert (answer.sketches["k"].ndv, answer.rows) == (4, 80)


def test_deletes_apply_when_only_constants_are_read(make_table):
    table = make_table([(1, "k", "long"), (2, "c", "long", 7)], version=3)
    path = table.write("a.parquet", pa.table({"k": [1, 2]}), {"k": 1})
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [2]}), {"k": 1}))
    assert (table.read("c").rows, table.read("c").sketches["c"]) == (1, rows(7))


# --- one batch, many files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target_bytes", [1, 2**30], ids=["pieces", "whole files"])
def test_delete_files_shared_by_tasks_are_opened_once(table, monkeypatch, target_bytes):
    paths = [table.write(f"{i}.parquet", *numbered([1, 2, 3], first=10 * i)) for i in range(3)]
    table.snapshot(
        *(table.data(path, sequence_number=2 * i + 1, split_offsets=[4]) for i, path in enumerate(paths)),
        *(deletes(table, f"d{n}", pa.table({"k": [n]}), {"k": 1}, sequence_number=2 * n) for n in (1, 2)),
    )
    opened = []
    open_data_file = formats.open_data_file
    monkeypatch.setattr(formats, "open_data_file", lambda *file: opened.append(file) or open_data_file(*file))
    assert live_rows(table, target_bytes=target_bytes) == rows(2, 10, 12, 20, 21, 22)
    assert len(opened) == 2 * (3 + 2)  # it is read with and without counting


def test_equality_delete_files_travel_beside_the_tasks(table):
    path = table.write("a.parquet", *numbered([1]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [2]}), {"k": 1}))
    batch = ScanBatch(columns=(), tasks=table.plan(), context=ScanContext({}, None, {}))
    packer = BatchPacker(batch.context, [()], batch.tasks)
    context, chunk, task = (
        json.loads(zlib.decompress(packed))
        for packed in (packer.shared.context, *packer.shared.delete_files, *packer.documents(batch.tasks))
    )
    assert context["delete-columns"] == [{"field-id": 1, "name": "k", "type": "long", "path": [1], "defaults": [None]}]
    assert [(delete["content"], delete["equality-ids"]) for delete in chunk] == [("EQUALITY_DELETES", [1])]
    assert task[0]["delete-files"] == [[0, 1]]
    assert "equality-ids" not in task[0]["data-file"]
    assert sent(batch) == batch


VALUES = {
    "a": st.none() | st.integers(0, 3),
    "b": st.none() | st.sampled_from(["", "x", "y"]),
    "c": st.sampled_from([0.0, -0.0, NAN]),
}
FIELD_IDS = {"a": 1, "b": 2, "c": 3}
ARROW = {"a": pa.int64(), "b": pa.string(), "c": pa.float64()}
TUPLES = st.lists(st.fixed_dictionaries(VALUES), max_size=6)
SEQUENCE = st.integers(1, 3)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.lists(st.tuples(SEQUENCE, TUPLES), min_size=1, max_size=3),
    removed=st.lists(st.tuples(SEQUENCE, st.sets(st.sampled_from("abc"), min_size=1), TUPLES), max_size=4),
    gone=st.sets(st.integers(0, 5), max_size=2),
)
def test_remaining_rows_equal_a_row_by_row_comparison(make_table, data, removed, gone):
    table = make_table([(1, "a", "long"), (2, "b", "string"), (3, "c", "double"), (ROW, "row", "long")], version=3)
    entries, kept, number = [], [], 0
    for i, (sequence, tuples) in enumerate(data):
        columns = {name: pa.array([row[name] for row in tuples], ARROW[name]) for name in "abc"}
        columns["row"] = pa.array(range(number, number + len(tuples)), pa.int64())
        path = table.write(f"{i}.parquet", pa.table(columns), FIELD_IDS | {"row": ROW}, row_group_size=2)
        positions = {at for at in gone if at < len(tuples)} if i == 0 else set()
        entries.append(table.data(path, sequence_number=sequence, **metrics(columns)))
        entries += [table.vector("v", path, positions)] if positions else []
        for at, row in enumerate(tuples):
            if at not in positions and not any(
                deleted_at > sequence
                and any(all(as_java_sees(row[name]) == as_java_sees(key[name]) for name in names) for key in keys)
                for deleted_at, names, keys in removed
            ):
                kept.append(number + at)
        number += len(tuples)
    for i, (sequence, names, keys) in enumerate(removed):
        columns = {name: pa.array([key[name] for key in keys], ARROW[name]) for name in sorted(names)}
        ids = {name: FIELD_IDS[name] for name in columns}
        entries.append(deletes(table, f"d{i}", pa.table(columns), ids, sequence_number=sequence, **metrics(columns)))
    table.snapshot(*entries)
    assert live_rows(table) == rows(*kept)


def metrics(columns):
    """The counts and bounds that writers state for a file: bounds exclude null and NaN."""
    found = {"value_counts": {}, "null_value_counts": {}, "lower_bounds": {}, "upper_bounds": {}}
    for name, array in ((name, array) for name, array in columns.items() if name in FIELD_IDS):
        found["value_counts"][FIELD_IDS[name]] = len(array)
        found["null_value_counts"][FIELD_IDS[name]] = array.null_count
        ordered = sorted(value for value in array.to_pylist() if value is not None and value == value)
        if ordered:
            to_bytes = {"a": lambda v: struct.pack("<q", v), "b": str.encode, "c": lambda v: struct.pack("<d", v)}[name]
            found["lower_bounds"][FIELD_IDS[name]] = to_bytes(ordered[0])
            found["upper_bounds"][FIELD_IDS[name]] = to_bytes(ordered[-1])
    return found


# --- broken files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"other": [1]}, r"d\.parquet: expected a delete column k of field id 1, found none"),
        ({"k": ["1"]}, r"d\.parquet: column k: a column of type long cannot be read from Arrow string"),
        ({"k": [[1]]}, r"d\.parquet: column k: a column of type long cannot be read from Arrow list"),
    ],
)
def test_delete_file_with_other_columns_is_corrupt_and_named(table, columns, message):
    path = table.write("a.parquet", *numbered([1]))
    ids = {"other": 5} if "other" in columns else {"k": 1}
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table(columns), ids, equality_ids=[1]))
    with pytest.raises(CorruptDataFileError, match=message) as caught:
        table.read()
    assert "\n" not in str(caught.value)


def test_data_file_with_a_key_of_another_type_is_corrupt_and_named(table):
    path = table.write("a.parquet", *numbered(["1"]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [1]}), {"k": 1}))
    with pytest.raises(CorruptDataFileError, match=r"a\.parquet: column k: a column of type long cannot be read"):
        table.read("row")


def test_delete_file_without_field_ids_is_refused_by_name(table):
    path = table.write("a.parquet", *numbered([1]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [1]}), {"k": 1}))
    table.write("d.parquet", pa.table({"k": [1]}))
    with pytest.raises(UnsupportedTableError, match=r"d\.parquet: the file has no field ids"):
        table.read()


def test_missing_or_truncated_delete_file_is_named(table):
    path = table.write("a.parquet", *numbered([1]))
    table.snapshot(table.data(path), deletes(table, "d.parquet", pa.table({"k": [1]}), {"k": 1}))
    whole = (table.root / "d.parquet").read_bytes()
    for length in range(0, len(whole), 37):
        rewrite(table.root / "d.parquet", whole[:length])
        with pytest.raises(CorruptDataFileError, match=r"d\.parquet: expected a readable delete file") as caught:
            table.read()
        assert "\n" not in str(caught.value)
    (table.root / "d.parquet").unlink()
    with pytest.raises(FileNotFound, match=r"d\.parquet"):
        table.read()
