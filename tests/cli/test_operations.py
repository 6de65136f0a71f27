"""What unattended runs leave behind: log lines, failure lines, and a summary line for each table."""

import datetime
import json
import logging
import os
import threading
from functools import partial
from pathlib import Path

import pytest

from puffin.cli.diagnostics import Diagnostics
from puffin.cli.serve import _announce
from puffin.cli.summary import RunSummary, summary_line
from puffin.errors import CommitUnknownError, ConflictError, StorageError, UsageError

SUMMARY_KEYS = {
    *("time", "table", "format", "snapshot-id", "mode", "committed", "columns", "files-read", "rows-read"),
    *("bytes-read", "elapsed-seconds", "attempts", "error", "error-class", "exit"),
}


@pytest.fixture
def orders(delta_table):
    """The path of a table of three rows."""
    writer = delta_table("orders")
    writer.commit(writer.add({"a": [1, 2, 3], "b": [1, 1, 2]}))
    return str(writer.path)


@pytest.fixture
def analyze(puffin):
    return partial(puffin, "analyze")


def lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


# --- stderr ---------------------------------------------------------------------------------------------------------


def test_failure_is_one_json_line(analyze, tmp_path):
    run = analyze(tmp_path / "none", "--log-format", "json")
    (line,) = lines(run.stderr)
    assert run.code == 1
    assert datetime.datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "ERROR",
        "logger": "puffin",
        "message": f"{tmp_path}/none: no such file or directory",
        "table": f"{tmp_path}/none",
        "error": "TableNotFound",
    }


@pytest.mark.parametrize(
    "args", [("t", "--ref", "a", "--snapshot-id", "1"), (), ("t", "--conf", "x"), ("t", "--lg-k", "99")]
)
def test_usage_error_is_one_json_line_wherever_the_option_appears(analyze, args):
    run = analyze(*args, "--log-format", "json")
    (line,) = lines(run.stderr)
    assert run.code == 2
    assert line["error"] in ("UsageError", "BadParameter")


def test_json_line_includes_the_traceback(analyze, tmp_path):
    (line,) = lines(analyze(tmp_path / "none", "--debug", "--log-format", "json").stderr)
    assert line["traceback"].startswith("Traceback")
    assert line["traceback"].endswith(f"TableNotFound: {line['message']}\n")


def test_json_log_lines_name_their_table(analyze, orders, tmp_path, monkeypatch):
    """A run works on several tables at once."""

    def log(*args, **kwargs):
        logging.getLogger("elsewhere").warning("two\nlines of %s", "text")
        raise ConflictError("lost")

    monkeypatch.setattr("stats_jobs.many.analyze", log)
    run = analyze(orders, tmp_path / "none", "--verbose", "--log-format", "json")
    *logged, failure = lines(run.stderr)
    said = {(line["logger"], line["level"], line.get("table")): line for line in logged}
    assert said["elsewhere", "WARNING", orders]["message"] == "two\nlines of text"
    assert said["puffin.cli.many_tables", "ERROR", orders]["error"] == "ConflictError"
    assert said["puffin.cli.many_tables", "ERROR", f"{tmp_path}/none"]["error"] == "TableNotFound"
    assert (failure["message"], failure.get("table")) == ("2 of 2 tables failed", None)


@pytest.mark.parametrize("options", [(), ("--json",), ("--debug",), ("--verbose", "--debug")])
@pytest.mark.parametrize("command", [("analyze",), ("index", "--columns", "a"), ("index", "--advise")])
def test_each_failed_table_of_several_is_one_json_line(puffin, orders, tmp_path, command, options):
    none = str(tmp_path / "none")
    run = puffin(*command, none, orders, "--log-format", "json", *options)
    told = [line for line in lines(run.stderr) if line["logger"] == "puffin"]
    assert [(line["message"], line.get("table"), line.get("error")) for line in told] == [
        (f"{none}: no such file or directory", none, "TableNotFound"),
        ("1 of 2 tables failed", None, None),
    ]
    assert ("traceback" in told[0]) == ("--debug" in options)


