"""Values that a snapshot's rows certainly contain: checked against Spark's data, and never assumed."""

from __future__ import annotations

import datetime
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.errors import CorruptMetadataError, FileNotFound
from puffin.format import CREATED_BY, PuffinReader
from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.iceberg.scan.certain_values import certain_values
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.whose_hashes import contradiction, writer_objection
from puffin.storage import store_for
from puffin.tables.base import SnapshotSelector
from puffin.values.json_values import arrow_type
from tests.bound import bound

DELETED = 2
HERE = Path("/nowhere")
NAME_MAPPING = "schema.name-mapping.default"


# --- Spark's tables -----------------------------------------------------------------------------------------------


def data_of(opened) -> dict[int, pa.ChunkedArray]:
    """The columns of a snapshot without deletes as pyarrow reads them, by field id, in their current type."""
    found: dict[int, list[pa.Array]] = {column.field_id: [] for column in opened.state.columns}
    for task in opened.tasks:
        assert not task.delete_files
        read = pq.read_table(task.data_file.file_path.removeprefix("file:"), partitioning=None)
        for column in opened.state.columns:
            for field_id, array in leaves(read):
                if field_id == column.field_id:
                    found[field_id] += [as_type(array, column.type)]
    return {
        column.field_id: pa.chunked_array(found[column.field_id], arrow_type(column.type))
        for column in opened.state.columns
    }


