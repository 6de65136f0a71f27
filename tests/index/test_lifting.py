"""Filters lifted from Bloom filters of Parquet files, held against those that are built from the same files' values."""

import decimal
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from puffin.files.formats import DataFiles
from puffin.files.parquet.parquet_footer import ColumnChunk, read_footer
from puffin.index.bloom import BloomFilter
from puffin.index.file_filters import IndexKind, LiftingIndexKind
from puffin.index.value_hashes import hash_values
from puffin.load import load_table
from puffin.planning.plan import Planner
from puffin.tables.scan_task import FileScanTask, ScanBatch, ScanContext
from stats_jobs.execute import read_batch
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.plan import split_task
from tests.hand_made_table import HandMadeTable, store_for
from tests.index.stored_filters import may_contain, stored_filters
from tests.without_disk import rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1000
ROOMY = {"ndv": ROWS, "fpp": 1e-7}
MakeTable = Callable[..., HandMadeTable]

VALUES: dict[str, pa.Array] = {
    "int": pa.array(range(-500, 500), pa.int32()),
    "long": pa.array(range(1 << 40, (1 << 40) + ROWS)),
    "float": pa.array([i / 7 for i in range(-500, 500)], pa.float32()),
    "double": pa.array([i / 7 for i in range(-500, 500)]),
    "date": pa.array(range(ROWS), pa.date32()),
    "time": pa.array(range(ROWS), pa.time64("us")),
    "timestamp": pa.array(range(-500, 500), pa.timestamp("us")),
    "timestamptz": pa.array(range(-500, 500), pa.timestamp("us", "UTC")),
    "timestamp_ns": pa.array(range(-500, 500), pa.timestamp("ns")),
    "decimal(9, 2)": pa.array([decimal.Decimal(i) / 100 for i in range(-500, 500)], pa.decimal128(9, 2)),
    "decimal(18, 2)": pa.array([decimal.Decimal(i) / 100 for i in range(-500, 500)], pa.decimal128(18, 2)),
    "decimal(30, 2)": pa.array([decimal.Decimal(i) / 100 for i in range(-500, 500)], pa.decimal128(30, 2)),
    "string": pa.array([f"zé-{i}" for i in range(ROWS)]),
    "binary": pa.array([b"%d" % i for i in range(ROWS)]),
    "uuid": pa.array([uuid.UUID(int=i << 64).bytes for i in range(ROWS)], pa.binary(16)),
    "fixed[3]": pa.array([struct.pack(">i", i)[1:] for i in range(ROWS)], pa.binary(3)),
}


def write(table: HandMadeTable, column: pa.Array, name: str = "a.parquet", **options: Any) -> Path:
    """Write a file of one column with a Bloom filter."""
    given = {"bloom_filter_options": {"c": ROOMY}, "use_dictionary": False, "store_decimal_as_integer": True, **options}
    return table.write(name, pa.table({"c": column}), {"c": 1}, **given)


def read(table: HandMadeTable, *, lifting: bool = True, pieces: int = 2**40, **context: Any) -> Partial:
    """Read the column ``c`` of the table for its index, as the job does."""
    state = table.state()
    columns = state.select_columns(["c"])
    kind = (LiftingIndexKind if lifting else IndexKind)(type=columns[0].type)
    tasks = [piece for task in table.plan() for piece in split_task(task, pieces)]
    scan = ScanContext(state.partition_specs, state.name_mapping, {}, **context)
    partial = Partial()
    for task in tasks:
        partial = merge_partials(
            partial, read_batch(ScanBatch(columns, (task,), scan), ((kind,),), DataFiles(store_for))
        )
    return partial


def filter_of(table: HandMadeTable, partial: Partial) -> BloomFilter:
    """The filter of the only file."""
    assert partial.failure is None
    (column,) = table.state().select_columns(["c"])
    kind = IndexKind(type=column.type)
    (found,) = partial.added[column.field_id][kind].finished(kind.fpp).whole.values()
    return found


def table_of(make_table: MakeTable, type_: str, column: pa.Array, **options: Any) -> HandMadeTable:
    table = make_table([(1, "c", type_)])
    table.snapshot(table.data(write(table, column, **options)))
    return table


