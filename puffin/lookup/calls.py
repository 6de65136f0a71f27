"""
Asks storage and catalogs many things at once, and does not wait for what hangs.

A thread that hangs in a read cannot be stopped. The threads are daemons, so that it does not keep the process from
ending.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from puffin.errors import StorageError
from puffin.work_off import fulfil, taken

PATIENCE = 60.0

_K = TypeVar("_K", bound=Hashable)
_T = TypeVar("_T")


class Calls:
    """Calls that many threads make. One that hangs is not made again before its answer was given."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._hanging: dict[Hashable, Future[Any]] = {}
        self._heard_at = 0.0

    def heard(self) -> None:
        """A part of an answer came, in any thread: wait for more."""
        self._heard_at = time.monotonic()

    def answers(self, calls: Mapping[_K, Callable[[], _T]], patience: float) -> dict[_K, _T]:
        """
        What the calls return, by their keys, without those that are left when nothing was heard for a while.

        That is after ``patience`` seconds. What a call returned since it was left is its answer now. Raises what a call
        raised.
        """
        askable = [key for key in calls if key not in self._hanging or self._hanging[key].done()]
        futures: dict[_K, Future[_T]] = {key: self._hanging.pop(key, Future()) for key in askable}
        waiting = deque((future, calls[key]) for key, future in futures.items() if not future.done())
        self.heard()
        for _ in range(min(self._threads, len(waiting))):
            threading.Thread(target=self._work, args=(waiting,), name="puffin-look", daemon=True).start()
        left = set(futures.values())
        while left and (rest := self._heard_at + patience - time.monotonic()) > 0:
            left = wait(left, rest).not_done
        given_up = {key for key, future in futures.items() if future.cancel() or not future.done()}
        self._hanging |= {key: futures[key] for key in given_up if not futures[key].cancelled()}
        return {key: future.result() for key, future in futures.items() if key not in given_up}

    def _work(self, waiting: deque[tuple[Future[_T], Callable[[], _T]]]) -> None:
        for future, call in taken(waiting):
            if future.set_running_or_notify_cancel():
                fulfil(future, call)
                self.heard()


def unanswered(name: str, patience: float) -> StorageError:
    """The error of what was left when the patience of a call was over."""
    return StorageError(f"{name}: the storage has not answered for {patience:g} seconds")
