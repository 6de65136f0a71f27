"""A version of a Delta table as a state: its snapshot, the versions it knows, and its statistics."""

import json
import os
import re

import pytest

from puffin.delta.directory import DeltaDirectory
from puffin.delta.log.replay import DeltaLog
from puffin.errors import SnapshotNotFound
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.storage import LocalStore
from puffin.tables.base import NOTHING, REPLACE, SnapshotSelector
from puffin.tables.commit import commit_statistics
from stats_jobs import analyze as run_analyze


@pytest.fixture
def table(delta_table):
    """A table with one version, in which each column has three values."""
    table = delta_table()
    table.commit(table.add({"a": [1, 2, 3], "b": [4, 5, 6]}))
    return table


@pytest.fixture
def analyze(draft_of):
    """Commits statistics of a version in which each column has so many values; the note ends the log."""

    def run(table, count, version=None, columns=("a", "b")):
        loaded = load_table(str(table.path))
        return commit_statistics(loaded, draft_of(loaded, {column: range(count) for column in columns}, version)).entry

    return run


def load(table, version=None, as_of_ms=None):
    return load_table(str(table.path)).open(SnapshotSelector(snapshot_id=version, as_of_ms=as_of_ms)).state


def append(table):
    return table.commit(table.add({"a": [0], "b": [0]}))


def clean_up_before(table, version, *files):
    """A checkpoint of the version is all that makes it, and no earlier one can be made."""
    checkpoint = table.log / f"{version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    checkpoint.write_text("\n".join(map(json.dumps, [table.protocol(), table.metadata(), *files])))
    for earlier in range(version):
        table.entry(earlier).unlink()


# --- what a state is of -----------------------------------------------------------------------------------------------


def test_current_version_is_the_newest_except_for_notes(table):
    for notes in range(3):
        assert load(table).current_snapshot_id == 0
        assert load(table).metadata_location == str(table.entry(notes))
        table.note()
    assert append(table) == 4
    assert load(table).current_snapshot_id == 4


def test_first_version_is_never_a_note(delta_table):
    """It has a schema, however empty the table is."""
    table = delta_table()
    table.commit()
    table.note()
    state = load(table)
    assert (state.current_snapshot_id, state.snapshots[0].operation) == (0, REPLACE)


def test_requested_version_may_be_a_note(table):
    append(table)
    note = table.note()
    append(table)
    state = load(table, note)
    assert state.current_snapshot_id == note
    assert state.snapshot(note).is_note
    assert state.settled(state.snapshot(note)).snapshot_id == note - 1
    assert note + 1 not in state.snapshots


def test_statistics_of_a_note_are_current_over_those_before(table, analyze):
    """A run that is asked for a note by its number stores statistics of the note; a table has the same rows there."""
    analyze(table, 3)
    note = table.version
    entry = analyze(table, 3, note)
    assert entry.snapshot_id == note
    state = load(table)
    assert state.current_snapshot_id == note
    assert state.settled(state.snapshot(note)).snapshot_id == note
    assert [(c.ndv, c.stats_snapshot_id) for c in ndv(str(table.path)).columns] == [(3, note), (3, note)]


@pytest.mark.parametrize("version", [-1, 1, 10**30])
def test_nonexistent_version_is_not_found(table, version):
    with pytest.raises(SnapshotNotFound, match=rf"no version {version}; the newest is 0"):
        load(table, version)


def test_version_by_time_skips_notes(table):
    note = table.note()
    append(table)
    for version in range(3):
        os.utime(table.entry(version), ns=(0, (1000 + 1000 * version) * 10**6))
    assert [load(table, as_of_ms=at).current_snapshot_id for at in (1000, 1999, 2000, 2999, 3000, 9000)] == [
        *[0] * 4,
        *[2] * 2,
    ]
    state = load(table, as_of_ms=2500)
    assert state.select_snapshot(SnapshotSelector(as_of_ms=2500)).snapshot_id == 0
    assert state.metadata_location == str(table.entry(note))
    with pytest.raises(SnapshotNotFound, match="no version is that old"):
        load(table, as_of_ms=999)


def test_delta_tables_have_no_branches(table):
    state = load(table)
    with pytest.raises(SnapshotNotFound, match="no branch or tag 'main'"):
        state.select_snapshot(SnapshotSelector(ref="main"))


def test_schema_is_that_of_the_version(table):
    """With its partition columns, names, types and properties."""
    table.commit(table.metadata({"a": "string", "c": "date"}, partitionColumns=["c"], configuration={"x": "1"}))
    old, new = load(table, 0), load(table)
    assert [(c.name, c.type) for c in old.columns] == [("a", "long"), ("b", "long")]
    assert [(c.name, c.type) for c in new.columns] == [("a", "string"), ("c", "date")]
    assert (old.document["partition-specs"][0]["fields"], old.properties) == ([], {})
    (field,) = new.document["partition-specs"][0]["fields"]
    assert field == {"field-id": 1000, "source-id": new.columns[1].field_id, "name": "c", "transform": "identity"}
    assert new.properties == {"x": "1"}
    assert (new.uuid, new.location, new.format) == (old.uuid, str(table.path), "delta")