def is_lifted(partial: Partial) -> bool:
    assert bool(partial.lifted) == (partial.rows == 0)
    return bool(partial.lifted)


@pytest.mark.parametrize("type_", VALUES)
def test_lifted_filter_has_the_bytes_of_one_built_from_the_values(make_table: MakeTable, type_: str) -> None:
    table = table_of(make_table, type_, VALUES[type_], row_group_size=ROWS // 4)
    lifted, built = read(table), read(table, lifting=False)
    assert is_lifted(lifted)
    assert not is_lifted(built)
    assert filter_of(table, lifted).to_bytes() == filter_of(table, built).to_bytes()
    assert may_contain(filter_of(table, lifted), np.concatenate(list(hash_values(VALUES[type_], type_)))).all()


def test_values_are_read_if_a_row_group_has_a_filter_smaller_than_the_file_needs(make_table: MakeTable) -> None:
    """The last row group is small, and so is its filter: a lifted filter would have other bytes than a built one."""
    table = table_of(make_table, "long", VALUES["long"], row_group_size=ROWS * 9 // 20)
    (task,) = table.plan()
    assert len({chunk.bloom_filter_length for chunk in chunks_of(Path(task.data_file.file_path))}) == 2
    partial = read(table)
    assert not is_lifted(partial)
    found = filter_of(table, partial)
    assert may_contain(found, np.concatenate(list(hash_values(VALUES["long"], "long")))).all()


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("int", VALUES["int"].cast(pa.int8(), safe=False)),
        ("int", VALUES["int"].cast(pa.int16())),
        ("decimal(9, 2)", pa.array([decimal.Decimal("1.25")] * 3, pa.decimal128(5, 2))),
    ],
)
def test_narrower_annotation_of_the_same_physical_type_is_lifted(
    make_table: MakeTable, type_: str, column: pa.Array
) -> None:
    table = table_of(make_table, type_, column)
    assert is_lifted(read(table))
    assert filter_of(table, read(table)).to_bytes() == filter_of(table, read(table, lifting=False)).to_bytes()


@pytest.mark.parametrize(
    ("type_", "column", "options"),
    [
        ("long", VALUES["int"], {}),
        ("double", VALUES["float"], {}),
        ("decimal(18, 2)", VALUES["decimal(9, 2)"], {}),
        ("decimal(38, 2)", VALUES["decimal(30, 2)"], {}),
        ("decimal(9, 2)", VALUES["decimal(9, 2)"], {"store_decimal_as_integer": False}),
        ("timestamp", pa.array(range(ROWS), pa.timestamp("ms")), {}),
        ("timestamp", VALUES["timestamp_ns"], {}),
        ("timestamp_ns", VALUES["timestamp"], {}),
        ("timestamp", VALUES["date"], {}),
        ("time", pa.array(range(ROWS), pa.time32("ms")), {}),
        ("binary", VALUES["fixed[3]"], {}),
    ],
)
def test_values_with_other_bytes_than_the_columns_type_are_read(
    make_table: MakeTable, type_: str, column: pa.Array, options: Mapping[str, Any]
) -> None:
    table = table_of(make_table, type_, column, **options)
    assert not is_lifted(read(table))


def test_timestamps_of_96_bits_are_read(make_table: MakeTable) -> None:
    table = make_table([(1, "c", "timestamp")])
    plain = pa.table({"c": VALUES["timestamp"]})
    path = table.write("a.parquet", plain, {"c": 1}, use_deprecated_int96_timestamps=True)
    table.snapshot(table.data(path))
    assert not is_lifted(read(table))


