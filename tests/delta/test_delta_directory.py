"""A Delta table's directory as a table: stable field ids, commits of several jobs, moved tables."""

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
from puffin.format import THETA_V1, PuffinReader
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.statistics.damage import PRESTOS
from puffin.storage import LocalStore
from puffin.tables.base import SnapshotSelector
from puffin.tables.commit import commit_statistics
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
    """The names of our files; those of statistics files without their unique part."""
    names = (path.name for path in (table.log / "_puffin_sidecar").iterdir())
    return sorted(f"{name.partition('-')[0]}.stats" if name.endswith(".stats") else name for name in names)


# --- field ids --------------------------------------------------------------------------------------------------------


def test_ids_are_stored_with_the_first_statistics(table):
    """A lookup assigns ids too, but stores none."""
    assert ids(table) == {"a": 1, "b": 2}
    assert ndvs(table) == {"a": None, "b": None}
    assert not (table.log / "_puffin_sidecar").exists()
    analyze(str(table.path))
    assert ours(table) == ["0-0.json", "0.stats", "field-ids-0.json"]
    analyze(str(table.path), Options(mode="full"))
    assert ours(table) == ["0-0.json", "0-1.json", "0.stats", "0.stats", "field-ids-0.json"]


def test_id_never_changes_its_meaning(table):
    """A new column gets an unused id; one that returns gets its own."""
    analyze(str(table.path))
    table.commit(table.metadata({"c": "long", "b": "long"}))
    assert ids(table) == {"c": 3, "b": 2}
    analyze(str(table.path))
    table.commit(table.metadata({"d": "long", "a": "long", "c": "long", "b": "long"}))
    assert ids(table) == {"d": 4, "a": 1, "c": 3, "b": 2}
    analyze(str(table.path))
    assert ids(table, 0) == {"a": 1, "b": 2}
    assert "field-ids-2.json" in ours(table)


def test_returning_column_is_read_again(table):
    """A dropped column has no statistics; its rows are still in the old files, so nothing known of it is wrong."""
    analyze(str(table.path))
    table.commit(table.metadata({"a": "long"}))
    analyze(str(table.path))
    assert ndvs(table) == {"a": 3}
    table.commit(table.metadata())
    assert ndvs(table) == {"a": 3, "b": 3}
    assert analyze(str(table.path)).snapshot.snapshot_id == table.version - 1
    assert ndvs(table) == {"a": 3, "b": 3}


def test_fields_inside_structs_have_ids_too(delta_table):
    struct = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    table = delta_table(types={"s": struct, "a": "long"})
    table.commit(table.add({"s": pa.array([{"x": 1}]), "a": [1]}))
    analyze(str(table.path))
    table.commit(table.metadata({"b": "long", "a": "long", "s": struct}))
    assert ids(table) == {"b": 4, "a": 2, "s.x": 3}


def test_statistics_file_explains_its_ids(table):
    """For readers of the file alone."""
    report = analyze(str(table.path))
    with LocalStore().open_source(report.entry.statistics_path) as source:
        properties = PuffinReader(source).file_metadata.properties
    assert json.loads(properties[FIELD_IDS]) == {"a": 1, "b": 2}


def test_column_mapping_ids_are_the_tables_own(delta_table):
    """A column that is dropped and added again is another one of the same name."""
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


def test_ids_of_another_table_do_not_make_its_statistics_ours(table):
    analyze(str(table.path))
    table.commit(table.metadata({"b": "long"}, id="another"), table.add({"b": [9]}))
    assert ndvs(table) == {"b": None}
    analyze(str(table.path))
    assert ids(table) == {"b": 2}
    assert ndvs(table) == {"b": 4}


def test_jobs_that_assign_ids_at_once_agree_on_them(table):
    """Even for different columns."""
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


def test_second_job_adds_to_the_statistics_of_the_first(table, draft_of, meanwhile):
    loaded, other = open_table(table), open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    meanwhile(lambda: commit_statistics(other, draft_of(other, {"b": range(5)})))
    committed = commit_statistics(loaded, draft, sleep=lambda _: None)
    assert committed.attempts == 2
    assert ndvs(table) == {"a": 3, "b": 5}
    assert ours(table) == ["0-0.json", "0-1.json", "0.stats", "0.stats", "field-ids-0.json"]


def test_second_of_two_jobs_on_one_column_wins(table, draft_of, meanwhile):
    loaded, other = open_table(table), open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    meanwhile(lambda: commit_statistics(other, draft_of(other, {"a": range(5)})))
    assert commit_statistics(loaded, draft, sleep=lambda _: None).attempts == 2
    assert ndvs(table) == {"a": 3, "b": None}


def test_other_commits_to_the_table_do_not_matter(table, draft_of, meanwhile):
    """Statistics describe a version, which never changes."""
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    meanwhile(lambda: table.commit(table.metadata({"b": "long"}), table.add({"b": [0]})))
    assert commit_statistics(loaded, draft).attempts == 1
    assert ndvs(table, snapshot_id=0) == {"a": 3, "b": None}
    assert ndvs(table) == {"b": None}


def test_older_version_can_get_statistics_after_a_newer_one(table, draft_of):
    """Each counts for its version, and for later ones that have none."""
    newer = table.commit(table.add({"a": [9], "b": [9]}))
    loaded = open_table(table)
    commit_statistics(loaded, draft_of(loaded, {"a": range(9)}))
    analyze(str(table.path), Options(selector=SnapshotSelector(snapshot_id=0)))
    assert ndvs(table, snapshot_id=0) == {"a": 3, "b": 3}
    assert ndvs(table, snapshot_id=newer) == {"a": 9, "b": 3}
    assert ours(table) == ["0-0.json", "0.stats", "1-0.json", "1.stats", "field-ids-0.json"]