# --- what versions do -------------------------------------------------------------------------------------------------


def operations(table):
    log = DeltaLog(str(table.path), LocalStore())
    return {version: load(table, version).snapshots[version].operation for version in range(log.segment().version + 1)}


def test_operation_follows_from_the_actions(table):
    """Moving rows, or changing only schema and properties, keeps them."""
    one, two = table.add({"a": [1], "b": [1]}), table.add({"a": [2], "b": [2]})
    moved = {"add": {**two["add"], "dataChange": False}}
    expected = {
        0: "append",
        table.commit(one): "append",
        table.commit(table.remove(one, dataChange=False), moved): REPLACE,
        table.commit(moved): REPLACE,
        table.commit(table.remove(two)): "delete",
        table.commit(one): "append",
        table.commit(*table.delete_rows(one, [0])): "overwrite",
        table.commit(table.metadata()): REPLACE,
        table.commit(table.protocol()): REPLACE,
        table.commit({"txn": {"appId": "x", "version": 1}}): NOTHING,
        table.commit({"domainMetadata": {"domain": "x", "configuration": "", "removed": False}}): NOTHING,
        table.commit(): NOTHING,
    }
    assert operations(table) == expected


def test_compaction_that_also_adds_rows_is_no_compaction(table):
    table.commit(table.add({"a": [1], "b": [1]}, dataChange=False), table.add({"a": [2], "b": [2]}))
    assert operations(table)[1] == "append"


# --- which versions and statistics are known --------------------------------------------------------------------------


def test_only_the_version_itself_is_known_without_statistics(table):
    """Older ones tell nothing, and each would cost a read."""
    for _ in range(5):
        append(table)
    assert list(load(table).snapshots) == [5]
    table.note()
    assert list(load(table).snapshots) == [6, 5]


def test_versions_are_known_back_to_the_statistics(table, analyze):
    append(table)
    analyze(table, 4)  # of version 1, its note is version 2
    for _ in range(3):
        append(table)
    state = load(table)
    assert list(state.snapshots) == [5, 4, 3, 2, 1]
    assert [s.parent_id for s in state.snapshots.values()] == [4, 3, 2, 1, None]
    assert [s.sequence_number for s in state.snapshots.values()] == list(state.snapshots)
    assert list(state.statistics) == [1]


def test_versions_are_known_back_to_the_oldest_counted_rows(table, analyze):
    """An entry keeps what an older one said of its other columns."""
    analyze(table, 3)
    append(table)
    entry = analyze(table, 4, columns=("a",))
    assert sorted((blob.fields, blob.snapshot_id) for blob in entry.blobs) == [((1,), 2), ((2,), 0)]
    append(table)
    state = load(table)
    assert list(state.snapshots) == [4, 3, 2, 1, 0]
    assert list(state.statistics) == [2]


def test_entries_are_read_until_every_column_is_found(table, analyze):
    """Earlier ones say nothing new."""
    analyze(table, 3)
    append(table)
    analyze(table, 4)
    assert list(load(table).statistics) == [2]
    table.commit(table.metadata({"a": "long", "b": "long", "c": "long"}))
    assert list(load(table).statistics) == [2, 0]


def test_statistics_of_later_versions_are_ignored(table, analyze):
    append(table)
    analyze(table, 4)
    assert load(table, 0).statistics == {}
    assert [c.source for c in ndv(str(table.path), snapshot_id=0).columns] == ["missing", "missing"]


def test_operation_and_time_of_a_version_without_a_log_entry_are_unknown(table, analyze):
    """It counts as one that changed rows."""
    analyze(table, 3)
    append(table)
    clean_up_before(table, 2)
    append(table)
    state = load(table)
    assert {version: snapshot.operation for version, snapshot in state.snapshots.items()} == {
        3: "append",
        2: "append",
        1: None,
        0: None,
    }
    assert [version for version, snapshot in state.snapshots.items() if snapshot.timestamp_ms is None] == [1, 0]
    assert [c.ndv for c in ndv(str(table.path), max_staleness=2).columns] == [None, None]
    assert [c.ndv for c in ndv(str(table.path), max_staleness=3).columns] == [3, 3]


def test_notes_alone_before_a_checkpoint_leave_their_version_to_be_analyzed(table, analyze):
    """It has the rows of the checkpoint, although its log entry has been cleaned up."""
    file = table.add({"a": [1], "b": [1]})
    version = table.commit(file)
    clean_up_before(table, table.note(), file)
    assert load(table, version).current_snapshot_id == version
    assert analyze(table, 3, version).snapshot_id == version
    with pytest.raises(SnapshotNotFound, match="version 0 can no longer be made"):
        load(table, 0)


