"""
One caller at a time; those who waited share its answer or its error.

An error is shared with those who waited when its attempt began, and with nobody after them: the next caller tries
again.
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
        Find what another caller has made by now, or make it.

        Args:
            what: Identifies what is made.
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
        # Apart from `make`: an error keeps the frames that it passed, and none of these may refer to an older error.
        failure = self._failure
        if failure is not None and failure.what == what and arrived < failure.began:
            raise failure.error
