"""The autopilot's memory, in a file or without, and the claims by which instances see each other."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from puffin.autopilot.claims import Claims
from puffin.autopilot.decide import Failure
from puffin.autopilot.ledger import Ledger
from puffin.errors import StorageError
from puffin.policy.model import Retry

MONDAY, TUESDAY = "2026-11-23", "2026-11-24"


@pytest.mark.parametrize("directory", [None, "state"])
def test_budget_lasts_a_day(tmp_path: Path, directory: str | None) -> None:
    ledger = Ledger(None if directory is None else str(tmp_path / directory))
    assert ledger.reserve(60, MONDAY, 100)
    assert ledger.reserve(60, MONDAY, 100)  # the last table may pass it
    assert not ledger.reserve(1, MONDAY, 100)
    ledger.settle(60, 10, MONDAY)
    assert ledger.spent(MONDAY) == 70
    assert ledger.reserve(1, MONDAY, 100)
    assert (ledger.spent(TUESDAY), ledger.reserve(5, TUESDAY, 100), ledger.spent(TUESDAY)) == (0, TUESDAY, 5)
    ledger.settle(1, 1, MONDAY)  # which ended after midnight
    assert ledger.spent(TUESDAY) == 5


def test_budget_does_not_begin_again_on_an_earlier_day(tmp_path: Path) -> None:
    """Such as that of another time zone with the same state, or of a clock that was set back a little."""
    east, west = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    assert east.reserve(60, TUESDAY, 100) == TUESDAY
    assert west.reserve(60, MONDAY, 100) == TUESDAY
    west.settle(60, 30, TUESDAY)
    assert (west.spent(MONDAY), east.spent(TUESDAY)) == (90, 90)
    assert west.reserve(60, MONDAY, 100) == TUESDAY
    assert (west.reserve(1, MONDAY, 100), east.reserve(1, TUESDAY, 100)) == (None, None)


def test_budget_of_a_day_that_is_far_away_does_not_last_until_it_comes(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).reserve(100, "2062-01-01", 100)
    ledger = Ledger(str(tmp_path))
    assert (ledger.spent(MONDAY), ledger.reserve(1, MONDAY, 100), ledger.spent(MONDAY)) == (0, MONDAY, 1)


def test_instances_share_the_file_of_a_directory(tmp_path: Path) -> None:
    one, two = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    assert one.reserve(50, MONDAY, 100)
    assert two.reserve(50, MONDAY, 100)
    assert (one.spent(MONDAY), one.reserve(1, MONDAY, 100)) == (100, None)
    two.settle(50, 10, MONDAY)
    assert one.reserve(1, MONDAY, 100)


def test_bytes_of_a_killed_instance_stay_spent(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).reserve(50, MONDAY, 100)
    assert Ledger(str(tmp_path)).spent(MONDAY) == 50


@pytest.mark.parametrize("shared", [("", ""), ("one", "two")])
def test_table_is_claimed_by_one_at_a_time(tmp_path: Path, monkeypatch: Any, shared: tuple[str, str]) -> None:
    """On one machine, whether instances share their state or not."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, two = (Claims(str(tmp_path / name) if name else None) for name in shared)
    with one.hold("s3://b/t") as first, two.hold("s3://b/t") as second, two.hold("s3://b/u") as other:
        assert (first, second, other) == (True, False, True)
    with two.hold("s3://b/t") as again:
        assert again
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


def test_table_is_claimed_in_a_directory_that_machines_share(tmp_path: Path, monkeypatch: Any) -> None:
    claims = []
    for machine in ("one", "two"):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / machine))
        claims.append(Claims(str(tmp_path / "shared")))
    with claims[0].hold("t") as first, claims[1].hold("t") as second:
        assert (first, second) == (True, False)


def test_claim_of_a_killed_process_is_gone(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom puffin.autopilot.claims import Claims\n"
        f"with Claims({str(tmp_path)!r}).hold('t'):\n    print(1, flush=True)\n    time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    with Claims(str(tmp_path)).hold("t") as while_it_runs:
        assert not while_it_runs
    process.kill()
    process.communicate()
    with Claims(str(tmp_path)).hold("t") as afterwards:
        assert afterwards


def test_claims_that_cannot_be_made_stop_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "running").write_text("")
    with Claims(str(tmp_path)).hold("t") as held:
        assert held


