"""
Tables that callers opened themselves, each with credentials of their own.

Two openings of the same state share its planner: the files, bounds and plans that were read with the credentials of
one hold for the other. What is still to be read is read with the caller's own.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable

from puffin.lookup.cache import MOST_VIEWS
from puffin.lookup.kept_planner import KeptPlanner, KeptPlanners
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import TableSnapshot


@dataclasses.dataclass(slots=True, eq=False)
class OpenedView:
    """One opening of a table; implements `puffin.lookup.kept_planner.PlannedView`."""

    opened: TableSnapshot
    used: float
    fresh_until: float
    planner: KeptPlanner | None = None


class OpenedViews:
    """The views of openings of ``most`` tables; the index of a state is looked for again after ``ttl_seconds``."""

    def __init__(self, planners: KeptPlanners, ttl_seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._planners = planners
        self._ttl = ttl_seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        # By table, so that the old snapshots of one that often changes neither pile up nor push out others.
        self._shared: OrderedDict[str, OrderedDict[SnapshotSelector, OpenedView]] = OrderedDict()

    def of(self, opened: TableSnapshot) -> OpenedView:
        """The view of an opening; openings with one ``state``, the same object, share their planner."""
        now = self._clock()
        with self._lock:
            of_table = self._shared.setdefault(opened.name, OrderedDict())
            self._shared.move_to_end(opened.name)
            shared = of_table.get(opened.selector)
            if shared is None or shared.opened.state is not opened.state:
                shared = of_table[opened.selector] = OpenedView(opened, now, now + self._ttl)
            elif now >= shared.fresh_until:
                shared.fresh_until = now + self._ttl
            of_table.move_to_end(opened.selector)
            shared.used = now
            while len(of_table) > MOST_VIEWS:
                of_table.popitem(last=False)
            while len(self._shared) > self._most:
                self._shared.popitem(last=False)
            return OpenedView(opened, now, shared.fresh_until, self._planners.of(shared))
