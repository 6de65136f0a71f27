"""How many rows a commit added and deleted."""

from __future__ import annotations

import json

import pytest

from puffin.delta.log.actions import parse_commit
from puffin.delta.log.changed_records import changed_records


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
    lines = [{"add": each} for each in adds] + [{"remove": each} for each in removes]
    commit = parse_commit("\n".join(map(json.dumps, lines)).encode(), 1, "log")
    assert changed_records(commit) == (added, deleted)
