"""Estimates say how far behind the statistics are that they are from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.lookup import Freshness, Lookup
from stats_jobs import Options, analyze

FRESH = Freshness(0, 0, 0, 0)
BEHIND = Freshness(1, 3, 0, 0)
UNKNOWN = Freshness()


@pytest.fixture
def partly_stale(tmp_path: Path) -> str:
    """Column ``old`` was analyzed before 3 rows came, ``new`` after, ``none`` never."""
    table = str(tmp_path / "t")
    rows = pa.table({name: range(10) for name in ("old", "new", "none")})
    write_deltalake(table, rows)
    analyze(table, Options(columns=("old",)))
    write_deltalake(table, rows.slice(0, 3), mode="append")
    analyze(table, Options(columns=("new",)))
    return table


def test_estimate_is_as_fresh_as_the_oldest_statistics_of_its_columns(partly_stale: str) -> None:
    """Whatever else the same lookup was asked before."""
    lookup = Lookup()
    for where, group_by, expected in (
        ("old < 5", None, BEHIND),
        ("new < 5", None, FRESH),
        ("new < 5 and old < 5", None, BEHIND),
        ("new < 5", ["old"], BEHIND),
        ("new < 5 or none is null", None, FRESH),
        ("none = 1", None, UNKNOWN),
        (None, None, UNKNOWN),
    ):
        assert lookup.estimate(partly_stale, where, group_by).freshness == expected
    document = lookup.estimate(partly_stale, "old < 5").to_json()
    assert (document["snapshots-behind"], document["records-added"], document["records-deleted"]) == (1, 3, 0)


def test_sides_of_a_join_are_as_fresh_as_their_statistics(partly_stale: str) -> None:
    join = Lookup().estimate_join
    found = join(partly_stale, "old", partly_stale, "new")
    assert (found.left.freshness, found.right.freshness) == (BEHIND, FRESH)
    assert [found.to_json()[f"{side}-records-added"] for side in ("left", "right")] == [3, 0]
    assert (found.left.changed, found.right.changed) == ((3, 0), None)
    filtered = join(partly_stale, "new", partly_stale, "new", right_where="old = 1")
    assert (filtered.left.freshness, filtered.right.freshness) == (FRESH, BEHIND)
