"""
A cache of opened tables and of the answers made from them.

A view is a table opened at one snapshot selector, with an expiry time. One dictionary holds all answers by question,
each with its view, so that a repeated question costs one lookup and no lock. When a view expires, the cache asks the
table for new commits. Without one, the view and its answers stay valid; otherwise a new view replaces them. One thread
at a time loads a table; threads that ask about other tables do not wait. Errors are not cached.

The cache limits its tables, the views of a table and the answers of a view. It evicts the least recently used tables
and views, and the oldest answers.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import threading
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeAlias

from puffin.errors import FileNotFound, TableNotFound
from puffin.lookup.estimates import Estimator
from puffin.lookup.gate import Gate, Gates
from puffin.lookup.kept_planner import KeptPlanner
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import Table, TableSnapshot

MOST_VIEWS = 8
"""Of one table; each may keep the files of its snapshot."""

_NUMBERS = itertools.count()
_MOST_ANSWERS = 256


@dataclasses.dataclass(slots=True)
class Counts:
    """What a cache has done so far; concurrent threads may miss a few counts."""

    hits: int = 0
    misses: int = 0
    revalidations: int = 0  # checks of a table for new commits
    metadata_reads: int = 0  # first loads, and those after a commit
    evictions: int = 0  # tables removed to make room


@dataclasses.dataclass(slots=True, eq=False)
class View:
    """
    A table opened at one snapshot selector. ``number`` is unique; ``questions`` lists the cached ones, oldest first.

    ``planner`` is there once a scan of the view was planned, ``estimator`` once an estimate was asked for. If
    storage failed for the latter, it stays at least ``estimator_until``, so that not every question waits for storage.
    """

    opened: TableSnapshot
    gate: Gate
    used: float
    fresh_until: float
    number: int = dataclasses.field(default_factory=_NUMBERS.__next__)
    questions: dict[Hashable, None] = dataclasses.field(default_factory=dict)
    is_kept: bool = True
    planner: KeptPlanner | None = None
    estimator: Estimator | None = None
    estimator_until: float = 0

    def is_fresh_at(self, now: float) -> bool:
        """Whether the view and its answers are still valid; if so, mark the view as used."""
        if now >= self.fresh_until:
            return False
        self.used = now
        return True


class Kept:
    """A cached answer, valid as long as its view; ``encoded`` is what a server sends for it, once it has."""

    __slots__ = ("__weakref__", "answer", "encoded", "view")

    def __init__(self, view: View, answer: Any) -> None:
        self.view = view
        self.answer = answer
        self.encoded: Any = None


_Views: TypeAlias = dict[SnapshotSelector, View]


class TableCache:
    """
    Views of tables, and the ``answers`` made from them, by question.

    A view is valid for ``ttl_seconds`` without a check for commits; ``clock`` tells a monotonic time in seconds.
    """

    def __init__(
        self, load: Callable[[str], Table], ttl_seconds: float, max_tables: int, clock: Callable[[], float]
    ) -> None:
        self._load = load
        self._ttl = ttl_seconds
        self._max_tables = max_tables
        self._clock = clock
        self._lock = threading.Lock()  # guards changes; never held during I/O
        self._gates = Gates(lambda: _TableGate(clock))
        self._tables: dict[str, _KeptTable] = {}
        self.answers: dict[Hashable, Kept] = {}
        self.counts = Counts()

    def __len__(self) -> int:
        return len(self._tables)

    def keep(self, view: View, question: Hashable, answer: Any) -> Kept:
        """Cache an answer for as long as its view; a full view drops its oldest answer."""
        kept = Kept(view, answer)
        with self._lock:
            if view.is_kept:
                self.answers[question] = kept
                view.questions[question] = None
                if len(view.questions) > _MOST_ANSWERS:
                    oldest = next(iter(view.questions))
                    del view.questions[oldest], self.answers[oldest]
        return kept

    def view(self, table: str, selector: SnapshotSelector, arrived: float) -> View:
        """The view as of the caller's arrival or later; PuffinError if the table cannot be loaded."""
        found = self._fresh(table, selector, arrived)
        if found is not None:
            return found
        gate = self._gates.of(table)
        find, make = partial(self._fresh, table, selector, arrived), partial(self._renew, table, selector, gate)
        return gate.make(selector, arrived, find, make)

    def opened(self, table: str, selector: SnapshotSelector, arrived: float) -> TableSnapshot:
        """As `view`, but no table is evicted for one that is not cached."""
        if table in self._tables or len(self._tables) < self._max_tables:
            return self.view(table, selector, arrived).opened
        self.counts.metadata_reads += 1
        return _without_history(self._load(table).open(selector))

    def expire(self, table: str) -> None:
        """Make every view of the table check for commits before its next use; a check under way does not count."""
        with self._lock:
            gate, kept = self._gates.known(table), self._tables.get(table)
            now = self._clock()
            if gate is not None:
                gate.expired_at = now
            for view in () if kept is None else kept.views.values():
                view.fresh_until = min(view.fresh_until, now)

    def _fresh(self, table: str, selector: SnapshotSelector, now: float) -> View | None:
        kept = self._tables.get(table)
        view = None if kept is None else kept.views.get(selector)
        return view if view is not None and view.is_fresh_at(now) else None

    def _fresh_until(self, gate: _TableGate, began: float) -> float:
        return began + self._ttl if began >= gate.expired_at else began

    def _renew(self, name: str, selector: SnapshotSelector, gate: _TableGate) -> View:
        kept = self._tables.get(name)
        if kept is not None and (views := kept.views):
            try:
                return self._revalidate(name, kept, views, selector)
            except (TableNotFound, FileNotFound):  # dropped, and perhaps recreated in another format
                with self._lock:
                    self._drop(name)
        began = self._clock()
        table = self._load(name)
        self.counts.metadata_reads += 1
        return self._keep(name, _KeptTable(gate), selector, _without_history(table.open(selector)), began)

    def _revalidate(self, name: str, kept: _KeptTable, views: _Views, selector: SnapshotSelector) -> View:
        view = views.get(selector)
        # For another snapshot, the freshest view already has most of the metadata.
        known = view or max(views.values(), key=lambda each: each.fresh_until)
        began = self._clock()
        self.counts.revalidations += 1
        opened = known.opened.refreshed(selector)
        if opened.state is not known.opened.state:
            self.counts.metadata_reads += 1
            opened = _without_history(opened)
        elif view is not None:
            with self._lock:
                view.opened = opened  # its credentials may be fresher
                view.fresh_until = self._fresh_until(kept.gate, began)
                view.used = began
            return view
        return self._keep(name, kept, selector, opened, began)

    def _keep(
        self, name: str, kept: _KeptTable, selector: SnapshotSelector, opened: TableSnapshot, began: float
    ) -> View:
        with self._lock:
            view = View(opened, Gate(self._clock), began, self._fresh_until(kept.gate, began))
            views = {**kept.views, selector: view}
            gone = [kept.views[selector]] if selector in kept.views else []
            if len(views) > MOST_VIEWS:
                gone.append(views.pop(min(views.keys() - {selector}, key=lambda each: views[each].used)))
            kept.views = views  # readers hold no lock, so replace the dictionary
            self._forget(gone)
            if name not in self._tables and len(self._tables) >= self._max_tables:
                self._drop(min(self._tables, key=lambda each: self._tables[each].used))
                self.counts.evictions += 1
            self._tables[name] = kept
        return view

    def _drop(self, name: str) -> None:
        kept = self._tables.pop(name, None)
        if kept is not None:
            self._forget([*kept.views.values()])
            kept.views = {}  # a concurrent check for commits adds its own view

    def _forget(self, views: list[View]) -> None:
        for view in views:
            view.is_kept = False
            for question in view.questions:
                del self.answers[question]


class _TableGate(Gate):
    """Of a table; what began before ``expired_at`` may not know of the newest commit."""

    expired_at = -math.inf


@dataclasses.dataclass(slots=True, eq=False)
class _KeptTable:
    gate: _TableGate  # shared by all callers while the table is cached
    views: _Views = dataclasses.field(default_factory=dict)

    @property
    def used(self) -> float:
        return max(view.used for view in self.views.values())


def _without_history(opened: TableSnapshot) -> TableSnapshot:
    return dataclasses.replace(opened, state=opened.state.without_history())
