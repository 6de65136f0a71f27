"""What partition sketches are built on, which files are read for them, and what results."""

from __future__ import annotations

import dataclasses
import logging

import deltalake
import numpy as np
import pyarrow as pa
import pytest

from puffin import ndv
from puffin.errors import CorruptSketchError, FileNotFound
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.scan import changes
from puffin.iceberg.scan.changes import moved_between_specs
from puffin.sketches.partition_sketches import PartitionSketchesBuilder
from puffin.sketches.theta_image import MAX_THETA
from puffin.statistics.aside import Later
from puffin.statistics.bases import Base
from puffin.statistics.kinds import PARTITION_SKETCHES
from puffin.tables.base import SnapshotSelector
from puffin.tables.changes import Changes, Difference
from puffin.tables.scan_task import FileScanTask
from puffin.values.partition_tuples import partition_key
from stats_jobs import Options, analyze
from stats_jobs.partitions import PartitionPlan, carry_partitions, partitions_kept, plan_partitions
from stats_jobs.target import Target
from tests.bound import bound
from tests.scan_files import data_file, whole

FIELD = {"source-id": 2, "field-id": 1000, "name": "b", "transform": "identity"}
SPEC = {"spec-id": 0, "fields": [FIELD]}
NOTHING = Changes((), ())


def file(path: str, value: int, spec_id: int = 0) -> FileScanTask:
    return whole(data_file(path, 10, spec_id=spec_id, partition={"1000": value}))


def key(value: int, spec_id: int = 0):
    return partition_key(spec_id, {"1000": value})


def sketches(*values: int, lg_k: int = 9, hashes=(5,)):
    builder = PartitionSketchesBuilder(lg_k)
    for value in values:
        builder.add(key(value), MAX_THETA, np.array(hashes, np.uint64))
    return builder.compact()


LIVE = [file("one", 1), file("one more", 1), file("two", 2), file("three", 3)]


class Files:
    """The files of snapshot 30, and the changes since each ancestor."""

    def __init__(self, state, live, changes) -> None:
        self.state = state
        self.snapshot = state.snapshot(30)
        self.columns_by_id = state.columns_by_id
        self._live = live
        self._changes = changes
        self.planned = 0

    @property
    def tasks(self):
        self.planned += 1
        return tuple(self._live)

    def changes_since(self, base):
        if isinstance(self._changes, Exception):
            raise self._changes
        return NOTHING if base.snapshot_id == 30 else self._changes

    def moved_since(self, base):
        return moved_between_specs(self, base)


class Stored:
    puts_aside = False

    def __init__(self, found) -> None:
        self._found = found

    def require(self, known, _kind):
        found = self._found[known.entry.snapshot_id]
        if isinstance(found, Exception):
            raise found
        return found

    def where_stored(self, _known, _kind):
        return None


def target_of(files, stored, *columns, **options):
    target = Target.of(files, files.state.select_columns(columns or ("a",)), Options(partitions=True, **options))
    return dataclasses.replace(target, blobs=stored)


def carried_on(files, stored, *columns):
    target = target_of(files, stored, *columns)
    return carry_partitions(target, target.columns)


def entry(snapshot, of, properties):
    blob = {
        "type": "apache-datasketches-theta-v1", "snapshot-id": of, "sequence-number": 1, "fields": [1],
        "properties": properties,
    }  # fmt: skip
    return {
        "snapshot-id": snapshot, "statistics-path": f"{snapshot}.stats", "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 50, "blob-metadata": [blob],
    }  # fmt: skip


PLAIN = {"ndv": "3", "puffin-sidecar.type": "long", "puffin-sidecar.reading": "1"}
OURS = {**PLAIN, "puffin-sidecar.partitions": "3"}


@pytest.fixture
def files_of(table_document):
    """The files of snapshot 30; the snapshots in ``stored`` have partition sketches."""

    def make(stored, *, changes=NOTHING, live=LIVE, of=None, properties=OURS, specs=(SPEC,), edit=lambda _: None):
        entries = [entry(s, of or s, properties) for s in stored or ()]
        document = table_document("t", snapshots=(10, 20, 30), statistics=entries)
        document["partition-specs"] = list(specs)
        edit(document)
        return Files(parse_state(document, "m.json"), live, changes)

    return make


