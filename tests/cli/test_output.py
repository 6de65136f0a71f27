"""Output that stdout cannot take is reported in one line; characters that it cannot show are escaped."""

import errno
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from puffin.cli import main
from puffin.cli.render import JsonList, counted, human_bytes, print_json
from puffin.errors import StorageError

FULL = Path("/dev/full")


@pytest.fixture
def file(tmp_path, sound_image):
    path = tmp_path / "sound.puffin"
    path.write_bytes(sound_image)
    return path


def test_unknown_command_gets_the_name_of_one_that_is_alike(puffin) -> None:
    run = puffin("analyse", "x")
    assert (run.code, run.stderr.splitlines()[-1]) == (2, "Error: No such command 'analyse'; did you mean 'analyze'?")
    assert puffin("paint").stderr.splitlines()[-1] == "Error: No such command 'paint'"


@pytest.fixture
def table(tmp_path):
    """A Delta table without files whose column name would control a terminal."""
    log = tmp_path / "té" / "_delta_log"
    log.mkdir(parents=True)
    schema = {"type": "struct", "fields": [{"name": "ä\x1b[31m", "type": "long", "nullable": True, "metadata": {}}]}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "00000000-0000-0000-0000-000000000000",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return log.parent


def shown(monkeypatch, encoding, *args):
    """Return the bytes that a command prints when stdout has this encoding."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stdout)
    with pytest.raises(SystemExit) as exit_:
        main([str(arg) for arg in args])
    assert not exit_.value.code
    return stdout.buffer.getvalue()


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("options", [["--json"], ["--blob", "0", "--raw"]], ids=str)
def test_full_disk_is_not_an_internal_error(file, options):
    with FULL.open("wb") as stdout:
        command = [sys.executable, "-m", "puffin", "dump", file, *options]
        run = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True)
    assert (run.returncode, run.stderr) == (1, f"puffin: standard output: {os.strerror(28)}\n")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_dump_fails_without_stdout(file, options, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as exit_:
        main(["dump", str(file), *options])
    assert exit_.value.code == 1
    assert capsys.readouterr().err == "puffin: standard output: it is closed\n"


def test_dump_of_stdin_fails_without_stdin(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SystemExit) as exit_:
        main(["dump", "-"])
    assert exit_.value.code == 1
    assert capsys.readouterr().err == "puffin: standard input: it is closed\n"


def test_interrupt_is_one_line(puffin, file, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("puffin.inspection.verify", interrupted)
    run = puffin("verify", file)
    assert (run.code, run.stdout, run.stderr) == (1, b"", "puffin: interrupted\n")


def test_table_names_are_escaped_in_any_encoding(table, monkeypatch):
    for encoding, name, directory in (("utf-8", "ä", "té"), ("ascii", r"\xe4", r"t\xe9")):
        text = shown(monkeypatch, encoding, "ndv", table).decode(encoding)
        assert f"{name}\\x1b[31m  long" in text
        assert f"/{directory} (delta" in text


def test_failure_does_not_steer_the_terminal(capsys):
    with pytest.raises(SystemExit):
        main(["ndv", "no\x1b[2J"])
    assert r"no\x1b[2J: " in capsys.readouterr().err


def test_json_is_utf8_whatever_the_encoding(table, monkeypatch):
    document = json.loads(shown(monkeypatch, "ascii", "ndv", table, "--json"))
    assert document["columns"][0]["column"] == "ä\x1b[31m"


def test_number_has_its_noun_in_the_singular_or_plural():
    assert [counted(count, "file") for count in (0, 1, 1200)] == ["0 files", "1 file", "1,200 files"]
    assert [counted(count, "entry", "entries") for count in (1, 2)] == ["1 entry", "2 entries"]


def test_size_is_below_1024_of_its_unit():
    sizes = (1023, 1024, (1 << 20) - 1, 1 << 20)
    assert [human_bytes(size) for size in sizes] == ["1023 B", "1.0 KiB", "1.0 MiB", "1.0 MiB"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_list_of_documents_is_printed_as_one_document(capfdbinary, count):
    documents = [{"name": "a\n\u2028é\udcff", "of": [number, {"deep": []}]} for number in range(count)]
    print_json({"tables": documents})
    whole = capfdbinary.readouterr().out
    listed = JsonList("tables")
    for document in documents:
        listed.add(document)
    assert capfdbinary.readouterr().out == b""
    listed.print()
    assert capfdbinary.readouterr().out == whole


def test_list_says_if_there_is_no_place_for_its_temporary_file(monkeypatch):
    """As in a container whose root cannot be written to."""

    def refuse(*_args, **_options):
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(StorageError, match=r"^temporary file: No usable temporary directory found"):
        JsonList("tables")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
def test_list_says_if_its_end_cannot_be_written(monkeypatch):
    """What is still in memory is written before it is printed."""
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: FULL.open("r+b"))
    listed = JsonList("tables")
    listed.add({"name": "t"})
    with pytest.raises(StorageError, match=r"^temporary file: No space left"):
        listed.print()
