"""A Delta table's directory as a table: field ids that keep their meaning, commits of several jobs, moved tables."""

import datetime
import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from puffin.delta.directory import DeltaDirectory
from puffin.delta.log.replay import DeltaLog
from puffin.delta.snapshot import FIELD_IDS, DeltaSnapshot
from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
)
from puffin.format import PuffinReader
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.storage import LocalStore
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics
from puffin.tables.snapshot import PartitionStatistics
from stats_jobs import Options, analyze


@pytest.fixture
def table(delta_table):
    """A table with one version, in which each column has three values."""
    table = delta_table()
    table.commit(table.add({"a": [1, 2, 3], "b": [4, 5, 6]}))
    return table


def open_table(table) -> DeltaDirectory:
    return load_table(str(table.path))


def ids(table, version=None):
    """The field id of every column of a version."""
    state = open_table(table).open(SnapshotSelector(snapshot_id=version)).state
    return {column.name: column.field_id for column in state.columns}


def ndvs(table, **asked):
    return {c.column.name: c.ndv for c in ndv(str(table.path), **asked).columns}


def ours(table):
    """The names of our files, those of statistics files without what makes them unique."""
    names = (path.name for path in (table.log / "_puffin_sidecar").iterdir())
    return sorted(f"{name.partition('-')[0]}.stats" if name.endswith(".stats") else name for name in names)


# --- field ids --------------------------------------------------------------------------------------------------------


def test_ids_are_kept_with_the_first_statistics(table):
    """A lookup gives ids too, and keeps none."""
    assert ids(table) == {"a": 1, "b": 2}
    assert ndvs(table) == {"a": None, "b": None}
    assert not (table.log / "_puffin_sidecar").exists()
    analyze(str(table.path))
    assert ours(table) == ["0-0.json", "0.stats", "field-ids-0.json"]
    analyze(str(table.path), Options(mode="full"))
    assert ours(table) == ["0-0.json", "0-1.json", "0.stats", "0.stats", "field-ids-0.json"]


def test_an_id_never_changes_its_meaning(table):
    """A column that comes gets one that no column ever had; one that comes back gets its own."""
    analyze(str(table.path))
    table.commit(table.metadata({"c": "long", "b": "long"}))
    assert ids(table) == {"c": 3, "b": 2}
    analyze(str(table.path))
    table.commit(table.metadata({"d": "long", "a": "long", "c": "long", "b": "long"}))
    assert ids(table) == {"d": 4, "a": 1, "c": 3, "b": 2}
    analyze(str(table.path))
    assert ids(table, 0) == {"a": 1, "b": 2}
    assert "field-ids-2.json" in ours(table)


def test_a_column_that_is_gone_has_no_statistics_and_one_that_is_back_is_read_anew(table):
    """Its rows are in the old files still, so nothing of what was known of it has become wrong."""
    analyze(str(table.path))
    table.commit(table.metadata({"a": "long"}))
    analyze(str(table.path))
    assert ndvs(table) == {"a": 3}
    table.commit(table.metadata())
    assert ndvs(table) == {"a": 3, "b": 3}
    assert analyze(str(table.path)).snapshot.snapshot_id == table.version - 1
    assert ndvs(table) == {"a": 3, "b": 3}


def test_what_is_inside_of_structs_has_ids_too(delta_table):
    struct = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    table = delta_table(types={"s": struct, "a": "long"})
    table.commit(table.add({"s": pa.array([{"x": 1}]), "a": [1]}))
    analyze(str(table.path))
    table.commit(table.metadata({"b": "long", "a": "long", "s": struct}))
    assert ids(table) == {"b": 4, "a": 2, "s.x": 3}


def test_a_statistics_file_says_what_its_ids_mean(table):
    """For who has the file alone."""
    report = analyze(str(table.path))
    with LocalStore().open_source(report.entry.statistics_path) as source:
        properties = PuffinReader(source).file_metadata.properties
    assert json.loads(properties[FIELD_IDS]) == {"a": 1, "b": 2}