@pytest.fixture
def planned(files_of):
    """Plans column a (field 1, long) of snapshot 30; ``stored`` are partition sketches by the entry's snapshot."""

    def run(stored, **others):
        files = files_of(stored, **others)
        target = target_of(files, Stored(stored), mode="full" if stored is None else "auto")
        plans = plan_partitions(target, is_current=False)
        return plans.by_field.get(1, plans.reason), files

    return run


def paths(plan):
    return [task.data_file.file_path for task in plan.tasks]


def test_every_file_is_read_without_earlier_sketches(planned):
    for stored in (None, {}):
        plan, _ = planned(stored)
        assert (plan, paths(plan)) == (PartitionPlan(9, tuple(LIVE)), ["one", "one more", "two", "three"])


def test_partition_with_only_added_rows_is_extended(planned):
    """Nothing else must be known of the other files."""
    plan, files = planned({20: sketches(1, 2)}, changes=Changes((file("new", 2), file("newer", 9)), ()))
    assert (paths(plan), plan.base_id, plan.stale) == (["new", "newer"], 20, frozenset())
    assert files.planned == 0


def test_live_files_of_a_partition_with_removed_rows_are_read_again(planned):
    changes = Changes((file("one", 1), file("new", 2)), (file("one", 1), file("gone", 7)))
    plan, _ = planned({20: sketches(1, 2, 3, 7)}, changes=changes)
    assert paths(plan) == ["new", "one", "one more"]
    assert plan.stale == {key(1), key(7)}


def test_unchanged_partition_sketches_are_carried(planned):
    base = sketches(1, 2, 3)
    plan, files = planned({20: base})
    assert (plan.tasks, plan.sketches(None), files.planned) == ((), base, 0)


def test_nearest_ancestor_with_partition_sketches_counts(planned):
    assert planned({10: sketches(1), 20: sketches(2)})[0].base_id == 20
    assert planned({10: sketches(1), 20: sketches(2)}, of=10)[0].base_id == 10


def test_unreadable_partition_sketches_fall_back_to_older_ones_with_a_warning(planned, caplog):
    plan, _ = planned({10: sketches(1), 20: CorruptSketchError("cut short")})
    assert plan.base_id == 10
    assert [r.levelno for r in caplog.records if "cut short" in r.message] == [logging.WARNING]


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"properties": {**OURS, "puffin-sidecar.type": "int"}}, "of type int, the column of type string"),
        ({"of": 5}, "has expired"),
        ({"changes": FileNotFound("m.avro: gone")}, "m.avro: gone"),
    ],
)
def test_unusable_partition_sketches_are_recomputed_and_the_log_says_why(planned, caplog, case, says):
    def to_string(document):
        if "properties" in case:
            document["schemas"][0]["fields"][0]["type"] = "string"

    with caplog.at_level(logging.INFO):
        plan, _ = planned({20: sketches(1)}, edit=to_string, **case)
    assert (plan.base, paths(plan)) == (None, ["one", "one more", "two", "three"])
    assert says in caplog.text


def test_partition_sketches_of_version_0_1_0_with_small_decimals_are_recomputed(planned, caplog):
    """The same partition would have two keys."""

    def to_decimal(document):
        document["schemas"][0]["fields"][1]["type"] = "decimal(12, 10)"

    with caplog.at_level(logging.INFO):
        assert planned({20: sketches("1E-10")}, edit=to_decimal)[0].base is None
    assert "of version 0.1.0" in caplog.text
    assert planned({20: sketches("0.0000000001")}, edit=to_decimal)[0].base_id == 20


def test_no_file_is_opened_without_the_mark_of_partition_sketches(planned):
    plan, _ = planned({20: AssertionError("opened")}, properties=PLAIN)
    assert plan.base is None


