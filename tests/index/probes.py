"""Asks plans for random values and filters, and holds the planned files against all rows of all files."""

from __future__ import annotations

import collections
import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

from puffin.index.value_hashes import is_indexable
from puffin.load import load_table
from puffin.planning.plan import Planner
from puffin.tables.base import SnapshotSelector
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.index.whole_files import DeltaFiles, IcebergFiles, RowsOfFiles
from tests.planning.random_filters import FLOATS, UNWRITABLE, Filter, Leaf, RandomFilters, Test, matches


class Probes:
    """
    Asks plans in states of tables, and counts.

    Attributes:
        states: The states of tables that were asked.
        present: The values that were sought in files that have them.
        filters: All filters that were asked, those values among them.
        excluded: How many files the index excluded.
        without: The files without a sought value, where the index covers all files.
        left: Those of them that were planned.
    """

    def __init__(self, source: random.Random, made_up: Callable[[str], Any], count: int) -> None:
        """``made_up`` draws values of a type, or null; ``count`` is that of values sought in each state."""
        self._source = source
        self._made_up = made_up
        self._count = count
        self.states = self.present = self.filters = self.excluded = self.without = self.left = 0

    def ask(self, planner: Planner, leaves: Sequence[Leaf], rows_of: RowsOfFiles) -> None:
        """Seek values of random rows, as many that perhaps no row has, and ask as many random filters."""
        nothing = dict.fromkeys(leaf.field_id for leaf in leaves)
        filled = {path: [{**nothing, **row} for row in rows] for path, rows in rows_of.items() if rows}
        by_file, pick = [*filled.values()], self._source.choice
        if not by_file:
            return
        self.states += 1
        filters = RandomFilters(self._source, leaves, lambda leaf: pick(pick(by_file))[leaf.field_id], self._made_up)
        writable = [leaf for leaf in leaves if leaf.type not in UNWRITABLE and not leaf.type.startswith("fixed")]
        for _ in range(self._count):
            leaf = pick(writable)
            assert self._ask(planner, _test_of(leaf, pick(pick(by_file))[leaf.field_id]), filled)
            self.present += 1
            self._ask(planner, _test_of(leaf, self._made_up(leaf.type)), filled)
            self._ask(planner, filters.draw(self._source.randint(0, 3)), filled)

    def _ask(self, planner: Planner, filter_: Filter, rows_of: RowsOfFiles) -> set[str]:
        """The files with a match, all of which were planned."""
        plan = planner.plan(str(filter_))
        planned = {task.data_file.file_path for task in plan.files}
        must = {path for path, rows in rows_of.items() if matches(filter_, rows)}
        assert must <= planned, filter_
        assert plan.warnings == ()
        self.filters += 1
        self.excluded += plan.pruned.index
        if plan.index.files_covered == len(plan.all_files) and isinstance(filter_, Test) and filter_.op == "=":
            self.without += len(plan.all_files) - len(must)
            self.left += len(planned - must)
        return must


def check_pruning(asked: Iterable[Probes]) -> None:
    """Check that indexes were of use: otherwise the answers would be those of partitions and bounds alone."""
    every = [*asked]
    assert sum(each.excluded for each in every) > sum(each.states for each in every)
    assert sum(each.left for each in every) < sum(each.without for each in every) / 20


@dataclasses.dataclass(frozen=True, slots=True)
class Played:
    """What came of random histories: how often columns had each basis, and what was asked of the plans of each."""

    bases: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    probes: list[Probes] = dataclasses.field(default_factory=list)

    def check(self) -> None:
        """Check that histories prove something about incremental runs and about indexes."""
        assert min(self.bases[basis] for basis in ("added-files", "changed-files", "carried")) > len(self.probes)
        check_pruning(self.probes)


class IndexedTable:
    """
    A table of Spark with an index that runs now and then.

    Attributes:
        probes: What was asked of its plans.
    """

    def __init__(self, path: str, files: IcebergFiles | DeltaFiles, seed: int) -> None:
        self._path = path
        self._files = files
        self._source = random.Random(seed)
        self.probes = Probes(self._source, self._made_up, 2)
        self._run()

    def runs(self) -> bool:
        """Whether the index is to be caught up with the statistics."""
        return self._source.random() < 0.4

    def step(self, branch: str | None = None) -> None:
        """Perhaps run the index job; ask plans of the current snapshot, and of a branch."""
        if self._source.random() < 0.4:
            self._run()
        for ref in {None, branch}:
            opened = load_table(self._path).open(SnapshotSelector(ref=ref))
            rows_of = self._files.rows(ref) if ref else self._files.rows()
            self.probes.ask(Planner(opened), self._files.leaves(), rows_of)

    def _run(self) -> None:
        """Catch up the index, after some columns were added to it."""
        names = [leaf.name for leaf in self._files.leaves() if is_indexable(leaf.type)]
        index(self._path, IndexOptions(columns=tuple(self._source.sample(names, 2))))

    def _made_up(self, type_: str) -> Any:
        number = self._source.randrange(1000)
        if type_ == "string":
            return f"s{number}"
        if type_.startswith("decimal"):
            return Decimal(number).scaleb(-1)
        return number / 7 if type_ in FLOATS else number * 10**11 if type_.startswith("timestamp") else number


def _test_of(leaf: Leaf, value: Any) -> Test:
    """A test that takes a value, by ``=`` if there is a literal of it."""
    if value is None:
        return Test(leaf, "is null")
    if isinstance(value, float) and not math.isfinite(value):
        return Test(leaf, "is nan" if math.isnan(value) else "is not null")
    return Test(leaf, "=", (value,))