def test_claim_whose_file_cannot_be_removed_does_not_fail_the_run(tmp_path: Path, monkeypatch: Any) -> None:
    def refused(_file: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with Claims(str(tmp_path)).hold("t") as held:
            assert held
    with Claims(str(tmp_path)).hold("t") as again:
        assert again


def test_system_without_a_directory_for_temporary_files_claims_in_the_shared_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_directory() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", no_directory)
    with (
        Claims(None).hold("t") as alone,
        Claims(str(tmp_path)).hold("t") as first,
        Claims(str(tmp_path)).hold("t") as two,
    ):
        assert (alone, first, two) == (True, True, False)


def test_failures_wait_longer_until_a_run_succeeds(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    waits = []
    for _ in range(4):
        ledger.failed("a", "broken", Retry(first=10, most=50), 1000)
        waits.append(ledger.failures()["a"].until - 1000)
    assert waits == [10, 20, 40, 50]
    assert Ledger(str(tmp_path)).failures()["a"].count == 4
    ledger.succeeded("a", 1000, 0)
    assert ledger.failures() == {}


def test_end_of_a_run_is_known_as_long_as_the_next_has_to_wait(tmp_path: Path) -> None:
    """And is forgotten then, since the table may be gone."""
    ledger = Ledger(str(tmp_path))
    for at in range(0, 100, 10):
        ledger.succeeded(f"of_{at}", at, wait=25)
        ledger.succeeded("without", at, wait=0)
    assert Ledger(str(tmp_path)).ended() == {"of_70": 70, "of_80": 80, "of_90": 90}


def test_wait_of_a_failure_is_over_if_the_clock_was_set_back(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    ledger.failed("a", "broken", Retry(first=10, most=50), 1000)
    assert ledger.failures(latest=1010)["a"].until == 1010
    assert ledger.failures(latest=500)["a"] == Failure(1, "broken", 0)


def failing(count: object, until: object) -> str:
    failures = {"a": {"count": count, "error": "", "until": until}}
    return json.dumps({"day": MONDAY, "spent": 1, "cleaned": {}, "failures": failures})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "[" * 100_000,
        '{"day":1,"spent":"x","cleaned":{},"failures":{}}',
        '{"spent": 1}',
        '{"day":"2026-11-23","spent":NaN,"cleaned":{},"failures":{}}',
        '{"day":"2026-11-23","spent":Infinity,"cleaned":{},"failures":{}}',
        '{"day":"2026-11-23","spent":1,"cleaned":[],"failures":{}}',
        '{"day":"Monday","spent":1,"cleaned":{},"failures":{}}',
        '{"day":null,"spent":1,"cleaned":{},"failures":{},"ended":{"a":[1]}}',
        '{"day":null,"spent":1,"cleaned":{},"failures":{},"ended":{"a":[1,NaN]}}',
        failing(0, 5),
        failing(1.5, 5),
        failing(1, float("nan")),
        failing(1, 10**400),
    ],
)
def test_broken_file_is_begun_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "autopilot.json").write_text(text)
    ledger = Ledger(str(tmp_path))
    assert ledger.spent(MONDAY) == 0
    assert ledger.unclean({"a": 5}, 10, 4) == {"a"}
    ledger.failed("a", "broken", Retry(), 1000)
    assert ledger.reserve(7, MONDAY, None)
    assert json.loads((tmp_path / "autopilot.json").read_text())["spent"] == 7


def test_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="expected a directory for the autopilot's state"):
        Ledger(str(tmp_path / "file"))


def test_directory_that_cannot_be_written_is_an_error_for_a_run_and_readable_for_others(tmp_path: Path) -> None:
    """A run would begin the day's budget each time."""
    Ledger(str(tmp_path)).reserve(50, MONDAY, 100)
    (tmp_path / "autopilot.lock").unlink()
    (tmp_path / "autopilot.lock").mkdir()  # cannot be opened, whoever runs the tests
    with pytest.raises(StorageError, match="expected a directory for the autopilot's state"):
        Ledger(str(tmp_path))
    assert Ledger(str(tmp_path), writes=False).spent(MONDAY) == 50


def test_budget_holds_while_the_disk_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledger = Ledger(str(tmp_path))
    assert ledger.reserve(50, MONDAY, 100)
    full = tmp_path / "autopilot.new"
    full.mkdir()  # cannot be written, whoever runs the tests
    assert ledger.reserve(50, MONDAY, 100)
    assert (ledger.spent(MONDAY), ledger.reserve(1, MONDAY, 100)) == (100, None)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "autopilot.json: the state is not kept: " in caplog.text
    full.rmdir()
    ledger.settle(50, 20, MONDAY)
    assert Ledger(str(tmp_path)).spent(MONDAY) == 70