def test_line_of_a_failed_table_has_its_name_once(puffin, orders, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = puffin("analyze", "country", orders, "--verbose")
    said = "country: no such file or directory"
    assert run.text.startswith(f"{said}\n")
    assert f" ERROR puffin.cli.many_tables: {said}\n" in run.stderr
    assert puffin("index", "country", orders, "--advise").text.startswith(f"{said}\n")


def test_finished_run_is_logged(analyze, orders):
    run = analyze(orders, "--verbose", "--log-format", "json")
    assert run.code == 0
    assert lines(run.stderr)[-1]["message"] == f"{orders}: committed, 3 rows read"
    assert analyze(orders, "--verbose").stderr.endswith(
        f" INFO puffin.cli.many_tables: {orders}: current, 0 rows read\n"
    )


def test_json_log_lines_include_logged_tracebacks(capsys):
    from puffin.cli.logs import log_to_stderr

    log_to_stderr(as_json=True)
    try:
        raise StorageError("gone")
    except StorageError:
        logging.getLogger().exception("cannot")
    (line,) = lines(capsys.readouterr().err)
    assert (line["message"], line["error"]) == ("cannot", "StorageError")
    assert line["traceback"].endswith("puffin.errors.StorageError: gone\n")
    assert "table" not in line


def test_server_logs_its_address_as_json(capsys):
    _announce(Diagnostics("json"), "127.0.0.1", 80, is_guarded=False, as_json=False)
    _announce(Diagnostics(), "::1", 80, is_guarded=False, as_json=False)
    line, text = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "serving at http://127.0.0.1:80"
    assert text == "serving at http://[::1]:80"


def test_server_prints_its_address_as_a_document(capfd):
    _announce(Diagnostics(), "127.0.0.1", 80, is_guarded=False, as_json=True)
    assert json.loads(capfd.readouterr().out) == {"url": "http://127.0.0.1:80", "host": "127.0.0.1", "port": 80}


# --- the summary ----------------------------------------------------------------------------------------------------


def test_each_run_appends_a_summary_line_for_each_table(analyze, orders, tmp_path):
    file = tmp_path / "summary.jsonl"
    answer = analyze(orders, "--summary", file, "--json").document
    assert analyze(orders, "--summary", file).code == 0
    assert analyze(tmp_path / "none", "--summary", file).code == 1
    assert analyze(orders, tmp_path / "none", "--summary", file).code == 1
    first, second, failed, *several = lines(file.read_text())
    assert all(set(line) == SUMMARY_KEYS for line in (first, second, failed, *several))
    same = ("table", "format", "snapshot-id", "mode", "committed", "files-read", "rows-read", "bytes-read", "attempts")
    assert {key: first[key] for key in same} == {key: answer[key] for key in same}
    assert (first["columns"], first["error"], first["exit"]) == (["a", "b"], None, 0)
    assert (second["committed"], second["rows-read"], second["exit"]) == (False, 0, 0)
    assert (failed["table"], failed["committed"], failed["exit"]) == (f"{tmp_path}/none", False, 1)
    assert (failed["error-class"], failed["snapshot-id"]) == ("TableNotFound", None)
    assert [(line["table"], line["exit"]) for line in several] == [(orders, 0), (f"{tmp_path}/none", 1)]
    assert datetime.datetime.fromisoformat(first["time"]).tzinfo is not None


def test_unwritable_summary_file_fails_the_run_before_it_starts(analyze, orders, tmp_path):
    run = analyze(orders, "--summary", tmp_path / "no" / "directory")
    assert run.code == 1
    said = "the summary cannot be appended to: No such file or directory"
    assert run.stderr == f"puffin: {tmp_path}/no/directory: {said}\n"
    assert not Path(orders, "_delta_log", "_puffin_sidecar").exists()


def test_partial_summary_line_is_removed_and_fails_the_run(tmp_path, monkeypatch):
    """Half a line would spoil the next one too."""
    file = tmp_path / "summary.jsonl"
    summary = RunSummary(str(file))
    summary.add("first", StorageError("whole"))
    whole, write = file.read_text(), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
    summary.add("second", StorageError("cut"))
    assert file.read_text() == whole
    with pytest.raises(StorageError, match="No space left"):
        summary.check()


def test_concurrent_runs_append_whole_lines(tmp_path):
    file = tmp_path / "summary.jsonl"

    def append(name: str) -> None:
        summary = RunSummary(str(file))
        for _ in range(50):
            summary.add(name, StorageError(name * 5000))
        summary.check()

    threads = [threading.Thread(target=append, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = lines(file.read_text())
    assert len(found) == 200
    assert all(line["error"] == line["table"] * 5000 for line in found)


@pytest.mark.parametrize(
    ("outcome", "committed", "code"),
    [
        (ConflictError("x"), False, 1),
        (CommitUnknownError("x"), None, 1),
        (KeyboardInterrupt(), None, 1),
        (UsageError("x"), False, 2),
    ],
)
def test_committed_is_null_only_when_unknown(outcome, committed, code):
    line = summary_line("t", outcome)
    assert (line["committed"], line["exit"]) == (committed, code)
    assert line["error"]