def test_ids_of_column_mapping_are_the_tables_own(delta_table):
    """A column that was dropped and is back is another one, of the same name."""
    table = delta_table(types={"a": "long"})

    def mapped(**columns):
        fields = [
            {
                "name": name,
                "type": "long",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": f"col-{field_id}"},
            }
            for name, field_id in columns.items()
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        return table.metadata(schemaString=schema, configuration={"delta.columnMapping.mode": "name"})

    table.commit(table.protocol(2, 5), mapped(a=7, b=9), table.add({"col-7": [1, 2], "col-9": [3, 4]}))
    analyze(str(table.path))
    assert ours(table) == ["0-0.json", "0.stats"]
    assert ndvs(table) == {"a": 2, "b": 2}
    table.commit(mapped(renamed=7, b=10))
    assert ids(table) == {"renamed": 7, "b": 10}
    assert ndvs(table) == {"renamed": 2, "b": None}
    report = analyze(str(table.path))
    assert {c.column.name: (c.basis, c.ndv) for c in report.columns} == {"renamed": ("carried", 2), "b": ("full", 0)}
    assert sorted(blob.fields for blob in report.entry.blobs) == [(7,), (10,)]


def test_the_ids_of_another_table_do_not_make_its_statistics_ours(table):
    analyze(str(table.path))
    table.commit(table.metadata({"b": "long"}, id="another"), table.add({"b": [9]}))
    assert ndvs(table) == {"b": None}
    analyze(str(table.path))
    assert ids(table) == {"b": 2}
    assert ndvs(table) == {"b": 4}


def test_jobs_that_give_ids_at_once_agree_on_them(table):
    """Also if they are about different columns."""
    with ThreadPoolExecutor(2) as pool:
        barrier = threading.Barrier(2)

        def job(column):
            barrier.wait()
            return analyze(str(table.path), Options(columns=(column,)))

        list(pool.map(job, "ab"))
    assert ids(table) == {"a": 1, "b": 2}
    assert ndvs(table, snapshot_id=0) == {"a": 3, "b": 3}
    assert "field-ids-1.json" not in ours(table)


# --- commits ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def meanwhile(monkeypatch):
    """Does something once, just before a table commits."""

    def arrange(action):
        commit, actions = DeltaSnapshot.commit, [action]

        def late(opened, entry):
            if actions:
                actions.pop()()
            return commit(opened, entry)

        monkeypatch.setattr(DeltaSnapshot, "commit", late)

    return arrange


def test_a_job_that_comes_second_adds_to_what_the_first_one_found(table, draft_of, meanwhile):
    loaded, other = open_table(table), open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    meanwhile(lambda: commit_statistics(other, draft_of(other, {"b": range(5)})))
    committed = commit_statistics(loaded, draft, sleep=lambda _: None)
    assert committed.attempts == 2
    assert ndvs(table) == {"a": 3, "b": 5}
    assert ours(table) == ["0-0.json", "0-1.json", "0.stats", "0.stats", "field-ids-0.json"]


def test_of_two_jobs_about_one_column_the_second_counts(table, draft_of, meanwhile):
    loaded, other = open_table(table), open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    meanwhile(lambda: commit_statistics(other, draft_of(other, {"a": range(5)})))
    assert commit_statistics(loaded, draft, sleep=lambda _: None).attempts == 2
    assert ndvs(table) == {"a": 3, "b": None}


def test_commits_of_others_to_the_table_do_not_matter(table, draft_of, meanwhile):
    """Statistics are of a version, and that stays what it is."""
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    meanwhile(lambda: table.commit(table.metadata({"b": "long"}), table.add({"b": [0]})))
    assert commit_statistics(loaded, draft).attempts == 1
    assert ndvs(table, snapshot_id=0) == {"a": 3, "b": None}
    assert ndvs(table) == {"b": None}


def test_an_older_version_gets_statistics_after_a_newer_one(table, draft_of):
    """Each counts for its own, and for those after it that have none."""
    newer = table.commit(table.add({"a": [9], "b": [9]}))
    loaded = open_table(table)
    commit_statistics(loaded, draft_of(loaded, {"a": range(9)}))
    analyze(str(table.path), Options(selector=SnapshotSelector(snapshot_id=0)))
    assert ndvs(table, snapshot_id=0) == {"a": 3, "b": 3}
    assert ndvs(table, snapshot_id=newer) == {"a": 9, "b": 3}
    assert ours(table) == ["0-0.json", "0.stats", "1-0.json", "1.stats", "field-ids-0.json"]


def test_a_note_in_the_log_names_the_statistics_file(table):
    report = analyze(str(table.path))
    (line,) = (x for x in table.entry(1).read_text().splitlines() if "commitInfo" in x)
    note = json.loads(line)["commitInfo"]["puffinSidecar"]
    assert note == {"version": 0, "statisticsFile": str(Path(report.entry.statistics_path).relative_to(table.path))}


def test_statistics_count_although_the_log_cannot_be_written_to(table, draft_of, meanwhile, monkeypatch, caplog):
    """The note in the log is a hint, and a warning says that there is none."""
    loaded = open_table(table)
    put = LocalStore.put_if_absent

    def full(self, uri, data):
        if Path(uri).parent.name == "_delta_log":
            raise StorageError(f"{uri}: no space left")
        put(self, uri, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", full)
    assert commit_statistics(loaded, draft_of(loaded, {"a": range(3)})).attempts == 1
    assert "the log has no note of them" in caplog.text
    assert table.version == 0
    assert ndvs(table) == {"a": 3, "b": None}


def test_an_outcome_that_is_not_known_keeps_the_file(table, draft_of, monkeypatch):
    """The store failed while the entry was put: it may be there."""
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})

    def fail(self, uri, *data):
        raise StorageError(f"{uri}: no answer")

    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "put_if_absent", fail)
        read = LocalStore.read
        patch.setattr(LocalStore, "read", lambda self, uri: (fail if "_puffin_sidecar" in uri else read)(self, uri))
        with pytest.raises(CommitUnknownError, match="the statistics file is kept"):
            commit_statistics(loaded, draft, sleep=lambda _: None)
    assert ours(table) == ["0.stats"]


