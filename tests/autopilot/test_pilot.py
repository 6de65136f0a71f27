"""The autopilot with real tables: it looks, decides and runs."""

from __future__ import annotations

import datetime
import json
import logging
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.autopilot import pilot as pilot_module
from puffin.autopilot import worker
from puffin.autopilot.broken import BrokenTables
from puffin.autopilot.decide import BROKEN, DUE, FRESH, HELD, WAITING, Verdict
from puffin.autopilot.events import DONE, FAILED, SKIPPED, Event, WorkDone
from puffin.autopilot.ledger import Ledger
from puffin.autopilot.look import CoveredTable, SeenTable
from puffin.autopilot.pilot import Autopilot
from puffin.errors import StorageError
from puffin.load import FoundTable, load_table
from puffin.lookup.health import TableStatus
from puffin.lookup.planner import ndv
from puffin.lookup.status import table_status
from puffin.policy.document import parse_policy
from stats_jobs import Options, analyze
from tests.delta_appends import append

EVERY = "rules: [{due: {rows-changed: 5%, at-most-every: 0s}, index-columns: [k]}]\n"


def states(pilot: Autopilot) -> dict[str, str]:
    return {Path(each.seen.name).name: each.state for each in pilot.look()}


def health(table: Path) -> int:
    return table_status(str(table), load_table(str(table)).open()).health


