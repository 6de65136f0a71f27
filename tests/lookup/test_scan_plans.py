"""``Lookup.plan``: what it reads and when, what it keeps and for how long, and many threads at once."""

from __future__ import annotations

import dataclasses
import gc
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.delta.snapshot import DeltaSnapshot
from puffin.errors import ColumnNotFound, SnapshotNotFound, StorageError, UsageError
from puffin.lookup.kept_planner import KeptPlanner, KeptPlanners
from puffin.planning.plan import Planner
from puffin.storage.local import LocalStore
from stats_jobs.index import index
from stats_jobs.options import IndexOptions

ROWS = 40
TTL = 10.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_ttl(self) -> None:
        self.now += TTL + 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lookup(clock: Clock) -> puffin.Lookup:
    return puffin.Lookup(ttl_seconds=TTL, clock=clock)


def append(table: Path, files: int = 1) -> list[int]:
    """Append files whose keys overlap in bounds; return a key of each."""
    keys = []
    for _ in range(files):
        values = np.random.default_rng(len(list(table.glob("*.parquet")))).integers(-(2**62), 2**62, ROWS)
        values[:2] = -(2**62), 2**62
        keys.append(int(values[3]))
        write_deltalake(str(table), pa.table({"k": values, "s": list(map(str, values.tolist()))}), mode="append")
    return keys


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def build_index(table: Path, *columns: str) -> None:
    index(str(table), IndexOptions(columns=columns))