def test_filter_with_too_many_false_positives_is_not_lifted(make_table: MakeTable) -> None:
    options = {"bloom_filter_options": {"c": {"ndv": ROWS // 4, "fpp": 0.05}}}
    assert not is_lifted(read(table_of(make_table, "long", VALUES["long"], **options)))


def test_row_groups_that_exceed_the_rate_together_are_read(make_table: MakeTable) -> None:
    tight = {"bloom_filter_options": {"c": {"ndv": ROWS // 10, "fpp": 0.01}}, "row_group_size": ROWS // 10}
    assert not is_lifted(read(table_of(make_table, "long", VALUES["long"], **tight)))


def test_file_without_filters_is_read(make_table: MakeTable) -> None:
    assert not is_lifted(read(table_of(make_table, "long", VALUES["long"], bloom_filter_options=None)))


def test_file_of_no_rows_has_nothing_to_lift(make_table: MakeTable) -> None:
    table = table_of(make_table, "long", VALUES["long"][:0])
    assert not read(table).lifted


def test_nulls_are_not_in_a_filter(make_table: MakeTable) -> None:
    table = table_of(make_table, "long", pa.array([None, 5, None, 7]))
    assert is_lifted(read(table))
    assert not is_lifted(read(table_of(make_table, "long", pa.nulls(10, pa.int64()))))


def test_zeros_and_nan_are_as_the_file_has_them(make_table: MakeTable) -> None:
    column = pa.array([0.0, -0.0, float("nan"), 1.5])
    table = table_of(make_table, "double", column)
    assert is_lifted(read(table))
    assert filter_of(table, read(table)).to_bytes() == filter_of(table, read(table, lifting=False)).to_bytes()


def test_column_inside_a_struct_is_lifted(make_table: MakeTable) -> None:
    table = make_table([(1, "s", [(2, "c", "long")]), (3, "s.c", "long")])
    column, other = VALUES["long"], pa.array(range(ROWS))
    rows = pa.table({"s": pa.StructArray.from_arrays([column], ["c"]), "x": other})
    filters = {"bloom_filter_options": {"s.c": ROOMY}}
    path = table.write("a.parquet", rows, {"s": (1, {"c": 2}), "x": 3}, use_dictionary=False, **filters)
    table.snapshot(table.data(path))
    table.evolve([(1, "s", [(2, "c", "long")])])
    state = table.state()
    columns = state.select_columns(["s.c"])
    batch = ScanBatch(columns, table.plan(), ScanContext(state.partition_specs, state.name_mapping, {}))
    partial = read_batch(batch, ((LiftingIndexKind(type="long"),),), DataFiles(store_for))
    assert is_lifted(partial)
    (found,) = partial.added[2][IndexKind()].whole.values()
    assert may_contain(found, np.concatenate(list(hash_values(column, "long")))).all()


def test_ambiguous_dotted_path_is_read(make_table: MakeTable) -> None:
    """A top-level field may be named like the path to a nested one."""
    table = make_table([(1, "s", [(2, "c", "long")])])
    rows = pa.table({"s": pa.StructArray.from_arrays([VALUES["long"]], ["c"]), "s.c": VALUES["long"]})
    path = table.write("a.parquet", rows, {"s": (1, {"c": 2}), "s.c": 3}, bloom_filter_options={"s.c": ROOMY})
    table.snapshot(table.data(path))
    state = table.state()
    batch = ScanBatch(
        state.select_columns(["s.c"]), table.plan(), ScanContext(state.partition_specs, state.name_mapping, {})
    )
    assert not read_batch(batch, ((LiftingIndexKind(type="long"),),), DataFiles(store_for)).lifted


def test_missing_column_is_its_default_not_another_field(make_table: MakeTable) -> None:
    table = make_table([(9, "c", "long", 5)], version=3)
    table.snapshot(table.data(write(table, VALUES["long"])))
    partial = read(table)
    assert not is_lifted(partial)
    assert may_contain(filter_of(table, partial), np.concatenate(list(hash_values(pa.array([5]), "long")))).all()


def test_partition_value_wins_over_the_file(make_table: MakeTable) -> None:
    table = make_table([(1, "c", "long")], spec=[(1, "identity")])
    table.snapshot(table.data(write(table, VALUES["long"]), partition=(7,)))
    assert not is_lifted(read(table))


def test_file_without_field_ids_is_lifted_by_the_name_mapping(make_table: MakeTable) -> None:
    mapping = '[{"field-id": 1, "names": ["old"]}]'
    table = make_table([(1, "c", "long")], properties={"schema.name-mapping.default": mapping})
    rows = pa.table({"old": VALUES["long"], "c": pa.array(range(ROWS))})
    options = {"bloom_filter_options": {"old": ROOMY, "c": ROOMY}, "use_dictionary": False}
    table.snapshot(table.data(table.write("a.parquet", rows, **options)))
    partial = read(table)
    assert is_lifted(partial)
    assert partial.mapped == {1}
    assert filter_of(table, partial).to_bytes() == filter_of(table, read(table, lifting=False)).to_bytes()


def test_file_in_pieces_is_lifted_once(make_table: MakeTable) -> None:
    table = table_of(make_table, "long", VALUES["long"], row_group_size=ROWS // 4)
    whole, pieces = read(table), read(table, pieces=500)
    assert is_lifted(pieces)
    assert len(pieces.lifted) == 1
    assert filter_of(table, pieces).to_bytes() == filter_of(table, whole).to_bytes()


def test_files_are_lifted_and_read_in_one_pass(make_table: MakeTable) -> None:
    table = make_table([(1, "c", "long")])
    paths = [
        write(table, VALUES["long"], "a.parquet"),
        write(table, VALUES["long"], "b.parquet", bloom_filter_options=None),
    ]
    table.snapshot(*map(table.data, paths))
    state = table.state()
    columns = state.select_columns(["c"])
    batch = ScanBatch(columns, table.plan(), ScanContext(state.partition_specs, state.name_mapping, {}))
    partial = read_batch(batch, ((LiftingIndexKind(type="long"),),), DataFiles(store_for))
    assert (partial.lifted, partial.rows) == ({(1, str(paths[0]))}, ROWS)
    a, b = partial.added[1][IndexKind()].whole.values()
    assert a.to_bytes() == b.to_bytes()


def test_dates_that_may_be_julian_are_read(make_table: MakeTable) -> None:
    table = make_table([(1, "c", "date")])
    rows = pa.table({"c": VALUES["date"]})
    for version, lifts in ((b"3.5.0", True), (b"2.4.0", False)):
        marked = rows.replace_schema_metadata({b"org.apache.spark.version": version})
        path = table.root / "a.parquet"
        pq.write_table(marked, path, use_dictionary=False, bloom_filter_options={"c": ROOMY})
        table.document["properties"]["schema.name-mapping.default"] = '[{"field-id": 1, "names": ["c"]}]'
        table.snapshot(table.data(path))
        assert is_lifted(read(table, rebases_dates=True)) == lifts


# --- damage ---------------------------------------------------------------------------------------------------------


def chunks_of(path: Path) -> Iterator[ColumnChunk]:
    for group in read_footer(pq.read_metadata(path)):
        chunk = group[0]
        assert chunk is not None
        yield chunk


def test_broken_header_costs_a_read_of_the_values(make_table: MakeTable) -> None:
    """Each byte of the header is replaced by many others: the column is read, or what is lifted has every value."""
    table = table_of(make_table, "long", VALUES["long"])
    (task,) = table.plan()
    path = Path(task.data_file.file_path)
    built = filter_of(table, read(table, lifting=False))
    (chunk,) = chunks_of(path)
    whole = bytearray(path.read_bytes())
    offset, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
    assert offset is not None
    assert length is not None
    header = range(offset, offset + length % 1024)
    assert 10 < len(header) < 40
    read_again = 0
    for at in header:
        for flip in (0x01, 0x02, 0x10, 0x80, 0xFF):
            broken = bytearray(whole)
            broken[at] ^= flip
            rewrite(path, broken)
            partial = read(table)
            read_again += not is_lifted(partial)
            assert filter_of(table, partial).to_bytes() == built.to_bytes()
    assert read_again > 4 * len(header)


def test_cleared_and_shifted_bitsets_are_not_lifted(make_table: MakeTable) -> None:
    table = table_of(make_table, "long", VALUES["long"])
    (task,) = table.plan()
    path = Path(task.data_file.file_path)
    (chunk,) = chunks_of(path)
    whole = path.read_bytes()
    end = (chunk.bloom_filter_offset or 0) + (chunk.bloom_filter_length or 0)
    begin = end - (chunk.bloom_filter_length or 0) // 1024 * 1024
    bitset = whole[begin:end]
    for broken in (bytes(len(bitset)), bitset[4:] + bitset[:4], b"\xff" * len(bitset), bitset[:-4] + bytes(4)):
        path.write_bytes(whole[:begin] + broken + whole[end:])
        assert not is_lifted(read(table))


@pytest.mark.parametrize(("field", "value"), [(14, 0), (14, 2**40), (14, -5), (15, 0), (15, 2**40), (15, 31), (15, -1)])
def test_place_outside_the_file_is_not_read(
    make_table: MakeTable, monkeypatch: pytest.MonkeyPatch, field: int, value: int
) -> None:
    table = table_of(make_table, "long", VALUES["long"])
    name = {14: "bloom_filter_offset", 15: "bloom_filter_length"}[field]
    place = ColumnChunk.__dataclass_fields__[name]
    assert place.default is None
    original = ColumnChunk.__init__
    monkeypatch.setattr(ColumnChunk, "__init__", lambda self, **given: original(self, **{**given, name: value}))
    assert not is_lifted(read(table))


# --- the job, with the files of real writers ------------------------------------------------------------------------


def delta_table(root: Path, files: int) -> tuple[str, list[int]]:
    """A Delta table of delta-rs, whose writer makes a Bloom filter for each column; also a key of each file."""
    from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties

    bloom = BloomFilterProperties(set_bloom_filter_enabled=True, fpp=0.001, ndv=4 * ROWS)
    generator, keys = np.random.default_rng(4), []
    for _ in range(files):
        values = generator.integers(-(2**62), 2**62, ROWS)
        keys.append(int(values[5]))
        properties = WriterProperties(column_properties={"k": ColumnProperties(bloom_filter_properties=bloom)})
        write_deltalake(str(root), pa.table({"k": values}), mode="append", writer_properties=properties)
    return str(root), keys


def filters_of(path: str) -> dict[str, bytes]:
    """The bitset of each file, of an index of one column."""
    return {file: bits for (_, file), bits in stored_filters(load_table(path)).items()}


def test_job_lifts_the_files_of_delta_rs(tmp_path: Path) -> None:
    path, keys = delta_table(tmp_path / "table", 3)
    plain = np.arange(ROWS)
    write_deltalake(path, pa.table({"k": plain}), mode="append")
    report = index(path, IndexOptions(columns=("k",)))
    assert (report.files_lifted, report.files_read, report.rows_read) == (3, 1, ROWS)
    assert report.files_indexed == report.files_total == 4
    planner = Planner(load_table(path).open())
    assert [len(list(planner.plan(f"k = {key}").files)) for key in keys] == [1, 1, 1]
    again = index(path)
    assert (again.files_lifted, again.files_read) == (0, 0)
    for file, stored in filters_of(path).items():
        values = pq.read_table(Path(path, Path(file).name))["k"]
        lifted, (hashes,) = BloomFilter.from_bytes(stored), [np.concatenate(list(hash_values(values, "long")))]
        assert may_contain(lifted, hashes).all()
        assert lifted.false_positive_rate() <= 0.01


def test_file_counts_as_read_if_one_of_its_columns_is(tmp_path: Path) -> None:
    from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties

    bloom = BloomFilterProperties(set_bloom_filter_enabled=True, fpp=0.001, ndv=ROWS)
    properties = WriterProperties(column_properties={"k": ColumnProperties(bloom_filter_properties=bloom)})
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table({"k": range(ROWS), "s": range(ROWS)}), writer_properties=properties)
    report = index(path, IndexOptions(columns=("k", "s")))
    assert (report.files_lifted, report.files_read, report.rows_read) == (0, 1, ROWS)


def test_filters_of_delta_rs_have_every_value_of_every_type(tmp_path: Path) -> None:
    from deltalake import BloomFilterProperties, ColumnProperties, WriterProperties

    columns = {
        "byte": pa.array([i % 256 - 128 for i in range(ROWS)], pa.int8()),
        "short": pa.array(range(-500, 500), pa.int16()),
        "timestamp": VALUES["timestamptz"],
        **{name: VALUES[name] for name in ("int", "long", "float", "double", "date", "string", "binary")},
        "small": VALUES["decimal(9, 2)"],
        "medium": VALUES["decimal(18, 2)"],
        "large": VALUES["decimal(30, 2)"],
    }
    bloom = BloomFilterProperties(set_bloom_filter_enabled=True, fpp=1e-6, ndv=ROWS)
    properties = WriterProperties(default_column_properties=ColumnProperties(bloom_filter_properties=bloom))
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table(columns), writer_properties=properties)
    (task,) = load_table(path).open().tasks
    for column in columns:
        report = index(path, IndexOptions(columns=(column,)))
        assert (column, report.files_lifted) == (column, 1)
        assert filters_of(path) == {task.data_file.file_path: built_filter(path, column, task).to_bytes()}
        index(path, IndexOptions(drop=(column,)))


def test_filters_of_duckdb_have_every_value(make_table: MakeTable) -> None:
    import duckdb

    expressions = {
        "long": "k",
        "int": "k::int",
        "double": "k / 7.0::double",
        "decimal(9, 2)": "k::decimal(9, 2)",
        "date": "date '2020-01-01' + k::int",
        "timestamp": "timestamp '2020-01-01' + to_seconds(k)",
        "string": "'key-' || k",
        "uuid": "md5(k::varchar)::uuid",
    }
    for type_, expression in expressions.items():
        table = make_table(
            [(1, "c", type_)], properties={"schema.name-mapping.default": '[{"field-id": 1, "names": ["c"]}]'}
        )
        path = table.root / "a.parquet"
        duckdb.sql(
            f"copy (select {expression} as c from (select i % 800 as k from range(5000) t(i))) to '{path}' "
            "(format parquet, bloom_filter_false_positive_ratio 0.001)"
        )
        table.snapshot(table.data(path))
        partial = read(table)
        assert is_lifted(partial), type_
        values = np.concatenate(list(hash_values(pq.read_table(path)["c"].combine_chunks(), type_)))
        assert may_contain(filter_of(table, partial), values).all(), type_


def test_job_lifts_the_files_of_parquet_mr(spark: "SparkSession", warehouse: Path) -> None:
    """Spark writes Bloom filters to Iceberg tables; what is lifted holds the values, byte for byte as built."""
    name = "hadoop.db.lifting"
    columns = {
        "k": "bigint",
        "i": "int",
        "s": "string",
        "d": "double",
        "t": "timestamp",
        "day": "date",
        "p": "decimal(9,2)",
        "q": "decimal(30,2)",
    }
    spark.sql(f"drop table if exists {name}")
    enabled = ", ".join(
        f"'write.parquet.bloom-filter-enabled.column.{c}'='true', 'write.parquet.bloom-filter-ndv.column.{c}'='30000'"
        for c in columns
    )
    declared = ", ".join(f"{c} {type_}" for c, type_ in columns.items())
    spark.sql(
        f"create table {name} ({declared}) using iceberg "
        f"tblproperties ('parquet.enable.dictionary'='false', 'write.parquet.dict-size-bytes'='1', {enabled})"
    )
    spark.sql(
        f"insert into {name} select id * 7919, cast(id - 700 as int), concat('key-', id), id / 7D, "
        "timestamp_micros(id * 1000003 - 5), date_add(date'2020-01-01', cast(id as int)), "
        f"cast(id / 8 as decimal(9,2)), cast(id as decimal(30,2)) * 1000000000000000000 from range(0, 2000, 1, 1)"
    )
    path = str(warehouse / "db" / "lifting")
    found = {}
    for column in columns:
        report = index(path, IndexOptions(columns=(column,)))
        found[column] = (report.files_lifted, report.files_read)
        lifted = filters_of(path)
        (task,) = load_table(path).open().tasks
        built = built_filter(path, column, task)
        assert lifted == {task.data_file.file_path: built.to_bytes()}
        index(path, IndexOptions(drop=(column,)))
    assert found == dict.fromkeys(columns, (1, 0))
    on_executors = index(path, IndexOptions(columns=("k",), driver_bytes=0), spark)
    assert (on_executors.files_lifted, on_executors.files_read, on_executors.files_indexed) == (1, 0, 1)


def built_filter(path: str, column: str, task: FileScanTask) -> BloomFilter:
    """The filter of a column of a file, built from its values."""
    opened = load_table(path).open()
    columns = opened.state.select_columns([column])
    kind = IndexKind(type=columns[0].type)
    partial = read_batch(ScanBatch(columns, (task,), opened.scan_context), ((kind,),), DataFiles(opened.store_for))
    return partial.added[columns[0].field_id][kind].whole[task.data_file.file_path]
