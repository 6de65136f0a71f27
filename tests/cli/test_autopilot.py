"""``puffin autopilot``: a dry run, one run, and a process that goes on until a signal."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from puffin.autopilot.claims import Claims
from puffin.autopilot.decide import WAITING, judge

PATIENCE = 60


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Two tables and a policy with a budget."""
    for name in ("one", "two"):
        write_deltalake(str(tmp_path / "lake" / name), pa.table({"k": list(range(100))}))
    file = tmp_path / "policy.yaml"
    file.write_text("roots: [lake]\nlook-every: 1s\nstate: state\nlimits: {bytes-per-day: 1 GiB}\n")
    return file


def make_hanging_table(table: Path) -> Path:
    """A table of which a file is a pipe that nobody writes to."""
    (table / "metadata").mkdir(parents=True)
    (table / "metadata/v1.metadata.json").write_text("{}")
    os.mkfifo(table / "metadata/version-hint.text")
    return table / "metadata/version-hint.text"


def statistics(policy: Path) -> list[str]:
    return [file.name for file in policy.parent.rglob("_delta_log/**/*.stats")]


@pytest.fixture
def process(policy: Path) -> Iterator[Any]:
    """Starts the command as a process, and ends it after the test."""
    running = []

    def start(*arguments: str, program: Sequence[str] = ("-m", "puffin")) -> Any:
        command = [sys.executable, *program, "autopilot", "--policy", str(policy), *arguments]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for each in running:
        each.kill()
        each.communicate()


def test_dry_run_says_what_would_run_and_writes_nothing(puffin: Callable[..., Any], policy: Path) -> None:
    files = sorted(policy.parent.rglob("*"))
    run = puffin("autopilot", "--policy", policy, "--dry-run", "--json")
    assert (run.code, run.stderr, sorted(run.document)) == (0, "", ["budget-left", "runs", "tables"])
    size = {p.parent.name: p.stat().st_size for p in policy.parent.rglob("*.parquet")}
    assert (run.document["budget-left"], run.document["runs"]) == (2**30, [])
    first = run.document["tables"][0]
    assert {key: first[key] for key in ("catalog", "state", "reason", "statistics", "index", "may-start")} == {
        "catalog": None,
        "state": "due",
        "reason": "there are no statistics",
        "statistics": True,
        "index": False,
        "may-start": True,
    }
    assert first["bytes-to-read"] == size[Path(first["table"]).name]
    text = puffin("autopilot", "--policy", policy, "--dry-run").text.splitlines()
    assert text[0].split() == ["state", "table", "to", "read"]
    assert text[-1].startswith("2 of 2 tables would run now, and read ")
    assert sorted(policy.parent.rglob("*")) == files


def test_once_runs_what_is_due_and_then_finds_all_fresh(puffin: Callable[..., Any], policy: Path) -> None:
    run = puffin("autopilot", "--policy", policy, "--once", "--json")
    assert (run.code, run.stderr) == (0, "")
    assert [each["outcome"] for each in run.document["runs"]] == ["done"] * 2
    assert len(statistics(policy)) == 2
    run = puffin("autopilot", "--policy", policy, "--once", "--json")
    assert ([each["state"] for each in run.document["tables"]], run.document["runs"]) == (["fresh"] * 2, [])
    assert puffin("autopilot", "--policy", policy, "--once").text == "0 of 2 tables ran; 2 fresh\n"


