"""How many rows a commit added and deleted."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.delta.log.actions import parse_commit
from puffin.delta.log.changed_records import changed_records, with_counted_removals
from puffin.lookup.planner import ndv
from stats_jobs import Options, analyze


def file(path, records=None, deleted=0, change=True):
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": deleted}
    return {
        "path": path,
        "partitionValues": {},
        "size": 1,
        "dataChange": change,
        **({} if records is None else {"stats": json.dumps({"numRecords": records})}),
        **({"deletionVector": vector} if deleted else {}),
    }


@pytest.mark.parametrize(
    ("adds", "removes", "added", "deleted"),
    [
        ([], [], 0, 0),
        ([file("a", 3), file("b", 4)], [], 7, 0),
        ([], [file("a", 3), file("b", 4, deleted=1)], 0, 6),
        ([file("a", 3)], [file("b")], 3, None),
        ([file("a")], [file("b", 2)], None, 2),
        ([file("a", 10, deleted=4)], [file("a")], 0, 4),
        ([file("a", 10, deleted=4)], [file("a", 10, deleted=1)], 0, 3),
        ([file("a", 10)], [file("a", 10, deleted=3)], 3, 0),
        ([file("a", 10, change=False)], [file("b", 10, change=False)], 0, 0),
    ],
)
def test_commit_counts_added_and_deleted_rows(adds, removes, added, deleted):
    """With new deletion vectors, restored and rewritten rows, and sparse removals."""
    assert changed_records(commit(1, adds, removes)) == (added, deleted)


def commit(version, adds=(), removes=()):
    lines = [{"add": each} for each in adds] + [{"remove": each} for each in removes]
    return parse_commit("\n".join(map(json.dumps, lines)).encode(), version, "log")


def test_removal_has_the_rows_that_its_file_had_when_it_was_added():
    """The newest entry that added the path before counts; what is stated stays."""
    earlier = {0: commit(0, [file("a", 3), file("b", 4), file("c", 5)]), 1: commit(1, [file("a", 7)])}
    later = {3: commit(3, [file("a", 9)], [file("a")]), 4: commit(4, [], [file("b", deleted=1), file("c", 6)])}
    found = with_counted_removals(later, lambda: {**earlier, **later})
    assert [[each.num_records for each in found[version].removes] for version in (3, 4)] == [[7], [4, 6]]
    assert changed_records(found[4]) == (0, 3 + 6)
    assert changed_records(with_counted_removals({4: later[4]}, dict)[4]) == (0, None)


def test_log_is_not_searched_unless_a_removal_lacks_its_rows():
    entries = {1: commit(1, [file("a", 3)]), 2: commit(2, [], [file("a", 3)])}
    assert with_counted_removals(entries, pytest.fail) == entries


@pytest.mark.parametrize("checkpoint", [False, True])
def test_rows_that_delta_rs_deleted_are_known_while_a_log_entry_tells(tmp_path, checkpoint):
    """A checkpoint is not read for this: it would take as long as to plan the table."""
    write_deltalake(tmp_path, pa.table({"k": range(100)}))
    write_deltalake(tmp_path, pa.table({"k": range(100, 105)}), mode="append")
    if checkpoint:
        DeltaTable(tmp_path).create_checkpoint()
    analyze(str(tmp_path), Options())
    DeltaTable(tmp_path).delete("k < 10")
    (answer,) = ndv(str(tmp_path), ["k"]).columns
    assert (answer.freshness.records_added, answer.freshness.records_deleted) == (90, None if checkpoint else 100)
