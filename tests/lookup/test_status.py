"""The status of a table: what its metadata says of statistics and index, and one number for its need."""

from __future__ import annotations

import json
import shutil
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from puffin.load import FoundTable, Tables, load_table
from puffin.lookup.health import Since, TableStatus, about_share
from puffin.lookup.places import Place
from puffin.lookup.run_bytes import opened_bytes, readings_of_columns
from puffin.lookup.status import Wanted, status, table_status
from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask
from stats_jobs import Options, analyze
from stats_jobs.index import index
from stats_jobs.options import IndexOptions
from tests.delta_appends import append
from tests.foretold import analyze_as_foretold, check_foretold

FIELDS = [(1, "k", "long"), (2, "s", "string")]


def status_of(table: Any) -> TableStatus:
    return table_status(str(table), load_table(str(table)).open())


def sizes(table: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in table.glob("*.parquet")}


@pytest.fixture
def analyzed(tmp_path: Path) -> Path:
    """A Delta table of a hundred rows with statistics."""
    append(tmp_path / "t", 100)
    analyze(str(tmp_path / "t"))
    return tmp_path / "t"


class History:
    """An Iceberg directory table of hand-made files whose snapshots follow each other."""

    def __init__(self, made: Any) -> None:
        self.made = made
        self.version = 0
        (made.root / "metadata").mkdir()

    def __str__(self) -> str:
        return str(self.made.root)

    def snapshot(self, *entries: Any) -> int:
        stored = self.made.root / "metadata" / f"v{self.version}.metadata.json"
        if self.version:
            self.made.document = json.loads(stored.read_text())
        parent = self.made.document.get("current-snapshot-id")
        snapshot_id = self.made.snapshot(*entries)
        if parent is not None:
            self.made.document["snapshots"][-1]["parent-snapshot-id"] = parent
        self.write()
        return snapshot_id

    def write(self) -> None:
        self.version += 1
        (self.made.root / "metadata" / f"v{self.version}.metadata.json").write_text(json.dumps(self.made.document))

    def analyze(self) -> None:
        analyze_as_foretold(load_table(str(self)))
        self.version += 1

    def file(self, name: str, first: int, count: int) -> dict[str, Any]:
        keys = list(range(first, first + count))
        table = pa.table({"k": keys, "s": [f"key {key}" for key in keys]})
        entry: dict[str, Any] = self.made.data(self.made.write(name, table, {"k": 1, "s": 2}))
        return entry


@pytest.fixture
def history(make_table: Any) -> History:
    return History(make_table(FIELDS))


def test_current_statistics_need_nothing(analyzed):
    found = status_of(analyzed)
    assert (found.health, found.reason, found.bytes_to_read) == (100, "the statistics are current", 0)
    since = found.since_newest
    assert (found.statistics_snapshot_id, since.snapshots_behind, since.rows_changed_share) == (0, 0, 0.0)
    assert (found.columns_missing, found.indexed_columns, found.index_files_missing) == ((), (), 0)


def test_table_without_statistics_has_to_be_read_whole(tmp_path):
    append(tmp_path / "t", 100)
    append(tmp_path / "t", 10, 100)
    found = status_of(tmp_path / "t")
    assert (found.health, found.reason) == (0, "the table has no statistics")
    assert found.bytes_to_read == sum(sizes(tmp_path / "t").values())
    assert (found.statistics_snapshot_id, found.since_newest) == (None, Since())
    assert found.columns_missing == ("k", "s")


def test_appended_files_are_what_changed_and_what_is_read(analyzed):
    before = sizes(analyzed)
    append(analyzed, 20, 100)
    append(analyzed, 5, 120)
    found = status_of(analyzed)
    assert (found.snapshot_id, found.statistics_snapshot_id, found.since_newest.snapshots_behind) == (3, 0, 2)
    assert found.since_newest.rows_changed_share == 0.2
    assert found.bytes_to_read == sum(size for name, size in sizes(analyzed).items() if name not in before)
    assert (found.health, found.reason) == (90, "20 % of the rows are in files that came or went since the statistics")


def test_only_nothing_is_0_and_only_all_is_100_per_cent():
    shares = [about_share(share) for share in (0, 0.004, 0.01, 0.2, 0.99, 0.996, 1)]
    assert shares == ["0 %", "< 1 %", "1 %", "20 %", "99 %", "> 99 %", "100 %"]