def test_last_line_of_one_run_says_why_tables_did_not_run(puffin: Callable[..., Any], policy: Path) -> None:
    """Otherwise an empty output of a job from cron would look like success."""
    now = datetime.datetime.now(datetime.timezone.utc)
    hours = "-".join(f"{(now + datetime.timedelta(hours=after)).hour:02}:00" for after in (2, 3))
    policy.write_text(f"roots: [lake]\nlimits: {{hours: '{hours}'}}\n")
    once, dry = (puffin("autopilot", "--policy", policy, how).text for how in ("--once", "--dry-run"))
    assert once == f"0 of 2 tables ran; 2 not now (outside {hours} UTC)\n"
    assert dry.splitlines()[-1] == f"0 of 2 tables would run now, and read 0 B; outside {hours} UTC"
    policy.write_text("roots: [lake]\nlimits: {bytes-per-day: 1 B, tables-at-once: 1}\nstate: state\n")
    lines = puffin("autopilot", "--policy", policy, "--once").text.splitlines()
    assert lines[-1] == "1 of 2 tables ran; 1 not now (today's budget is spent)"
    policy.write_text("roots: [lake]\n")
    write_deltalake(str(policy.parent / "lake/one"), pa.table({"k": [1] * 100}), mode="append")
    write_deltalake(str(policy.parent / "lake/two"), pa.table({"k": [1] * 100}), mode="append")
    lines = puffin("autopilot", "--policy", policy, "--once").text.splitlines()
    assert lines[-1] == "1 of 2 tables ran; 1 waiting"


def test_last_line_of_one_run_says_the_reason_of_each_table(puffin: Callable[..., Any], policy: Path) -> None:
    with Claims(None).hold(str(policy.parent / "lake/one")):
        lines = puffin("autopilot", "--policy", policy, "--once").text.splitlines()
    assert lines[-1] == "1 of 2 tables ran; 1 not now (another instance has them)"
    for name in ("three", "four"):
        write_deltalake(str(policy.parent / "lake" / name), pa.table({"k": list(range(100))}))
    policy.write_text("roots: [lake]\nlimits: {bytes-per-day: 1 B, tables-at-once: 1}\n")
    with Claims(None).hold(str(policy.parent / "lake/one")):
        lines = puffin("autopilot", "--policy", policy, "--once").text.splitlines()
    assert lines[-1].startswith("1 of 4 tables ran; ")
    assert "1 not now (today's budget is spent)" in lines[-1]
    assert "1 not now (another instance has them)" in lines[-1]


