"""
One Spark session for the tables that need it, reused from table to table and let go when idle.

A process has one Spark context at most. Tables that need a session of other settings wait until those that use the
present one are done. Tables that are read without Spark neither wait for a session nor end one.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from puffin.policy.model import SparkSize, SparkUse
from stats_jobs import SparkStarter
from stats_jobs.session import Turn


class SparkSessions:
    """Lends a starter of the session for a size; nothing starts until a table has too much to read without Spark."""

    def __init__(self, use: SparkUse, *, verbose: bool = False) -> None:
        self._use = use
        self._verbose = verbose
        self._changed = threading.Condition()
        self._size: SparkSize | None = None
        self._starter: SparkStarter | None = None
        self._users = 0
        self._idle_since = time.monotonic()
        self._ended = False

    @contextlib.contextmanager
    def lend(self, size: int) -> Iterator[SparkStarter]:
        """A starter for a table with this many bytes to read, which borrows the session when the table needs Spark."""
        with contextlib.ExitStack() as held:
            yield _OnDemand(lambda: held.enter_context(self._session(self._use.size_for(size))))

    @contextlib.contextmanager
    def _session(self, size: SparkSize) -> Iterator[SparkStarter]:
        starter = self._borrow(size)
        try:
            yield starter
        finally:
            with self._changed:
                self._users -= 1
                self._idle_since = time.monotonic()
                self._changed.notify_all()
                if self._users == 0 and starter.has_failed:
                    self._drop()

    def release_idle(self) -> None:
        """Stop a session that nobody has used for a while."""
        with self._changed:
            if self._users == 0 and time.monotonic() - self._idle_since >= self._use.idle:
                self._drop()

    def cancel(self) -> None:
        """Cancel what runs on Spark and start nothing else; call it again until the tables are done."""
        with self._changed:
            self._ended = True
            starter = self._starter
        if starter is not None:
            starter.cancel()

    def close(self) -> None:
        """Stop the session, if no table uses it."""
        with self._changed:
            if self._users == 0:
                self._drop()

    def _borrow(self, size: SparkSize) -> SparkStarter:
        with self._changed:
            self._changed.wait_for(lambda: self._users == 0 or size == self._size)
            if self._starter is None or size != self._size:
                self._drop()
                self._size = size
                self._starter = SparkStarter(
                    master=size.master, remote=size.remote, conf=dict(size.conf), verbose=self._verbose
                )
                if self._ended:
                    self._starter.cancel()
            self._users += 1
            return self._starter

    def _drop(self) -> None:
        starter, self._starter, self._size = self._starter, None, None
        if starter is not None:
            starter.__exit__()


class _OnDemand(SparkStarter):
    """A starter that borrows another one when it is first used."""

    def __init__(self, borrow: Callable[[], SparkStarter]) -> None:
        super().__init__()
        self._borrow = borrow
        self._borrowed: SparkStarter | None = None

    def open(self) -> float:
        return self._lender().open()

    def start(self) -> float:
        return self._lender().start()

    @contextlib.contextmanager
    def slot(self) -> Iterator[Turn]:
        with self._lender().slot() as turn:
            yield turn

    def _lender(self) -> SparkStarter:
        if self._borrowed is None:
            self._borrowed = self._borrow()
            self.cluster = self._borrowed.cluster
        return self._borrowed