@pytest.fixture
def accesses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is asked of local storage, call by call."""
    found: list[str] = []

    def watched(name: str) -> Callable[..., Any]:
        method = getattr(LocalStore, name)

        def call(self: LocalStore, uri: str) -> Any:
            found.append(f"{name} {uri}")
            return method(self, uri)

        return call

    for name in ("open_source", "open_input", "info", "exists", "list", "directories"):
        monkeypatch.setattr(LocalStore, name, watched(name))
    return found


def matched(plan: Any) -> int:
    return sum(1 for _ in plan.files)


def test_lookup_gives_the_plan_of_the_library(table: Path, lookup: puffin.Lookup) -> None:
    key = append(table, 4)[2]
    build_index(table, "k")
    for where in (f"k = {key}", f"k = {key} or s = '{key}'", "k is null", None):
        assert lookup.plan(str(table), where).to_json() == puffin.plan(str(table), where).to_json()
    assert lookup.plan(str(table), f"k = {key}", snapshot_id=1).to_json()["files-total"] == 2
    assert matched(lookup.plan(str(table), f"k = {key}")) == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"where": "nope = 1"}, ColumnNotFound),
        ({"where": "k ="}, UsageError),
        ({"where": "k = 'x'"}, UsageError),
        ({"snapshot_id": 99}, SnapshotNotFound),
        ({"snapshot_id": 1, "as_of_ms": 1}, UsageError),
    ],
)
def test_mistakes_raise_the_errors_of_the_library(
    table: Path, lookup: puffin.Lookup, arguments: dict[str, Any], error: type[Exception]
) -> None:
    append(table, 2)
    for plan in (lookup.plan, puffin.plan):
        with pytest.raises(error):
            plan(str(table), **arguments)


def test_index_is_not_blamed_for_a_snapshot_that_cannot_be_read(
    table: Path, lookup: puffin.Lookup, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = append(table, 2)
    build_index(table, "k")
    failures = [StorageError("the log hangs")]
    plan_files = DeltaSnapshot._plan

    def fail_once(self: DeltaSnapshot) -> Any:
        if failures:
            raise failures.pop()
        return plan_files(self)

    monkeypatch.setattr(DeltaSnapshot, "_plan", fail_once)
    with pytest.raises(StorageError, match="the log hangs"):
        lookup.plan(str(table), f"k = {keys[0]}")
    with pytest.raises(SnapshotNotFound):
        lookup.plan(str(table), f"k = {keys[0]}", snapshot_id=99)
    assert caplog.messages == []
    assert matched(lookup.plan(str(table), f"k = {keys[0]}")) == 1


def test_warm_plan_reads_only_ranges_of_the_index(table: Path, lookup: puffin.Lookup, accesses: list[str]) -> None:
    keys = append(table, 4)
    build_index(table, "k")
    lookup.plan(str(table), f"k = {keys[0]}")
    accesses.clear()
    assert matched(lookup.plan(str(table), f"k = {keys[1]}")) == 1
    assert all("/index/segments/" in each for each in accesses)
    accesses.clear()
    lookup.plan(str(table), f"k = {keys[0]} or k = {keys[1]}")
    lookup.plan(str(table), "k < 0")
    assert accesses == []


def test_equal_questions_get_one_object_without_reads(
    table: Path, lookup: puffin.Lookup, accesses: list[str], clock: Clock
) -> None:
    (key, *_) = append(table, 3)
    build_index(table, "k")
    first = lookup.plan(str(table), f"k = {key}")
    accesses.clear()
    assert lookup.plan(str(table), f"k = {key}") is first
    assert accesses == []
    clock.pass_ttl()
    assert lookup.plan(str(table), f"k = {key}") is first
    assert accesses != []
    assert lookup.counts.metadata_reads == 1


def test_new_index_counts_after_the_time_to_live_though_nothing_was_committed(
    table: Path, lookup: puffin.Lookup, clock: Clock, accesses: list[str]
) -> None:
    keys = append(table, 4)
    where = f"k = {keys[1]}"
    assert matched(lookup.plan(str(table), where)) == 4
    build_index(table, "k")
    assert matched(lookup.plan(str(table), where)) == 4
    clock.pass_ttl()
    accesses.clear()
    assert matched(lookup.plan(str(table), where)) == 1
    assert lookup.counts.metadata_reads == 1
    before = len(accesses)
    assert matched(lookup.plan(str(table), f"k = {keys[2]}")) == 1
    assert not [each for each in accesses[before:] if "/segments/" not in each]


def test_new_commit_counts_after_the_time_to_live(table: Path, lookup: puffin.Lookup, clock: Clock) -> None:
    append(table, 2)
    assert lookup.plan(str(table)).to_json()["files-total"] == 2
    append(table)
    assert lookup.plan(str(table)).to_json()["files-total"] == 2
    clock.pass_ttl()
    assert lookup.plan(str(table)).to_json()["files-total"] == 3


def test_segments_that_were_merged_and_removed_are_replaced_at_once(table: Path, lookup: puffin.Lookup) -> None:
    """Nobody waits for the time to live if a range can no longer be read."""
    keys = append(table, 4)
    build_index(table, "k")
    lookup.plan(str(table), f"k = {keys[0]}")
    segments = table / "_puffin_sidecar" / "index" / "segments"
    old = {each.name for each in segments.iterdir()}
    index(str(table), IndexOptions(columns=("k",), fpp=0.001))
    for name in old:
        shutil.rmtree(segments / name)
    plan = lookup.plan(str(table), f"k = {keys[1]}")
    assert (matched(plan), plan.warnings) == (1, ())


def test_plan_with_a_warning_is_made_anew(table: Path, lookup: puffin.Lookup) -> None:
    keys = append(table, 3)
    build_index(table, "k")
    (segment,) = (table / "_puffin_sidecar" / "index" / "segments").glob("*/*")
    content = segment.read_bytes()
    segment.write_bytes(b"")
    broken = lookup.plan(str(table), f"k = {keys[0]}")
    assert matched(broken) == 3
    assert broken.warnings
    segment.write_bytes(content)
    assert matched(lookup.plan(str(table), f"k = {keys[0]}")) == 1


def test_threads_share_one_read_of_the_metadata(
    table: Path, lookup: puffin.Lookup, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = append(table, 6)
    build_index(table, "k", "s")
    planned: list[int] = []
    plan_files, find_metrics = DeltaSnapshot._plan, DeltaSnapshot.file_metrics
    monkeypatch.setattr(DeltaSnapshot, "_plan", lambda self: planned.append(0) or plan_files(self))
    monkeypatch.setattr(
        DeltaSnapshot,
        "file_metrics",
        lambda self, columns: planned.append(columns[0].field_id) or find_metrics(self, columns),
    )
    barrier = threading.Barrier(16)

    def ask(i: int) -> int:
        barrier.wait()
        key = keys[i % len(keys)]
        return matched(lookup.plan(str(table), f"k = {key}" if i % 2 else f"s = '{key}'"))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(ask, range(16))) == [1] * 16
    assert sorted(planned) == [0, 1, 2]


def test_answers_stay_right_while_table_and_index_change(table: Path) -> None:
    """Every plan has the files of one version, and never misses the file of its key."""
    keys = append(table, 3)
    build_index(table, "k")
    lookup = puffin.Lookup(ttl_seconds=0)
    stop = threading.Event()
    failures: list[object] = []

    def ask(i: int) -> None:
        while not stop.is_set():
            key = keys[i % 3]
            plan = lookup.plan(str(table), f"k = {key}")
            if not 1 <= matched(plan) <= len(plan.all_files) or len(plan.kept) != len(plan.all_files):
                failures.append(plan)
            if i % 3 not in {place for place, task in enumerate(originals) if task in set(names(plan))}:
                failures.append((key, names(plan)))

    def names(plan: Any) -> list[str]:
        return [task.data_file.file_path for task in plan.files]

    originals = [names(lookup.plan(str(table), f"k = {key}"))[0] for key in keys]
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for columns in (("k",), ("k", "s"), ("k",)):
        append(table)
        build_index(table, *columns)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_fresher_credentials_replace_the_old_ones_and_nothing_is_read_again(
    table: Path, lookup: puffin.Lookup, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some catalogs give out credentials that end, with every look at a table."""
    keys = append(table, 3)
    build_index(table, "k")
    planned: list[None] = []
    plan_files = DeltaSnapshot._plan
    monkeypatch.setattr(DeltaSnapshot, "_plan", lambda self: planned.append(None) or plan_files(self))
    used: list[int] = []

    def refreshed(self: DeltaSnapshot, selector: object) -> DeltaSnapshot:
        def store_for(uri: str) -> Any:
            used.append(int(clock.now))
            return self.store_for(uri)

        return dataclasses.replace(self, store_for=store_for)

    monkeypatch.setattr(DeltaSnapshot, "refreshed", refreshed)
    assert matched(lookup.plan(str(table), f"k = {keys[0]}")) == 1
    for i in (1, 2):
        clock.pass_ttl()
        assert matched(lookup.plan(str(table), f"k = {keys[i]}")) == 1
        assert used[-1] == clock.now
    assert len(planned) == 1


