"""
Which tables are served, and the threads that read them.

Even the check whether a path is below a root may hang in the file system, so a thread makes it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from puffin.errors import TableNotFound
from puffin.server.problems import logged
from puffin.server.roots import Roots
from puffin.server.settings import Settings
from puffin.server.workers import Workers

_Result = TypeVar("_Result")


class Access:
    """
    Reads tables that are served, in threads.

    Attributes:
        roots: The paths below which tables are served.
        workers: The threads.
        table_seconds: How long a table may take, where others wait for it.
    """

    def __init__(self, settings: Settings, workers: Workers) -> None:
        self.roots = Roots(settings.roots)
        self.workers = workers
        self.table_seconds = settings.limits.table_seconds
        self._has_catalog = settings.catalog is not None

    def check(self, table: str) -> None:
        """Raise Problem 403 or TableNotFound for a table that is not served."""
        if not self._has_catalog or "/" in table:  # the lookup decides the same way
            self.roots.check(table)
        elif "." not in table:
            raise TableNotFound(f"{table}: expected namespace.table")

    async def run(self, key: str, call: Callable[[], _Result]) -> _Result:
        """Call ``call`` in a thread; calls with one key share the threads of one table."""
        return await self.workers.run(key, call)

    async def read(self, table: str, call: Callable[[], _Result]) -> _Result:
        """Check in a thread that the table is served, and call ``call`` there."""

        def checked() -> _Result:
            self.check(table)
            return call()

        return await self.workers.run(table, checked)

    async def in_time(
        self, table: str, call: Callable[[], _Result], seconds: float | None = None
    ) -> _Result | Exception:
        """As `read`, but errors are returned, so that no table stops the others; ``seconds`` if fewer are left."""
        try:
            return await asyncio.wait_for(self.read(table, call), self.table_seconds if seconds is None else seconds)
        except Exception as exc:  # noqa: BLE001 - a table must not stop the others
            return logged(exc, table)
