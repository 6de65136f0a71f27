"""Beside Iceberg Java's own planning: without an index, ours never has more files than it leaves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from puffin.load import load_table
from puffin.planning.plan import NO_INDEX, Planner
from tests.planning.random_filters import FLOATS, Both, Filter, Not, Test, literal, matches
from tests.planning.random_tables import RandomTable

METHODS = {
    "=": "equal",
    "!=": "notEqual",
    "<": "lessThan",
    "<=": "lessThanOrEqual",
    ">": "greaterThan",
    ">=": "greaterThanOrEqual",
    "in": "in",
    "not in": "notIn",
    "is null": "isNull",
    "is not null": "notNull",
    "is nan": "isNaN",
    "is not nan": "notNaN",
    "like": "startsWith",
    "not like": "notStartsWith",
}
NUMBERS = ("int", "long", "float", "double", "boolean")
TABLES, FILTERS = 3, 40


@pytest.fixture(scope="module")
def java_expression(spark: Any) -> Callable[[Filter], Any]:
    """Makes a filter as Iceberg's Java library has it."""
    expressions, lists = spark._jvm.org.apache.iceberg.expressions.Expressions, spark._jvm.java.util.ArrayList

    def made(filter_: Filter) -> Any:
        if isinstance(filter_, Not):
            return getattr(expressions, "not")(made(filter_.part))
        if isinstance(filter_, Both):
            left, right = made(filter_.left), made(filter_.right)
            return getattr(expressions, "and" if filter_.is_and else "or")(left, right)
        return test_of(filter_)

    def test_of(test: Test) -> Any:
        method = getattr(expressions, METHODS[test.op])
        values = [v if test.leaf.type in NUMBERS else literal(test.leaf.type, v).strip("'") for v in test.values]
        if test.op.endswith("in"):
            several = lists()
            for value in values:
                several.add(value)
            values = [several]
        return method(test.leaf.name, *values)

    return made


def test_plan_without_index_has_no_more_files_than_java(
    spark: Any, java_expression: Callable[[Filter], Any], tmp_path: Path
) -> None:
    """But for files that hold a match, and for numbers that may be NaN, which Java forgets to be the largest."""
    tables = spark._jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration())
    lists = spark._jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists
    ours = theirs = asked = 0
    for seed in range(TABLES):
        made = RandomTable(tmp_path / str(seed), seed)
        made.grow(lambda: None, with_deletes=False)  # pyiceberg writes field ids of deletes as longs
        peer, planner = tables.load(str(made.table.root)), Planner(load_table(str(made.table.root)).open())
        filters = made.filters(without=FLOATS)
        for _ in range(FILTERS):
            filter_ = filters.draw(made.source.randint(0, 2))
            # Java refuses fractions for integers, and some partition values in pyiceberg's manifests.
            with contextlib.suppress(Py4JJavaError):
                tasks = lists.newArrayList(peer.newScan().filter(java_expression(filter_)).planFiles())
                peers = {str(task.file().location()) for task in tasks}
                found = {task.data_file.file_path for task in planner.plan(str(filter_), index=NO_INDEX).files}
                must = {str(known.entry["file_path"]) for known in made.files if matches(filter_, known.rows)}
                assert found <= peers | must, f"seed {seed}: {filter_}"
                ours, theirs, asked = ours + len(found), theirs + len(peers), asked + 1
    assert asked > TABLES * FILTERS // 2
    assert ours <= theirs * 1.01
