"""``puffin clean``: what it lists, when it removes files, and what it prints."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path

import pytest

from tests.table_directory import publish


@pytest.fixture
def table(table_document, tmp_path) -> Path:
    """A table with an entry for a snapshot that is gone."""
    root = tmp_path / "t"
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    entry = {"snapshot-id": 9, "statistics-path": f"{root}/metadata/9.stats", **sizes, "blob-metadata": []}
    publish(root, table_document(root, statistics=[entry]))
    return root


@pytest.fixture
def temporary(table):
    """Make a temporary file of 5 bytes and of this age in seconds."""

    def make(age: float) -> Path:
        path = table / "metadata" / f".puffin-sidecar-{uuid.uuid4().hex}.tmp"
        path.write_bytes(b"bytes")
        os.utime(path, (time.time() - age,) * 2)
        return path

    return make


def test_json_document_has_the_contracted_keys(puffin, table, temporary):
    old, young = temporary(8 * 86400), temporary(3600)
    run = puffin("clean", table, "--json")
    assert (run.code, run.stderr) == (0, "")
    ages = [file.pop("age-seconds") for file in run.document["files"]]
    assert ages[0] - 8 * 86400 in range(60)
    reasons = [kept.pop("reason") for kept in run.document["kept"]]
    assert "a job may be about to refer to it" in reasons[0]
    document = run.document
    assert [document["files"][0]["path"], document["files"][0]["size"]] == [str(old), 5]
    assert set(document["files"][0]) == {"path", "size", "age-seconds", "reason"}
    assert document["entries"] == [{"snapshot-id": 9, "statistics-path": f"{table}/metadata/9.stats"}]
    assert [kept["path"] for kept in document["kept"]] == [str(young)]
    assert {key: document[key] for key in ("table", "format", "older-than-seconds", "removed")} == {
        "table": str(table),
        "format": "iceberg",
        "older-than-seconds": 7 * 86400,
        "removed": False,
    }
    assert set(document) == {"table", "format", "older-than-seconds", "files", "entries", "kept", "removed"}


def test_clean_removes_nothing_without_yes(puffin, table, temporary):
    path = temporary(8 * 86400)
    before = (table / "metadata" / "v1.metadata.json").read_bytes()
    said = puffin("clean", table)
    assert said.code == 0
    assert f"to remove: {path} (5 B): " in said.text
    assert "to remove: entry of the expired snapshot 9" in said.text
    assert "to remove: files 1 (5 B), entries 1; kept: 0; --yes removes them" in said.text
    assert path.exists()
    assert {p.name for p in (table / "metadata").iterdir()} == {"v1.metadata.json", "version-hint.text", path.name}
    assert (table / "metadata" / "v1.metadata.json").read_bytes() == before

    assert puffin("clean", table, "--dry-run").text == said.text
    assert puffin("clean", table, "--dry-run", "--yes").code == 2
    assert path.exists()

    done = puffin("clean", table, "--yes", "--json")
    assert (done.code, done.document["removed"], len(done.document["files"])) == (0, True, 1)
    assert not path.exists()
    assert json.loads((table / "metadata" / "v2.metadata.json").read_text())["statistics"] == []
    assert "removed: files 0 (0 B), entries 0; kept: 0\n" in puffin("clean", table, "--yes").text


@pytest.mark.parametrize(
    ("older_than", "removed"),
    [("0s", 2), ("90s", 2), ("59m", 2), ("2h", 1), ("7d", 1), ("8d", 1), ("9d", 0), ("36500d", 0)],
)
def test_minimum_age_can_be_chosen(puffin, table, temporary, older_than, removed):
    temporary(8 * 86400 + 60)
    temporary(3600)
    run = puffin("clean", table, "--older-than", older_than, "--json")
    assert len(run.document["files"]) == removed


@pytest.mark.parametrize(
    "older_than", ["", "7", "d", "-1d", "1.5h", "7 d", "7D", "1w", "\u0667d", "36501d", "9999999999d", "9" * 40 + "s"]
)
def test_invalid_duration_is_a_usage_error(puffin, table, older_than):
    run = puffin("clean", table, "--older-than", older_than)
    assert run.code == 2
    assert "expected a duration such as 90s, 5m, 2h or 7d" in " ".join(run.stderr.split())


def test_file_names_with_escape_sequences_are_escaped(puffin, table_document, tmp_path):
    root = tmp_path / "t\x1b[2J"
    publish(root, table_document(root))
    (root / "metadata" / f".puffin-sidecar-{uuid.uuid4().hex}.tmp").touch()
    run = puffin("clean", root, "--older-than", "0s")
    assert run.code == 0
    assert "\x1b" not in run.text
    assert "t\\x1b[2J" in run.text


@pytest.mark.parametrize(
    ("name", "code"),
    [("nowhere", 1), ("t/metadata/v1.metadata.json", 2)],
    ids=["no table", "one version of a table"],
)
def test_table_that_cannot_be_cleaned_fails_with_one_line(puffin, table, name, code):
    run = puffin("clean", table.parent / name, "--yes")
    assert (run.code, run.stdout, run.stderr.count("\n")) == (code, b"", 1)
    assert run.stderr.startswith("puffin: ")


def test_advice_names_the_command_that_has_the_option(puffin, table):
    """``clean`` has no ``--no-commit``, and a policy has no ``--catalog``."""
    metadata = table / "metadata"
    (metadata / "v1.metadata.json").rename(metadata / "00001-x.metadata.json")
    run = puffin("clean", table)
    assert (run.code, run.stdout, run.stderr.count("\n")) == (1, b"", 1)
    assert "name the table in that catalog (--catalog, in Python catalog, or catalogs of a policy); " in run.stderr
    assert run.stderr.count("--no-commit") == run.stderr.count("puffin analyze --no-commit") == 1


def test_clean_takes_catalog_table_names_like_other_commands(puffin, table, temporary, tmp_path):
    from pyiceberg.catalog.sql import SqlCatalog

    temporary(8 * 86400)
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("prod", uri=uri, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    catalog.register_table("db.t", (table / "metadata" / "v1.metadata.json").as_uri())
    options = ("--catalog", "prod", "--catalog-property", "type=sql", "--catalog-property", f"uri={uri}")
    run = puffin("clean", "db.t", *options, "--yes", "--json")
    assert run.code == 0, run.stderr
    assert (run.document["table"], len(run.document["files"]), len(run.document["entries"])) == ("db.t", 1, 1)
    assert catalog.load_table("db.t").metadata.statistics == []