def test_a_table_that_is_another_by_now_gets_no_statistics(table, draft_of):
    """The file is gone again, and nothing else was written."""
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    shutil.rmtree(table.log)
    table.log.mkdir()
    table.commit(table.metadata(id="another"), table.protocol())
    with pytest.raises(TableNotFound, match=r"expected table .*, found another: another has its place"):
        commit_statistics(loaded, draft)
    assert not (table.log / "_puffin_sidecar").exists()


def test_a_version_that_is_gone_by_now_gets_no_statistics(table, draft_of):
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    table.entry(0).unlink()
    checkpoint = table.log / f"{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    checkpoint.write_text("\n".join(map(json.dumps, [table.protocol(), table.metadata()])))
    with pytest.raises(SnapshotNotFound, match="version 0 can no longer be made"):
        commit_statistics(loaded, draft)
    assert not (table.log / "_puffin_sidecar").exists()


def test_a_table_that_may_not_be_committed_to_is_refused_before_anything_is_read(table):
    table.commit(table.protocol(1, 7, writerFeatures=["mindReading"]))
    (table.path / "part-1.parquet").unlink()
    with pytest.raises(UnsupportedTableError, match=r"mindReading: .* use --no-commit"):
        analyze(str(table.path))
    assert not (table.log / "_puffin_sidecar").exists()


def test_files_that_a_week_of_jobs_has_superseded_are_removed(table):
    """By the next commit, once no reader can be looking for them any more."""
    for _ in range(3):
        analyze(str(table.path), Options(mode="full"))
    long_ago = (datetime.datetime.now() - datetime.timedelta(days=8)).timestamp()
    for path in (table.log / "_puffin_sidecar").iterdir():
        os.utime(path, (long_ago, long_ago))
    analyze(str(table.path), Options(mode="full"))
    assert ours(table) == ["0-2.json", "0-3.json", "0.stats", "0.stats", "field-ids-0.json"]
    assert ndvs(table) == {"a": 3, "b": 3}


def test_no_value_is_certain(table):
    """Nobody else writes sketches of Delta tables, so there are none to check."""
    opened = open_table(table).open()
    assert opened.certain_values(opened.snapshot, opened.state.columns) == {}