@pytest.mark.parametrize(
    ("lg_k", "wanted", "used"), [(9, 9, 9), (9, 8, 8), (8, 9, 8), (7, 9, None), (4, 6, None), (4, 4, 4)]
)
def test_approximately_right_size_is_kept(planned, lg_k, wanted, used):
    """Larger sketches are cut; smaller ones are recomputed only if much larger ones are due."""
    partitions = range((1 << 18) >> wanted)
    plan, _ = planned({20: sketches(*partitions, lg_k=lg_k)}, live=[file(f"{i}", i) for i in partitions])
    assert plan.lg_k == (wanted if used is None else used)
    assert (plan.base is None) is (used is None)


def test_table_with_too_many_partitions_keeps_no_sketches_and_says_so(planned, caplog, monkeypatch):
    monkeypatch.setattr("puffin.sketches.partition_sketches.MAX_PARTITIONS", 2)
    for stored in ({}, {20: sketches(1, 2, 3)}):
        reason, _ = planned(stored)
        assert reason == "partition sketches: expected at most 2 partitions, found 3"
        assert reason in caplog.text


@pytest.mark.parametrize("specs", [[], [{**FIELD, "transform": "void"}], [{**FIELD, "source-id": 99}]])
def test_unpartitioned_table_keeps_no_sketches(planned, specs):
    assert planned({}, specs=[{"spec-id": 0, "fields": specs}])[0] == "the table is not partitioned"


@pytest.mark.parametrize("across_specs", [True, False])
def test_compacted_rows_are_read_in_their_new_partitions(planned, monkeypatch, across_specs):
    """Under another spec: every partition that lost or gained files."""
    new_spec = 1 if across_specs else 0
    rewritten = Difference([file("old", 1)], [], [file("compacted", 3, new_spec)])
    asked = []

    def difference(_opened, before, after):
        asked.append((before.snapshot_id, after.snapshot_id))
        return rewritten

    monkeypatch.setattr(changes, "difference_of_snapshots", difference)
    live = [file("left", 1), file("compacted", 3, new_spec), file("three", 3)]
    plan, _ = planned({10: sketches(1, 3)}, live=live, specs=(SPEC, {**SPEC, "spec-id": 1}), edit=compacted)
    assert asked == [(20, 30)]
    assert paths(plan) == (["left", "compacted"] if across_specs else [])
    assert plan.stale == ({key(1), key(3, 1)} if across_specs else set())


def test_plan_keeps_the_base_without_stale_and_reread_partitions():
    plan = PartitionPlan(9, (), Later(lambda: sketches(1, 2, 3)), 20, frozenset({key(1), key(2)}))
    assert plan.sketches(sketches(1, 4)) == sketches(1, 3, 4)
    assert PartitionPlan(9, tuple(LIVE)).sketches(sketches(1)) == sketches(1)
    assert PartitionPlan(9, ()).sketches(None) == sketches()


# --- those that no run was asked for ------------------------------------------------------------------------------


def compacted(document):
    document["snapshots"][2]["summary"]["operation"] = "replace"


def test_partition_sketches_are_carried_while_rows_stay_the_same(files_of):
    """Of the snapshot itself, and from before a compaction; a column without any is not missed."""
    base = sketches(1, 2)
    for files in (files_of({30: base}), files_of({20: base}, edit=compacted)):
        stored = Stored({30: base, 20: base})
        carried, reason = carried_on(files, stored, "a", "b")
        assert (carried, reason, files.planned) == ({1: Base({PARTITION_SKETCHES: base})}, None, 0)


@pytest.mark.parametrize(
    ("stored", "case", "says"),
    [
        ({20: sketches(1)}, {}, "rows have changed since those of snapshot 20"),
        ({30: sketches(1)}, {"of": 5}, "rows have changed since those of snapshot 5"),
        ({30: CorruptSketchError("cut short")}, {}, "cut short"),
    ],
    ids=["rows came", "expired", "broken"],
)
def test_invalid_partition_sketches_are_dropped_with_a_reason(files_of, caplog, stored, case, says):
    files = files_of(stored, **case)
    carried, reason = carried_on(files, Stored(stored))
    assert (carried, reason) == ({}, f"they were not asked for, and {says}")
    assert [r.levelno for r in caplog.records if says in r.message] == [logging.WARNING]


