"""Fixtures of the autopilot's tests: a directory of tables, a policy for it, and an autopilot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.autopilot.pilot import Autopilot
from puffin.policy.document import parse_policy
from tests.delta_appends import append


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