def test_there_are_no_partition_statistics_files(table):
    """Sketches by partition are in the statistics file, which every format has."""
    assert not isinstance(open_table(table).open(), PartitionStatistics)


# --- where the table is -----------------------------------------------------------------------------------------------


def test_a_table_that_was_moved_has_its_statistics(table, tmp_path):
    """Also for the next job, which builds on them."""
    analyze(str(table.path))
    moved = tmp_path / "else where" / "t2"
    moved.parent.mkdir()
    shutil.move(table.path, moved)
    assert [c.ndv for c in ndv(str(moved)).columns] == [3, 3]
    assert analyze(str(moved)).current
    pq.write_table(pa.table({"a": [9], "b": [9]}), moved / "part-9.parquet")
    size = (moved / "part-9.parquet").stat().st_size
    add = {"path": "part-9.parquet", "partitionValues": {}, "size": size, "dataChange": True}
    (moved / "_delta_log" / f"{2:020d}.json").write_text(json.dumps({"add": add}))
    assert [(c.ndv, c.basis) for c in analyze(str(moved)).columns] == [(4, "added-files")] * 2


def test_a_relative_path_is_that_of_the_working_directory(table, monkeypatch):
    """Of the one at the time; executors, and we ourselves later, may have another."""
    monkeypatch.chdir(table.path.parent)
    loaded = load_table(table.path.name)
    monkeypatch.chdir("/")
    assert loaded.name == "t"
    opened = loaded.open()
    assert opened.state.location == str(table.path)
    (task,) = opened.tasks
    assert task.data_file.file_path == str(table.path / "part-1.parquet")
    assert analyze(loaded).entry.statistics_path.startswith(str(table.log / "_puffin_sidecar"))


@pytest.mark.parametrize("name", ["{}", "{}/", "file:{}", "file://{}", "file://localhost{}"])
def test_every_kind_of_name_is_of_the_same_table(table, name):
    analyze(str(table.path))
    assert [c.ndv for c in ndv(name.format(table.path)).columns] == [3, 3]


# --- listings ---------------------------------------------------------------------------------------------------------


class LateStore(LocalStore):
    """A store whose first listings lack a file, as those that race with its writer may."""

    def __init__(self, missing: str, times: int) -> None:
        self.missing = missing
        self.left = times

    def list(self, directory_uri):
        found = super().list(directory_uri)
        if self.left > 0:
            self.left -= 1
            return [file for file in found if file.name != self.missing]
        return found


@pytest.mark.parametrize("version", [None, 2])
def test_a_listing_with_a_gap_is_made_once_more(table, version):
    """It may have missed a log entry that came while it was under way; a gap that stays is one."""
    table.note()
    table.note()
    name = table.entry(1).name
    assert DeltaLog(str(table.path), LateStore(name, 1)).segment(version).version == 2
    with pytest.raises(CorruptMetadataError, match=rf"{name}: expected this log entry"):
        DeltaLog(str(table.path), LateStore(name, 2)).segment(version)


@pytest.mark.parametrize("late", [False, True])
def test_a_job_whose_ids_another_one_was_faster_to_give_otherwise_fails(delta_table, draft_of, meanwhile, late):
    """While it computed, or even as it commits: what it has of one column would count for another."""
    table = delta_table(types={"b": "long", "a": "long"})
    table.commit(table.add({"b": [3], "a": [1]}))
    table.commit(table.metadata({"a": "long", "b": "long"}), table.add({"a": [1, 2], "b": [3, 3]}))
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(2), "b": range(1)})

    def other():
        analyze(str(table.path), Options(selector=SnapshotSelector(snapshot_id=0)))

    meanwhile(other) if late else other()
    with pytest.raises(ConflictError, match="other field ids"):
        commit_statistics(loaded, draft, sleep=lambda _: None)
    assert ours(table) == ["0-0.json", "0.stats", "field-ids-0.json"]
    analyze(str(table.path))
    assert ids(table) == {"b": 1, "a": 2}
    assert ndvs(table) == {"a": 2, "b": 1}
