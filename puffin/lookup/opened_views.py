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
    """The views of openings; the index of a state is looked for again after ``ttl_seconds``."""

    def __init__(self, planners: KeptPlanners, ttl_seconds: float, most: int, clock: Callable[[], float]) -> None:
        self._planners = planners
        self._ttl = ttl_seconds
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._shared: OrderedDict[tuple[str, SnapshotSelector], OpenedView] = OrderedDict()

    def of(self, opened: TableSnapshot) -> OpenedView:
        """The view of an opening; openings with one ``state``, the same object, share their planner."""
        key, now = (opened.name, opened.selector), self._clock()
        with self._lock:
            shared = self._shared.get(key)
            if shared is None or shared.opened.state is not opened.state:
                shared = self._shared[key] = OpenedView(opened, now, now + self._ttl)
                while len(self._shared) > self._most:
                    self._shared.popitem(last=False)
            elif now >= shared.fresh_until:
                shared.fresh_until = now + self._ttl
            self._shared.move_to_end(key)
            shared.used = now
            return OpenedView(opened, now, shared.fresh_until, self._planners.of(shared))
