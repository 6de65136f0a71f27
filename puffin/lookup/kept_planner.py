"""
Planners of a long-running process: one for each view of a table, with the index and the plans that it has made.

A planner stays as long as its view. It looks for the index once for each time to live, since an index run publishes a
new manifest without a commit to the table. It keeps plans until it finds another index.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections import OrderedDict
from typing import Protocol

from puffin.index.table_index import RowCache
from puffin.planning.file_plan import FilePlan
from puffin.planning.plan import Filter, FoundIndex, Planner
from puffin.tables.snapshot import TableSnapshot

MOST_FILES = 4_000_000
_MOST_PLANS = 256
_LONGEST_FILTER = 16 * 1024  # of a plan that is kept
_PLAN_BYTES = 16 * 1024 * 1024  # of one planner; a plan has a byte for each file


class PlannedView(Protocol):
    """What a planner needs to know of a table that a cache keeps open; see `puffin.lookup.cache.View`."""

    opened: TableSnapshot
    used: float
    fresh_until: float
    planner: KeptPlanner | None


class KeptPlanner:
    """The planner of a view, which was last ``used`` at this time. Any thread may use it."""

    def __init__(self, opened: TableSnapshot, rows: RowCache) -> None:
        self._rows = rows
        self._lock = threading.Lock()  # guards changes; never held during I/O
        self._looking = threading.Lock()  # held while the index is looked for
        self.used = 0.0
        self._reset(opened)

    def _reset(self, opened: TableSnapshot) -> None:
        self._opened = opened
        self._planner = Planner(_opened_again(opened), self._rows)
        self._index: FoundIndex | None = None
        self._index_until: float | None = None
        self._plans: OrderedDict[Filter | None, FilePlan] = OrderedDict()

    @property
    def size(self) -> int:
        """As `Planner.size`."""
        return self._planner.size

    def drop_files(self) -> None:
        """Forget what was read and planned; waits for nobody who reads."""
        with self._lock:
            self._reset(self._opened)

    def known(self, where: Filter | None, view: PlannedView) -> FilePlan | None:
        """The plan that was made for this filter; None if there is none, or the index has to be looked for."""
        with self._lock:
            plan = self._plans.get(where) if self._index_until == view.fresh_until else None
            if plan is not None:
                self._plans.move_to_end(where)
            return plan

    def plan(self, where: Filter | None, view: PlannedView) -> FilePlan:
        """The plan for a filter, with the index as it was when the view was last checked for commits, or later."""
        planner, index = self._current(view)
        known = self.known(where, view)
        if known is not None:
            return known
        plan = planner.plan(where, index=index)
        if plan.warnings and index.index is not None:
            # A run may have merged segments since the index was found, and a cleaning removed them.
            newest = planner.find_index()
            if not newest.is_same(index):
                plan = planner.plan(where, index=newest)
        # What could not be read may be there the next time, and a long filter is hardly asked twice.
        if not plan.warnings and len(str(where)) <= _LONGEST_FILTER:
            with self._lock:
                if self._index is not None and self._index.is_same(index):
                    self._plans[where] = plan
                    while len(self._plans) > min(_MOST_PLANS, 1 + _PLAN_BYTES // (1 + len(plan.all_files))):
                        self._plans.popitem(last=False)
        return plan

    def _current(self, view: PlannedView) -> tuple[Planner, FoundIndex]:
        with self._looking:
            until, opened = view.fresh_until, view.opened  # in this order: an opening is never older than its time
            with self._lock:
                known, index = self._planner, self._index
                planner = known if opened is self._opened else known.reopened(_opened_again(opened))
                if index is not None and self._index_until == until:
                    return planner, index if planner is known else planner.reopened_index(index)
            found = planner.find_index()
            with self._lock:
                if self._planner is known:  # and has not forgotten its files meanwhile
                    if index is None or not index.is_same(found):
                        self._plans.clear()
                    self._opened, self._planner, self._index, self._index_until = opened, planner, found, until
            return planner, found


def _opened_again(opened: TableSnapshot) -> TableSnapshot:
    """An opening of the planner's own: the view's would keep the files that it has planned."""
    return dataclasses.replace(opened)


class KeptPlanners:
    """
    The planners of all views, which share the ranges of indexes that were read.

    When they keep more than ``most_files`` files together, by their ``size``, those used least recently forget theirs.
    """

    def __init__(self, most_files: int = MOST_FILES) -> None:
        self._rows = RowCache()
        self._most_files = most_files
        self._lock = threading.Lock()
        self._all: weakref.WeakSet[KeptPlanner] = weakref.WeakSet()

    def of(self, view: PlannedView) -> KeptPlanner:
        """The planner of a view."""
        planner = view.planner
        if planner is None:
            with self._lock:
                planner = view.planner
                if planner is None:
                    planner = view.planner = KeptPlanner(view.opened, self._rows)
                    self._all.add(planner)
        planner.used = view.used
        return planner

    def make_room(self, used: KeptPlanner) -> None:
        """Let planners other than this one forget their files, until what is kept fits."""
        with self._lock:
            total = sum(planner.size for planner in self._all)
            for planner in sorted(self._all, key=lambda each: each.used):
                if total <= self._most_files:
                    break
                if planner is not used:
                    total -= planner.size
                    planner.drop_files()