def test_instance_that_cannot_lock_the_file_undoes_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has spent meanwhile counts for it at once, and for the others when it can write again."""
    one, two = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    one.reserve(100, MONDAY, None)
    two.reserve(1000, MONDAY, None)
    two.failed("t", "broken", Retry(), 1e9)
    one.failed("u", "broken", Retry(), 1e9)
    two.failed("v", "broken", Retry(), 1e9)
    with monkeypatch.context() as patched:
        open_file = Path.open

        def no_lock(path: Path, *how: Any, **more: Any) -> Any:
            if path.suffix == ".lock":
                raise OSError(24, "Too many open files")
            return open_file(path, *how, **more)

        patched.setattr(Path, "open", no_lock)
        one.reserve(1, MONDAY, None)
        one.succeeded("u", 1000, 0)
        assert (one.spent(MONDAY), two.spent(MONDAY)) == (1101, 1100)
        assert set(one.failures()) == {"t", "v"}
        assert set(two.failures()) == {"t", "u", "v"}
    two.reserve(10, MONDAY, None)
    one.reserve(5, MONDAY, None)
    assert (one.spent(MONDAY), two.spent(MONDAY)) == (1116, 1116)
    assert set(two.failures()) == {"t", "v"}
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", no_lock)
        one.reserve(7, TUESDAY, None)
    two.reserve(2, TUESDAY, None)
    one.reserve(1, TUESDAY, None)
    assert (one.spent(TUESDAY), two.spent(TUESDAY)) == (10, 10)


def test_bytes_of_yesterday_that_were_not_stored_do_not_begin_today_again(tmp_path: Path) -> None:
    one, two = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    one.reserve(100, "2026-11-26", None)
    lock = tmp_path / "autopilot.lock"
    lock.unlink()
    lock.mkdir()  # cannot be opened, whoever runs the tests
    one.settle(100, 150, "2026-11-26")
    lock.rmdir()
    two.reserve(1000, "2026-11-27", None)
    assert (one.reserve(10, "2026-11-27", 500), two.spent("2026-11-27")) == (None, 1000)


def test_turn_to_be_cleaned_waits_until_the_table_was_cleaned(tmp_path: Path) -> None:
    """Also if other policies with the same state look at other tables meanwhile."""
    turns = {"a": 10.0, "b": 12.0}
    assert Ledger(str(tmp_path)).unclean(turns, 10, since=11) == {"b"}
    assert Ledger(str(tmp_path)).unclean({"c": 5.0}, 10, since=19) == {"c"}  # a clock that was set back
    ledger = Ledger(str(tmp_path))
    ledger.cleaned("b", 15)
    assert ledger.unclean(turns, 10, since=0) == set()
    assert ledger.unclean({"a": 20.0, "b": 22.0}, 10, since=0) == {"a", "b"}


def test_tables_that_were_dropped_long_ago_are_forgotten(tmp_path: Path) -> None:
    for day in range(100):
        now = 1e9 + day
        Ledger(str(tmp_path)).unclean({"always": now, f"of_day_{day}": now}, 1.0, since=now)
    kept = json.loads((tmp_path / "autopilot.json").read_text())["cleaned"]
    assert kept == {"always": 1e9, **{f"of_day_{day}": 1e9 + day for day in range(90, 100)}}


def test_failures_of_tables_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    """A table that is there is tried again soon after its wait, also under another policy with the same state."""
    ledger, hour = Ledger(str(tmp_path)), 3600
    for tried in range(100):
        ledger.failed("always", "broken", Retry(), hour * tried)
        ledger.failed(f"of_hour_{tried}", "broken", Retry(), hour * tried)
    kept = json.loads((tmp_path / "autopilot.json").read_text())["failures"]
    assert kept["always"]["count"] == 100
    assert set(kept) == {"always", *(f"of_hour_{hour}" for hour in range(75, 100))}


def test_file_is_parsed_again_only_if_others_have_changed_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    one.failed("a", "broken", Retry(), 1000)
    two.failed("b", "broken", Retry(), 1000)
    parsed, parse = [], json.loads

    def counted(text: Any) -> Any:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(json, "loads", counted)
    for _ in range(3):
        assert set(one.failures()) == set(two.failures()) == {"a", "b"}
        two.reserve(1, MONDAY, None)
    assert (two.spent(MONDAY), len(parsed)) == (3, 3)


def test_many_threads_lose_no_byte(tmp_path: Path) -> None:
    ledgers = [Ledger(str(tmp_path)) for _ in range(2)]

    def spend(number: int) -> None:
        for _ in range(20):
            ledgers[number % 2].reserve(1, MONDAY, None)

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledgers[0].spent(MONDAY) == 80