def test_one_run_makes_all_tables_fresh_and_the_next_reads_nothing(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    pilot = pilot_of(EVERY, events.append)
    pilot.run(once=True)
    assert [(event.outcome, event.action) for event in events] == [(DONE, "statistics and index")] * 3
    assert all(event.work.bytes_read > 0 and event.work.committed for event in events)
    assert states(pilot) == {"a": FRESH, "b": FRESH, "c": FRESH}
    (found,) = [each.seen.status for each in pilot.look() if each.seen.name.endswith("/a")]
    assert (found.health, found.indexed_columns) == (100, ("k",))
    events.clear()
    pilot.run(once=True)
    assert events == []


def test_only_what_changed_beyond_the_threshold_runs_again(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    pilot = pilot_of("", events.append)
    pilot.run(once=True)
    append(lake / "a", 1)
    append(lake / "b", 50)
    events.clear()
    pilot.run(once=True)
    assert [(Path(event.table).name, event.reason) for event in events] == [("b", "20 % of the rows in changed files")]
    assert (health(lake / "a"), health(lake / "b")) == (99, 100)


def test_columns_of_the_policy_are_those_that_get_statistics(lake: Path, pilot_of: Callable[..., Any]) -> None:
    pilot = pilot_of("rules: [{columns: [s], due: {rows-changed: 5%}}]\n")
    pilot.run(once=True)
    assert table_status("a", load_table(str(lake / "a")).open()).columns_missing == ("k",)
    assert set(states(pilot).values()) == {FRESH}


def test_values_leave_and_the_index_is_built_where_no_column_matches(lake: Path, pilot_of: Callable[..., Any]) -> None:
    """Such as a rule whose columns are those of other tables."""
    analyze(str(lake / "a"))
    events: list[Event] = []
    beside = "no-values: ['*'], index-columns: [k], due: {at-most-every: 0s}"
    pilot = pilot_of(f"rules: [{{columns: [other], {beside}}}]\n", events.append)
    pilot.run(once=True)
    assert {Path(each.table).name: (each.action, each.outcome) for each in events} == {
        "a": ("statistics and index", DONE),
        "b": ("index", DONE),
        "c": ("index", DONE),
    }
    assert {(each.column.name, each.to_json()["min"]) for each in ndv(str(lake / "a")).columns} == {
        ("k", None),
        ("s", None),
    }
    assert set(states(pilot).values()) == {FRESH}
    assert all(each.seen.status.indexed_columns == ("k",) for each in pilot.look())


def test_values_that_the_policy_forbids_leave_current_statistics(lake: Path, pilot_of: Callable[..., Any]) -> None:
    """Also those of a column that gets no statistics any more. The other columns keep theirs, and nothing is read."""
    analyze(str(lake / "a"))
    events: list[Event] = []
    pilot = pilot_of(
        "rules: [{tables: [a], no-values: [s], columns: [k], due: {rows-changed: 5%, at-most-every: 0s}}]\n",
        events.append,
    )
    pilot.run(once=True)
    assert [(each.reason, each.work.bytes_read) for each in events] == [("column s has values in statistics", 0)]
    smallest = {each.column.name: each.to_json()["min"] for each in ndv(str(lake / "a")).columns}
    assert (smallest["k"], smallest["s"]) == (0, None)
    assert states(pilot) == {"a": FRESH}
    append(lake / "a", 50, 1000)
    pilot.run(once=True)
    assert {each.column.name: each.to_json()["min"] for each in ndv(str(lake / "a")).columns} == smallest


def test_poisoned_tables_do_not_stop_the_others_and_wait_longer_each_time(
    lake: Path, pilot_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (lake / "a").glob("*.parquet"):
        file.write_bytes(b"PAR1 poison")
    (lake / "b/_delta_log/00000000000000000000.json").write_text("{")
    events: list[Event] = []
    pilot = pilot_of("state: state\n", events.append)
    pilot.run(once=True)
    outcomes = {Path(event.table).name: event.outcome for event in events}
    assert outcomes == {"a": FAILED, "c": DONE}
    assert states(pilot) == {"a": HELD, "b": BROKEN, "c": FRESH}
    events.clear()
    pilot.run(once=True)
    assert events == []
    again = pilot_of("state: state\n", events.append)  # after a restart
    assert states(again)["a"] == HELD
    clock = pilot_module.time.time
    monkeypatch.setattr(pilot_module.time, "time", lambda: clock() + 301)
    again.run(once=True)
    assert [(Path(event.table).name, event.outcome) for event in events] == [("a", FAILED)]
    monkeypatch.setattr(pilot_module.time, "time", lambda: clock() + 301 + 599)
    assert states(again)["a"] == HELD
    monkeypatch.setattr(pilot_module.time, "time", lambda: clock() + 301 + 610)
    assert states(again)["a"] == DUE


def test_event_of_a_run_whose_index_fails_says_that_statistics_were_committed(
    lake: Path, pilot_of: Callable[..., Any]
) -> None:
    (lake / "a/_puffin_sidecar").mkdir()
    (lake / "a/_puffin_sidecar/index").touch()
    events: list[Event] = []
    pilot_of(EVERY, events.append).run(once=True)
    (failed,) = [event for event in events if event.outcome == FAILED]
    assert (failed.work.snapshot_id, failed.work.committed) == (0, True)
    assert failed.work.rows_read > 0


def test_failure_before_a_run_is_an_event(
    lake: Path, pilot_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(covered: CoveredTable) -> SeenTable:
        raise ValueError(f"a fault of ours at {Path(covered.found.name).name}")

    monkeypatch.setattr(worker, "look_at", fails)
    events: list[Event] = []
    pilot_of("", events.append).run(once=True)
    errors = {f"internal error: ValueError('a fault of ours at {name}')" for name in "abc"}
    assert {(event.outcome, event.error) for event in events} == {(FAILED, error) for error in errors}


def test_failure_to_begin_a_run_is_an_event(
    pilot_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> bool:
        raise ValueError("no such day")

    monkeypatch.setattr(Ledger, "reserve", fails)
    events: list[Event] = []
    pilot = pilot_of("", events.append)
    pilot.run(once=True)
    assert [(each.action, each.outcome, each.error) for each in events] == [
        ("statistics", FAILED, "internal error: ValueError('no such day')")
    ] * 3
    assert len([record for record in caplog.records if record.exc_info and record.levelname == "ERROR"]) == 3
    assert 'runs_total{action="statistics",outcome="failed"} 3' in pilot.counts.render()


def test_table_that_cannot_be_written_spends_no_budget(
    lake: Path, pilot_of: Callable[..., Any], read_only: Callable[[Path], Path]
) -> None:
    for name in ("a", "b", "db/c"):
        read_only(lake / name)
    events: list[Event] = []
    pilot = pilot_of("limits: {bytes-per-day: 1 GiB}\n", events.append)
    pilot.run(once=True)
    assert [(event.outcome, event.work.bytes_read) for event in events] == [(FAILED, 0)] * 3
    assert pilot.budget_left() == 1 << 30


def test_failed_run_spends_what_it_could_have_read_and_tells_what_is_known(
    lake: Path, pilot_of: Callable[..., Any]
) -> None:
    for file in (lake / "a").glob("*.parquet"):
        file.write_bytes(b"PAR1 poison")
    for name in ("b", "db/c"):
        shutil.rmtree(lake / name)
    events: list[Event] = []
    pilot = pilot_of("limits: {bytes-per-day: 1 GiB}\n", events.append)
    (verdict,) = pilot.run(once=True)
    assert [(event.outcome, event.work) for event in events] == [(FAILED, WorkDone())]
    assert verdict.bytes > 0
    assert pilot.budget_left() == (1 << 30) - verdict.bytes
    assert "puffin_autopilot_bytes_read_total 0\n" in pilot.counts.render()


def test_budget_of_the_day_holds_over_restarts(lake: Path, pilot_of: Callable[..., Any]) -> None:
    """The first table fits, the second passes it, and the third has to wait."""
    sizes = {name: sum(f.stat().st_size for f in (lake / name).glob("*.parquet")) for name in ("a", "b", "db/c")}
    events: list[Event] = []
    policy = f"state: state\nlimits: {{bytes-per-day: {sizes['a'] + 1} B, tables-at-once: 1}}\n"
    pilot = pilot_of(policy, events.append)
    assert [may for _, may in pilot.plan(pilot.look())] == [True, True, False]
    pilot.run(once=True)
    done = [Path(event.table).name for event in events]
    assert len(done) < 3
    assert sum(event.work.bytes_read for event in events[:-1]) <= sizes["a"] + 1
    assert sum(event.work.bytes_read for event in events) > sizes["a"]
    assert pilot_of(policy).budget_left() == 0
    events.clear()
    pilot_of(policy, events.append).run(once=True)
    assert events == []


@pytest.mark.parametrize("wanted", ["joint: [k+s]", "partitions: true"])
def test_budget_counts_what_a_run_reads_beside_its_columns(tmp_path: Path, wanted: str, pilot_of: Any) -> None:
    """Each table has a row more than its statistics, and no joint sketch or sketches by partition."""
    for name in ("a", "b", "db/c"):
        table = str(tmp_path / "lake" / name)
        shutil.rmtree(table)
        for count in (2000, 1):
            rows = pa.table({"k": range(count), "s": [str(key) for key in range(count)], "p": ["x"] * count})
            write_deltalake(table, rows, partition_by=["p"], mode="append")
            if count > 1:
                analyze(table)
    events: list[Event] = []
    limits = "limits: {bytes-per-day: 5 KiB, tables-at-once: 1}\n"
    pilot = pilot_of(f"{limits}rules: [{{{wanted}, due: {{snapshots: 1, at-most-every: 0s}}}}]\n", events.append)
    assert [may for _, may in pilot.plan(pilot.look())] == [True, False, False]
    pilot.run(once=True)
    (event,) = events
    assert event.work.bytes_read > 5 * 1024


def test_one_run_tries_again_what_only_the_estimates_have_refused(lake: Path, pilot_of: Callable[..., Any]) -> None:
    """Each run reads half of what its files have; all start at once, so the others are refused first."""
    events: list[Event] = []
    pilot = pilot_of("rules: [{columns: [k]}]\nlimits: {bytes-per-day: 3300 B}\n", events.append)
    estimated = sum(each.bytes for each in pilot.run(once=True))
    assert sum(event.work.bytes_read for event in events) < 3300 < estimated
    assert [event.outcome for event in events] == [DONE] * 3


def test_one_run_ends_while_others_have_reserved_what_is_left(lake: Path, pilot_of: Callable[..., Any]) -> None:
    policy = "state: state\nlimits: {bytes-per-day: 3300 B}\n"
    other = pilot_of(policy)
    other._ledger.reserve(3300, other.policy.limits.day(worker.utc()), 3300)
    pilot = pilot_of(policy)
    assert {pilot.outcome(each.seen.key) for each in pilot.run(once=True)} == {worker.SPENT}


def test_index_is_caught_up_at_most_every_so_often_over_restarts(lake: Path, pilot_of: Callable[..., Any]) -> None:
    """Such as those of a process for each run; statistics say themselves how old they are."""
    policy = "state: state\nrules: [{index-columns: [k], due: {rows-changed: 100%, at-most-every: 1h}}]\n"
    pilot_of(policy).run(once=True)
    append(lake / "a", 10)
    assert states(pilot_of(policy)) == {"a": WAITING, "b": FRESH, "c": FRESH}


def test_nothing_starts_outside_the_hours(lake: Path, pilot_of: Callable[..., Any], monkeypatch: Any) -> None:
    events: list[Event] = []
    pilot = pilot_of("limits: {hours: 22:00-06:00}\n", events.append)
    noon = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.timezone.utc)
    for module in (pilot_module, worker):
        monkeypatch.setattr(module, "utc", lambda: noon)
    assert [may for _, may in pilot.plan(pilot.look())] == [False] * 3
    pilot.run(once=True)
    assert events == []
    for module in (pilot_module, worker):
        monkeypatch.setattr(module, "utc", lambda: noon.replace(hour=23))
    pilot.run(once=True)
    assert len(events) == 3


def test_table_that_another_instance_has_run_is_skipped(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    slow, fast = pilot_of("", events.append), pilot_of()
    verdicts = slow.look()
    fast.run(once=True)
    for verdict in verdicts:
        slow._worker.run(verdict)
    assert [(event.outcome, event.work.bytes_read) for event in events] == [(SKIPPED, 0)] * 3
    assert slow.budget_left() is None


def test_table_that_cannot_be_read_when_its_turn_comes_has_failed(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    pilot = pilot_of("", events.append)
    verdicts = pilot.look()
    (lake / "a/_delta_log/00000000000000000000.json").write_text("{")
    for verdict in verdicts:
        pilot._worker.run(verdict)
    (failed,) = [event for event in events if event.outcome != DONE]
    assert (failed.outcome, failed.action, failed.work.bytes_read) == (FAILED, "statistics", 0)
    assert failed.error is not None
    assert "expected a JSON object" in failed.error
    assert [each.error for each in pilot._worker.past().failures.values()] == [failed.error]


def test_table_that_is_gone_when_its_turn_comes_is_skipped(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    pilot = pilot_of("", events.append)
    (verdict,) = [each for each in pilot.look() if each.seen.name.endswith("/a")]
    shutil.rmtree(lake / "a")
    pilot._worker.run(verdict)
    assert [(each.outcome, each.reason) for each in events] == [(SKIPPED, "the table is gone")]
    assert pilot._worker.past().failures == {}


def test_instances_on_one_machine_do_not_run_the_same_table(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    pilots = [pilot_of("", events.append) for _ in range(2)]
    threads = [threading.Thread(target=pilot.run, kwargs={"once": True}) for pilot in pilots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(Path(event.table).name for event in events if event.outcome == DONE) == ["a", "b", "c"]
    assert not [event for event in events if event.outcome == FAILED]


def test_table_is_claimed_whatever_path_leads_to_it(lake: Path) -> None:
    (lake.parent / "link").symlink_to(lake)
    one, two = (Autopilot(parse_policy(f"roots: [{lake.parent / name}]", "")) for name in ("lake", "link"))
    claimed, other = (min(pilot.look(), key=lambda each: each.seen.key) for pilot in (one, two))
    with one._worker._alone_on(claimed) as first, two._worker._alone_on(other) as second:
        assert (first, second) == (True, False)


def test_events_go_to_the_file_of_the_policy(lake: Path, pilot_of: Callable[..., Any]) -> None:
    pilot_of("events: {file: events.jsonl}\n").run(once=True)
    lines = [json.loads(line) for line in (lake.parent / "events.jsonl").read_text().splitlines()]
    assert {Path(line["table"]).name for line in lines} == {"a", "b", "c"}
    assert set(lines[0]) == {
        *("time", "table", "catalog", "action", "outcome", "reason", "snapshot-id", "committed"),
        *("files-read", "rows-read", "bytes-read", "elapsed-seconds", "error"),
    }


def test_tables_are_cleaned_on_schedule(lake: Path, pilot_of: Callable[..., Any], monkeypatch: Any) -> None:
    """Every table once in each period, at a moment of its own."""
    events: list[Event] = []
    pilot = pilot_of("clean: {every: 1h, older-than: 1h}\nstate: state\n", events.append)
    pilot.run(once=True)
    kept = set(lake.rglob("_delta_log/**/*.stats"))
    append(lake / "a", 1, 1000)
    analyze(str(lake / "a"), Options(commit=False))
    left = set(lake.rglob("_delta_log/**/*.stats")) - kept
    assert len(left) == 1
    for file in left:
        os.utime(file, (0, 0))
    shutil.rmtree(lake / "b")
    clock, events[:] = pilot_module.time.time, []
    monkeypatch.setattr(pilot_module.time, "time", lambda: clock() + 3600)
    pilot.run(once=True)
    assert sorted((Path(event.table).name, event.action, event.outcome) for event in events) == [
        ("a", "clean", DONE),
        ("c", "clean", DONE),
    ]
    assert set(lake.rglob("_delta_log/**/*.stats")) <= kept


def test_table_that_others_work_on_is_cleaned_later(pilot_of: Callable[..., Any], monkeypatch: Any) -> None:
    """Not a whole period later."""
    events: list[Event] = []
    pilot = pilot_of("clean: {every: 1h, older-than: 1h}\nstate: state\n", events.append)
    pilot.run(once=True)
    clock, events[:] = pilot_module.time.time, []
    monkeypatch.setattr(pilot_module.time, "time", lambda: clock() + 3600)
    policy = "clean: {every: 1h, older-than: 1h}\nstate: state\n"
    with pilot_of("state: state\n")._worker._alone_on(pilot.look()[0]):
        pilot_of(policy, events.append).run(once=True)  # a process for each run
    assert len(events) == 2
    pilot_of(policy, events.append).run(once=True)
    assert len({event.table for event in events if event.action == "clean"}) == 3


def test_bug_in_cleaning_is_logged_with_its_traceback(
    pilot_of: Callable[..., Any], monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> int:
        raise ZeroDivisionError

    events: list[Event] = []
    pilot = pilot_of("clean: {every: 1h, older-than: 1h}\nstate: state\n", events.append)
    pilot.run(once=True)
    clock, events[:] = pilot_module.time.time, []
    monkeypatch.setattr(pilot_module.time, "time", lambda: clock() + 3600)
    monkeypatch.setattr(worker, "clean_table", fail)
    pilot.run(once=True)
    assert {(event.outcome, event.error) for event in events} == {(FAILED, "internal error: ZeroDivisionError()")}
    assert len([each for each in caplog.records if each.exc_info]) == len(events) == 3


def test_stop_ends_a_loop_and_leaves_nothing_claimed(lake: Path, pilot_of: Callable[..., Any]) -> None:
    ran = threading.Event()
    pilot = pilot_of("look-every: 1s\nstate: state\n", lambda _: ran.set())
    thread = threading.Thread(target=pilot.run)
    thread.start()
    assert ran.wait(60)
    pilot.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert [file.name for file in (lake.parent / "state").rglob("*") if file.suffix == ".lock"] == ["autopilot.lock"]


def test_directory_with_no_utf8_name_does_not_stop_the_others(
    lake: Path, pilot_of: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Its data files cannot be opened; it is cleaned nevertheless."""
    caplog.set_level(logging.CRITICAL, "puffin.autopilot.pilot")  # pytest's workers cannot send a log with the name
    (lake / "a").rename(lake / os.fsdecode(b"a\xff"))
    events: list[Event] = []
    pilot = pilot_of("clean: {every: 1s, older-than: 1h}\n", events.append)
    pilot.run(once=True)
    failed = [each for each in events if each.outcome != DONE]
    assert [(each.table[-2:], each.action) for each in failed] == [("a\udcff", "statistics")]
    assert "internal error" not in (failed[0].error or "")
    assert len([each for each in events if each.action == "clean"]) == 3


def test_loop_goes_on_after_tables_that_cannot_be_queued(
    pilot_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ran = threading.Event()
    pilot = pilot_of("look-every: 1s\n", lambda _: ran.set())
    submit, asked = pilot._submit, []

    def fail_once(*given: Any) -> Any:
        asked.append(given)
        if len(asked) == 1:
            raise ValueError("no turn")
        return submit(*given)

    monkeypatch.setattr(pilot, "_submit", fail_once)
    thread = threading.Thread(target=pilot.run)
    thread.start()
    try:
        assert ran.wait(60)
    finally:
        pilot.stop()
        thread.join()
    assert "please report it" in caplog.text


def test_loop_follows_new_tables_and_commits(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    told = threading.Condition()

    def listen(event: Event) -> None:
        with told:
            events.append(event)
            told.notify_all()

    pilot = pilot_of("look-every: 1s\nrules: [{due: {rows-changed: 5%, at-most-every: 0s}}]\n", listen)
    thread = threading.Thread(target=pilot.run)
    thread.start()
    try:
        with told:
            assert told.wait_for(lambda: len(events) == 3, 60)
        append(lake / "new", 10)
        append(lake / "a", 100, 1000)
        with told:
            assert told.wait_for(lambda: {Path(e.table).name for e in events[3:]} == {"new", "a"}, 60)
    finally:
        pilot.stop()
        thread.join()
    assert health(lake / "new") == health(lake / "a") == 100


def test_table_that_was_run_since_the_last_look_is_fresh(lake: Path, pilot_of: Callable[..., Any]) -> None:
    """A server in the same process says so; the table that failed stays as it was seen."""
    for file in (lake / "a").glob("*.parquet"):
        file.write_bytes(b"PAR1 poison")
    pilot = pilot_of()
    pilot.run(once=True)
    said = {Path(key).name: said for key, said in pilot.last().items()}
    ran = (FRESH, "it was run since the last look")
    assert said == {"a": (DUE, "there are no statistics"), "b": ran, "c": ran}


def test_look_while_a_run_ends_makes_it_no_failure(pilot_of: Callable[..., Any]) -> None:
    """A look forgets how earlier runs ended."""

    class Forgotten(dict[str, str]):
        def __setitem__(self, *_: Any) -> None:
            """As if a look had come right after it."""

    events: list[Event] = []
    pilot = pilot_of("", events.append)
    verdicts = pilot.look()
    pilot._outcomes = Forgotten()
    for verdict in verdicts:
        pilot._work(verdict, is_unclean=False)
    assert [event.outcome for event in events] == [DONE] * 3
    assert {state for state, _ in pilot.last().values()} == {FRESH}


def test_listener_that_fails_fails_one_run_after_all_tables_were_run(
    lake: Path, pilot_of: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a line that cannot be printed, which a job from cron must not hide."""

    def listen(_: Event) -> None:
        raise StorageError("standard output: No space left on device")

    pilot = pilot_of("", listen)
    with pytest.raises(StorageError, match="No space left"):
        pilot.run(once=True)
    assert [health(lake / name) for name in ("a", "b", "db/c")] == [100] * 3
    assert any("its run is not told: standard output: No space left" in message for message in caplog.messages)


def test_catalog_that_is_down_is_shown_and_the_others_go_on(lake: Path, pilot_of: Callable[..., Any]) -> None:
    events: list[Event] = []
    down = "catalogs: [{name: gone, properties: {type: rest, uri: 'http://127.0.0.1:9'}}]\n"
    pilot = pilot_of(down, events.append)
    verdicts = pilot.run(once=True)
    assert {Path(event.table).name for event in events} == {"a", "b", "c"}
    (broken,) = [each for each in verdicts if each.state == BROKEN]
    assert broken.seen.key == "gone:gone"


def test_broken_table_is_logged_when_it_breaks_and_when_the_reason_changes(
    lake: Path, pilot_of: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    log = lake / "b/_delta_log/00000000000000000000.json"
    sound = log.read_text()
    pilot = pilot_of()

    def logged() -> list[str]:
        caplog.clear()
        pilot.run(once=True)
        return [record.getMessage() for record in caplog.records if record.name == "puffin.autopilot.broken"]

    assert logged() == []
    log.write_text("{")
    (first,) = logged()
    assert first.startswith(f"{lake}/b")
    assert logged() == []
    log.write_text("[]")
    (second,) = logged()
    assert second != first
    log.write_text(sound)
    assert logged() == []
    log.write_text("{")
    assert logged() == [first]


def test_reason_that_names_another_request_is_the_same(caplog: pytest.LogCaptureFixture) -> None:
    """So libraries tell of each attempt: by the number of a request, or the address of an object."""
    broken = BrokenTables()
    found = FoundTable("db.t", None, "iceberg", lambda: None)  # type: ignore[arg-type,return-value]
    for why in (
        "HTTP 503 (request 4F1A90BC22D1)",
        "HTTP 503 (request 01D9E3B7A2C4)",
        "HTTP 401 (request 01D9E3B7A2C4)",
    ):
        seen = SeenTable(CoveredTable("prod", found, None), None, TableStatus.of_error("db.t", why))
        broken.log([Verdict(seen=seen, state=BROKEN, why=why)])
    assert caplog.messages == [
        "prod: db.t: HTTP 503 (request 4F1A90BC22D1)",
        "prod: db.t: HTTP 401 (request 01D9E3B7A2C4)",
    ]


def test_directory_that_cannot_be_listed_is_shown_and_the_tables_are_run(
    lake: Path, pilot_of: Callable[..., Any], locked: Callable[[Path], Path]
) -> None:
    locked(lake / "aa")
    assert {Path(each.seen.key).name: each.state for each in pilot_of().run(once=True)} == {
        **dict.fromkeys("abc", DUE),
        "aa": BROKEN,
    }
    assert [health(lake / name) for name in ("a", "b", "db/c")] == [100] * 3


def test_planners_questions_come_from_a_server(lake: Path, pilot_of: Callable[..., Any]) -> None:
    asked = lake.parent / "plans.json"
    asked.write_text(json.dumps({"tables": [{"table": str(lake / "db/c"), "plans": 100}]}))
    pilot = pilot_of("questions: plans.json\n")
    assert Path(pilot.look()[0].seen.name).name == "c"
    for text in ("not json", '{"tables": [{"table": 1, "plans": 1}]}', '{"tables": [{"table": "a", "plans": 1e999}]}'):
        asked.write_text(text)
        assert len(pilot.look()) == 3


def test_questions_to_a_server_in_this_process_weigh_without_a_log(
    lake: Path, pilot_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However a path is spelled, and beside what a log tells; the tables would otherwise be run in another order."""
    monkeypatch.chdir(lake.parent)
    (lake.parent / "plans.json").write_text(json.dumps({"tables": [{"table": str(lake / "a"), "plans": 3}]}))
    pilot = pilot_of("questions: plans.json\n")

    def order() -> list[str]:
        return [Path(each.seen.name).name for each in pilot.look()]

    assert order()[0] == "a"
    for _ in range(2):
        pilot.asked.add("lake/./b")
        pilot.asked.add(f"file://{lake}/b/")
    assert order()[:2] == ["b", "a"]
    for number in range(20_000):
        pilot.asked.add(f"absent{number}")
    assert (len(pilot.asked.counts()), order()[0]) == (10_000, "a")
