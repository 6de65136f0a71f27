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
        arguments = (call, lambda: work(taken(left)))
        thread = threading.Thread(target=fulfil, args=arguments, name=f"{name}_{len(calls)}", daemon=True)
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


def fulfil(future: Future[_R], call: Callable[[], _R]) -> None:
    """Give a future what a call returns or raises."""
    try:
        future.set_result(call())
    except BaseException as exc:  # noqa: BLE001 - it is raised where the result is asked for
        future.set_exception(exc)


def taken(left: deque[_T]) -> Iterator[_T]:
    """The items that are left, each for one of the threads that take from them."""
    while True:
        try:
            item = left.popleft()
        except IndexError:
            return
        yield item
