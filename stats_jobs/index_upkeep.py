"""
Keeps the index of a table current while its statistics are computed, so that each new file is read once.

Statistics do not depend on the index: what goes wrong with it is logged, and the next run catches up.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterable, Sequence

from puffin.errors import PuffinError
from puffin.tables.snapshot import CURRENT, TableSnapshot
from stats_jobs.index import IndexRun, existing_index
from stats_jobs.index_report import IndexReport
from stats_jobs.options import Options
from stats_jobs.partial import Partial
from stats_jobs.run import Runner
from stats_jobs.scan import Scan

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class IndexUpkeep:
    """What a run does for the index of its table; without an index, nothing."""

    run: IndexRun | None

    @classmethod
    def of(cls, opened: TableSnapshot, options: Options) -> IndexUpkeep:
        """Nothing unless the options allow it, name no other snapshot than the current one, and there is an index."""
        if not (options.index and options.writes and options.selector == CURRENT):
            return cls(None)
        try:
            plan = existing_index(opened, options.home)
        except PuffinError as exc:
            _log.warning("%s: the index is not caught up: %s", opened.name, exc)
            return cls(None)
        return cls(None if plan is None else IndexRun(plan))

    def with_filters(self, scans: Iterable[Scan]) -> list[Scan]:
        """As `IndexPlan.with_filters`."""
        return list(scans) if self.run is None else self.run.plan.with_filters(scans)

    @property
    def after_step(self) -> Callable[[Partial], None] | None:
        """Publishes what a step of a large run has read beside the statistics; None without an index."""
        return None if self.run is None else functools.partial(_publish, self.run)

    def catch_up(self, runner: Runner, read: Sequence[Partial]) -> IndexReport | None:
        """Publish what was read beside the statistics, and read the rest; None if there is no index, or it failed."""
        if self.run is None:
            return None
        before = runner.turns.spent()
        try:
            done = self.run.catch_up(runner, read)
            return done.report(runner.turns.spent().since(before))
        except PuffinError as exc:
            _log.warning("%s: the index is not caught up: %s", runner.opened.name, exc)
            return None


def _publish(run: IndexRun, partial: Partial) -> None:
    try:
        run.publish(partial)
    except PuffinError as exc:
        _log.warning("%s: the index is caught up at the end of the run only: %s", run.plan.opened.name, exc)
