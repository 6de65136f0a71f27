"""A server that is killed and started again while pyiceberg queries through it: each query is right, or it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import RESTError

from tests.server.killed_server import CLIENTS, FILES, PATIENCE, ROWS, errors_of_queries


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """A warehouse with the table ``db.t``, whose keys are spread over its files; see `killed_server`."""
    catalog = SqlCatalog("own", uri=f"sqlite:///{tmp_path / 'catalog.db'}", warehouse=(tmp_path / "w").as_uri())
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("k", pa.int64()), ("file", pa.int64())]))
    for number in range(FILES):
        keys = [i * FILES + number for i in range(ROWS)]
        table.append(pa.table({"k": [*keys, *(key + 1 for key in keys)], "file": [number] * 2 * ROWS}))
    return tmp_path / "w"


def test_killed_server_costs_queries_but_no_rows(warehouse: Path, process_of: Callable[..., Any]) -> None:
    process = process_of(warehouse, "--iceberg")

    def ask(key: int) -> Sequence[tuple[int, int]]:
        table = load_catalog("fast", type="rest", uri=f"{process.url}/iceberg").load_table("db.t")
        found = table.scan(row_filter=f"k = {key}").to_arrow().to_pydict()
        return list(zip(found["k"], found["file"], strict=True))

    errors = errors_of_queries(process, lambda port: process_of(warehouse, "--iceberg", "--port", port), ask)
    assert {type(error) for error in errors if not isinstance(error, requests.RequestException | RESTError)} == set()
    assert all(str(error) for error in errors)
    (counted,) = requests.get(f"{process.url}/v1/plans", timeout=PATIENCE).json()["tables"]
    assert counted["plans"] >= CLIENTS
