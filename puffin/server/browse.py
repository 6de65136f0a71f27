"""What a person browses: the list of tables, and the content of a statistics file."""

from __future__ import annotations

import asyncio
from typing import Any

from puffin.errors import CorruptError, NotFoundError, PuffinError
from puffin.inspection import describe
from puffin.lookup import AnalyzedTable
from puffin.server.documents import TablesQuery
from puffin.server.encoded import encode
from puffin.server.problems import Problem
from puffin.server.service import Asked, Service

_MOST_NAMES = 10_000


class Browser:
    """Lists tables and shows their statistics files; errors as for `Service`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def tables(self, query: TablesQuery) -> bytes:
        """A page of the analyzed tables by name; tables that cannot be read in time are listed separately."""
        after, part = query.after or "", (query.contains or "").casefold()
        names = [
            name
            for name in await self._service.table_names(query.namespace, _MOST_NAMES)
            if name > after and part in name.casefold()
        ]
        page = names[: query.limit]
        found = await asyncio.gather(*map(self._analyzed, page))
        return encode(
            {
                "tables": [table.to_json() for table in found if isinstance(table, AnalyzedTable)],
                "unreadable": [name for name, table in zip(page, found, strict=True) if isinstance(table, Exception)],
                "next": page[-1] if len(names) > len(page) else None,
            }
        )

    async def dump(self, asked: Asked) -> bytes:
        """
        The dump document of the statistics file that answers for a snapshot: the first column's, if there are several.
        """
        table = asked.question.table
        following = self._service.lookup.following
        return encode(await self._service.read(table, lambda: following([table], lambda: self._dump(asked))))

    def _dump(self, asked: Asked) -> dict[str, Any]:
        table, columns = asked.question.table, self._service.ask(asked).answer.columns
        path = next((column.statistics_path for column in columns if column.statistics_path), None)
        if path is None:
            raise NotFoundError(f"{table}: no statistics file")
        lookup = self._service.lookup
        try:
            return describe(path, opened_by=lambda file: lookup.open_statistics(table, file)).to_json()
        except CorruptError as exc:  # the reader of bytes does not know their file
            raise CorruptError(f"{path}: {exc}") from exc

    async def _analyzed(self, name: str) -> AnalyzedTable | Exception | None:
        try:
            return await asyncio.wait_for(
                self._service.read(name, lambda: self._service.lookup.analyzed(name)), self._service.table_seconds
            )
        except (PuffinError, Problem, asyncio.TimeoutError) as exc:
            return exc