def test_note_in_the_log_names_the_statistics_file(table):
    report = analyze(str(table.path))
    (line,) = (x for x in table.entry(1).read_text().splitlines() if "commitInfo" in x)
    note = json.loads(line)["commitInfo"]["puffinSidecar"]
    assert note == {"version": 0, "statisticsFile": str(Path(report.entry.statistics_path).relative_to(table.path))}


def test_statistics_count_even_if_the_log_is_not_writable(table, draft_of, meanwhile, monkeypatch, caplog):
    """The note in the log is only a hint; a warning says that it is missing."""
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


def test_failed_repair_of_an_earlier_entry_keeps_the_committed_statistics(table, monkeypatch, caplog):
    analyze(str(table.path))
    earlier = table.log / "_puffin_sidecar" / "0-0.json"
    earlier.write_text(earlier.read_text().replace(THETA_V1, PRESTOS[0]))
    table.commit(table.add({"a": [9], "b": [9]}))
    put = LocalStore.put_if_absent

    def full(self, uri, data):
        if uri.endswith("/0-1.json"):
            raise StorageError(f"{uri}: no space left")
        put(self, uri, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", full)
    report = analyze(str(table.path))
    assert Path(report.entry.statistics_path).stat().st_size == report.entry.file_size_in_bytes
    assert "earlier entries are not repaired" in caplog.text


def test_unknown_outcome_keeps_the_file(table, draft_of, monkeypatch):
    """The store failed while putting the entry, which may exist."""
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


def test_replaced_table_gets_no_statistics(table, draft_of):
    """The file is deleted, and nothing else was written."""
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    shutil.rmtree(table.log)
    table.log.mkdir()
    table.commit(table.metadata(id="another"), table.protocol())
    with pytest.raises(TableNotFound, match=r"expected table .*, found another: another table has replaced it"):
        commit_statistics(loaded, draft)
    assert not (table.log / "_puffin_sidecar").exists()


def test_deleted_version_gets_no_statistics(table, draft_of):
    loaded = open_table(table)
    draft = draft_of(loaded, {"a": range(3)})
    table.entry(0).unlink()
    checkpoint = table.log / f"{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    checkpoint.write_text("\n".join(map(json.dumps, [table.protocol(), table.metadata()])))
    with pytest.raises(SnapshotNotFound, match="version 0 can no longer be made"):
        commit_statistics(loaded, draft)
    assert not (table.log / "_puffin_sidecar").exists()


def test_table_that_cannot_be_committed_to_is_refused_before_reading(table):
    table.commit(table.protocol(1, 7, writerFeatures=["mindReading"]))
    (table.path / "part-1.parquet").unlink()
    with pytest.raises(UnsupportedTableError, match=r"mindReading: .* use puffin analyze --no-commit"):
        analyze(str(table.path))
    assert not (table.log / "_puffin_sidecar").exists()


def test_next_commit_removes_files_superseded_a_week_ago(table):
    """By then no reader can be looking for them."""
    for _ in range(3):
        analyze(str(table.path), Options(mode="full"))
    long_ago = (datetime.datetime.now() - datetime.timedelta(days=8)).timestamp()
    for path in (table.log / "_puffin_sidecar").iterdir():
        os.utime(path, (long_ago, long_ago))
    analyze(str(table.path), Options(mode="full"))
    assert ours(table) == ["0-2.json", "0-3.json", "0.stats", "0.stats", "field-ids-0.json"]
    assert ndvs(table) == {"a": 3, "b": 3}


def test_delta_tables_have_no_certain_values(table):
    """Nobody else writes their sketches, so there are none to check."""
    opened = open_table(table).open()
    assert opened.certain_values(opened.snapshot, opened.state.columns) == {}


def test_delta_tables_have_no_partition_statistics_files(table):
    """Partition sketches do not need them."""
    opened = open_table(table).open()
    assert (opened.keeps_partition_statistics(), opened.partition_statistics_writer()) == (False, None)


# --- where the table is -----------------------------------------------------------------------------------------------


def test_moved_table_keeps_its_statistics(table, tmp_path):
    """The next job builds on them."""
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


def test_relative_path_is_resolved_once(table, monkeypatch):
    """Executors, and later this process, may have another working directory."""
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
def test_every_kind_of_name_opens_the_same_table(table, name):
    analyze(str(table.path))
    assert [c.ndv for c in ndv(name.format(table.path)).columns] == [3, 3]


# --- listings ---------------------------------------------------------------------------------------------------------


class LateStore(LocalStore):
    """A store whose first listings lack a file, as in a race with its writer."""

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
def test_listing_with_a_gap_is_repeated_once(table, version):
    """It may have missed a log entry written meanwhile; a gap that stays is real."""
    table.note()
    table.note()
    name = table.entry(1).name
    assert DeltaLog(str(table.path), LateStore(name, 1)).segment(version).version == 2
    with pytest.raises(CorruptMetadataError, match=rf"{name}: expected this log entry"):
        DeltaLog(str(table.path), LateStore(name, 2)).segment(version)


@pytest.mark.parametrize("late", [False, True])
def test_job_fails_if_another_assigned_its_ids_differently(delta_table, draft_of, meanwhile, late):
    """Before or during its commit: its statistics of one column would count for another."""
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