def test_compaction_changes_no_rows(analyzed):
    append(analyzed, 20, 100)
    analyze(str(analyzed))
    DeltaTable(str(analyzed)).optimize.compact()
    found = status_of(analyzed)
    since = found.since_newest
    assert (found.health, found.bytes_to_read, since.rows_changed_share, since.snapshots_behind) == (100, 0, 0.0, 0)
    assert check_foretold(load_table(str(analyzed))) == 0


def test_more_changes_than_rows_count_as_all_rows(analyzed):
    write_deltalake(str(analyzed), pa.table({"k": [1], "s": ["one"]}), mode="overwrite")
    found = status_of(analyzed)
    assert (found.since_newest.rows_changed_share, found.health) == (1.0, 50)


def test_rows_of_files_that_a_delta_log_removed_count(analyzed):
    append(analyzed, 100, 100)
    analyze(str(analyzed))
    DeltaTable(str(analyzed)).delete("k < 50")  # which writes the other half of the file again
    found = status_of(analyzed)
    assert found.since_newest.rows_changed_share == 1.0
    append(analyzed, 850, 1000)
    assert status_of(analyzed).since_newest.rows_changed_share == 1.0
    append(analyzed, 9000, 2000)
    analyze(str(analyzed))
    DeltaTable(str(analyzed)).delete("k >= 100 and k < 200")  # a file of its own
    assert status_of(analyzed).since_newest.rows_changed_share == pytest.approx(100 / 9900)


def test_table_without_a_snapshot_needs_nothing(directory):
    found = status_of(directory("t", snapshots=()))
    assert (found.snapshot_id, found.health, found.reason) == (None, 100, "the table has no snapshot yet")
    assert (found.bytes_to_read, found.columns_missing) == (0, ())


def test_table_without_columns_for_statistics_needs_nothing(directory):
    found = status_of(directory("t", columns=()))
    assert (found.snapshot_id, found.health, found.reason) == (10, 100, "no column can have statistics")


def test_age_is_unknown_if_the_snapshot_of_the_statistics_has_expired(history):
    """An engine that analyzes one column keeps the others' sketches, each of its older snapshot."""
    first = history.file("a.parquet", 0, 100)
    history.snapshot(first)
    history.analyze()
    history.snapshot(first, history.file("b.parquet", 100, 100))
    stored = json.loads((history.made.root / "metadata" / f"v{history.version}.metadata.json").read_text())
    (entry,) = stored["statistics"]
    entry["snapshot-id"] = 2  # its sketches still are of snapshot 1
    stored["snapshots"] = [each for each in stored["snapshots"] if each["snapshot-id"] != 1]
    history.made.document = stored
    history.write()
    found = status_of(history)
    assert (found.statistics_snapshot_id, found.since_newest) == (1, Since())
    assert found.bytes_to_read == sum(
        task.data_file.file_size_in_bytes for task in load_table(str(history)).open().tasks
    )
    assert (found.health, found.reason) == (40, "the number of rows changed since the statistics is unknown")


def test_statistics_that_no_ancestor_has_do_not_count(history):
    first = history.file("a.parquet", 0, 100)
    history.snapshot(first)
    history.analyze()
    history.snapshot(first)
    del history.made.document["snapshots"][-1]["parent-snapshot-id"]
    history.write()
    found = status_of(history)
    assert (found.statistics_snapshot_id, found.since_newest.snapshots_behind, found.health) == (None, None, 0)
    assert found.reason == "no statistics of the current snapshot or a known ancestor"


def test_deleted_rows_count_and_are_read_with_their_whole_file(history):
    kept, hit = history.file("a.parquet", 0, 300), history.file("b.parquet", 300, 100)
    history.snapshot(kept, hit)
    history.analyze()
    deletes = history.made.position_deletes("d.parquet", [(Path(hit["file_path"]), row) for row in range(20)])
    history.snapshot(kept, hit, deletes)
    found = status_of(history)
    assert found.since_newest.rows_changed_share == 0.05
    assert found.bytes_to_read == hit["file_size_in_bytes"]
    assert check_foretold(load_table(str(history))) == found.bytes_to_read


def test_file_with_equality_deletes_counts_whole(history):
    kept, hit = history.file("a.parquet", 0, 300), history.file("b.parquet", 300, 100)
    history.snapshot(kept)
    history.analyze()
    history.snapshot(kept, hit)
    assert status_of(history).since_newest.rows_changed_share == 0.25
    history.analyze()
    path = history.made.write("e.parquet", pa.table({"k": [5]}), {"k": 1})
    deletes = history.made.data(path, content=2, equality_ids=[1], sequence_number=3)
    history.snapshot(kept, hit, deletes)
    assert status_of(history).since_newest.rows_changed_share == 1.0
    check_foretold(load_table(str(history)))


