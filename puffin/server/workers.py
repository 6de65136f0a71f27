"""
Threads that read storage, so that the event loop never blocks.

A thread that hangs in a read cannot be stopped: the request gets its 504, and the thread keeps its slot until the
storage answers. Slots are counted by table, so that a table that hangs takes none from the others. The threads are
daemons, so that a thread that hangs does not stop the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from puffin.server.problems import Problem
from puffin.server.settings import Limits

_Result = TypeVar("_Result")


class Workers:
    """Runs blocking calls in threads, within the limits; ``busy`` counts all of them, abandoned ones too."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.threads)
        self._tables: dict[str, _Places] = {}
        self.busy = 0

    async def run(self, table: str, call: Callable[[], _Result]) -> _Result:
        """Run a call about a table; Problem 429 if too many others wait for that table."""
        places = self._tables.setdefault(table, _Places(self._limits.threads_per_table))
        if places.wanted >= self._limits.waiting:
            raise Problem.too_many("too many requests wait for this table")
        places.wanted += 1
        async with contextlib.AsyncExitStack() as held:
            held.callback(self._release, table, places)
            await held.enter_async_context(places.free)
            await held.enter_async_context(self._free)
            running = asyncio.ensure_future(self._run(call, held.pop_all()))
        # Retrieve the error even if nobody waits.
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(running)

    async def _run(self, call: Callable[[], _Result], held: contextlib.AsyncExitStack) -> _Result:
        """Run the call; release its slots when the thread ends, even if nobody waits any more."""
        async with held:
            self.busy += 1
            try:
                return await _in_thread(call)
            finally:
                self.busy -= 1

    def _release(self, table: str, places: _Places) -> None:
        places.wanted -= 1
        if places.wanted == 0:
            del self._tables[table]


class _Places:
    """The thread slots of a table, and how many calls want or have one."""

    __slots__ = ("free", "wanted")

    def __init__(self, count: int) -> None:
        self.free = asyncio.Semaphore(count)
        self.wanted = 0


async def _in_thread(call: Callable[[], _Result]) -> _Result:
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[_Result] = loop.create_future()

    def settle(how: Callable[[Any], None], value: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped
            loop.call_soon_threadsafe(lambda: None if outcome.done() else how(value))

    def work() -> None:
        try:
            result = call()
        except BaseException as exc:  # noqa: BLE001 - it is raised where the result is awaited
            settle(outcome.set_exception, exc)
        else:
            settle(outcome.set_result, result)

    try:
        threading.Thread(target=work, name="puffin-storage", daemon=True).start()
    except RuntimeError as exc:  # the limit of the operating system
        raise Problem.too_many("the system has no more threads") from exc
    return await outcome
