"""Code that runs beside the files: a batch goes in, its statistics or the reason for their absence come out."""

import dataclasses
import functools
import pickle

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin import kernels
from puffin.errors import CorruptDataFileError, FileNotFound, StorageError, UnsupportedTableError
from puffin.files.formats import DataFiles
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.statistics.kinds import PARTITION_SKETCHES, ROW_COUNTS, SUMMARY, THETA
from puffin.statistics.kinds.kind import Parts
from puffin.storage import store_for
from puffin.tables.base import Column
from puffin.tables.scan_task import ScanBatch, ScanContext
from puffin.values.column_summary import ColumnSummary
from stats_jobs.execute import read_batch, read_document
from stats_jobs.partial import Partial, merge_partials
from stats_jobs.scan import Scan
from stats_jobs.shipment import Shipment
from tests.hand_made_pages import file_of_pages
from tests.scan_files import data_file, whole

SKETCHES, COUNTS = (THETA, SUMMARY), (ROW_COUNTS, THETA, SUMMARY)


def with_id(name, type_, field_id):
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


SCHEMA = pa.schema([with_id("a", pa.int64(), 1), with_id("b", pa.string(), 2)])
A, B = Column(1, "a", "long", (1,), (None,)), Column(2, "b", "string", (2,), (None,))


@pytest.fixture
def file_of(tmp_path):
    """Writes a data file with columns a and b, and returns the task that reads it."""

    def write(name, a, b, schema=SCHEMA):
        path = tmp_path / name
        pq.write_table(pa.table([a, b], schema=schema), path, row_group_size=1000)
        return task_of(path)

    return write


def task_of(path, partition=None):
    return whole(data_file(path, partition=partition or {}))


def batch_of(*tasks, columns=(A, B)):
    return ScanBatch(columns=columns, tasks=tasks, context=ScanContext({}, None, {}))


def read(*tasks, kinds=SKETCHES, removed=False, store_for=store_for):
    return read_batch(batch_of(*tasks), (kinds, kinds), DataFiles(store_for), removed)


def of(kind, values):
    """The values of a kind by field id."""
    return {field_id: found[kind] for field_id, found in values.items() if kind in found}


def test_batch_gives_one_sketch_per_column_over_all_files(file_of):
    tasks = [file_of(f"{i}.parquet", range(i, i + 5000), [str(j % 7) for j in range(5000)]) for i in (0, 4000)]
    partial = read(*tasks)
    assert of(THETA, partial.added) == {
        1: ThetaSketch.from_arrow(pa.array(range(9000)), "long"),
        2: ThetaSketch.from_arrow(pa.array([str(j) for j in range(7)]), "string"),
    }
    assert partial.rows == 10_000
    assert 0 < partial.bytes_read < sum(task.length for task in tasks)
    assert partial.failure is None


@pytest.fixture
def unloaded_kernels(monkeypatch):
    kernels.load_kernels()  # as they will be after the test
    monkeypatch.setattr(kernels, "_is_ready", False)
    kernels.load_kernels.cache_clear()


def test_a_small_batch_has_rows_read_by_kernels_that_pyarrow_omits(tmp_path, unloaded_kernels):
    """pyarrow ends a chunk at its first page if that has no values."""
    path, column = tmp_path / "empty.parquet", Column(1, "id", "long", (1,), (None,))
    path.write_bytes(file_of_pages([[], [1, 2, 3], [4, 5]]))
    partial = read_batch(batch_of(task_of(path), columns=(column,)), (SKETCHES,), DataFiles(store_for))
    assert partial.rows == 5
    assert of(THETA, partial.added) == {1: ThetaSketch.from_arrow(pa.array([1, 2, 3, 4, 5], pa.int64()), "long")}


def test_a_small_batch_has_pages_read_by_kernels_that_pyarrow_refuses(tmp_path, unloaded_kernels):
    """Differences of ints take DuckDB up to 33 bits."""
    numbers = [(2**31 - 1 - i) * (-1) ** i for i in range(2000)]
    path, column = tmp_path / "duck.parquet", Column(1, "a", "int", (1,), (None,))
    with duckdb.connect() as connection:
        connection.sql(f"""
            copy (select unnest({numbers})::int as a)
            to '{path}' (format parquet, parquet_version v2, field_ids {{a: 1}})
        """)
    partial = read_batch(batch_of(task_of(path), columns=(column,)), (SKETCHES,), DataFiles(store_for))
    assert of(THETA, partial.added) == {1: ThetaSketch.from_arrow(pa.array(numbers, pa.int32()), "int")}


