"""
The autopilot: looks at all tables, decides, runs what is due, and looks again.

Tables that still wait for a thread when the next look begins are queued again, in its order.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from puffin.autopilot.broken import BrokenTables
from puffin.autopilot.counts import Counts
from puffin.autopilot.decide import BROKEN, DUE, FRESH, NEVER, Verdict, decide, spread, within
from puffin.autopilot.events import DONE, FAILED, SKIPPED, Event, Publisher
from puffin.autopilot.ledger import Ledger
from puffin.autopilot.look import Watcher, told
from puffin.autopilot.questions import Asked, questions
from puffin.autopilot.slow_runs import SlowRuns
from puffin.autopilot.spark_sessions import SparkSessions
from puffin.autopilot.worker import SPENT, Worker, event_of, utc
from puffin.policy.model import Policy

_TICK = 5.0  # seconds between chores: idle sessions end, the budget is counted
_CANCEL_EVERY = 0.5  # seconds

_log = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Autopilot:
    """
    Keeps the tables of a policy fresh.

    Args:
        listener: Told of each run, in the thread that ran it. What it raises does not end the run.
        verbose: Let Spark print.
        writes: Whether there are to be a state and events; a dry run uses the state that is there.
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
        self._untold: Exception | None = None
        self._watcher = Watcher(policy)
        self._ledger = Ledger(policy.state, writes=writes)
        self._publisher = Publisher(policy if writes else dataclasses.replace(policy, event_file=None))
        self._slow = SlowRuns()
        self._sparks = SparkSessions(policy.spark, verbose=verbose)
        self._seed = random.getrandbits(32)
        self._stopped = stopped or threading.Event()
        self._worker = Worker(policy, self._ledger, self._watcher, self._sparks, self._stopped, self._tell)
        self._last: dict[str, tuple[str, str]] = {}
        self._outcomes: dict[str, str] = {}
        self._broken = BrokenTables()

    def look(self) -> list[Verdict]:
        """Look at all tables and decide: the due ones first, in their order."""
        started = time.monotonic()
        seen = self._watcher.look()
        now = time.time()
        verdicts = decide(seen, now, self._worker.past(), questions(self.policy.questions, self.asked))
        self._outcomes = {}
        self._last = {each.seen.key: (each.state, each.why) for each in verdicts}
        self.counts.look(verdicts, now, time.monotonic() - started)
        self._count_budget()
        return verdicts

    def last(self) -> Mapping[str, tuple[str, str]]:
        """The state of each table at the last look or after its last run, and why, by `CoveredTable.key`."""
        return self._last

    def plan(self, verdicts: Sequence[Verdict]) -> list[tuple[Verdict, bool]]:
        """The due tables in their order, and whether the hours and what is left of today's budget let them start."""
        open_ = self.policy.limits.may_start(utc())
        return [(verdict, open_ and may) for verdict, may in within(verdicts, self.budget_left())]

    def why_not_now(self) -> str | None:
        """Why no table may start now; None if one may."""
        return self._worker.why_not() or (SPENT if self.budget_left() == 0 else None)

    def outcome(self, key: str) -> str | None:
        """How the last run of a table ended, or why it was not run, as `Worker.run` says; None if none was tried."""
        return self._outcomes.get(key)

    def budget_left(self) -> int | None:
        """The bytes that may be read today; None without a limit."""
        limit = self.policy.limits.bytes_per_day
        return None if limit is None else max(0, limit - self._ledger.spent(self.policy.limits.day(utc())))

    def run(self, *, once: bool = False) -> list[Verdict]:
        """
        Look and run, over and over until `stop`, or ``once``; returns what the last look has found.

        With ``once``, raises what the look or the listener has raised.
        """
        pool = ThreadPoolExecutor(self.policy.limits.tables_at_once, thread_name_prefix="puffin-table")
        futures: list[Future[None]] = []
        verdicts: list[Verdict] = []
        try:
            while not self._stopped.is_set():
                began = time.monotonic()
                try:
                    verdicts = self.look()
                    self._broken.log(verdicts)
                    futures = [future for future in futures if not (future.cancel() or future.done())]
                    futures += self._submit(pool, verdicts)
                except Exception:
                    if once:
                        raise
                    _log.exception("the look at the tables failed, please report it")  # healthz tells if it stays so
                    verdicts = []
                if once:
                    self._until_done(futures)
                    while not self.is_stopped and (again := self._affordable(verdicts)):
                        futures += self._submit(pool, again)
                        self._until_done(futures)
                    break
                self._until(lambda: time.monotonic() - began >= self.policy.look_every)  # noqa: B023
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while under_way := _left(futures):
                self._sparks.cancel()
                wait(under_way, timeout=_CANCEL_EVERY)
            self._sparks.close()
        if once and self._untold is not None:
            raise self._untold
        return verdicts

    def stop(self) -> None:
        """Start nothing else, and end what runs soon."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def _submit(self, pool: ThreadPoolExecutor, verdicts: Sequence[Verdict]) -> list[Future[None]]:
        unclean = self._unclean(verdicts)
        others = (each for each in verdicts if each.state not in (DUE, BROKEN, NEVER) and each.seen.key in unclean)
        return [
            pool.submit(self._work, verdict, is_unclean=verdict.seen.key in unclean)
            for verdict in (*spread(verdicts, self._seed), *others)
            if not self._worker.is_on(verdict.seen.key)
        ]

    def _unclean(self, verdicts: Sequence[Verdict]) -> set[str]:
        """The tables whose turn to be cleaned has come."""
        if self.policy.clean is None:
            return set()
        now, every = time.time(), self.policy.clean.every
        keys = [verdict.seen.key for verdict in verdicts]
        # Turns have their phases, so that not all tables are cleaned at once.
        turns = {key: now - (now - zlib.crc32(key.encode(errors="surrogatepass")) % every) % every for key in keys}
        return self._ledger.unclean(turns, every, now - self.policy.look_every)

    def _work(self, verdict: Verdict, *, is_unclean: bool) -> None:
        key, action = verdict.seen.key, verdict.action or "clean"
        try:
            if verdict.state == DUE:
                outcome = self._outcomes[key] = self._worker.run(verdict)
                if outcome == DONE:
                    self._last[key] = FRESH, "it was run since the last look"
            if is_unclean and self._worker.clean(verdict):
                self._ledger.cleaned(key, time.time())
        except Exception as exc:  # noqa: BLE001 - nobody asks the future for it
            self._outcomes[key] = FAILED
            self._tell(event_of(verdict, action, FAILED, verdict.why, error=told(exc, key)))

    def _affordable(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """Those that the budget has refused, as far as it is left: runs may have read less than expected."""
        refused = [each for each in verdicts if self.outcome(each.seen.key) == SPENT]
        return [each for each, may_start in within(refused, self.budget_left()) if may_start]

    def _until_done(self, futures: Sequence[Future[None]]) -> None:
        self._until(lambda: not _left(futures))

    def _until(self, done: Callable[[], bool]) -> None:
        """Do chores until something is done, or the autopilot is stopped."""
        chores = time.monotonic()
        while not (self._stopped.is_set() or done()):
            self._stopped.wait(0.05)
            if time.monotonic() - chores >= _TICK:
                chores = time.monotonic()
                self._sparks.release_idle()
                self._count_budget()
                under_way = self._worker.under_way()
                self.counts.under_way(under_way.values())
                self._slow.log(under_way)

    def _tell(self, event: Event) -> None:
        self.counts.add(event)
        self._count_budget()
        level = logging.ERROR if event.outcome == FAILED else logging.INFO
        about = {"table": event.table, "is_told": self._listener is not None}
        message = event.error or event.reason
        _log.log(level, "%s: %s %s: %s", event.table, event.action, event.outcome, message, extra=about)
        if event.outcome != SKIPPED:
            self._publisher.publish(event)
        if self._listener is not None:
            try:
                self._listener(event)
            except Exception as exc:  # noqa: BLE001 - the table is done, which has to be remembered
                _log.error("%s: its run is not told: %s", event.table, exc)
                self._untold = exc

    def _count_budget(self) -> None:
        left = self.budget_left()
        if left is not None:
            self.counts.budget(left)


def _left(futures: Sequence[Future[None]]) -> list[Future[None]]:
    return [future for future in futures if not future.done()]
