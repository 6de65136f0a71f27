"""The filter that a client applies to rows is that of its request, except where Java's client would fail on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from puffin.iceberg.expression_json import FilterJson
from puffin.rest_catalog.residual import residual_of
from puffin.rest_catalog.scan_request import ScanRequest
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
    assert residual_of(ScanRequest(filter=asked), state(tmp_path)) == b"true"


@pytest.mark.parametrize(
    ("filter_", "case_sensitive", "of_pyiceberg", "partitioned"),
    [
        (NEW, False, False, True),
        (OLD, True, False, True),  # may be Java's generic reader, which tests rows by the residual alone
        (OLD, False, True, True),  # pyiceberg counts the rows of files whose residual is true
        (OLD, False, False, False),
    ],
)
def test_others_get_the_filter(
    tmp_path: Path, filter_: Any, case_sensitive: bool, of_pyiceberg: bool, partitioned: bool
) -> None:
    asked = FilterJson.of(filter_, case_sensitive=case_sensitive)
    request = ScanRequest(filter=asked, of_pyiceberg=of_pyiceberg)
    assert residual_of(request, state(tmp_path, partitioned=partitioned)) == asked.text.encode()


def test_null_for_an_infinite_number_is_not_sent_back(tmp_path: Path) -> None:
    less = {"type": "lt", "term": "a", "value": None}
    for asked in (less, {"type": "and", "left": less, "right": NEW}, {"type": "not", "child": less}):
        residual = json.loads(residual_of(ScanRequest(filter=FilterJson.of(asked), of_pyiceberg=True), state(tmp_path)))
        assert residual == {"type": "or", "left": {**OLD, "term": "a"}, "right": {"type": "not-null", "term": "a"}}


@pytest.mark.parametrize("value", ["Infinity", "-Infinity"])
def test_spark_gets_true_for_an_infinite_number(tmp_path: Path, value: str) -> None:
    """Java's client writes it as a text, which it does not read as a number."""
    among = {"type": "in", "term": "a", "values": [1.0, value]}
    asked = FilterJson.of({"type": "or", "left": NEW, "right": among}, case_sensitive=False)
    assert residual_of(ScanRequest(filter=asked), state(tmp_path, partitioned=False)) == b"true"
    assert residual_of(ScanRequest(filter=asked, of_pyiceberg=True), state(tmp_path)) == asked.text.encode()


def test_scan_of_all_rows_has_no_filter(tmp_path: Path) -> None:
    assert residual_of(ScanRequest(of_pyiceberg=True), state(tmp_path)) == b"true"