def test_file_without_rows_changes_no_rows(history):
    kept = history.file("a.parquet", 0, 300)
    history.snapshot(kept)
    history.analyze()
    history.snapshot(kept, history.file("none.parquet", 0, 0))
    assert status_of(history).since_newest.rows_changed_share == 0.0


def test_time_of_a_status_grows_with_the_files_and_no_faster():
    """A second is forty times as long as it takes, and a quarter of what it takes if each file is compared with all."""
    told = {"content": DATA, "file_format": PARQUET, "spec_id": 0, "partition": {}, "record_count": 10}
    files = [ContentFile(**told, file_path=f"s3://b/{i}", file_size_in_bytes=1000) for i in range(20_000)]
    opened = SimpleNamespace(tasks=[FileScanTask(file, (), start=0, length=1000) for file in files])
    started = time.process_time()
    assert opened_bytes(readings_of_columns(opened, [SimpleNamespace(base_id=None, changes=None)])) == 20_000 * 1000
    assert time.process_time() - started < 1


def test_lost_private_state_is_the_reason_of_a_full_read(analyzed):
    shutil.rmtree(analyzed / "_puffin_sidecar")
    found = status_of(analyzed)
    assert (found.health, found.since_newest.rows_changed_share) == (90, 0.0)
    assert found.reason == ("column k has to be read in full: the private state beside the earlier sketch is gone")
    assert found.bytes_to_read == sum(sizes(analyzed).values())


def test_columns_of_another_engine_count_without_our_state(directory, sketched):
    """The sketch is read, since only its file tells who made it."""
    found = status_of(directory("t", sketched(10, {1: 3, 2: 5}), columns=("a", "b")))
    assert (found.statistics_snapshot_id, found.columns_missing, found.bytes_to_read) == (10, (), 0)
    assert found.health == 100


def test_new_column_lacks_statistics(analyzed):
    more = pa.table({"k": [1000], "s": ["more"], "n": [1]})
    write_deltalake(str(analyzed), more, mode="append", schema_mode="merge")
    found = status_of(analyzed)
    assert found.columns_missing == ("n",)
    assert (found.health, found.reason) == (89, "1 of 3 columns have no statistics")
    assert found.bytes_to_read == sum(sizes(analyzed).values())


def test_older_columns_cost_points_though_others_are_current(analyzed):
    append(analyzed, 20, 100)
    analyze(str(analyzed), Options(columns=("k",)))
    found = status_of(analyzed)
    assert (found.since_newest.rows_changed_share, found.health) == (0.0, 90)
    assert found.reason == "some columns have older statistics than others"
    assert (found.since_oldest.snapshots_behind, found.since_oldest.rows_changed_share) == (1, 20 / 120)
    assert found.bytes_to_read > 0


def test_index_lacks_new_files_until_it_is_caught_up(analyzed):
    index(str(analyzed), IndexOptions(columns=("s",)))
    found = status_of(analyzed)
    assert (found.indexed_columns, found.index_files_missing, found.health) == (("s",), 0, 100)
    for first in (100, 101, 102):
        append(analyzed, 1, first)
    analyze(str(analyzed), Options(index=False))
    found = status_of(analyzed)
    assert (found.index_files_missing, found.health) == (3, 85)
    assert found.reason == "the index lacks 3 of 4 files"
    assert found.bytes_to_read == 0
    index(str(analyzed))
    assert status_of(analyzed).health == 100


def test_index_that_cannot_be_read_is_no_error_of_the_table(analyzed):
    index(str(analyzed), IndexOptions(columns=("s",)))
    (manifest,) = analyzed.rglob("index/0*/version-hint.text")
    document, _, _ = manifest.read_bytes().rstrip(b"\n").rpartition(b"\n")
    newer = document.replace(b'"format-version":1', b'"format-version":9')
    for unreadable in (newer + b"\n%08x\n" % zlib.crc32(newer), b"{}"):
        manifest.write_bytes(unreadable)
        found = status_of(analyzed)
        assert (found.error, found.indexed_columns, found.index_files_missing, found.health) == (None, (), None, 80)
        assert found.reason.startswith("the index cannot be read: ")


def test_index_is_not_blamed_for_a_manifest_of_the_table(history):
    history.snapshot(history.file("a.parquet", 0, 100))
    history.analyze()
    index(str(history), IndexOptions(columns=("k",)))
    for manifest in history.made.root.rglob("*.avro"):
        manifest.write_bytes(b"no Avro")
    (found,) = status(Place(roots=(str(history),)))
    assert (found.health, found.reason) == (0, "the table cannot be read")
    assert ".avro" in str(found.error)


