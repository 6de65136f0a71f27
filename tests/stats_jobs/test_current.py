"""When statistics are current, so that a run keeps them and `--only-stale` skips the table."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from puffin.errors import FileNotFound
from puffin.lookup.status import status_of
from puffin.statistics import stored_blobs
from puffin.storage import LocalStore
from stats_jobs import Options, analyze
from stats_jobs.decide import is_stale

FIELD = {"source-id": 2, "field-id": 1000, "name": "b", "transform": "identity"}
PARTITIONED = [{"spec-id": 0, "fields": [FIELD]}]
PARTITION_FILE = {"snapshot-id": 11, "statistics-path": "gone.parquet", "file-size-in-bytes": 100}
BY_PARTITION = {"puffin-sidecar.type": "long", "puffin-sidecar.partitions": "3"}


def test_table_is_stale_if_a_requested_column_is_not_of_the_snapshot(table_with):
    """Other columns do not make it stale."""
    assert not is_stale(table_with("current", (1, 11), (2, 11)), Options())
    assert is_stale(table_with("missing", (1, 11)), Options())
    older = table_with("older", (1, 11), (2, 10))
    assert [is_stale(older, Options(columns=columns)) for columns in (None, ("a",), ("b",))] == [True, False, True]


def test_table_without_a_snapshot_is_stale_and_without_columns_is_not(table_with):
    nothing_yet = {"current-snapshot-id": -1, "snapshots": [], "snapshot-log": [], "refs": {}}
    assert is_stale(table_with("new", **nothing_yet), Options())
    no_columns = {"schemas": [{"type": "struct", "schema-id": 0, "fields": []}]}
    assert not is_stale(table_with("empty", **no_columns), Options())


def test_sketches_that_claim_to_be_ours_without_a_note_are_stale(table_with):
    ours = table_with("ours", (1, 11), (2, 11))
    claimed = table_with("claimed", (1, 11), (2, 11))
    path = Path(claimed.name) / "metadata" / "v1.metadata.json"
    path.write_text(path.read_text().replace("puffin-sidecar.reading", "unheard-of"))
    assert [is_stale(table, Options()) for table in (ours, claimed)] == [False, True]


def test_lost_private_state_makes_statistics_stale_unless_it_needs_a_full_read(table_with):
    table = table_with("lost", (1, 11), (2, 11))
    (Path(table.name) / "_puffin_sidecar" / "made.stats").unlink()
    assert is_stale(table, Options())
    assert not is_stale(table, Options(mode="incremental"))


@pytest.mark.parametrize("harm", ["gone", "cut", "another"])
@pytest.mark.parametrize("mode", ["auto", "incremental"])
def test_lost_statistics_file_makes_statistics_stale(table_with, tmp_path, mode, harm):
    table = table_with("lost", (1, 11), (2, 11))
    file = tmp_path / "made.stats"
    assert not is_stale(table, Options(mode=mode))
    if harm == "gone":
        file.unlink()
    else:
        file.write_bytes(bytes(199 if harm == "cut" else 201))
    assert is_stale(table, Options(mode=mode))


def test_statistics_file_is_looked_up_once_for_all_columns(table_with, monkeypatch):
    table = table_with("wide", (1, 11), (2, 11))
    looked_up = []
    find = LocalStore.find
    monkeypatch.setattr(LocalStore, "find", lambda store, uri: looked_up.append(uri) or find(store, uri))
    status_of("wide", table.open)
    assert [Path(uri).name for uri in looked_up].count("made.stats") == 1


def test_statistics_that_a_run_would_recompute_are_stale(table_with):
    """They have another size, or stand beside those of a dropped column."""
    assert is_stale(table_with("small", (1, 11), (2, 11)), Options(lg_k=13))
    assert is_stale(table_with("gone", (1, 11), (2, 11), (9, 11)), Options())


@pytest.mark.parametrize(
    ("properties", "files", "of", "stale"),
    [
        (BY_PARTITION, [PARTITION_FILE], 11, False),
        ({"puffin-sidecar.type": "long"}, [PARTITION_FILE], 11, True),
        (BY_PARTITION, [], 11, True),
        (BY_PARTITION, [PARTITION_FILE], 10, True),
    ],
    ids=["all there", "no sketches by partition", "no partition statistics file", "of an older snapshot"],
)
def test_partition_statistics_must_be_complete_if_requested(table_with, properties, files, of, stale):
    """Other runs do not miss them; nor do tables that were never partitioned."""
    kept = {"properties": properties, "partition-statistics": files}
    table = table_with("t", (1, of), (2, of), **kept, **{"partition-specs": PARTITIONED})
    assert is_stale(table, Options(partitions=True)) is stale
    assert is_stale(table, Options()) is (of == 10)
    assert analyze_reads_nothing(table, Options(partitions=True)) is not stale
    plain = table_with("plain", (1, of), (2, of), **kept)
    assert is_stale(plain, Options(partitions=True)) is (of == 10)


def analyze_reads_nothing(table, options):
    """Whether a run itself says so; the table has no files, so reading fails."""
    try:
        return analyze(table, options).current
    except FileNotFound:
        return False


@pytest.mark.parametrize("changed", [False, True], ids=["current", "changed"])
def test_run_reads_each_manifest_of_private_state_once(tmp_path, monkeypatch, changed):
    path, rows = str(tmp_path / "t"), pa.table({"a": pa.array([1, 2], pa.int64()), "b": ["x", "y"]})
    deltalake.write_deltalake(path, rows, partition_by=["b"])
    analyze(path, Options(partitions=True))
    if changed:
        deltalake.write_deltalake(path, rows, mode="append")
    read, entries = stored_blobs.read_private_state, []

    def recorded(opened, entry):
        entries.append(entry.statistics_path)
        return read(opened, entry)

    monkeypatch.setattr(stored_blobs, "read_private_state", recorded)
    assert analyze(path, Options(partitions=True)).current is not changed
    assert len(entries) == 1


def test_run_that_adds_to_another_engines_statistics_leaves_them_current(tmp_path):
    path = tmp_path / "t"
    deltalake.write_deltalake(str(path), pa.table({name: range(9) for name in "ab"}))
    made = analyze(str(path), Options(columns=("a",))).entry
    file = Path(made.statistics_path)
    ours = re.search(rb"puffin-sidecar [0-9][0-9a-z.]+", image := file.read_bytes())[0]
    file.write_bytes(image.replace(ours, b"Trino version ".ljust(len(ours), b"4")))
    entry = path / "_delta_log" / "_puffin_sidecar" / "0-0.json"
    document = json.loads(entry.read_text())
    document["statistics"]["blob-metadata"][0]["properties"] = {"ndv": "9"}
    entry.write_text(json.dumps(document))
    shutil.rmtree(path / "_puffin_sidecar")
    assert analyze(str(path), Options(columns=("a",))).current
    assert not analyze(str(path)).current
    assert analyze(str(path)).current