def test_last_line_of_one_run_does_not_call_a_table_current_that_waits(
    puffin: Callable[..., Any], policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner, or a run of another instance, may change what is due between the look and its turn."""

    def waits(*given: Any) -> Any:
        return dataclasses.replace(judge(*given), state=WAITING)

    monkeypatch.setattr("puffin.autopilot.worker.judge", waits)
    run = puffin("autopilot", "--policy", policy, "--once")
    assert (run.code, run.text.splitlines()[-1]) == (0, "0 of 2 tables ran; 2 no longer due")


def test_failed_table_fails_one_run(puffin: Callable[..., Any], policy: Path) -> None:
    for file in (policy.parent / "lake/one").glob("*.parquet"):
        file.write_bytes(b"PAR1")
    run = puffin("autopilot", "--policy", policy, "--once")
    assert run.text.splitlines()[-1] == "2 of 2 tables ran"
    (failed,) = (line for line in run.text.splitlines() if ": statistics failed: " in line)
    assert failed.startswith(f"{policy.parent}/lake/one: statistics failed: ")
    assert (run.code, run.stderr) == (1, f"puffin: 1 of 2 tables failed: {failed}\n")


def test_reasons_of_broken_tables_stand_in_the_line_of_the_failure(puffin: Callable[..., Any], policy: Path) -> None:
    """The first three; a dry run has them on stdout, all of them."""
    roots = [str(policy.parent / name) for name in ("a", "b", "c", "d", "e")]
    policy.write_text(f"roots: [lake, {', '.join(roots[:1])}]\n")
    run = puffin("autopilot", "--policy", policy, "--once", "--json")
    assert (run.code, run.stderr) == (1, f"puffin: 1 of 3 tables failed: {roots[0]}: no such directory\n")
    policy.write_text(f"roots: [{', '.join(roots)}]\n")
    three = "; ".join(f"{root}: no such directory" for root in roots[:3])
    run = puffin("autopilot", "--policy", policy, "--once")
    assert run.stderr == f"puffin: 5 of 5 tables failed: {three}; and 2 more, see --dry-run\n"
    run = puffin("autopilot", "--policy", policy, "--dry-run")
    assert run.stderr == f"puffin: 5 of 5 tables failed: {three}; and 2 more\n"
    assert all(f"{root}: no such directory" in run.text for root in roots)


def test_json_has_a_line_for_each_table_that_is_broken_or_failed(puffin: Callable[..., Any], policy: Path) -> None:
    lake = policy.parent / "lake"
    for file in (lake / "one").glob("*.parquet"):
        file.write_bytes(b"PAR1")
    (lake / "two/_delta_log/00000000000000000000.json").write_text("{")
    run = puffin("autopilot", "--policy", policy, "--once", "--log-format", "json")
    two, one, count = map(json.loads, run.stderr.splitlines())
    assert [line.get("table") for line in (two, one, count)] == [str(lake / "two"), str(lake / "one"), None]
    assert two["message"].startswith(f"{lake}/two")
    assert one["message"].startswith(f"{lake}/one: statistics failed: ")
    assert (count["message"], count["level"]) == ("2 of 2 tables failed", "ERROR")


def test_what_is_lost_of_one_run_is_said(puffin: Callable[..., Any], policy: Path) -> None:
    """Not only with --verbose; a file that cannot be made ends the command at once."""
    policy.write_text("roots: [lake]\nevents: {file: no/events, webhook: 'http://127.0.0.1:9/'}\n")
    run = puffin("autopilot", "--policy", policy, "--once")
    assert (run.code, run.text) == (1, "")
    assert "expected a file for the autopilot's events" in run.stderr
    policy.write_text("roots: [lake]\nevents: {webhook: 'http://127.0.0.1:9/'}\n")
    run = puffin("autopilot", "--policy", policy, "--once")
    assert (run.code, run.text.splitlines()[-1]) == (0, "2 of 2 tables ran")
    (line,) = run.stderr.splitlines()
    assert line.startswith("puffin: http://127.0.0.1:9: the event is not sent: ")


def test_address_of_metrics_is_a_line_of_json_too(puffin: Callable[..., Any], policy: Path) -> None:
    run = puffin("autopilot", "--policy", policy, "--dry-run", "--metrics-port", "0", "--log-format", "json")
    assert run.code == 0
    assert json.loads(run.stderr)["message"].startswith("metrics at http://127.0.0.1:")


def test_process_says_once_what_is_broken(process: Any, policy: Path) -> None:
    """A mistyped root or catalog would otherwise be silent forever. A failed run stands on stdout, for people."""
    for file in (policy.parent / "lake/one").glob("*.parquet"):
        file.write_bytes(b"PAR1")
    policy.write_text("roots: [nope, lake]\nlook-every: 1s\n")
    text, as_json = both = [process("--log-format", log_format) for log_format in ("text", "json")]
    nope = policy.parent / "nope"
    assert text.stderr.readline() == f"puffin: {nope}: no such directory\n"
    line = json.loads(as_json.stderr.readline())
    assert (line["message"], line["table"], line["level"]) == (f"{nope}: no such directory", str(nope), "ERROR")
    for running in both:
        assert any("statistics failed" in running.stdout.readline() for _ in range(2))
    time.sleep(2.5)  # more looks
    for running in both:
        running.send_signal(signal.SIGTERM)
    assert [running.wait(PATIENCE) for running in both] == [0, 0]
    assert text.stderr.read() == ""
    assert [json.loads(line)["table"] for line in as_json.stderr] == [f"{policy.parent}/lake/one"]


def test_json_needs_an_end(puffin: Callable[..., Any], policy: Path) -> None:
    run = puffin("autopilot", "--policy", policy, "--json")
    assert (run.code, run.stdout) == (2, b"")
    assert "--json needs --once or --dry-run" in run.stderr


def test_process_keeps_tables_fresh_tells_monitoring_and_ends_at_sigterm(process: Any, policy: Path) -> None:
    running = process("--metrics-port", "0")
    url = running.stderr.readline().split()[-1]
    assert url.endswith("/metrics")
    lines = [running.stdout.readline() for _ in range(2)]
    assert all("statistics done (there are no statistics)" in line for line in lines)
    write_deltalake(str(policy.parent / "lake/three"), pa.table({"k": [1]}))
    assert "lake/three: statistics done" in running.stdout.readline()

    def answer(path: str) -> str:
        with urllib.request.urlopen(url.replace("/metrics", path), timeout=PATIENCE) as found:
            return str(found.read().decode())

    assert answer("/healthz") == '{"status":"ok"}'
    until = time.monotonic() + PATIENCE
    while 'tables{state="fresh"} 3' not in answer("/metrics") and time.monotonic() < until:
        time.sleep(0.1)
    metrics = answer("/metrics")
    assert 'puffin_autopilot_tables{state="fresh"} 3' in metrics
    assert 'puffin_autopilot_runs_total{action="statistics",outcome="done"} 3' in metrics
    assert "puffin_autopilot_budget_left_bytes 1073" in metrics
    began = time.monotonic()
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    assert time.monotonic() - began < PATIENCE / 2
    assert running.stderr.read() == ""


def opened_by_a_reader(pipe: Path) -> int:
    """A descriptor to write to a pipe, once somebody reads from it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)  # fails until then
        except OSError:
            time.sleep(0.1)
    raise AssertionError("nobody reads")