def wanting(table: Any, **wanted: Any) -> TableStatus:
    return table_status(str(table), load_table(str(table)).open(), Wanted(**wanted))


def test_joint_sketch_that_is_missing_has_the_whole_table_read(analyzed):
    """But it alone is no reason to run."""
    assert wanting(analyzed, joint=("s+k",)).run_bytes == 0
    append(analyzed, 20, 100)
    whole = sum(sizes(analyzed).values())
    found = wanting(analyzed, joint=("s+k",))
    assert (found.run_bytes, found.bytes_to_read) == (whole, status_of(analyzed).run_bytes)
    assert found.to_json()["bytes-to-read"] == whole
    assert found.bytes_to_read < analyze(str(analyzed), Options(joint=("s+k",))).bytes_read <= whole
    append(analyzed, 20, 120)
    assert wanting(analyzed, joint=("s+k",)).run_bytes == sum(sizes(analyzed).values()) - whole


def test_sketches_by_partition_that_are_missing_or_stale_have_more_read(tmp_path):
    def write(rows: range, where: str) -> None:
        data = pa.table({"k": list(rows), "p": [where] * len(rows)})
        write_deltalake(str(tmp_path / "t"), data, mode="append", partition_by=["p"])

    def files_in(where: str) -> list[int]:
        return [file.stat().st_size for file in (tmp_path / "t" / f"p={where}").glob("*.parquet")]

    write(range(100), "a")
    write(range(500), "b")
    analyze(str(tmp_path / "t"))
    write(range(1), "b")
    assert wanting(tmp_path / "t", partitions=True).run_bytes == sum(files_in("a") + files_in("b"))
    assert wanting(tmp_path / "t").run_bytes == min(files_in("b"))
    analyze(str(tmp_path / "t"), Options(partitions=True))
    before = files_in("b")
    write(range(2), "b")
    (added,) = set(files_in("b")) - set(before)
    assert wanting(tmp_path / "t", partitions=True).run_bytes == added
    DeltaTable(str(tmp_path / "t")).delete("p = 'b' and k = 499")
    found = wanting(tmp_path / "t", partitions=True)
    assert found.bytes_beside > 0
    assert analyze(str(tmp_path / "t"), Options(partitions=True)).bytes_read <= found.run_bytes


def test_root_that_hangs_does_not_keep_the_others(analyzed, tmp_path, monkeypatch):
    answer, tables_below = threading.Event(), Tables.tables_below

    def listed(tables: Tables, root: str, most: int) -> Iterator[FoundTable]:
        if root.endswith("hangs"):
            answer.wait(60)
        return tables_below(tables, root, most)

    monkeypatch.setattr(Tables, "tables_below", listed)
    try:
        found = status(Place(roots=(f"{tmp_path}/hangs", str(analyzed))), patience=0.5)
    finally:
        answer.set()
    said = f"{tmp_path}/hangs: the storage has not answered for 0.5 seconds"
    assert [(each.table, each.error) for each in found] == [(f"{tmp_path}/hangs", said), (str(analyzed), None)]


def test_current_table_costs_neither_manifests_nor_data_files(history, opened):
    history.snapshot(history.file("a.parquet", 0, 100))
    history.analyze()
    opened.clear()
    assert status_of(history).health == 100
    assert [name for name in opened if not name.endswith((".json", ".text", ".stats"))] == []


def test_status_opens_no_data_file(history, opened):
    first = history.file("a.parquet", 0, 100)
    history.snapshot(first)
    history.analyze()
    history.snapshot(first, history.file("b.parquet", 100, 100))
    opened.clear()
    assert status_of(history).since_newest.rows_changed_share == 0.5
    assert opened
    assert [name for name in opened if name.endswith(".parquet")] == []


def test_tables_below_roots_come_worst_first_and_broken_ones_too(analyzed, tmp_path, directory):
    append(tmp_path / "db" / "bare", 100)
    append(tmp_path / "db" / "small", 1)
    broken = directory("db/broken")
    (broken.root / "metadata" / "v1.metadata.json").write_text("{\n")
    found = status(Place(roots=(str(tmp_path), f"{tmp_path}/db", str(tmp_path))))
    assert [Path(each.table).name for each in found] == ["bare", "small", "broken", "t"]
    assert [each.health for each in found] == [0, 0, 0, 100]
    assert "v1.metadata.json" in str(found[2].error)
    assert "\n" not in str(found[2].error)
    assert (found[2].format, found[2].bytes_to_read, found[2].reason) == (None, None, "the table cannot be read")
