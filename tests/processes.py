"""
Processes of a test that do something at the same moment, or are killed.

They are forks of a server that has imported what they need: by themselves, each would take two seconds for that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from threading import Barrier
from typing import Any

_IMPORTED = ("deltalake", "pandas", "pyiceberg.catalog.rest", "pyiceberg.catalog.sql", "pytest", "stats_jobs.index")
_SECONDS = 60

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(list(_IMPORTED))


class Started:
    """Calls in processes of their own, each of which gets ready and waits for the others."""

    def __init__(self, futures: Sequence[Future[Any]], barrier: Barrier) -> None:
        self._futures = futures
        self._barrier = barrier

    def go(self) -> None:
        """Wait until all are ready, and let them go on."""
        with contextlib.suppress(RuntimeError):  # one of them failed, which `results` tells
            self._barrier.wait()

    def results(self, seconds: float = _SECONDS) -> list[Any]:
        """What the calls return; raises what one of them raises."""
        return [future.result(seconds) for future in self._futures]


@contextlib.contextmanager
def started(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Started]:
    """Calls a function in as many processes; its first argument is a function that waits for the others."""
    barrier = _context.Barrier(len(calls) + 1, timeout=_SECONDS)
    with ProcessPoolExecutor(len(calls), _context, _keep, (barrier,)) as pool:
        yield Started([pool.submit(_called, function, call) for call in calls], barrier)


def at_once(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What the calls return; see `started`."""
    with started(function, calls) as processes:
        processes.go()
        return processes.results()


def talking(function: Callable[..., None], *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Start a process that calls a function with a connection; returns it and the other end."""
    ours, theirs = _context.Pipe()
    process = _context.Process(target=function, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()  # so that the end of the process is the end of what is received
    return process, ours


_barriers: list[Barrier] = []


def _keep(barrier: Barrier) -> None:
    _barriers[:] = [barrier]


def _called(function: Callable[..., Any], call: tuple[Any, ...]) -> Any:
    (barrier,) = _barriers
    try:
        return function(barrier.wait, *call)
    except BaseException:
        barrier.abort()
        raise