def test_signal_ends_a_process_that_has_not_begun_to_look(process: Any, policy: Path) -> None:
    """Its policy is a pipe that nobody writes to."""
    policy.unlink()
    os.mkfifo(policy)
    running = process()
    writer = opened_by_a_reader(policy)
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    os.close(writer)


def test_storage_that_hangs_does_not_keep_the_process_from_ending(process: Any, policy: Path) -> None:
    """A read of a pipe that nobody writes to never ends; runs have a second here, which are eight otherwise."""
    pipe = make_hanging_table(policy.parent / "lake/hangs")
    short = "from puffin.cli import autopilot, main; assert autopilot._GRACE == 8; autopilot._GRACE = 1; main()"
    running = process(program=("-c", short))
    writer = opened_by_a_reader(pipe)
    began = time.monotonic()
    running.send_signal(signal.SIGTERM)
    assert running.wait(PATIENCE) == 0
    assert 1 < time.monotonic() - began < PATIENCE / 2
    os.close(writer)


def test_table_that_hangs_does_not_keep_one_run_from_ending(process: Any, policy: Path) -> None:
    """A look waits for a second here, which is a minute otherwise."""
    pipe = make_hanging_table(policy.parent / "lake/hangs")
    short = "from puffin.autopilot.look import Watcher; Watcher.look.__defaults__ = (1,)"
    running = process("--once", program=("-c", f"{short}; from puffin.cli import main; main()"))
    writer = opened_by_a_reader(pipe)
    said, failed = running.communicate(timeout=PATIENCE)
    assert (running.returncode, said.splitlines()[-1]) == (1, "2 of 3 tables ran; 1 broken")
    assert failed.endswith("lake/hangs: the storage has not answered for 1 seconds\n")
    os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_one_run_whose_lines_cannot_be_printed_fails(policy: Path) -> None:
    command = [sys.executable, "-m", "puffin", "autopilot", "--policy", str(policy), "--once"]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    assert (ran.returncode, ran.stderr) == (1, "puffin: standard output: No space left on device\n")


def test_log_of_json_lines_has_a_line_for_each_run(process: Any, policy: Path) -> None:
    running = process("--once", "--log-format", "json", "--verbose")
    _, said = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0
    lines = [json.loads(line) for line in said.splitlines()]
    assert sum("statistics done: there are no statistics" in line["message"] for line in lines) == 2
