"""What runs on an executor: a batch in its JSON form in, sketches or the reason why there are none out."""

import functools
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.errors import CorruptDataFileError, FileNotFound, StorageError, UnsupportedTableError
from puffin.tables.base import Column
from puffin.tables.scan_task import ContentFile, FileScanTask, ScanBatch, encode_batch
from puffin.theta import ThetaSketch
from stats_jobs import execute
from stats_jobs.execute import Partial, merge_partials, sketch_batch

LG_K = 12


def with_id(name, type_, field_id):
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


SCHEMA = pa.schema([with_id("a", pa.int64(), 1), with_id("b", pa.string(), 2)])
A, B = Column(1, "a", "long", (1,), (None,)), Column(2, "b", "string", (2,), (None,))


@pytest.fixture
def file_of(tmp_path):
    """Writes a data file with columns a and b and returns the task that reads it."""

    def write(name, a, b, schema=SCHEMA):
        path = tmp_path / name
        pq.write_table(pa.table([a, b], schema=schema), path, row_group_size=1000)
        return task_of(path)

    return write


def task_of(path):
    size = path.stat().st_size
    file = ContentFile(
        content="DATA",
        file_path=str(path),
        file_format="PARQUET",
        spec_id=0,
        partition={},
        record_count=1,
        file_size_in_bytes=size,
    )
    return FileScanTask(file, (), 0, size)


def batch_of(*tasks, columns=(A, B)):
    return encode_batch(ScanBatch(columns=columns, tasks=tasks, specs={}, name_mapping=None, io_properties={}))


def test_a_batch_gives_one_sketch_for_each_column_over_all_its_files(file_of):
    tasks = [file_of(f"{i}.parquet", range(i, i + 5000), [str(j % 7) for j in range(5000)]) for i in (0, 4000)]
    partial = sketch_batch(batch_of(*tasks), LG_K)
    assert partial.sketches == {
        1: ThetaSketch.from_arrow(pa.array(range(9000)), "long"),
        2: ThetaSketch.from_arrow(pa.array([str(j) for j in range(7)]), "string"),
    }
    assert partial.rows == 10_000
    assert 0 < partial.bytes_read < sum(task.length for task in tasks)
    assert partial.failure is None


def test_batches_merged_are_the_whole(file_of):
    tasks = [file_of(f"{i}.parquet", range(i, i + 9000), ["x"] * 9000) for i in (0, 5000, 20_000)]
    partials = [sketch_batch(batch_of(task), LG_K) for task in tasks]
    whole = sketch_batch(batch_of(*tasks), LG_K)
    assert functools.reduce(functools.partial(merge_partials, lg_k=LG_K), partials) == whole
    assert functools.reduce(functools.partial(merge_partials, lg_k=LG_K), partials[::-1]) == whole
    assert whole.sketches[1].estimating


def test_a_partial_survives_the_way_to_the_driver(file_of):
    partial = sketch_batch(batch_of(file_of("1.parquet", range(10_000), ["x"] * 10_000)), LG_K)
    assert pickle.loads(pickle.dumps(partial)) == partial


def test_what_another_try_would_not_cure_comes_back_as_a_value(file_of, tmp_path):
    sound = file_of("sound.parquet", [1], ["x"])
    gone, broken, foreign = (file_of(f"{name}.parquet", [1], ["x"]) for name in ("gone", "broken", "foreign"))
    (tmp_path / "gone.parquet").unlink()
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    for task, kind in ((gone, FileNotFound), (broken, CorruptDataFileError), (foreign, UnsupportedTableError)):
        partial = sketch_batch(batch_of(sound, task), LG_K)
        assert (type(partial.failure), partial.sketches) == (kind, {})
        assert task.data_file.file_path in str(partial.failure)
        arrived = pickle.loads(pickle.dumps(partial)).failure
        assert (type(arrived), str(arrived)) == (kind, str(partial.failure))


def test_a_column_of_another_type_names_its_file_and_column(file_of):
    schema = pa.schema([with_id("a", pa.string(), 1), with_id("b", pa.string(), 2)])
    failure = sketch_batch(batch_of(file_of("1.parquet", ["x"], ["x"], schema)), LG_K).failure
    assert isinstance(failure, CorruptDataFileError)
    assert "1.parquet: column a: a column of type long cannot be read from Arrow" in str(failure)


def test_what_another_try_may_cure_is_raised_for_spark_to_try_again(file_of, monkeypatch):
    task = file_of("1.parquet", [1], ["x"])

    class FailingStore:
        def open_input(self, uri):
            raise StorageError(f"{uri}: no answer")

    monkeypatch.setattr(execute, "stores", lambda _: lambda _: FailingStore())
    with pytest.raises(StorageError, match="no answer"):
        sketch_batch(batch_of(task), LG_K)


def test_a_read_that_the_system_fails_is_the_storages_fault_not_the_files(file_of, monkeypatch):
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

    monkeypatch.setattr(execute, "stores", lambda _: lambda _: Store())
    with pytest.raises(StorageError, match=r"1\.parquet: .*Input/output error"):
        sketch_batch(batch_of(task), LG_K)


def test_a_failure_of_either_is_a_failure_of_both():
    sketch = ThetaSketch.from_arrow(pa.array([1]), "long")
    fine, failed = Partial({1: sketch}, 1, 1), Partial({}, 0, 0, failure=CorruptDataFileError("x"))
    for pair in ((fine, failed), (failed, fine)):
        assert merge_partials(*pair, lg_k=LG_K) is failed
