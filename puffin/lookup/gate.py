"""
Let one caller work at a time; those who waited share its result or its error.

Only callers who waited when an attempt began share its error. Later callers try again.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from puffin.errors import PuffinError

_T = TypeVar("_T")
_GateT = TypeVar("_GateT", bound="Gate")


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    what: Hashable
    began: float
    error: PuffinError


class Gate:
    """Lets one caller through at a time; ``clock`` tells a monotonic time in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failure: _Failure | None = None

    def make(self, what: Hashable, arrived: float, find: Callable[[], _T | None], make: Callable[[], _T]) -> _T:
        """
        Find what another caller has made meanwhile, or make it; ``what`` identifies it.

        ``arrived`` is when the caller came, by the gate's clock. Raises the PuffinError of this attempt, or of the one
        that this caller waited for.
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
        # Not inlined in `make`: an error keeps its frames alive, and these must not refer to an older error.
        failure = self._failure
        if failure is not None and failure.what == what and arrived < failure.began:
            raise failure.error


class Gates(Generic[_GateT]):
    """A gate for each key, as long as somebody has it; for any thread."""

    def __init__(self, make: Callable[[], _GateT]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._known: weakref.WeakValueDictionary[Hashable, _GateT] = weakref.WeakValueDictionary()

    def of(self, key: Hashable) -> _GateT:
        """The gate of a key, the same for all who ask while somebody has it."""
        with self._lock:
            gate = self._known.get(key)
            if gate is None:
                gate = self._known[key] = self._make()
            return gate

    def known(self, key: Hashable) -> _GateT | None:
        """The gate of a key if somebody has it."""
        return self._known.get(key)
