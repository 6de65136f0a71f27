"""``POST /v1/estimate/filter`` and ``/v1/estimate/join`` over tables with distributions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from puffin.lookup import Lookup
from stats_jobs import analyze


def test_estimates_answer_as_the_command_does(tmp_path: Path, client_of: Callable[..., Any]) -> None:
    """Filters and groups of one table, and a join with a filter on each side."""
    table = str(tmp_path / "t")
    write_deltalake(table, pa.table({"k": [1, 1, 2, 3, None], "s": ["a", "b", "a", "", None]}))
    analyze(table)
    client = client_of(tmp_path)
    asked = {"table": table, "where": "k = 1", "group-by": ["s"]}
    found = client.post("/v1/estimate/filter", json=asked).json()
    assert found == Lookup().estimate(table, "k = 1", ["s"]).to_json()
    assert (found["rows"], found["lower"], found["upper"], found["row-count"]) == (2, 2, 2, 5)
    sides = {side: {"table": table, "column": "k", "where": "k < 3"} for side in ("left", "right")}
    joined = client.post("/v1/estimate/join", json=sides).json()
    assert (joined["join-rows"], joined["left-rows"], joined["left-semi-rows"], joined["method"]) == (
        5,
        3,
        3,
        "all values",
    )
    assert client.post("/v1/estimate/filter", json={**asked, "where": "k ="}).status_code == 400
    assert client.post("/v1/estimate/filter", json={**asked, "table": "/"}).status_code == 403
    assert client.post("/v1/estimate/filter", json={**asked, "group-by": ["absent"]}).status_code == 404


def test_ref_has_to_lead_to_the_snapshot_beside_it(tagged: Path, client_of: Callable[..., Any]) -> None:
    """As for every other question about a table."""
    client = client_of(tagged.parent)

    def estimate(**snapshot: Any) -> Any:
        return client.post("/v1/estimate/filter", json={"table": str(tagged), **snapshot})

    old, current = estimate(ref="old").json(), estimate().json()
    assert (old["row-count"], current["row-count"]) == (2, 4)
    assert estimate(ref="old", **{"snapshot-id": old["snapshot-id"]}).json() == old
    assert estimate(ref="old", **{"snapshot-id": current["snapshot-id"]}).status_code == 404
