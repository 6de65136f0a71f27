"""The filter that a client applies to rows is that of its request, except where Java's client would fail on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from puffin.iceberg.expression_json import FilterJson
from puffin.rest_catalog.residual import residual_of
from tests.hand_made_table import HandMadeTable

OLD, NEW = ({"type": "is-null", "term": name} for name in ("old", "New"))


def state(root: Path, *, partitioned: bool = True) -> Any:
    table = HandMadeTable(root, [(1, "a", "int"), (2, "old", "int")], spec=[(1, "identity")] if partitioned else [])
    table.evolve([(1, "a", "int"), (2, "new", "int")])
    table.snapshot()
    return table.state()


@pytest.mark.parametrize("filter_", [OLD, {"type": "not", "child": OLD}, {"type": "and", "left": NEW, "right": OLD}])
def test_spark_gets_true_for_an_old_name(tmp_path: Path, filter_: Any) -> None:
    asked = FilterJson.of(filter_, case_sensitive=False)
    assert residual_of(asked, state(tmp_path), is_java=True) == b"true"


@pytest.mark.parametrize(
    ("filter_", "case_sensitive", "is_java", "partitioned"),
    [
        (NEW, False, True, True),
        (OLD, True, True, True),  # may be Java's generic reader, which tests rows by the residual alone
        (OLD, False, False, True),  # pyiceberg counts the rows of files whose residual is true
        (OLD, False, True, False),
    ],
)
def test_others_get_the_filter(
    tmp_path: Path, filter_: Any, case_sensitive: bool, is_java: bool, partitioned: bool
) -> None:
    asked = FilterJson.of(filter_, case_sensitive=case_sensitive)
    assert residual_of(asked, state(tmp_path, partitioned=partitioned), is_java=is_java) == asked.text.encode()


def test_null_for_an_infinite_number_is_not_sent_back(tmp_path: Path) -> None:
    less = {"type": "lt", "term": "a", "value": None}
    for asked in (less, {"type": "and", "left": less, "right": NEW}, {"type": "not", "child": less}):
        residual = json.loads(residual_of(FilterJson.of(asked), state(tmp_path), is_java=False))
        assert residual == {"type": "or", "left": {**OLD, "term": "a"}, "right": {"type": "not-null", "term": "a"}}


@pytest.mark.parametrize("value", ["Infinity", "-Infinity"])
def test_spark_gets_true_for_an_infinite_number(tmp_path: Path, value: str) -> None:
    """Java's client writes it as a text, which it does not read as a number."""
    among = {"type": "in", "term": "a", "values": [1.0, value]}
    asked = FilterJson.of({"type": "or", "left": NEW, "right": among}, case_sensitive=False)
    assert residual_of(asked, state(tmp_path, partitioned=False), is_java=True) == b"true"
    assert residual_of(asked, state(tmp_path), is_java=False) == asked.text.encode()


def test_scan_of_all_rows_has_no_filter(tmp_path: Path) -> None:
    assert residual_of(None, state(tmp_path), is_java=False) == b"true"
