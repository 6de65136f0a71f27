"""The counts of plans: of ``POST /v1/plan`` and the REST face alike, by table under the token, in total as metrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from puffin.server import plan_counts
from tests.hand_made_table import HandMadeTable
from tests.server.iceberg_face import JAVA, Face, bounds_of, publish


@pytest.fixture
def face(tmp_path: Path, face_of: Callable[..., Face]) -> Face:
    """A face with a table of five files of 100 bytes in two partitions, and one without files."""
    table = HandMadeTable(tmp_path / "db" / "t", [(1, "a", "long"), (2, "p", "string")], spec=[(2, "identity")])
    entries = [
        table.data(table.root / str(i), partition=("xy"[i % 2],), file_size_in_bytes=100, **bounds_of(10 * i))
        for i in range(5)
    ]
    table.snapshot(*entries)
    publish(table)
    publish(HandMadeTable(tmp_path / "db" / "none", [(1, "a", "long")]))
    return face_of(tmp_path)


def counted(face: Face) -> dict[str, Any]:
    tables = face.client.get("/v1/plans").json()["tables"]
    return {each.pop("table"): each for each in tables}


def test_plans_of_both_interfaces_are_counted_by_table(face: Face, tmp_path: Path) -> None:
    place = str(tmp_path / "db" / "t")
    by_partition = {"type": "eq", "term": "p", "value": "x"}
    by_both = {"type": "and", "left": by_partition, "right": {"type": "lt", "term": "a", "value": 15}}
    assert counted(face) == {}
    face.plan("db", "t", filter=by_both)
    face.plan("db", "t", filter=by_both, headers=JAVA)
    face.client.post("/v1/plan", json={"table": place, "where": "a = 12"})
    face.plan("db", "none")
    assert counted(face) == {
        place: {
            "plans": 3,
            "files-total": 15,
            "files-planned": 3,
            "pruned": {"partition": 4, "bounds": 8, "index": 0},
            "bytes-not-read": 1200,
        },
        str(tmp_path / "db" / "none"): {
            "plans": 1,
            "files-total": 0,
            "files-planned": 0,
            "pruned": {"partition": 0, "bounds": 0, "index": 0},
            "bytes-not-read": 0,
        },
    }


def test_metrics_have_totals_without_tables(face: Face) -> None:
    face.plan("db", "t", filter={"type": "lt", "term": "a", "value": 15})
    face.plan("db", "none")
    text = face.client.get("/metrics").text
    assert "\npuffin_plans_total 2\n" in text
    assert "\npuffin_plan_files_total 5\n" in text
    assert "\npuffin_plan_files_pruned_by_bounds_total 3\n" in text
    assert "\npuffin_plan_bytes_not_read_total 300\n" in text
    assert "db" not in text


def test_requests_that_fail_are_not_counted(face: Face) -> None:
    face.plan("db", "nope")
    face.plan("db", "t", filter={"type": "eq", "term": "nope", "value": 1})
    assert counted(face) == {}


def test_tables_planned_least_recently_make_room(face: Face, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_counts, "_MOST_TABLES", 1)
    for table in ("t", "none", "t"):
        face.plan("db", table)
    assert counted(face).keys() == {str(tmp_path / "db" / "t")}
    assert "\npuffin_plans_total 3\n" in face.client.get("/metrics").text
