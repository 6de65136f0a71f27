"""
One at a time, and whoever waited shares what came of it: an answer as well as an error.

An error is shared with those who were waiting when its attempt began, and with nobody after them: what failed is tried
again by the next who asks.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

from puffin.errors import PuffinError

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    what: Hashable
    began: float
    error: PuffinError


class Gate:
    """
    Lets one caller through at a time.

    Args:
        clock: Tells the time in seconds, and never goes back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failure: _Failure | None = None

    def make(self, what: Hashable, arrived: float, find: Callable[[], _T | None], make: Callable[[], _T]) -> _T:
        """
        What was asked for: found, if somebody has made it by now, else made.

        Args:
            what: Tells one thing that is asked for from others.
            arrived: When the caller came, by the clock.

        Raises:
            PuffinError: Making it failed, for this caller or for one that was let through while this one waited.
        """
        with self._lock:
            found = find()
            if found is not None:
                return found
            self._share_failure(what, arrived)
            began = self._clock()
            try:
                made = make()
            except PuffinError as exc:
                self._failure = _Failure(what, began, exc)
                raise
            self._failure = None
            return made

    def _share_failure(self, what: Hashable, arrived: float) -> None:
        # A function of its own: an error keeps the frames that it passed, and of those none must know the error before.
        failure = self._failure
        if failure is not None and failure.what == what and arrived < failure.began:
            raise failure.error