def test_a_small_batch_has_pages_read_by_kernels_that_pyarrow_has_no_decoder_for(tmp_path, unloaded_kernels):
    path, column = tmp_path / "delta.parquet", Column(1, "b", "string", (1,), (None,))
    words = pa.array([f"word {i % 50}" for i in range(2000)])
    coded = words.dictionary_encode()
    table = pa.Table.from_arrays([coded], schema=pa.schema([with_id("b", coded.type, 1)]))
    pq.write_table(table, path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    partial = read_batch(batch_of(task_of(path), columns=(column,)), (SKETCHES,), DataFiles(store_for))
    assert of(THETA, partial.added) == {1: ThetaSketch.from_arrow(words, "string")}


@pytest.mark.parametrize("kinds", [SKETCHES, COUNTS], ids=["sketches", "row counts"])
def test_merged_batches_equal_the_whole(file_of, kinds):
    tasks = [file_of(f"{i}.parquet", range(i, i + 9000), ["x"] * 9000) for i in (0, 5000, 20_000)]
    partials = [read(task, kinds=kinds) for task in tasks]
    whole = read(*tasks, kinds=kinds)
    assert functools.reduce(merge_partials, partials) == whole
    assert functools.reduce(merge_partials, partials[::-1]) == whole
    (value,) = (found for kind, found in whole.added[1].items() if kind != SUMMARY)
    assert (value.sketch(12) if kinds == COUNTS else value).estimating


def test_every_row_is_counted_even_with_dictionary_encoding(file_of):
    """Column b is a dictionary in the file; row counts need its indices too."""
    tasks = [file_of(f"{i}.parquet", range(2500), [str(j % 5) for j in range(2500)]) for i in range(2)]
    counts = of(ROW_COUNTS, read(*tasks, kinds=COUNTS).added)
    assert counts[1].rows.tolist() == [2] * 2500
    assert counts[2].rows.tolist() == [1000] * 5
    sketches = of(THETA, read(*tasks).added)
    assert {field_id: tally.sketch(12) for field_id, tally in counts.items()} == sketches


def test_removed_rows_are_kept_separate(file_of):
    came, went = file_of("1.parquet", [1, 2], ["x", "y"]), file_of("2.parquet", [2], ["y"])
    merged = merge_partials(read(came, kinds=COUNTS), read(went, kinds=COUNTS, removed=True))
    assert merged.added == read(came, kinds=COUNTS).added
    assert merged.removed == read(went, kinds=COUNTS).added
    assert merged.rows == 3


def test_summaries_count_added_minus_removed_rows(file_of):
    came = [file_of("1.parquet", [1, None], ["x", "yy"]), file_of("2.parquet", [7], ["zzz"])]
    went = file_of("3.parquet", [None], ["yy"])
    merged = merge_partials(read(*came, kinds=COUNTS), read(went, kinds=COUNTS, removed=True))
    a, b = (SUMMARY.combined(Parts(None, merged.added[i], merged.removed[i]), {}) for i in (1, 2))
    a, b = a.to_column("long"), b.to_column("string")
    assert a == ColumnSummary(2, 0, None, 1, 7, 16)
    assert b == ColumnSummary(2, 0, None, "x", "zzz", 4)


def test_columns_measured_only_by_partition_have_no_summary(file_of):
    """Their rows are part of the statistics to which the summary is added."""
    task = file_of("1.parquet", [1], ["x"])
    assert of(SUMMARY, read(task, kinds=(PARTITION_SKETCHES,)).added) == {}
    assert of(SUMMARY, read(task, kinds=(THETA, PARTITION_SKETCHES, SUMMARY)).added).keys() == {1, 2}


def test_batch_survives_json(file_of):
    batch = batch_of(file_of("1.parquet", [1, 2], ["x", "y"]))
    scan = Scan(dict.fromkeys(batch.columns, COUNTS), batch.tasks)
    shipment = Shipment.of([scan, dataclasses.replace(scan, removed=True)], batch.context)
    came, went = (read_document(shipment.shared, document) for document in shipment.documents)
    assert came == read_batch(batch, (COUNTS, COUNTS), DataFiles(store_for))
    assert went == read_batch(batch, (COUNTS, COUNTS), DataFiles(store_for), removed=True)


def test_partial_result_survives_the_way_to_the_driver(file_of):
    partial = read(file_of("1.parquet", range(10_000), ["x"] * 10_000))
    assert pickle.loads(pickle.dumps(partial)) == partial


def test_permanent_failure_is_returned_as_a_value(file_of, tmp_path):
    sound = file_of("sound.parquet", [1], ["x"])
    gone, broken, foreign = (file_of(f"{name}.parquet", [1], ["x"]) for name in ("gone", "broken", "foreign"))
    (tmp_path / "gone.parquet").unlink()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    for task, kind in ((gone, FileNotFound), (broken, CorruptDataFileError), (foreign, UnsupportedTableError)):
        partial = read(sound, task)
        assert (type(partial.failure), partial.added) == (kind, {})
        assert task.data_file.file_path in str(partial.failure)
        arrived = pickle.loads(pickle.dumps(partial)).failure
        assert (type(arrived), str(arrived)) == (kind, str(partial.failure))


def test_type_mismatch_names_file_and_column(file_of):
    schema = pa.schema([with_id("a", pa.string(), 1), with_id("b", pa.string(), 2)])
    failure = read(file_of("1.parquet", ["x"], ["x"], schema)).failure
    assert isinstance(failure, CorruptDataFileError)
    assert "1.parquet: column a: a column of type long cannot be read from Arrow" in str(failure)


def test_temporary_failure_is_raised_for_spark_to_retry(file_of):
    task = file_of("1.parquet", [1], ["x"])

    class FailingStore:
        def open_input(self, uri):
            raise StorageError(f"{uri}: no answer")

    with pytest.raises(StorageError, match="no answer"):
        read(task, store_for=lambda _: FailingStore())


def test_os_error_blames_the_storage_and_not_the_file(file_of):
    task = file_of("1.parquet", range(100_000), ["x"] * 100_000)

    import io

    class Dying(io.FileIO):
        def read(self, size=-1):
            if self.tell() < 1000:
                raise OSError(5, "Input/output error")
            return super().read(size)

    class Store:
        def open_input(self, uri):
            return pa.PythonFile(Dying(uri), "r")

    with pytest.raises(StorageError, match=r"1\.parquet: .*Input/output error"):
        read(task, store_for=lambda _: Store())


def test_failure_of_either_part_is_a_failure_of_both():
    sketch = ThetaSketch.from_arrow(pa.array([1]), "long")
    fine, failed = Partial({1: {THETA: sketch}}, {}, 1, 1), Partial(failure=CorruptDataFileError("x"))
    for pair in ((fine, failed), (failed, fine)):
        assert merge_partials(*pair) is failed


# --- by partition -------------------------------------------------------------------------------------------------

BY_PARTITION = (ROW_COUNTS, PARTITION_SKETCHES)


@pytest.fixture
def partitioned(file_of, tmp_path):
    """Writes a file of a partition, with values of column a, and returns the task that reads it."""

    def write(name, value, a):
        file_of(name, a, ["x"] * len(a))
        return task_of(tmp_path / name, {"1000": value})

    return write


def values_of(partial, value, field_id=1):
    return partial.added[field_id][PARTITION_SKETCHES].union(lambda key: key == (0, f'{{"1000":{value}}}'))


@pytest.mark.parametrize("row_counts", [True, False])
def test_each_partition_has_the_sketch_of_its_files(partitioned, row_counts):
    whole = (ROW_COUNTS if row_counts else THETA,)
    tasks = [partitioned("1", 7, range(2000)), partitioned("2", 8, range(10)), partitioned("3", 7, range(1500, 3000))]
    partial = read(*tasks, kinds=(*whole, PARTITION_SKETCHES))
    assert values_of(partial, 7) == ThetaSketch.from_arrow(pa.array(range(3000)), "long", 9)
    assert values_of(partial, 8) == ThetaSketch.from_arrow(pa.array(range(10)), "long", 9)
    assert len({found[PARTITION_SKETCHES].keys for found in partial.added.values()}) == 1
    assert values_of(partial, 7, field_id=2).ndv == 1
    assert of(whole[0], partial.added) == of(whole[0], read(*tasks, kinds=whole).added)


def test_partitions_merge_like_columns(partitioned):
    tasks = [partitioned(str(i), i % 2, range(i * 400, i * 400 + 900)) for i in range(4)]
    parts = [read(task, kinds=BY_PARTITION) for task in tasks]
    merged = functools.reduce(merge_partials, parts)
    assert merged == read(*tasks, kinds=BY_PARTITION)
    assert pickle.loads(pickle.dumps(merged)) == merged


def test_partition_without_rows_is_left_out(partitioned):
    partial = read(partitioned("1", 7, []), partitioned("2", 8, [1]), kinds=BY_PARTITION)
    assert partial.added[1][PARTITION_SKETCHES].keys == ((0, '{"1000":8}'),)


def test_column_of_nulls_has_its_partitions(partitioned):
    partial = read(partitioned("1", 7, [None, None]), kinds=BY_PARTITION)
    assert values_of(partial, 7).empty
    assert len(partial.added[1][PARTITION_SKETCHES].keys) == 1


def test_partitions_alone_need_no_row_counts(partitioned):
    """A dictionary page is enough for them, and the whole column has no part in it."""
    alone = (PARTITION_SKETCHES,)
    task = partitioned("1", 7, list(range(50)) * 100)
    partial, everything = read(task, kinds=alone), read(task, kinds=BY_PARTITION)
    assert of(PARTITION_SKETCHES, partial.added) == of(PARTITION_SKETCHES, everything.added)
    assert (of(ROW_COUNTS, partial.added), partial.removed) == ({}, {})
    assert partial.bytes_read < everything.bytes_read
    assert of(PARTITION_SKETCHES, read(task, kinds=(ROW_COUNTS,)).added) == {}
