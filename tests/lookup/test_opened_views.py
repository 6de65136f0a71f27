"""Openings of one state share what was read; what is still to be read goes through the caller's own stores."""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from puffin.index.table_index import RowCache
from puffin.load import load_table
from puffin.lookup import Lookup
from puffin.lookup.cache import MOST_VIEWS
from puffin.lookup.kept_planner import KeptPlanner
from puffin.tables.base import SnapshotSelector
from puffin.tables.snapshot import TableSnapshot
from stats_jobs.index import index
from stats_jobs.options import IndexOptions


@pytest.fixture
def openings(tmp_path: Path) -> Callable[[list[str]], TableSnapshot]:
    """Opens a table with an index for a caller, and notes the places for whose files that caller's stores are asked."""
    own = SqlCatalog("own", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    own.create_namespace("db")
    table = own.create_table("db.t", pa.schema([("k", pa.int64()), ("other", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"k": [-1000, number, 1000], "other": [number] * 3}))
    location = table.location().removeprefix("file://")
    index(location, IndexOptions(columns=("k",)))
    first = load_table(location).open()

    def opened(noted: list[str]) -> TableSnapshot:
        def store_for(uri: str) -> Any:
            noted.append(uri)
            return first.store_for(uri)

        return dataclasses.replace(first, store_for=store_for)

    return opened


def test_second_caller_reads_only_what_nobody_has_read_with_own_credentials(
    openings: Callable[[list[str]], TableSnapshot],
) -> None:
    lookup, of_first, of_second = Lookup(ttl_seconds=3600), [], []
    first, second = openings(of_first), openings(of_second)
    assert sum(lookup.plan_opened(first, "k = 1").kept) == 1
    assert of_first
    of_first.clear()
    assert sum(lookup.plan_opened(second, "k = 1").kept) == 1
    assert sum(lookup.plan_opened(second, "k = 2").kept) == 1
    assert [uri for uri in of_second if uri.endswith(".avro")] == []
    assert sum(lookup.plan_opened(second, "other = 2").kept) == 1
    assert [uri for uri in of_second if uri.endswith(".avro")]
    assert of_first == []


def test_opening_of_another_state_is_planned_anew(openings: Callable[[list[str]], TableSnapshot]) -> None:
    lookup, noted = Lookup(ttl_seconds=3600), []
    lookup.plan_opened(openings([]), "k = 1")
    opened = openings(noted)
    lookup.plan_opened(dataclasses.replace(opened, state=dataclasses.replace(opened.state)), "k = 1")
    assert [uri for uri in noted if uri.endswith(".avro")]


def test_only_the_latest_of_many_snapshots_of_a_table_stay_in_memory(
    openings: Callable[[list[str]], TableSnapshot],
) -> None:
    """Spark names the snapshot of each plan, so a table that often changes has many."""
    lookup, kept = Lookup(), []
    for number in range(2 * MOST_VIEWS):
        opened = openings([])
        opened = dataclasses.replace(opened, selector=SnapshotSelector(as_of_ms=opened.snapshot.timestamp_ms + number))
        lookup.plan_opened(opened, "k = 1")
        kept.append(weakref.ref(opened))
    del opened
    gc.collect()
    assert [each() is not None for each in kept] == [False] * MOST_VIEWS + [True] * MOST_VIEWS


def test_new_index_is_found_after_the_time_to_live(
    openings: Callable[[list[str]], TableSnapshot], tmp_path: Path
) -> None:
    now = [0.0]
    lookup = Lookup(ttl_seconds=5, clock=lambda: now[0])
    lookup.plan_opened(openings([]), "other = 2")
    index(str(tmp_path / "db" / "t"), IndexOptions(columns=("k", "other")))
    assert lookup.plan_opened(openings([]), "other = 2").index.columns == ()
    now[0] = 5
    assert lookup.plan_opened(openings([]), "other = 2").index.columns == ("other",)


def test_opening_of_a_caller_keeps_no_files(openings: Callable[[list[str]], TableSnapshot]) -> None:
    """Also after files were dropped to make room, so that they can be dropped again."""
    both = [SimpleNamespace(opened=openings([]), fresh_until=1, used=0, planner=None) for _ in range(2)]
    planner = KeptPlanner(both[0].opened, RowCache())
    for view in both:
        planner.plan("k = 1", view)
        assert planner.size == 3
        planner.drop_files()
    assert [view.opened.is_planned for view in both] == [False, False]
