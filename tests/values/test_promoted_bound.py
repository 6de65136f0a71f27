"""Bounds of a column whose type was promoted."""

from __future__ import annotations

import pytest

from puffin.values.stored_bounds import promoted_bound


@pytest.mark.parametrize(
    ("before", "now", "bound", "promoted"),
    [
        ("int", "long", -(2**31), -(2**31)),
        ("float", "double", 0.1, 0.10000000149011612),
        ("decimal(4, 2)", "decimal(20, 2)", "-1.25", "-1.25"),
        ("date", "timestamp", "1969-12-31", "1969-12-31T00:00:00.000000"),
        ("date", "timestamp_ns", "2024-02-29", "2024-02-29T00:00:00.000000000"),
        ("date", "timestamp_ns", "2500-01-01", None),
        ("int", "long", None, None),
        ("int", "long", "x", None),
    ],
)
def test_promoted_bound_is_that_of_the_same_value(before, now, bound, promoted):
    assert promoted_bound(before, now, bound) == promoted