# --- what a lookup makes of it ----------------------------------------------------------------------------------------


def test_statistics_stay_current_over_notes(table, analyze):
    """The answer is of the version that the notes are about."""
    analyze(table, 3)
    table.note()
    answer = ndv(str(table.path))
    assert answer.snapshot_id == 0
    assert [(c.ndv, c.stats_snapshot_id, c.source) for c in answer.columns] == [(3, 0, "snapshot")] * 2


def test_requested_note_has_the_statistics_of_its_version(table, analyze):
    """They are of the same rows but another version, and not stale."""
    analyze(table, 3)
    note = table.note()
    append(table)
    answer = ndv(str(table.path), snapshot_id=note, max_staleness=0)
    assert answer.snapshot_id == note
    assert [(c.ndv, c.stats_snapshot_id, c.source) for c in answer.columns] == [(3, 0, "ancestor")] * 2


@pytest.mark.parametrize(("staleness", "known"), [(None, True), (2, True), (1, False), (0, False)])
def test_staleness_counts_versions_that_changed_rows(table, analyze, staleness, known):
    """Not notes, compactions and schema changes."""
    analyze(table, 3)
    one = table.add({"a": [1], "b": [1]})
    table.commit(one)
    table.note()
    table.commit(table.remove(one, dataChange=False), table.add({"a": [1], "b": [1]}, dataChange=False))
    table.commit(table.metadata())
    table.commit(table.remove(one))
    table.note()
    answers = ndv(str(table.path), max_staleness=staleness).columns
    assert [c.ndv for c in answers] == [3 if known else None] * 2


def test_replaced_table_has_no_statistics(table, analyze):
    analyze(table, 3)
    table.commit(table.metadata(id="another"))
    assert load(table).statistics == {}


def test_state_looks_for_no_statistics_of_a_column_that_has_none(table, analyze, monkeypatch):
    analyze(table, 3)
    table.commit(table.metadata({"a": "long", "b": "long", "v": "variant"}))
    analyze(table, 3)
    asked = []
    read = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda self, uri: asked.append(uri) or read(self, uri))
    assert set(load(table).statistics) == {2}
    assert not [uri for uri in asked if uri.endswith("/0-0.json")]


@pytest.fixture
def restored(table, analyze):
    """Versions 0 and 2 have statistics; then log entries 2 and 3 are lost, and other rows make another version 2."""
    analyze(table, 3)
    analyze(table, 4, append(table))
    for lost in (2, 3):
        table.entry(lost).unlink()
    table.commit(table.add({"a": [7, 8], "b": [7, 8]}))
    return table


def test_statistics_of_a_lost_version_are_not_those_of_the_next_one_with_its_number(restored):
    assert set(load(restored).statistics) == {0}
    answers = ndv(str(restored.path)).columns
    assert [(c.ndv, c.stats_snapshot_id, c.freshness.records_added) for c in answers] == [(3, 0, 2)] * 2


def test_new_version_gets_statistics_beside_those_of_the_lost_one(restored):
    assert run_analyze(str(restored.path)).rows_read == 2
    assert {"2-0.json", "2-1.json"} <= {path.name for path in (restored.log / "_puffin_sidecar").iterdir()}
    assert [(c.ndv, c.stats_snapshot_id) for c in ndv(str(restored.path)).columns] == [(5, 2)] * 2


def test_entry_that_names_no_log_entry_is_taken_as_it_is(restored):
    """Version 0.1.0 wrote none."""
    path = restored.log / "_puffin_sidecar" / "2-0.json"
    entry = json.loads(path.read_text())
    assert re.fullmatch("[0-9]+-[0-9a-f]{8}", entry.pop("log-entry"))
    path.write_text(json.dumps(entry))
    assert set(load(restored).statistics) == {2}


def test_statistics_stay_once_the_log_entry_is_cleaned_up(table, analyze):
    analyze(table, 3)
    clean_up_before(table, 1, table.add({"a": [1, 2, 3], "b": [4, 5, 6]}))
    assert set(load(table).statistics) == {0}


def test_state_needs_one_listing_of_each_directory(table, analyze, monkeypatch):
    """A lookup also reads the log entries since the statistics, and the entry."""
    analyze(table, 3)
    append(table)
    asked = []
    for name in ("list", "read"):
        original = getattr(LocalStore, name)
        monkeypatch.setattr(LocalStore, name, lambda self, uri, f=original: asked.append(uri) or f(self, uri))
    DeltaDirectory(str(table.path)).open()
    ours = table.log / "_puffin_sidecar"
    assert sorted(asked) == sorted(
        map(str, [table.log, ours, *map(table.entry, range(3)), ours / "0-0.json", ours / "field-ids-0.json"])
    )