def test_compaction_into_other_partitions_drops_the_sketches(files_of, monkeypatch):
    rewritten = Difference([file("old", 1)], [], [file("new", 3, 1)])
    monkeypatch.setattr(changes, "difference_of_snapshots", lambda *_: rewritten)
    stored = {20: sketches(1, 3)}
    files = files_of(stored, specs=(SPEC, {**SPEC, "spec-id": 1}), edit=compacted)
    carried, reason = carried_on(files, Stored(stored))
    assert (carried, "moved rows between partitions" in reason) == ({}, True)


def test_sketch_of_another_engine_does_not_hide_partition_sketches(files_of):
    """It optimized the table, and analyzed it then."""
    base = sketches(1, 2)
    files = files_of({20: base}, edit=compacted)
    foreign = files_of({30: None}, properties={"ndv": "3"}).state.statistics
    files.state = dataclasses.replace(files.state, statistics={**files.state.statistics, **foreign})
    carried, reason = carried_on(files, Stored({20: base}))
    assert (carried, reason) == ({1: Base({PARTITION_SKETCHES: base})}, None)


def test_dropped_partition_sketches_are_reported_once(files_of):
    """The nearest sketch has none beside it."""
    stored = {10: sketches(1)}
    files = files_of(stored)
    plain = files_of({20: None}, properties=PLAIN).state.statistics
    files.state = dataclasses.replace(files.state, statistics={**files.state.statistics, **plain})
    carried, reason = carried_on(files, Stored(stored))
    assert (carried, reason) == ({}, None)


@pytest.fixture
def delta_table(tmp_path):
    """
    A Delta table of four rows in two partitions, with partition sketches, and a function that appends the same rows.
    """
    rows = pa.table({"a": pa.array([1, 2, 3, 4], pa.int64()), "b": ["x", "y", "x", "y"]})
    path = str(tmp_path / "delta")
    deltalake.write_deltalake(path, rows, partition_by=["b"])
    assert analyze(path, Options(partitions=True)).partitions.count == 2
    return path, lambda: deltalake.write_deltalake(path, rows, mode="append")


def in_one_partition(path):
    (column,) = ndv(path, ["a"], partitions=["b=x"]).columns
    return column.ndv, column.source


@pytest.mark.parametrize("options", [{"mode": "full"}, {"lg_k": 13}, {"lg_k": 13, "columns": ("a",)}])
def test_run_without_partitions_keeps_valid_sketches(delta_table, options):
    """All rows were read, and the partitions did not change."""
    path, _ = delta_table
    report = analyze(path, Options(**options))
    assert (report.committed, report.files_read, report.partitions) == (True, 2, None)
    assert in_one_partition(path) == (2, "snapshot")
    again = analyze(path, Options(partitions=True, lg_k=options.get("lg_k", 12), columns=options.get("columns")))
    assert (again.current, again.partitions.count) == (True, 2)


def test_run_without_partitions_reports_dropped_sketches_once(delta_table):
    """The next run has nothing left to drop."""
    path, append = delta_table
    append()
    report = analyze(path).to_json()
    assert report["committed"]
    reason = "they were not asked for, and rows have changed since those of snapshot 0"
    assert report["partitions"] == {"kept": False, "count": None, "reason": reason}
    append()
    assert "partitions" not in analyze(path).to_json()


def test_note_version_has_the_partition_sketches_of_the_version_before(delta_table):
    """Version 1 is the note that statistics were committed."""
    path, _ = delta_table
    report = analyze(path, Options(partitions=True, selector=SnapshotSelector(snapshot_id=1)))
    assert (report.snapshot.snapshot_id, report.current, report.partitions.count) == (1, True, 2)


@pytest.mark.parametrize(
    ("of", "properties", "kept"),
    [(30, OURS, 3), (20, OURS, None), (30, PLAIN, None)],
)
def test_partition_sketches_exist_only_if_every_column_has_them_for_the_snapshot(table_document, of, properties, kept):
    document = table_document("t", snapshots=(10, 20, 30), statistics=[entry(30, of, properties)])
    state = parse_state(document, "m.json")
    assert partitions_kept(target_of(bound(state, 30), None)) == kept
    assert partitions_kept(target_of(bound(state, 30), None, "a", "b")) is None
    assert partitions_kept(target_of(bound(state, 20), None)) is None
