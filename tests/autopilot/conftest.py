"""Fixtures of the autopilot's tests: a directory of tables, a policy for it, and an autopilot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.autopilot.pilot import Autopilot
from puffin.policy.document import parse_policy
from puffin.storage import LocalStore


def append(table: Path, count: int, first: int = 0) -> None:
    keys = list(range(first, first + count))
    write_deltalake(str(table), pa.table({"k": keys, "s": [f"key {key}" for key in keys]}), mode="append")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three tables without statistics."""
    for name, rows in (("a", 100), ("b", 200), ("db/c", 300)):
        append(tmp_path / "lake" / name, rows)
    return tmp_path / "lake"


@pytest.fixture
def pilot_of(lake: Path) -> Callable[..., Autopilot]:
    """Makes an autopilot for the directory, with more lines of policy."""

    def make(more: str = "", listener: Any = None) -> Autopilot:
        text = f"roots: [{lake}]\n" + (more or "rules: [{due: {rows-changed: 5%, at-most-every: 0s}}]\n")
        return Autopilot(parse_policy(text, str(lake.parent / "policy.yaml")), listener)

    return make


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The local files that are opened, as they are."""
    names: list[str] = []
    open_source = LocalStore.open_source

    def opening(self: LocalStore, uri: str) -> Any:
        names.append(uri)
        return open_source(self, uri)

    monkeypatch.setattr(LocalStore, "open_source", opening)
    return names
