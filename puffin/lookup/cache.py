"""
Tables kept at hand for a planner's hot path, no longer than they can be trusted.

What is known of a table for one way of naming its snapshot is a view of it: the state of its metadata, answers by their
questions, and how long both count. A question that was asked before is one look into two dictionaries, without a lock,
and gets the same frozen object. Once a view has expired the table is asked whether anything was committed; if not, the
view counts on, its answers with it, and if so, another one takes its place. Whatever is not at hand is made by one
thread at a time for each table; threads that ask about other tables never wait for it. Errors are not kept.

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

SnapshotKey: TypeAlias = tuple[int | None, str | None, int | None]
"""A snapshot's id, the branch or tag, the milliseconds since the epoch: at most one of them is not None."""

_NUMBERS = itertools.count()
_MOST_VIEWS = 8
_MOST_ANSWERS = 256


@dataclasses.dataclass(slots=True)
class Counts:
    """
    What a cache has done so far; a few may be missed where threads count at the same moment.

    Attributes:
        hits: Answers that were at hand.
        misses: Answers that had to be made.
        revalidations: How often a table was asked whether anything was committed.
        metadata_reads: How often the metadata of a table was loaded: for the first time, or since there was news.
        evictions: Tables that were given up for others.
    """

    hits: int = 0
    misses: int = 0
    revalidations: int = 0
    metadata_reads: int = 0
    evictions: int = 0


class View:
    """
    A table for one way of naming its snapshot; times are those of the cache's clock.

    Attributes:
        number: Tells it from every other view, those that are gone included.
        answers: By their questions, the oldest first.
        gate: Who makes an answer goes through it.
    """

    __slots__ = ("answers", "fresh_until", "gate", "number", "opened", "used")

    def __init__(self, opened: TableSnapshot, gate: Gate, began: float, fresh_until: float) -> None:
        self.opened = opened
        self.gate = gate
        self.used = began
        self.fresh_until = fresh_until
        self.number = next(_NUMBERS)
        self.answers: dict[Hashable, Any] = {}

    def keep(self, question: Hashable, answer: Any) -> None:
        """Remember an answer, and forget the oldest where there are too many; only for who is let through the gate."""
        self.answers[question] = answer
        if len(self.answers) > _MOST_ANSWERS:
            del self.answers[next(iter(self.answers))]


class TableCache:
    """
    Views of tables.

    Args:
        load: Finds the table of a name.
        ttl_seconds: How long a view counts before its table is asked again.
        max_tables: How many tables are kept.
        clock: Tells the time in seconds, and never goes back.
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
        self._kept: dict[str, _Kept] = {}
        self.counts = Counts()

    def __len__(self) -> int:
        return len(self._kept)

    def at_hand(self, table: str, snapshot: SnapshotKey, now: float) -> View | None:
        """The view that counts now, if it is kept."""
        kept = self._kept.get(table)
        if kept is None:
            return None
        view = kept.views.get(snapshot)
        if view is None or now >= view.fresh_until:
            return None
        view.used = now
        return view

    def view(self, table: str, snapshot: SnapshotKey, arrived: float) -> View:
        """
        The view as it was when it was asked for, or later.

        Raises:
            PuffinError: The table cannot be found or loaded.
        """
        found = self.at_hand(table, snapshot, arrived)
        if found is not None:
            return found
        with self._lock:
            gate = self._gates.get(table)
            if gate is None:
                gate = self._gates[table] = Gate(self._clock)
        return gate.make(
            snapshot,
            arrived,
            lambda: self.at_hand(table, snapshot, arrived),
            lambda: self._renewed(table, snapshot, gate),
        )

    def expire(self, table: str) -> None:
        """From now on no view of the table counts before the table was asked again."""
        kept = self._kept.get(table)
        if kept is not None:
            now = self._clock()
            for view in kept.views.values():
                view.fresh_until = min(view.fresh_until, now)

    def _renewed(self, name: str, snapshot: SnapshotKey, gate: Gate) -> View:
        kept = self._kept.get(name)
        if kept is not None:
            try:
                return self._revalidated(name, kept, snapshot)
            except (TableNotFound, FileNotFound):  # dropped, and perhaps made anew as one of another kind
                with self._lock:
                    self._kept.pop(name, None)
        began = self._clock()
        table = self._load(name)
        self.counts.metadata_reads += 1
        opened = _small(table.open(_selector(snapshot)))
        return self._keep(name, _Kept(gate), snapshot, opened, began)

    def _revalidated(self, name: str, kept: _Kept, snapshot: SnapshotKey) -> View:
        view = kept.views.get(snapshot)
        # Of another snapshot the newest view knows most of what there is to know.
        known = view or max(kept.views.values(), key=lambda each: each.fresh_until)
        began = self._clock()
        self.counts.revalidations += 1
        opened = known.opened.refreshed(_selector(snapshot))
        if opened.state is not known.opened.state:
            self.counts.metadata_reads += 1
            opened = _small(opened)
        elif view is not None:
            view.opened = opened  # its credentials may be fresher
            view.fresh_until = began + self._ttl
            view.used = began
            return view
        return self._keep(name, kept, snapshot, opened, began)

    def _keep(self, name: str, kept: _Kept, snapshot: SnapshotKey, opened: TableSnapshot, began: float) -> View:
        view = View(opened, Gate(self._clock), began, began + self._ttl)
        with self._lock:
            # Readers hold no lock: they find the views before or those after.
            kept.views = _without_least_used({**kept.views, snapshot: view}, snapshot)
            if name not in self._kept and len(self._kept) >= self._max_tables:
                del self._kept[min(self._kept, key=lambda each: self._kept[each].used)]
                self.counts.evictions += 1
            self._kept[name] = kept
        return view


class _Kept:
    __slots__ = ("gate", "views")

    def __init__(self, gate: Gate) -> None:
        self.gate = gate  # as long as the table is kept, all who ask about it come to the same gate
        self.views: dict[SnapshotKey, View] = {}

    @property
    def used(self) -> float:
        return max(view.used for view in self.views.values())


def _small(opened: TableSnapshot) -> TableSnapshot:
    return dataclasses.replace(opened, state=without_history(opened.state))


def _selector(snapshot: SnapshotKey) -> SnapshotSelector:
    snapshot_id, ref, as_of_ms = snapshot
    return SnapshotSelector(snapshot_id=snapshot_id, ref=ref, as_of_ms=as_of_ms)


def _without_least_used(views: dict[SnapshotKey, View], kept: SnapshotKey) -> dict[SnapshotKey, View]:
    if len(views) > _MOST_VIEWS:
        del views[min(views.keys() - {kept}, key=lambda each: views[each].used)]
    return views
