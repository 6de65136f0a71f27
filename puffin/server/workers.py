"""
Threads that read storage, so that the event loop never does.

A thread that hangs in a read cannot be stopped, only be left behind: the request gets its 504, and the thread keeps
its place until the storage answers. So places are counted by table: a table that hangs loses its own and no others.
The threads are daemons, since what hangs must not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from puffin.server.problems import Problem
from puffin.server.settings import Limits

_Result = TypeVar("_Result")


class Workers:
    """Runs calls that block, each in a thread of its own, so many at once and by table."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = asyncio.Semaphore(limits.threads)
        self._tables: dict[str, _Places] = {}
        self.busy = 0
        """How many threads there are just now, those included that nobody waits for any more."""

    async def run(self, table: str, call: Callable[[], _Result]) -> _Result:
        """
        What the call returns or raises.

        Args:
            table: What it reads. Only so many calls at once may be about the same.

        Raises:
            Problem: 429: too many others wait for this table.
        """
        places = self._tables.get(table)
        if places is None:
            places = self._tables[table] = _Places(self._limits.threads_per_table)
        if places.wanted >= self._limits.waiting:
            raise Problem(429, "too-many", "too many requests wait for this table", (("Retry-After", "1"),))
        places.wanted += 1
        try:
            await places.free.acquire()
            try:
                await self._free.acquire()
            except BaseException:
                places.free.release()
                raise
        except BaseException:
            self._leave(table, places)
            raise
        return await self._start(table, places, call)

    async def _start(self, table: str, places: _Places, call: Callable[[], _Result]) -> _Result:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_Result] = loop.create_future()
        self.busy += 1

        def finish(result: _Result | None, error: BaseException | None) -> None:
            self.busy -= 1
            places.free.release()
            self._free.release()
            self._leave(table, places)
            if outcome.cancelled():
                return  # nobody waits any more
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]  # of the call, whatever that returns

        def work() -> None:
            result, error = None, None
            try:
                result = call()
            except BaseException as exc:  # noqa: BLE001 - it is raised where the result is awaited
                error = exc
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has stopped meanwhile
                loop.call_soon_threadsafe(finish, result, error)

        try:
            threading.Thread(target=work, name="puffin-storage", daemon=True).start()
        except RuntimeError:  # the operating system has no more
            finish(None, Problem(429, "too-many", "no more threads to be had", (("Retry-After", "1"),)))
        return await outcome

    def _leave(self, table: str, places: _Places) -> None:
        places.wanted -= 1
        if places.wanted == 0 and self._tables.get(table) is places:
            del self._tables[table]


class _Places:
    """The threads that one table may have, and how many calls want or have one."""

    __slots__ = ("free", "wanted")

    def __init__(self, count: int) -> None:
        self.free = asyncio.Semaphore(count)
        self.wanted = 0
