"""How many rows a table has, by its statistics and the summaries of its snapshots: random histories, row by row."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest

from puffin.estimates.interval import Interval
from puffin.lookup.estimates import Estimator
from puffin.tables.base import SnapshotSelector
from puffin.values.column_summary import ColumnSummary

COLUMNS = range(1, 4)


@dataclasses.dataclass
class History:
    """
    A table as the summaries of its snapshots tell of it, and the rows that really live.

    Delete files may stay when their data files go, and may name rows that are gone. They go later, or when one takes
    the place of those of its data file.

    Attributes:
        deletes: For each delete file the data file that it is of, by number, and how many rows it names.
    """

    chance: random.Random
    files: dict[int, tuple[int, set[int]]] = dataclasses.field(default_factory=dict)
    deletes: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    by_value: int = 0
    numbers: int = 0
    summaries: list[dict[str, str]] = dataclasses.field(default_factory=list)
    rows: list[int] = dataclasses.field(default_factory=list)

    def change(self) -> None:
        added = deleted = named = no_longer = by_value = 0
        operation = self.chance.choice(["append", "drop", "name", "name", "rewrite", "equal"])
        chosen = self.chance.choice(list(self.files)) if self.files else 0
        if operation == "append" or not self.files:
            added = self.add(self.chance.randrange(1, 60))
        elif operation in ("drop", "rewrite"):
            deleted, live = self.files.pop(chosen)
            if operation == "rewrite" and live:
                added = self.add(len(live))
        elif operation == "name":
            every, live = self.files[chosen]
            gone = set(self.chance.sample(range(every), self.chance.randrange(1, every + 1)))
            if self.chance.random() < 0.3:
                gone |= set(range(every)) - live
                no_longer += self.forget(lambda of: of == chosen)
            live -= gone
            named = len(gone)
            self.deletes.append((chosen, named))
        elif self.chance.random() < 0.4:
            by_value = 1
            _, live = self.files[chosen]
            live -= set(self.chance.sample(sorted(live), self.chance.randrange(len(live) + 1)))
        if self.chance.random() < 0.3:
            no_longer += self.forget(lambda of: of not in self.files)
        self.by_value += by_value
        self.summaries.append(
            {
                "operation": "overwrite" if deleted or named or no_longer or by_value else "append",
                "added-records": str(added),
                "deleted-records": str(deleted),
                "added-position-deletes": str(named),
                "removed-position-deletes": str(no_longer),
                "added-equality-deletes": str(by_value),
                "total-records": str(sum(every for every, _ in self.files.values())),
                "total-position-deletes": str(sum(named for _, named in self.deletes)),
                "total-equality-deletes": str(self.by_value),
            }
        )
        self.rows.append(sum(len(live) for _, live in self.files.values()))

    def add(self, rows: int) -> int:
        """Add a file, and return its rows."""
        self.numbers += 1
        self.files[self.numbers] = rows, set(range(rows))
        return rows

    def forget(self, is_gone: Callable[[int], bool]) -> int:
        """Remove the delete files of some data files, and return how many rows they name."""
        gone = [named for of, named in self.deletes if is_gone(of)]
        self.deletes = [(of, named) for of, named in self.deletes if not is_gone(of)]
        return sum(gone)


@pytest.fixture
def estimator_of(table_of, entry_of):
    def made(history: History, counted: dict[int, int]) -> Estimator:
        """With statistics of each of these columns as of a snapshot, by its place; the first column is dropped."""
        entries: dict[int, Any] = {}
        for column, place in counted.items():
            entry = entries.setdefault(place, entry_of(place + 1, {}))
            summary = ColumnSummary(history.rows[place], 0, None, None, None, None)
            (blob,) = entry_of(place + 1, {column: 1})["blob-metadata"]
            blob["properties"]["puffin-sidecar.summary"] = summary.to_text()
            entry["blob-metadata"].append(blob)
        table = table_of(*entries.values(), snapshots=range(1, len(history.rows) + 1))
        del table.document["schemas"][0]["fields"][0]
        for snapshot, summary in zip(table.document["snapshots"], history.summaries, strict=True):
            snapshot["summary"] = summary
        return Estimator(table.open())

    return made


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_statistics_of_the_snapshot_counted_are_those_of_the_table(estimator_of, seed):
    """Also if other columns have older statistics."""
    chance = random.Random(seed)
    history = History(chance)
    for _ in range(chance.randrange(2, 12)):
        history.change()
    last = len(history.rows) - 1
    counted = {column: chance.randrange(last + 1) for column in COLUMNS} | {chance.choice(COLUMNS): last}
    assert estimator_of(history, counted).counted_rows == Interval.exactly(history.rows[-1])


def all_counts(summary: dict[str, str]) -> dict[str, str]:
    return summary


def no_totals_of_deletes(summary: dict[str, str]) -> dict[str, str]:
    """As Java and pyiceberg write after a snapshot without these totals; they leave out zeros too."""
    return {key: count for key, count in summary.items() if "total-" not in key and count != "0"} | {
        "total-records": summary["total-records"]
    }


def no_total_of_equality_deletes(summary: dict[str, str]) -> dict[str, str]:
    """As newer versions of DuckDB write."""
    return {key: count for key, count in summary.items() if key != "total-equality-deletes"}


def no_deletes(summary: dict[str, str]) -> dict[str, str]:
    """As DuckDB 1.4 writes: the rows of delete files count as added."""
    named = int(summary["added-position-deletes"]) + int(summary["added-equality-deletes"])
    added, total = (str(int(summary[key]) + named) for key in ("added-records", "total-records"))
    counts = {"added-records": added, "deleted-records": summary["deleted-records"], "total-records": total}
    return {"operation": "delete" if named else summary["operation"], **counts}


@pytest.mark.parametrize("written", [all_counts, no_totals_of_deletes, no_total_of_equality_deletes, no_deletes])
@pytest.mark.parametrize("is_analyzed", [False, True])
def test_rows_after_deletes_are_within_bounds(estimator_of, is_analyzed, written):
    """Delete files name rows twice, or rows of files that are gone, or delete by value, and need not be counted."""
    exact = bounded = 0
    for seed in range(400 if written is all_counts else 100):
        chance = random.Random(seed)
        history = History(chance)
        for _ in range(chance.randrange(2, 12)):
            history.change()
        history.summaries = [written(summary) for summary in history.summaries]
        counted = {column: chance.randrange(len(history.rows)) for column in COLUMNS} if is_analyzed else {}
        estimator, true = estimator_of(history, counted), history.rows[-1]
        if estimator.counted_rows is None:  # only manifests tell
            continue
        whole = estimator.estimate()
        for found in (whole.rows, estimator.estimate("b >= 0").rows, estimator.estimate("b >= 0 and c >= 0").rows):
            assert found.lower <= true <= found.upper, seed
        assert whole.rows.lower <= whole.row_count <= whole.rows.upper
        exact += whole.rows.is_exact
        bounded += not whole.rows.is_exact
    if written is all_counts:
        assert min(exact, bounded) > 20
    elif not is_analyzed:
        assert exact + bounded == 0


def test_snapshot_of_format_version_1_has_no_deletes(table_of):
    """Also once the table is of version 2: its sequence number stays 0, or is missing."""
    table = table_of(snapshots=(1, 2))
    for snapshot, number in zip(table.document["snapshots"], (None, 1), strict=True):
        snapshot["summary"] = {"operation": "overwrite", "added-records": "5", "total-records": "39"}
        snapshot["sequence-number"] = number
    old, new = (table.open(SnapshotSelector(snapshot_id=snapshot_id)).snapshot for snapshot_id in (1, 2))
    assert (old.total_records, old.deleted_records, old.most_records) == (39, 0, 39)
    assert (new.total_records, new.deleted_records, new.most_records) == (None, None, 39)


@pytest.mark.parametrize("operation", ["append", "overwrite"])
def test_rows_that_went_are_unknown_if_delete_files_came_without_their_counts(table_of, operation):
    table = table_of(snapshots=(1,))
    (snapshot,) = table.document["snapshots"]
    snapshot["sequence-number"] = 1
    snapshot["summary"] = {"operation": operation, "added-records": "5", "added-delete-files": "1"}
    assert table.open().snapshot.deleted_records is None
    snapshot["summary"] |= {"added-position-deletes": "2"}
    assert table.open().snapshot.deleted_records == 2