def test_planner_goes_with_its_view(tmp_path: Path, clock: Clock) -> None:
    lookup = puffin.Lookup(ttl_seconds=TTL, clock=clock, max_tables=1)
    for name in ("a", "b"):
        append(tmp_path / name)
    lookup.plan(str(tmp_path / "a"))
    (planner,) = lookup._planners._all
    gone = weakref.ref(planner)
    del planner
    lookup.plan(str(tmp_path / "b"))
    gc.collect()
    assert gone() is None


def test_least_used_planners_forget_their_files(tmp_path: Path, lookup: puffin.Lookup, clock: Clock) -> None:
    """All planners together keep a bounded number of files; a planner that forgot reads them again."""
    lookup._planners = KeptPlanners(most_files=5)
    for name in ("a", "b", "c"):
        append(tmp_path / name, 2)
        clock.now += 1
        lookup.plan(str(tmp_path / name))
    by_use = sorted(lookup._planners._all, key=lambda each: each.used)
    assert [planner.size for planner in by_use] == [0, 2, 2]
    assert matched(lookup.plan(str(tmp_path / "a"), "k > 0")) == 2


def test_bounds_of_columns_take_the_room_of_files(tmp_path: Path, lookup: puffin.Lookup, clock: Clock) -> None:
    lookup._planners = KeptPlanners(most_files=8)
    for name in ("a", "b"):
        append(tmp_path / name, 4)
        clock.now += 1
        lookup.plan(str(tmp_path / name))
    assert sorted(planner.size for planner in lookup._planners._all) == [4, 4]
    lookup.plan(str(tmp_path / "b"), "k > 0 and s > 'a'")
    assert sorted(planner.size for planner in lookup._planners._all) == [0, 5]


def test_planner_that_hangs_holds_up_no_other(
    tmp_path: Path, lookup: puffin.Lookup, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where it has to make room for them."""
    lookup._planners = KeptPlanners(most_files=1)
    for name in ("slow", "a", "b"):
        append(tmp_path / name, 2)
    lookup.plan(str(tmp_path / "slow"))
    clock.pass_ttl()
    hangs, goes_on = threading.Event(), threading.Event()
    find_index = Planner.find_index

    def hang(self: Planner) -> Any:
        if "slow" in self._opened.name:
            hangs.set()
            assert goes_on.wait(60)
        return find_index(self)

    monkeypatch.setattr(Planner, "find_index", hang)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(lookup.plan, str(tmp_path / "slow"), "k > 0")
        assert hangs.wait(60)
        assert [matched(lookup.plan(str(tmp_path / name), "k > 0")) for name in ("a", "b")] == [2, 2]
        goes_on.set()
        assert matched(slow.result(60)) == 2


def test_kept_plans_are_bounded(table: Path, lookup: puffin.Lookup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puffin.lookup.kept_planner._MOST_PLANS", 2)
    append(table)
    plans = [lookup.plan(str(table), f"k = {value}") for value in (1, 2, 3)]
    (planner,) = lookup._planners._all
    assert isinstance(planner, KeptPlanner)
    assert len(planner._plans) == 2
    assert lookup.plan(str(table), "k = 3") is plans[2]
    assert lookup.plan(str(table), "k = 1") is not plans[0]


def test_vacuumed_table_is_planned_anew(table: Path, lookup: puffin.Lookup) -> None:
    """A removed checkpoint or log file within the time to live makes the lookup check the table again."""
    append(table, 3)
    lookup.ndv(str(table))
    DeltaTable(str(table)).create_checkpoint()
    for entry in (table / "_delta_log").glob("*.json"):
        if not entry.name.startswith(f"{2:020d}"):
            entry.unlink()
    assert lookup.plan(str(table)).to_json()["files-total"] == 3