def leaves(table: pa.Table):
    """The columns with their field ids, also those inside structs."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.metadata and b"PARQUET:field_id" in field.metadata:
            yield int(field.metadata[b"PARQUET:field_id"]), column.combine_chunks()


def as_type(array: pa.Array, type_: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.cast(arrow_type(type_))


def sketches_of(opened) -> tuple[str, dict[int, ThetaSketch]]:
    entry = opened.state.statistics[opened.snapshot.snapshot_id]
    with opened.store_for(entry.statistics_path).open_source(entry.statistics_path) as source:
        reader = PuffinReader(source)
        blobs = reader.file_metadata.blobs
        sketches = {blob.fields[0]: ThetaSketch.from_bytes(reader.read(blob)) for blob in blobs}
        return reader.file_metadata.properties[CREATED_BY], sketches


def without_deletes(golden_tables):
    """Name and snapshot of each table that Spark wrote and analyzed and that has no delete files."""
    for name in ("t_types", "t_evolved", "t_mor_v2"):
        table = IcebergDirectory(str(golden_tables / name))
        for snapshot_id in table.open().state.statistics:
            opened = table.open(SnapshotSelector(snapshot_id=snapshot_id))
            if not any(task.delete_files for task in opened.tasks):
                yield name, opened


def test_certain_values_are_in_the_data_of_sparks_tables(golden_tables):
    checked = set()
    for name, opened in without_deletes(golden_tables):
        state = opened.state
        values, data = opened.certain_values(opened.snapshot, state.columns), data_of(opened)
        for column in state.columns:
            if column.field_id in values:
                present = set(data[column.field_id].to_pylist())
                assert len(values[column.field_id]) > 0
                assert set(values[column.field_id].to_pylist()) <= present, (name, column.name)
                assert values[column.field_id].null_count == 0
                checked.add(column.type)
    assert checked == {
        *("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "uuid", "binary"),
        *("fixed[8]", "decimal(9, 2)", "decimal(18, 4)", "decimal(38, 10)", "decimal(18, 2)"),
    }


def test_only_sparks_uuid_sketches_are_contradicted(golden_tables):
    seen = 0
    for name, opened in without_deletes(golden_tables):
        state, snapshot = opened.state, opened.snapshot
        created_by, sketches = sketches_of(opened)
        values = opened.certain_values(snapshot, state.columns)
        for column in state.columns:
            # What was promoted since was hashed as what it was.
            type_ = state.column_type_at(snapshot, column.field_id)
            if column.field_id in sketches and column.field_id in values and type_ == column.type:
                seen += 1
                reason = contradiction(sketches[column.field_id], column.type, values[column.field_id])
                assert (reason is None) == (column.type != "uuid"), (name, column.name, reason)
                assert (writer_objection(created_by, column.type) is None) == (reason is None)
    assert seen > 20


@pytest.mark.parametrize("name", ["t_mor_v2", "t_dv_v3"])
def test_nothing_is_certain_beside_delete_files(golden_tables, name):
    table = IcebergDirectory(str(golden_tables / name))
    opened = table.open()
    assert opened.certain_values(opened.snapshot, opened.state.columns) == {}


# --- tables by hand -----------------------------------------------------------------------------------------------

FIELDS = [
    (1, "l", "long"),
    (2, "s", "string"),
    (3, "bin", "binary"),
    (4, "d", "double"),
    (5, "f", "float"),
    (6, "ts", "timestamp"),
    (7, "dec", "decimal(9, 2)"),
    (8, "u", "uuid"),
    (9, "fx", "fixed[20]"),
    (10, "b", "boolean"),
    (11, "dt", "date"),
    (12, "i", "int"),
]
IDS = {name: field_id for field_id, name, _ in FIELDS}


def long(value: int) -> bytes:
    return struct.pack("<q", value)


def double(value: float) -> bytes:
    return struct.pack("<d", value)


def file(table, bounds=None, *, path=HERE, records=10, nulls=0, **fields):
    """The entry of a data file with lower and upper bounds by column name."""
    given = {IDS[name]: pair for name, pair in (bounds or {}).items()}
    metrics = {
        "value_counts": dict.fromkeys(given, records),
        "null_value_counts": dict.fromkeys(given, nulls),
        "lower_bounds": {field_id: lower for field_id, (lower, _) in given.items() if lower is not None},
        "upper_bounds": {field_id: upper for field_id, (_, upper) in given.items() if upper is not None},
    }
    return table.data(path, record_count=records, **metrics | fields)


def values_of(table, *names: str, store=store_for) -> dict[str, list]:
    """The certain values by column name, by default of all columns."""
    state = table.state()
    opened = bound(state, store_for=store)
    found = certain_values(opened, opened.snapshot, state.select_columns(names or None))
    by_id = {column.field_id: column.name for column in state.columns}
    return {by_id[field_id]: array.to_pylist() for field_id, array in found.items()}


def of_one_file(make_table, bounds, *, properties=None, **fields) -> dict[str, list]:
    table = make_table(FIELDS, properties=properties)
    table.snapshot(file(table, bounds, **fields))
    return values_of(table)


def test_bounds_of_every_type_are_certain_values(make_table):
    unscaled = [(-150).to_bytes(2, "big", signed=True), (12345).to_bytes(2, "big")]
    moments = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 2)]
    micros = [long(round((moment - datetime.datetime(1970, 1, 1)).total_seconds()) * 10**6) for moment in moments]
    found = of_one_file(
        make_table,
        {
            "l": (long(-5), long(7)),
            "s": (b"alice", b"zoe"),
            "bin": (b"\x01", b"\xff"),
            "d": (double(-1.5), double(2.5)),
            "f": (struct.pack("<f", -0.5), struct.pack("<f", 0.25)),
            "ts": tuple(micros),
            "dec": tuple(unscaled),
            "u": (bytes(16), b"\xff" * 16),
            "fx": (b"a" * 20, b"b" * 20),
            "b": (b"\0", b"\1"),
            "dt": (struct.pack("<i", -1), struct.pack("<i", 1)),
            "i": (struct.pack("<i", -2), struct.pack("<i", -2)),
        },
    )
    assert {name: list(map(str, values)) for name, values in found.items()} == {
        "l": ["-5", "7"],
        "s": ["alice"],
        "bin": [str(b"\x01")],
        "d": ["-1.5", "2.5"],
        "f": ["-0.5", "0.25"],
        "ts": list(map(str, moments)),
        "dec": ["-1.50", "123.45"],
        "u": [str(bytes(16)), str(b"\xff" * 16)],
        "fx": [str(b"a" * 20), str(b"b" * 20)],
        "b": ["False", "True"],
        "dt": ["1969-12-31", "1970-01-02"],
        "i": ["-2"],
    }


def test_bounds_from_before_a_promotion_have_the_current_type(make_table):
    found = of_one_file(make_table, {"l": (struct.pack("<i", -5), long(7)), "d": (struct.pack("<f", 0.1), double(9))})
    assert found == {"l": [-5, 7], "d": [struct.unpack("<f", struct.pack("<f", 0.1))[0], 9.0]}


@pytest.mark.parametrize("number", [0.0, -0.0, float("nan"), float("inf"), float("-inf")])
def test_numbers_that_writers_normalise_are_not_certain(make_table, number):
    assert of_one_file(make_table, {"d": (double(number), double(1.0))}) == {"d": [1.0]}
    assert of_one_file(make_table, {"f": (struct.pack("<f", number),) * 2}) == {}


@pytest.mark.parametrize("name", ["s", "bin"])
@pytest.mark.parametrize(
    ("lower", "upper", "is_certain"),
    [
        (b"a" * 15, b"b", True),
        (b"a" * 16, b"b" * 16, False),
        (b"a" * 16, b"a" * 16, True),  # all values are this one
        (b"a" * 99, b"a" * 99, True),
        ("ä".encode() * 8, b"b", False),  # writers may have counted bytes
        (None, b"b", False),
    ],
)
def test_possibly_truncated_strings_are_not_certain(make_table, name, lower, upper, is_certain):
    found = of_one_file(make_table, {name: (lower, upper)})
    assert found == ({name: [lower.decode() if name == "s" else lower]} if is_certain else {})


def test_upper_bound_may_be_truncated_to_any_length(make_table):
    """Iceberg cuts ``01 ff ff ... ff`` of 17 bytes to ``02``, which no row has."""
    assert of_one_file(make_table, {"bin": (b"\x01" + b"\xff" * 15, b"\x02")}) == {}


@pytest.mark.parametrize(
    ("properties", "is_certain"),
    [
        ({"write.metadata.metrics.default": "truncate(16)"}, True),
        ({"write.metadata.metrics.default": "full"}, True),
        ({"write.metadata.metrics.column.other": "Truncate(64)"}, True),
        ({"write.metadata.metrics.max-inferred-column-defaults": "4"}, True),
        ({"write.metadata.metrics.column.s": "none"}, True),
        ({"write.metadata.metrics.default": "truncate(15)"}, False),
        ({"write.metadata.metrics.column.s": "truncate(4)"}, False),
        ({"write.metadata.metrics.column.s": "hash"}, False),
    ],
)
def test_short_strings_are_certain_unless_the_table_wants_shorter_bounds(make_table, properties, is_certain):
    found = of_one_file(make_table, {"s": (b"alice", b"zoe"), "l": (long(1), long(2))}, properties=properties)
    assert found == {"l": [1, 2], **({"s": ["alice"]} if is_certain else {})}


def test_complete_fixed_length_bytes_are_certain(make_table):
    assert of_one_file(make_table, {"fx": (b"a" * 16, b"b" * 15), "u": (b"0" * 15, b"0" * 36)}) == {}


@pytest.mark.parametrize("file_format", ["ORC", "AVRO"])
def test_timestamps_are_certain_only_in_parquet(make_table, file_format):
    bounds = {"ts": (long(1), long(1001)), "dt": (struct.pack("<i", 3),) * 2}
    assert of_one_file(make_table, bounds, file_format=file_format).keys() == {"dt"}
    assert of_one_file(make_table, bounds).keys() == {"ts", "dt"}


@pytest.mark.parametrize("properties", [{NAME_MAPPING: "[]"}, {"delta-version": "3"}])
def test_timestamps_are_not_certain_in_imported_files(make_table, properties):
    bounds = {"ts": (long(1), long(1001)), "l": (long(1), long(2))}
    assert of_one_file(make_table, bounds, properties=properties) == {"l": [1, 2]}


def test_file_without_rows_or_values_has_no_certain_values(make_table):
    bounds = {"l": (long(1), long(2))}
    assert of_one_file(make_table, bounds) == {"l": [1, 2]}
    assert of_one_file(make_table, bounds, records=0) == {}
    assert of_one_file(make_table, bounds, nulls=10) == {}
    assert of_one_file(make_table, bounds, null_value_counts=None) == {}
    assert of_one_file(make_table, bounds, value_counts=None) == {}


def test_invalid_bounds_are_ignored(make_table):
    bounds = {
        "l": (b"123", long(2)),
        "s": (b"\xff\xfe", b"\xff\xfe"),
        "dec": ((10**9).to_bytes(4, "big"), b""),
        "i": (long(1), None),
    }
    assert of_one_file(make_table, bounds) == {"l": [2]}


# --- partitions ---------------------------------------------------------------------------------------------------


def test_identity_partition_values_are_certain_and_transformed_ones_are_not(make_table):
    table = make_table(FIELDS, spec=[(2, "identity"), (1, "bucket[4]"), (7, "identity"), (4, "identity")])
    table.snapshot(
        file(table, partition=("a rather long partition value", 3, None, 0.0)),
        file(table, partition=(None, 3, None, 1.5)),
        file(table, partition=("of no row", 3, None, 2.5), records=0),
    )
    assert values_of(table) == {"s": ["a rather long partition value"], "d": [1.5]}


def test_each_value_is_given_once(make_table):
    table = make_table(FIELDS, spec=[(1, "identity")])
    table.snapshot(*(file(table, {"l": (long(7), long(7))}, partition=(7,)) for _ in range(3)))
    assert values_of(table) == {"l": [7]}


def test_partitions_of_an_unknown_spec_say_nothing(make_table):
    table = make_table(FIELDS, spec=[(1, "identity")])
    table.snapshot(file(table, {"l": (long(1), long(2))}, partition=(7,)))
    table.document["partition-specs"] = [{"spec-id": 5, "fields": []}]
    assert values_of(table) == {"l": [1, 2]}


def test_invalid_partition_specs_are_corrupt(make_table):
    table = make_table(FIELDS)
    table.snapshot(file(table))
    table.document["partition-specs"] = [{"spec-id": 0, "fields": [{"name": "p"}]}]
    with pytest.raises(CorruptMetadataError):
        values_of(table)


# --- deletes and cost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [1, 2])
def test_nothing_is_certain_while_a_delete_file_is_live(make_table, content):
    table = make_table(FIELDS)
    data = file(table, {"l": (long(1), long(2))})
    deletes = table.data(HERE, content=content, record_count=1)
    table.snapshot(data, deletes)
    assert values_of(table) == {}
    table.snapshot(data, deletes | {"status": DELETED})
    assert values_of(table) == {"l": [1, 2]}


def of_many_specs(make_table, specs: int, files: int, status: int = 1):
    """A table with a manifest for each spec; files are numbered, and their number is their value of ``l``."""
    table = make_table(FIELDS)
    table.document["partition-specs"] = [{"spec-id": spec, "fields": []} for spec in range(specs)]
    numbers = [(spec, spec * files + number) for spec in range(specs) for number in range(files)]
    table.snapshot(
        *(
            file(table, {"l": (long(number),) * 2}, spec_id=spec, status=status if spec == specs - 1 else 1)
            for spec, number in numbers
        )
    )
    return table


def test_only_parts_of_two_manifests_are_read(make_table):
    opened = []

    def store(uri):
        opened.append(Path(uri).name)
        return store_for(uri)

    table = of_many_specs(make_table, 5, 100)
    found = values_of(table, store=store)
    assert found == {"l": [*range(64), *range(400, 464)]}
    assert opened == ["snap-1.avro", "manifest-1-0-False.avro", "manifest-1-4-False.avro"]
    opened.clear()
    assert values_of(of_many_specs(make_table, 1, 3), store=store) == {"l": [0, 1, 2]}
    assert len(opened) == 2


def test_manifests_without_live_files_are_skipped(make_table):
    assert values_of(of_many_specs(make_table, 3, 2, DELETED)) == {"l": [0, 1, 2, 3]}


def test_manifest_lists_without_counts_are_read(make_table):
    table = make_table(FIELDS, version=1)
    table.omit_counts = True
    table.snapshot(file(table, {"l": (long(1), long(2))}))
    assert values_of(table) == {"l": [1, 2]}


def test_no_manifest_is_opened_for_zero_columns(make_table):
    table = make_table(FIELDS)
    table.snapshot(file(table, {"l": (long(1), long(2))}))
    (table.root / "manifest-1-0-False.avro").unlink()
    state = table.state()
    assert certain_values(bound(state), state.snapshot(1), ()) == {}
    with pytest.raises(FileNotFound):
        values_of(table)
