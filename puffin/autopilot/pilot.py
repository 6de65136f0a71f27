"""
The autopilot: looks at all tables, decides, runs what is due, and looks again.

Each table is looked at once more just before it runs, since another instance or a person may have been faster. Tables
that wait for a thread when the next look begins go back, so that its order counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from puffin.autopilot.broken import BrokenTables
from puffin.autopilot.claims import Claims
from puffin.autopilot.counts import Counts
from puffin.autopilot.decide import BROKEN, DUE, NEVER, Past, Verdict, decide, judge, spread, within
from puffin.autopilot.events import DONE, FAILED, INTERRUPTED, SKIPPED, Event, publish
from puffin.autopilot.ledger import Ledger
from puffin.autopilot.look import Watcher, look_at
from puffin.autopilot.questions import Asked, questions
from puffin.autopilot.run_table import Done, clean_table, run_table
from puffin.autopilot.spark_sessions import SparkSessions
from puffin.errors import PuffinError, StorageError, UnsupportedError, UsageError, in_one_line
from puffin.policy.model import Cleaning, Policy

_TICK = 5.0  # seconds between chores: idle sessions end, the budget is counted
_PATIENCE = 0.5  # seconds between calls of cancel

_log = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Autopilot:
    """
    Keeps the tables of a policy fresh.

    Args:
        listener: Told of each run, in the thread that ran it.
        verbose: Let Spark print.
        writes: Whether there is to be a state; a dry run uses the one that is there.
        stopped: Set to stop it, as `stop` does.

    Attributes:
        asked: What planners ask a server in this process, which weighs in the order.
    """

    def __init__(
        self,
        policy: Policy,
        listener: Listener | None = None,
        *,
        verbose: bool = False,
        writes: bool = True,
        stopped: threading.Event | None = None,
    ) -> None:
        self.policy = policy
        self.counts = Counts()
        self.asked = Asked()
        self._listener = listener
        self._watcher = Watcher(policy)
        self._ledger = Ledger(policy.state) if writes else Ledger.of_others(policy.state)
        self._claims = Claims(policy.state)
        self._sparks = SparkSessions(policy.spark, verbose=verbose)
        self._seed = random.getrandbits(32)
        self._stopped = stopped or threading.Event()
        self._guard = threading.Lock()
        self._ended: dict[str, float] = {}
        self._running: set[str] = set()
        self._last: Mapping[str, tuple[str, str]] = {}
        self._broken = BrokenTables()

    def look(self) -> list[Verdict]:
        """Look at all tables and decide: the due ones first, in their order."""
        started = time.monotonic()
        seen = self._watcher.look()
        now = time.time()
        verdicts = decide(seen, now, self._past(), questions(self.policy.questions, self.asked))
        self._last = {each.seen.covered.asked_as: (each.state, each.why) for each in verdicts}
        self.counts.look(verdicts, now, time.monotonic() - started)
        self._count_budget()
        return verdicts

    def last(self) -> Mapping[str, tuple[str, str]]:
        """The state of each table at the last look, and why, by the name by which planners ask for it."""
        return self._last

    def plan(self, verdicts: Sequence[Verdict]) -> list[tuple[Verdict, bool]]:
        """The due tables in their order, and whether the hours and what is left of today's budget let them start."""
        open_ = self.policy.limits.may_start(_utc())
        return [(verdict, open_ and may) for verdict, may in within(verdicts, self.budget_left())]

    def budget_left(self) -> int | None:
        """The bytes that may be read today; None without a limit."""
        limit = self.policy.limits.bytes_per_day
        return None if limit is None else max(0, limit - self._ledger.spent(self.policy.limits.day(_utc())))

    def run(self, *, once: bool = False) -> list[Verdict]:
        """Look and run, over and over until `stop`, or ``once``; returns what the last look has found."""
        pool = ThreadPoolExecutor(self.policy.limits.tables_at_once, thread_name_prefix="puffin-table")
        futures: list[Future[None]] = []
        verdicts: list[Verdict] = []
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                try:
                    verdicts = self.look()
                    self._broken.log(verdicts)
                except Exception:
                    if once:
                        raise
                    _log.exception("the look at the tables failed, please report it")  # healthz tells if it stays so
                    verdicts = []
                futures = [future for future in futures if not (future.cancel() or future.done())]
                futures += self._submit(pool, verdicts)
                self._until(lambda: not _left(futures) if once else time.monotonic() - began >= self.policy.look_every)  # noqa: B023
                if once:
                    break
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while under_way := _left(futures):
                self._sparks.cancel()
                wait(under_way, timeout=_PATIENCE)
            self._sparks.close()
        return verdicts

    def stop(self) -> None:
        """Start nothing else, and end what runs soon."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def _submit(self, pool: ThreadPoolExecutor, verdicts: Sequence[Verdict]) -> list[Future[None]]:
        futures = []
        for verdict in spread(verdicts, self._seed):
            if verdict.seen.key not in self._running:
                futures.append(pool.submit(self._run, verdict))
        if self.policy.clean is not None:
            now, every = time.time(), self.policy.clean.every
            before = self._ledger.looked(now, now - self.policy.look_every)
            for verdict in verdicts:
                phase = zlib.crc32(verdict.seen.key.encode()) % every  # so that not all tables are cleaned at once
                passed = (now - phase) // every > (before - phase) // every
                if passed and verdict.state not in (BROKEN, NEVER):
                    futures.append(pool.submit(self._clean, verdict))
        return futures

    def _until(self, done: Callable[[], bool]) -> None:
        """Do chores until something is done, or the autopilot is stopped."""
        chores = time.monotonic()
        while not (self._stopped.is_set() or done()):
            self._stopped.wait(0.05)
            if time.monotonic() - chores >= _TICK:
                chores = time.monotonic()
                self._sparks.release_idle()
                self._count_budget()

    def _run(self, planned: Verdict) -> None:
        """Run a table, unless a limit says no or it is current by now."""
        if self._stopped.is_set() or not self.policy.limits.may_start(_utc()):
            return
        with self._alone_on(planned) as is_alone:
            if is_alone:
                self._run_claimed(planned)

    @contextlib.contextmanager
    def _alone_on(self, verdict: Verdict) -> Iterator[bool]:
        """Whether nobody else on this machine works on a table, and keep others off it in the block."""
        key = verdict.seen.key
        with self._guard:
            is_free = key not in self._running
            self._running.add(key)
        if not is_free:
            yield False
            return
        try:
            with self._claims.hold(verdict.seen.location or key) as is_ours:
                if not is_ours:
                    _log.info("%s: not run: another instance works on it", key)
                yield is_ours
        finally:
            with self._guard:
                self._running.discard(key)

    def _run_claimed(self, planned: Verdict) -> None:
        limits = self.policy.limits
        day = limits.day(_utc())
        if not self._ledger.reserve(planned.bytes, day, limits.bytes_per_day):
            _log.info("%s: not run: today's budget is spent", planned.seen.key)
            return
        event = self._attempt(planned)
        self._ledger.settle(planned.bytes, event.bytes_read, day)
        self._remember(planned.seen.key, event)

    def _attempt(self, planned: Verdict) -> Event:
        verdict = judge(look_at(planned.seen.covered), time.time(), self._past())
        if verdict.state != DUE:
            return self._event(planned, SKIPPED, Done(), 0.0, reason=verdict.why)
        started = time.monotonic()
        done, outcome, error = Done(), DONE, None
        try:
            with self._sparks.lend(verdict.bytes) as spark:
                for each in run_table(verdict, self.policy.limits.driver_bytes, spark, self._progress):
                    done = done.beside(each)
        except Exception as exc:  # noqa: BLE001 - a table must not stop the others
            outcome, error = (INTERRUPTED if self._stopped.is_set() else FAILED), _told(exc, verdict)
        event = self._event(verdict, outcome, done, time.monotonic() - started)
        # What a failed run has read is not known; the estimate is what it could have been.
        read = verdict.bytes if error else done.bytes_read
        return dataclasses.replace(event, error=error, bytes_read=read)

    def _clean(self, verdict: Verdict) -> None:
        if self._stopped.is_set() or self.policy.clean is None:
            return
        with self._alone_on(verdict) as is_alone:
            if is_alone:
                self._clean_claimed(verdict, self.policy.clean)

    def _clean_claimed(self, verdict: Verdict, cleaning: Cleaning) -> None:
        started, error, reason = time.monotonic(), None, "scheduled"
        try:
            files = clean_table(verdict.seen.covered, cleaning)
            reason = "a file removed" if files == 1 else f"{files:,} files removed"
        except (UsageError, UnsupportedError) as exc:
            _log.info("%s: not cleaned: %s", verdict.seen.key, exc)
            return
        except Exception as exc:  # noqa: BLE001 - as above
            error = _told(exc, verdict)
        outcome = DONE if error is None else FAILED
        event = self._event(verdict, outcome, Done(), time.monotonic() - started, action="clean", reason=reason)
        self._tell(dataclasses.replace(event, error=error))

    def _remember(self, key: str, event: Event) -> None:
        now = time.time()
        self._watcher.forget(key)
        if event.outcome == FAILED:
            self._ledger.failed(key, event.error or "", self.policy.retry, now)
        elif event.outcome == DONE:
            self._ledger.succeeded(key)
            with self._guard:
                self._ended[key] = now
        if event.outcome == SKIPPED:
            _log.info("%s: not run: %s", key, event.reason)
        self._tell(event)

    def _tell(self, event: Event) -> None:
        self.counts.add(event)
        self._count_budget()
        level = logging.ERROR if event.outcome == FAILED else logging.INFO
        about = {"table": event.table, "is_told": self._listener is not None}
        said = event.error or event.reason
        _log.log(level, "%s: %s %s: %s", event.table, event.action, event.outcome, said, extra=about)
        if event.outcome != SKIPPED:
            publish(event, self.policy)
        if self._listener is not None:
            self._listener(event)

    def _event(
        self, verdict: Verdict, outcome: str, done: Done, seconds: float, *, action: str = "", reason: str = ""
    ) -> Event:
        both = [name for name, wanted in (("statistics", verdict.statistics), ("index", verdict.index)) if wanted]
        return Event(
            seconds=time.time(),
            table=verdict.seen.name,
            catalog=verdict.seen.catalog,
            action=action or " and ".join(both),
            outcome=outcome,
            reason=reason or verdict.why,
            snapshot_id=done.snapshot_id,
            committed=done.committed,
            files_read=done.files_read,
            rows_read=done.rows_read,
            bytes_read=done.bytes_read,
            elapsed_seconds=seconds,
        )

    def _past(self) -> Past:
        latest = time.time() + self.policy.retry.most
        with self._guard:
            return Past(self._ledger.failures(latest), dict(self._ended))

    def _count_budget(self) -> None:
        left = self.budget_left()
        if left is not None:
            self.counts.budget(left)

    def _progress(self, _done: int, _total: int) -> None:
        """Called after each batch: ends a run that reads in this process."""
        if self._stopped.is_set():
            raise StorageError("the autopilot was stopped")


def _left(futures: Sequence[Future[None]]) -> list[Future[None]]:
    return [future for future in futures if not future.done()]


def _told(exc: Exception, verdict: Verdict) -> str:
    """What an event says of an error, in one line; the traceback of a bug goes to the log."""
    if isinstance(exc, PuffinError):
        return in_one_line(exc)
    _log.error("%s: internal error, please report it", verdict.seen.key, exc_info=exc)
    return f"internal error: {exc!r}"


def _utc() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
