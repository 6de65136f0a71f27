"""
Which filters select whole partitions: those that Spark does not look at again once a plan has answered them.

Iceberg's Java library asks whether the inclusive projection of a filter equals the strict one, in every spec. Here a
test selects whole partitions of a spec if a field of it decides the test, as in all cases in which Java says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.planning.random_filters import Both, Filter, Test, leaf_tests, without_not
from tests.planning.transformed import transformed

NEXT = {"<": -1, "<=": 1, ">": 1, ">=": -1}
"""Where the neighbour of a literal is that belongs to the other side of the comparison."""
NOT_SERVED = ("float", "double", "timestamp_ns")
"""Types of which the client plans partitions itself, or which Spark cannot read."""

TIMES = ("year", "month", "day", "hour")


def conjuncts(filter_: Filter) -> Iterator[Filter]:
    """The filters that Spark asks about one by one, with NOT moved into their operators."""
    pushed = without_not(filter_)
    if isinstance(pushed, Both) and pushed.is_and:
        yield from conjuncts(pushed.left)
        yield from conjuncts(pushed.right)
    else:
        yield pushed


def selects_partitions(filter_: Filter, spec: Mapping[str, Any], types: Mapping[int, str]) -> bool:
    """Whether partition tuples of a spec decide a filter; ``types`` are those of the columns, by field id."""
    return all(
        any(
            _decides(field["transform"], test, types[test.leaf.field_id])
            for field in spec["fields"]
            if field["source-id"] == test.leaf.field_id
        )
        for test in leaf_tests(filter_)
    )


def _decides(transform: str, test: Test, type_: str) -> bool:
    if transform == "void" or type_ in NOT_SERVED or (type_ == "uuid" and test.op in NEXT):
        return False
    if test.transform is not None or transform == "identity":
        return test.transform is None or test.transform == transform
    if test.op.endswith("null"):
        return True
    if test.op.endswith("like"):
        return transform.startswith("truncate") and len(test.values[0]) <= int(transform[9:-1])
    is_narrow = transform == "truncate[1]" and type_ in ("int", "long")
    if test.op not in NEXT or not (transform in TIMES or is_narrow):
        return False
    (value,) = test.values
    if test.op in ("<", "<=") and transformed(transform, type_, value - (test.op == "<")) < 0:
        return False  # a partition before 1970 may have rows of the one before it
    return transformed(transform, type_, value) != transformed(transform, type_, value + NEXT[test.op])
