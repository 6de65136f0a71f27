"""
Threads that take work from one queue. One starts alone: with little work, several fight for the interpreter lock.

They are daemons: one that hangs in a read of storage does not keep a server from ending.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


def work_off(
    left: deque[_T], work: Callable[[Iterator[_T]], _R], *, threads: int, alone_seconds: float, name: str
) -> list[_R]:
    """
    Run ``work`` in up to ``threads`` threads and return what the calls return.

    Each call gets an iterator that takes items from ``left``.
    The other threads begin if the first is not done after ``alone_seconds``. After an error or an interrupt, or once
    ``left`` is cleared, no thread takes another item. Raises what a call raised.
    """
    calls: list[Future[_R]] = []

    def start() -> None:
        call: Future[_R] = Future()
        thread = threading.Thread(target=_fulfil, args=(call, work, left), name=f"{name}_{len(calls)}", daemon=True)
        thread.start()
        calls.append(call)

    try:
        start()
        if not wait(calls, timeout=alone_seconds).done:
            for _ in range(threads - 1):
                start()
        wait(calls, return_when=FIRST_EXCEPTION)
    finally:
        left.clear()
        wait(calls)
    return [call.result() for call in calls]


def _fulfil(call: Future[_R], work: Callable[[Iterator[_T]], _R], left: deque[_T]) -> None:
    try:
        call.set_result(work(_taken(left)))
    except BaseException as exc:  # noqa: BLE001 - it is raised where the result is asked for
        call.set_exception(exc)


def _taken(left: deque[_T]) -> Iterator[_T]:
    while True:
        try:
            item = left.popleft()
        except IndexError:
            return
        yield item
