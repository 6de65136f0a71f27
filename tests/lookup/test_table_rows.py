"""How many rows a table has, by its statistics and the summaries of its snapshots: random histories, row by row."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from puffin.estimates.interval import Interval
from puffin.lookup.estimates import Estimator
from puffin.values.column_summary import ColumnSummary

COLUMNS = range(1, 4)


@dataclasses.dataclass
class History:
    """
    A table as the summaries of its snapshots tell of it, and the rows that really live.

    Delete files stay when their data files go, and may name rows that are gone.
    """

    chance: random.Random
    files: list[tuple[int, set[int]]] = dataclasses.field(default_factory=list)
    named: int = 0
    by_value: int = 0
    summaries: list[dict[str, str]] = dataclasses.field(default_factory=list)
    rows: list[int] = dataclasses.field(default_factory=list)

    def change(self) -> None:
        added = deleted = named = by_value = 0
        operation = self.chance.choice(["append", "drop", "name", "name", "rewrite", "equal"])
        if operation == "append" or not self.files:
            added = self.chance.randrange(1, 60)
            self.files.append((added, set(range(added))))
        elif operation in ("drop", "rewrite"):
            every, live = self.files.pop(self.chance.randrange(len(self.files)))
            deleted = every
            if operation == "rewrite" and live:
                added = len(live)
                self.files.append((added, set(range(added))))
        elif operation == "name":
            every, live = self.chance.choice(self.files)
            gone = self.chance.sample(range(every), self.chance.randrange(1, every + 1))
            named = len(gone)
            live -= set(gone)
        elif self.chance.random() < 0.4:
            by_value = 1
            _, live = self.chance.choice(self.files)
            live -= set(self.chance.sample(sorted(live), self.chance.randrange(len(live) + 1)))
        self.named, self.by_value = self.named + named, self.by_value + by_value
        self.summaries.append(
            {
                "operation": "overwrite",
                "added-records": str(added),
                "deleted-records": str(deleted),
                "added-position-deletes": str(named),
                "added-equality-deletes": str(by_value),
                "total-records": str(sum(every for every, _ in self.files)),
                "total-position-deletes": str(self.named),
                "total-equality-deletes": str(self.by_value),
            }
        )
        self.rows.append(sum(len(live) for _, live in self.files))


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


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_rows_after_deletes_are_within_bounds(estimator_of, is_analyzed):
    """Delete files name rows twice, or rows of files that are gone, or delete by value."""
    exact = bounded = 0
    for seed in range(150):
        chance = random.Random(seed)
        history = History(chance)
        for _ in range(chance.randrange(2, 12)):
            history.change()
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
    assert min(exact, bounded) > 20
