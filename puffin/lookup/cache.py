"""
Tables and answers kept for a planner's hot path, no longer than they can be trusted.

What is known of a table for one way to name its snapshot is a view: the table opened there, and how long that counts.
All answers stand in one dictionary, by their questions, each with the view that it was made from: a question that was
asked before costs one look into it, without a lock. Once a view has expired, the table is asked whether anything was
committed. If not, the view counts on, and its answers with it; if so, another view takes its place, and its answers go.
One thread at a time makes what is not there, for each table; threads that ask about other tables do not wait for it.
Errors are not kept.

Memory is bounded by the number of tables, of views of a table and of answers of a view; the least recently used go.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from puffin.errors import FileNotFound, TableNotFound
from puffin.lookup.gate import Gate
from puffin.tables.base import SnapshotSelector
from puffin.tables.document import without_history
from puffin.tables.snapshot import TableSnapshot
from puffin.tables.table import Table

_NUMBERS = itertools.count()
_MOST_VIEWS = 8
_MOST_ANSWERS = 256


@dataclasses.dataclass(slots=True)
class Counts:
    """
    What a cache has done so far; a few may be missed where threads count at the same moment.

    Attributes:
        hits: Answers that were kept.
        misses: Answers that had to be made.
        revalidations: How often a table was asked whether anything was committed.
        metadata_reads: How often the metadata of a table was loaded, for the first time or after a commit.
        evictions: Tables that made room for others.
    """

    hits: int = 0
    misses: int = 0
    revalidations: int = 0
    metadata_reads: int = 0
    evictions: int = 0


class View:
    """
    A table for one way to name its snapshot; times are those of the cache's clock.

    Attributes:
        number: Tells it from every other view, those that are gone included.
        questions: Those whose answers are kept, the oldest first.
        gate: Whoever makes an answer goes through it.
    """

    __slots__ = ("fresh_until", "gate", "is_kept", "number", "opened", "questions", "used")

    def __init__(self, opened: TableSnapshot, gate: Gate, began: float, ttl: float) -> None:
        self.opened = opened
        self.gate = gate
        self.used = began
        self.fresh_until = began + ttl
        self.number = next(_NUMBERS)
        self.questions: dict[Hashable, None] = {}
        self.is_kept = True


class Kept:
    """
    An answer, which counts as long as the view that it was made from.

    Attributes:
        encoded: The answer as a server sends it, once it has.
    """

    __slots__ = ("__weakref__", "answer", "encoded", "view")

    def __init__(self, view: View, answer: Any) -> None:
        self.view = view
        self.answer = answer
        self.encoded: Any = None

    def counts_at(self, now: float) -> bool:
        """Whether it may be given now; its view is then the one used last."""
        if now >= self.view.fresh_until:
            return False
        self.view.used = now
        return True


_Views: TypeAlias = dict[SnapshotSelector, View]


class TableCache:
    """
    Views of tables, and answers made from them.

    Args:
        load: Finds the table of a name.
        ttl_seconds: How long a view counts before its table is asked again.
        max_tables: How many tables are kept.
        clock: Tells the time in seconds, and never goes back.

    Attributes:
        answers: By their questions; only `keep` adds to them.
    """

    def __init__(
        self, load: Callable[[str], Table], ttl_seconds: float, max_tables: int, clock: Callable[[], float]
    ) -> None:
        self._load = load
        self._ttl = ttl_seconds
        self._max_tables = max_tables
        self._clock = clock
        self._lock = threading.Lock()  # held to change what is kept, never while anything is read
        self._gates: weakref.WeakValueDictionary[str, Gate] = weakref.WeakValueDictionary()
        self._tables: dict[str, _KeptTable] = {}
        self.answers: dict[Hashable, Kept] = {}
        self.counts = Counts()

    def __len__(self) -> int:
        return len(self._tables)

    def keep(self, view: View, question: Hashable, answer: Any) -> Kept:
        """Keep an answer as long as its view; the oldest goes where that has too many."""
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
        """
        The view as it was when the caller arrived, or later.

        Raises:
            PuffinError: The table cannot be found or loaded.
        """
        found = self._fresh(table, selector, arrived)
        if found is not None:
            return found
        with self._lock:
            gate = self._gates.get(table)
            if gate is None:
                gate = self._gates[table] = Gate(self._clock)
        return gate.make(
            selector,
            arrived,
            lambda: self._fresh(table, selector, arrived),
            lambda: self._renewed(table, selector, gate),
        )

    def expire(self, table: str) -> None:
        """From now on no view of the table counts before the table was asked again."""
        kept = self._tables.get(table)
        if kept is not None:
            now = self._clock()
            for view in kept.views.values():
                view.fresh_until = min(view.fresh_until, now)

    def _fresh(self, table: str, selector: SnapshotSelector, now: float) -> View | None:
        kept = self._tables.get(table)
        view = None if kept is None else kept.views.get(selector)
        if view is None or now >= view.fresh_until:
            return None
        view.used = now
        return view

    def _renewed(self, name: str, selector: SnapshotSelector, gate: Gate) -> View:
        kept = self._tables.get(name)
        if kept is not None and (views := kept.views):
            try:
                return self._revalidated(name, kept, views, selector)
            except (TableNotFound, FileNotFound):  # dropped, and perhaps made anew as one of another kind
                with self._lock:
                    self._drop(name)
        began = self._clock()
        table = self._load(name)
        self.counts.metadata_reads += 1
        return self._keep(name, _KeptTable(gate), selector, _small(table.open(selector)), began)

    def _revalidated(self, name: str, kept: _KeptTable, views: _Views, selector: SnapshotSelector) -> View:
        view = views.get(selector)
        # Of another snapshot the newest view knows most of what there is to know.
        known = view or max(views.values(), key=lambda each: each.fresh_until)
        began = self._clock()
        self.counts.revalidations += 1
        opened = known.opened.refreshed(selector)
        if opened.state is not known.opened.state:
            self.counts.metadata_reads += 1
            opened = _small(opened)
        elif view is not None:
            view.opened = opened  # its credentials may be fresher
            view.fresh_until = began + self._ttl
            view.used = began
            return view
        return self._keep(name, kept, selector, opened, began)

    def _keep(
        self, name: str, kept: _KeptTable, selector: SnapshotSelector, opened: TableSnapshot, began: float
    ) -> View:
        view = View(opened, Gate(self._clock), began, self._ttl)
        with self._lock:
            views = {**kept.views, selector: view}
            gone = [] if selector not in kept.views else [kept.views[selector]]
            if len(views) > _MOST_VIEWS:
                gone.append(views.pop(min(views.keys() - {selector}, key=lambda each: views[each].used)))
            kept.views = views  # readers hold no lock: they find the views before or those after
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
            kept.views = {}  # whoever just asks it for news adds a view of its own

    def _forget(self, views: list[View]) -> None:
        for view in views:
            view.is_kept = False
            for question in view.questions:
                del self.answers[question]


class _KeptTable:
    __slots__ = ("gate", "views")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate  # as long as the table is kept, all who ask about it come to the same gate
        self.views: _Views = {}

    @property
    def used(self) -> float:
        return max(view.used for view in self.views.values())


def _small(opened: TableSnapshot) -> TableSnapshot:
    return dataclasses.replace(opened, state=without_history(opened.state))
