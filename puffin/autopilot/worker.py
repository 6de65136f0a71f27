"""
Works on one table: runs what is due or cleans it, remembers how that ended, and tells of it.

Threads share a worker. A table is looked at once more just before it runs, since another instance or a person may have
been faster.
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from puffin.autopilot.claims import Claims
from puffin.autopilot.decide import BROKEN, DUE, Past, Verdict, judge
from puffin.autopilot.events import DONE, FAILED, INTERRUPTED, SKIPPED, Event, WorkDone
from puffin.autopilot.ledger import Ledger
from puffin.autopilot.look import SeenTable, Watcher, look_at, told
from puffin.autopilot.run_table import clean_table, run_table
from puffin.autopilot.spark_sessions import SparkSessions
from puffin.errors import NotWritable, StorageError, UnsupportedError, UsageError
from puffin.policy.model import CleaningSchedule, Policy
from puffin.storage import place_of

SPENT, CLAIMED = "today's budget is spent", "another instance has them"

_log = logging.getLogger(__name__)


class Worker:
    """
    Works on tables of a policy, one in each thread that calls it.

    Args:
        ledger: Takes what was read, and failures.
        watcher: Forgets what it has seen of a table that was run.
        stopped: Ends what runs in this process, and keeps the rest from starting.
        tell: Called with the event of each table, in the thread that worked on it.
    """

    def __init__(
        self,
        policy: Policy,
        ledger: Ledger,
        watcher: Watcher,
        sparks: SparkSessions,
        stopped: threading.Event,
        tell: Callable[[Event], None],
    ) -> None:
        self._policy = policy
        self._ledger = ledger
        self._watcher = watcher
        self._sparks = sparks
        self._stopped = stopped
        self._tell = tell
        self._claims = Claims(policy.state)
        self._guard = threading.Lock()
        self._running: dict[str, float] = {}  # since when

    def run(self, planned: Verdict) -> str:
        """
        Run a table, unless a limit says no or it is no longer due.

        Returns the outcome of the `Event` that it told, or why it told of none: `SPENT`, `CLAIMED`, or what `why_not`
        returns.
        """
        why_not = self.why_not()
        if why_not is not None:
            return why_not
        with self._alone_on(planned) as is_alone:
            return self._run_claimed(planned) if is_alone else CLAIMED

    def why_not(self) -> str | None:
        """Why no table may start now, whatever the budget; None if one may."""
        limits = self._policy.limits
        if self._stopped.is_set():
            return "stopped"
        return None if limits.may_start(utc()) else f"outside {limits.hours} {limits.time_zone}"

    def clean(self, verdict: Verdict) -> bool:
        """Remove what jobs left behind at a table, if the policy says so; returns False if others work on it."""
        if self._stopped.is_set() or self._policy.clean is None:
            return False
        with self._alone_on(verdict) as is_alone:
            if is_alone:
                self._clean_claimed(verdict, self._policy.clean)
            return is_alone

    def is_on(self, key: str) -> bool:
        """Whether a thread works on a table."""
        return key in self._running

    def under_way(self) -> dict[str, float]:
        """The tables that threads work on, and for how many seconds."""
        with self._guard:
            now = time.monotonic()
            return {key: now - since for key, since in self._running.items()}

    def past(self) -> Past:
        """How earlier runs ended."""
        return Past(self._ledger.failures(time.time() + self._policy.retry.most), self._ledger.ended())

    @contextlib.contextmanager
    def _alone_on(self, verdict: Verdict) -> Iterator[bool]:
        """Whether nobody else on this machine works on a table, and keep others off it in the block."""
        key = verdict.seen.key
        with self._guard:
            is_free = key not in self._running
            self._running.setdefault(key, time.monotonic())
        if not is_free:
            yield False
            return
        try:
            directory = place_of(verdict.seen.location or key)  # the same for instances that name it otherwise
            with self._claims.hold(directory) as is_ours:
                if not is_ours:
                    _log.info("%s: not run: another instance works on it", key)
                yield is_ours
        finally:
            with self._guard:
                del self._running[key]

    def _run_claimed(self, planned: Verdict) -> str:
        limits = self._policy.limits
        day = self._ledger.reserve(planned.bytes, limits.day(utc()), limits.bytes_per_day)
        if day is None:
            _log.info("%s: not run: %s", planned.seen.key, SPENT)
            return SPENT
        event, spent = self._attempt(planned)
        self._ledger.settle(planned.bytes, spent, day)
        self._remember(planned.seen, event)
        return event.outcome

    def _attempt(self, planned: Verdict) -> tuple[Event, int]:
        """What became of a table, and the bytes that this costs of the budget."""
        verdict, expected = planned, 0
        started, work, outcome, error = time.monotonic(), WorkDone(), DONE, None
        try:
            seen = look_at(planned.seen.covered)
            if seen.is_gone:
                return event_of(planned, planned.action, SKIPPED, "the table is gone"), 0
            verdict = judge(seen, time.time(), self.past())
            if verdict.state == BROKEN:
                return event_of(planned, planned.action, FAILED, planned.why, error=verdict.why), 0
            if verdict.state != DUE:
                return event_of(planned, planned.action, SKIPPED, verdict.why), 0
            with self._sparks.lend(verdict.bytes) as spark:
                for each in run_table(verdict, self._policy.limits.driver_bytes, spark, self._progress):
                    work = work.plus(each)
        except Exception as exc:  # noqa: BLE001 - a table must not stop the others
            outcome, error = (INTERRUPTED if self._stopped.is_set() else FAILED), told(exc, verdict.seen.key)
            if not isinstance(exc, NotWritable):
                expected = verdict.bytes  # what it has read is not known; this is what it could have been
        elapsed = time.monotonic() - started
        event = event_of(verdict, verdict.action, outcome, verdict.why, work=work, elapsed_seconds=elapsed, error=error)
        return event, max(work.bytes_read, expected)

    def _clean_claimed(self, verdict: Verdict, schedule: CleaningSchedule) -> None:
        started, error, reason = time.monotonic(), None, "scheduled"
        try:
            files = clean_table(verdict.seen.covered, schedule)
            reason = "a file removed" if files == 1 else f"{files:,} files removed"
        except (UsageError, UnsupportedError) as exc:
            _log.info("%s: not cleaned: %s", verdict.seen.key, exc)
            return
        except Exception as exc:  # noqa: BLE001 - as above
            error = told(exc, verdict.seen.key)
        outcome, elapsed = DONE if error is None else FAILED, time.monotonic() - started
        self._tell(event_of(verdict, "clean", outcome, reason, elapsed_seconds=elapsed, error=error))

    def _remember(self, seen: SeenTable, event: Event) -> None:
        key, now = seen.key, time.time()
        self._watcher.forget(key)
        if event.outcome == FAILED:
            self._ledger.failed(key, event.error or "", self._policy.retry, now)
        elif event.outcome == DONE:
            self._ledger.succeeded(key, now, 0 if seen.policy is None else seen.policy.due.at_most_every)
        if event.outcome == SKIPPED:
            _log.info("%s: not run: %s", key, event.reason)
        self._tell(event)

    def _progress(self, _done: int, _total: int) -> None:
        """Called after each batch: ends a run that reads in this process."""
        if self._stopped.is_set():
            raise StorageError("the autopilot was stopped")


def utc() -> datetime.datetime:
    """The time by which hours and days of a policy go."""
    return datetime.datetime.now(datetime.timezone.utc)


def event_of(verdict: Verdict, action: str, outcome: str, reason: str, **of_run: Any) -> Event:
    """An event that happens now; ``of_run`` are other fields of it, if anything ran."""
    table, catalog, now = verdict.seen.name, verdict.seen.catalog, time.time()
    return Event(seconds=now, table=table, catalog=catalog, action=action, outcome=outcome, reason=reason, **of_run)
