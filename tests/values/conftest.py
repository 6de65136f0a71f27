"""Runs tests of values that ask for ``any_type`` once for each type."""

from __future__ import annotations

import pytest

TYPES = (
    *("boolean", "int", "long", "float", "double", "date", "time", "string", "uuid", "binary"),
    *("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "fixed[5]", "fixed[16]", "fixed[20]"),
    *("decimal(9, 2)", "decimal(18, 4)", "decimal(38, 10)"),
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``any_type`` runs over the types."""
    if "any_type" in metafunc.fixturenames:
        metafunc.parametrize("any_type", TYPES)
