"""What DuckDB answers about Arrow tables; all tests of a process share a connection, which takes long to open."""

from __future__ import annotations

import functools
from typing import Any

import duckdb
import pyarrow as pa


def ask(query: str, **tables: pa.Table) -> tuple[Any, ...]:
    """The one row of the answer to a query, in which the tables have these names."""
    connection = _connection()
    for name, rows in tables.items():
        connection.register(name, rows)
    (found,) = connection.execute(query).fetchall()
    return tuple(found)


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})
