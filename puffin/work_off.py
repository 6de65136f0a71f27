"""Threads that take work from one queue. One starts alone: with little work, several fight for the interpreter lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
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
    with ThreadPoolExecutor(threads, thread_name_prefix=name) as pool:
        try:
            calls = [pool.submit(work, _taken(left))]
            if not wait(calls, timeout=alone_seconds).done:
                calls += [pool.submit(work, _taken(left)) for _ in range(threads - 1)]
            wait(calls, return_when=FIRST_EXCEPTION)
        finally:
            left.clear()
        return [call.result() for call in calls]


def _taken(left: deque[_T]) -> Iterator[_T]:
    while True:
        try:
            item = left.popleft()
        except IndexError:
            return
        yield item
