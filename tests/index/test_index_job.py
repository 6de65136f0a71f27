"""The index of a Delta table, from its first build to the removal of erased values; damage costs time, never a file."""

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from puffin.clean import clean
from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    PuffinError,
    StorageError,
    TableNotFound,
    UnsupportedTypeError,
    UsageError,
)
from puffin.index import file_filters, upkeep
from puffin.index.home import IndexHome
from puffin.index.manifest import IndexManifest, commit, manifest_uri, read_newest
from puffin.index.segment import segment_uri
from puffin.index.tiers import FAN_IN
from puffin.load import load_table
from puffin.planning.file_plan import FilePlan
from puffin.planning.plan import Planner
from puffin.storage import LocalStore, store_for
from puffin.tables.base import SnapshotSelector
from stats_jobs.index import existing_index, index
from stats_jobs.index_plan import IndexPlan
from stats_jobs.many import index_many
from stats_jobs.options import IndexOptions
from stats_jobs.partial import Partial
from tests.index.stored_filters import stored_filters
from tests.processes import at_once, talking
from tests.without_disk import rewrite

ROWS = 50


class Table:
    """A Delta table with keys that no two files share, so that bounds exclude nothing and the index all but one."""

    def __init__(self, root: Path) -> None:
        self.path = str(root / "table")
        self._random = np.random.default_rng(1)

    def append(self, files: int = 1, **options: object) -> list[int]:
        """Append files; return a key of each."""
        keys = []
        for _ in range(files):
            values = self._random.integers(-(2**62), 2**62, ROWS)
            keys.append(int(values[7]))
            data = pa.table({"k": values, "s": [f"key-{value}" for value in values.tolist()], "b": [True] * ROWS})
            write_deltalake(self.path, data, mode="append", **options)
        return keys

    def plan(self, where: str, version: int | None = None) -> FilePlan:
        return Planner(load_table(self.path).open(SnapshotSelector(snapshot_id=version))).plan(where)

    def matched(self, where: str, version: int | None = None) -> int:
        return sum(1 for _ in self.plan(where, version).files)

    @property
    def home(self) -> IndexHome:
        return IndexHome.of(load_table(self.path).open())

    def segment_files(self) -> list[Path]:
        return sorted(Path(self.path, "_puffin_sidecar", "index", "segments").glob("*/*"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def indexed(table: Table, *columns: str, **options: object) -> object:
    return index(table.path, IndexOptions(columns=columns or None, **options))


def test_key_leaves_one_file(table: Table) -> None:
    keys = table.append(8)
    report = indexed(table, "k", "s")
    assert (report.files_total, report.files_indexed, report.files_read, report.committed) == (8, 8, 8, True)
    assert [table.matched(f"k = {key}") for key in keys] == [1] * 8
    assert [table.matched(f"s = 'key-{key}'") for key in keys] == [1] * 8
    plan = table.plan(f"k = {keys[0]} or s = 'key-{keys[1]}'")
    assert sum(1 for _ in plan.files) == 2
    assert (plan.index.columns, plan.index.files_covered, plan.warnings) == (("k", "s"), 8, ())


def test_report_has_the_keys_of_the_contract(table: Table) -> None:
    table.append(2)
    document = indexed(table, "k").to_json()
    assert list(document) == [
        *("table", "format", "snapshot-id", "columns", "files-total", "files-indexed", "files-read", "files-lifted"),
        *("rows-read", "bytes-read", "segments", "index-bytes", "committed", "elapsed-seconds", "session-seconds"),
    ]
    assert list(document["columns"][0]) == ["column", "field-id", "type", "fpp", "bytes"]
    assert json.dumps(document)


def test_later_run_reads_only_files_that_no_segment_has(table: Table) -> None:
    table.append(3)
    indexed(table, "k")
    assert indexed(table).files_read == 0
    assert not indexed(table).committed
    (key,) = table.append()
    report = indexed(table)
    assert (report.files_read, report.rows_read, report.files_indexed) == (1, ROWS, 4)
    assert table.matched(f"k = {key}") == 1


def test_only_stale_skips_tables_without_an_index(tmp_path: Path) -> None:
    """Of the tables of a namespace, some need none; a run that names columns builds it."""
    with_index, without = Table(tmp_path / "a"), Table(tmp_path / "b")
    for table in (with_index, without):
        table.append(2)
    indexed(with_index, "k")
    paths = [with_index.path, without.path]
    assert list(index_many(paths, only_stale=True)) == []
    with_index.append()
    assert [name for name, _ in index_many(paths, only_stale=True)] == [with_index.path]
    assert [name for name, _ in index_many(paths, IndexOptions(columns=("k",)), only_stale=True)] == [without.path]
    ((_, failure),) = index_many([str(tmp_path / "absent")], only_stale=True)
    assert isinstance(failure, TableNotFound)


def test_detour_on_the_way_to_a_table_leads_to_the_same_files(table: Table) -> None:
    table.append(2)
    indexed(table, "k")
    there = Path(table.path)
    report = index(str(there / ".." / there.name))
    assert (report.files_read, report.committed) == (0, False)


def test_new_column_is_added_and_another_dropped(table: Table) -> None:
    (key,) = table.append()
    table.append(3)
    indexed(table, "k")
    report = indexed(table, "s", drop=("k",))
    assert [each.column.name for each in report.columns] == ["s"]
    assert table.matched(f"k = {key}") == 4
    assert table.matched(f"s = 'key-{key}'") == 1


def test_another_rate_makes_the_column_be_read_again(table: Table) -> None:
    table.append(2)
    before = indexed(table, "k")
    after = indexed(table, "k", fpp=0.0001)
    assert after.files_read == 2
    assert after.columns[0].fpp == 0.0001
    assert after.index_bytes > before.index_bytes
    assert after.segments == 1


def test_dry_run_writes_nothing(table: Table) -> None:
    table.append(2)
    report = indexed(table, "k", dry_run=True)
    assert (report.files_read, report.committed) == (2, False)
    assert not Path(table.path, "_puffin_sidecar").exists()


def test_table_without_an_index_needs_columns(table: Table) -> None:
    table.append()
    with pytest.raises(UsageError, match="--advise"):
        indexed(table)
    with pytest.raises(UnsupportedTypeError, match=r"column 'b': a boolean"):
        indexed(table, "b")
    indexed(table, "k")
    indexed(table, drop=("k",))
    with pytest.raises(UsageError, match="--advise"):
        indexed(table)


def test_filters_serve_older_versions_and_rows_that_were_deleted_since(table: Table) -> None:
    keys = table.append(3)
    DeltaTable(table.path).delete(f"k = {keys[1]}")
    indexed(table, "k")
    indexed_version = DeltaTable(table.path).version()
    DeltaTable(table.path).optimize.compact()
    assert table.matched(f"k = {keys[0]}", indexed_version) == 1
    assert table.matched(f"k = {keys[0]}") == 1  # the new file is not indexed, so it is kept
    report = indexed(table)
    assert report.files_read == report.files_total == 1


def test_segments_grow_with_the_logarithm_of_the_table(table: Table) -> None:
    keys = []
    for _ in range(30):
        keys += table.append()
        report = indexed(table, "k", fpp=1e-6)
        assert report.segments <= 4
        assert report.files_read == 1
    assert [table.matched(f"k = {key}") for key in keys] == [1] * 30


def test_merged_segments_have_the_bytes_of_one_built_at_once(table: Table, tmp_path: Path) -> None:
    for _ in range(8):
        table.append()
        indexed(table, "k")
    filters = filters_of(table)
    indexed(table, drop=("k",))
    indexed(table, "k")
    assert filters_of(table) == filters


def filters_of(table: Table) -> dict[str, bytes]:
    """The bitset of each file, of an index of one column."""
    return {path: bits for (_, path), bits in stored_filters(load_table(table.path)).items()}


def damages(file: Path) -> Iterable[Callable[[], None]]:
    whole = file.read_bytes()
    yield file.unlink
    for cut in (0, 4, len(whole) // 2, len(whole) - 1):
        yield lambda cut=cut: rewrite(file, whole[:cut])
    for at in range(0, len(whole), max(1, len(whole) // 150)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << (at % 8)
        yield lambda flipped=bytes(flipped): rewrite(file, flipped)
    yield lambda: rewrite(file, whole)


def test_broken_segment_never_hides_a_file(table: Table) -> None:
    keys = table.append(6)
    indexed(table, "k")
    found = {key: {task.data_file.file_path for task in table.plan(f"k = {key}").files} for key in keys}
    (file,) = table.segment_files()
    for damage in damages(file):
        damage()
        for key in keys[:2]:
            plan = table.plan(f"k = {key}")
            matched = {task.data_file.file_path for task in plan.files}
            assert matched >= found[key]
            assert matched == found[key] or plan.warnings


def test_segment_that_cannot_be_read_is_logged_once_for_each_plan(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    key, other = table.append(2)
    indexed(table, "k")
    (file,) = table.segment_files()
    file.write_bytes(b"")
    (warning,) = table.plan(f"k = {key} or k = {other} or k in (1, 2)").warnings
    assert caplog.messages == [f"{table.path}: {warning}"]


def test_segment_of_another_column_never_hides_a_file(table: Table) -> None:
    """Both have one filter, of the same size and file."""
    (key,) = table.append()
    indexed(table, "k", "s")
    one, other = table.segment_files()
    swapped = one.read_bytes(), other.read_bytes()
    other.write_bytes(swapped[0])
    one.write_bytes(swapped[1])
    assert table.matched(f"k = {key}") == table.matched(f"s = 'key-{key}'") == 1
    assert table.plan(f"k = {key}").warnings


@pytest.mark.parametrize("at", [0, 4, 300, -400, -1])
def test_next_run_heals_a_broken_segment(table: Table, at: int) -> None:
    (key, *_) = table.append(6)
    indexed(table, "k")
    (file,) = table.segment_files()
    whole = bytearray(file.read_bytes())
    whole[at] ^= 0xFF
    file.write_bytes(whole)
    indexed(table)
    plan = table.plan(f"k = {key}")
    assert (sum(1 for _ in plan.files), plan.warnings) == (1, ())


def test_broken_manifest_costs_the_index_and_is_replaced(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    (key, *_) = table.append(3)
    indexed(table, "k")
    (manifest,) = Path(table.path, "_puffin_sidecar", "index").glob("0*/*")
    for at in range(0, manifest.stat().st_size, 7):
        data = bytearray(manifest.read_bytes())
        data[at] ^= 4
        rewrite(manifest, data)
        assert table.matched(f"k = {key}") == 3
        data[at] ^= 4
        rewrite(manifest, data)
    manifest.write_bytes(b"{}")
    caplog.clear()
    (warning,) = table.plan(f"k = {key}").warnings
    assert warning.startswith("the index is left out: ")
    assert warning.endswith(": puffin index --columns builds it anew")
    assert caplog.messages == [f"{table.path}: {warning}"]  # there is no manifest before it that could be used
    with pytest.raises(CorruptMetadataError, match="to build the index anew"):
        indexed(table)
    assert indexed(table, "k").files_read == 3
    assert table.matched(f"k = {key}") == 1


def test_two_runs_at_once_both_count(table: Table) -> None:
    keys = table.append(4)
    failures: list[BaseException] = []

    def run(column: str) -> None:
        try:
            indexed(table, column)
        except BaseException as exc:  # noqa: BLE001 - shown below
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(column,)) for column in ("k", "s")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert table.matched(f"k = {keys[0]}") == 1
    assert table.matched(f"s = 'key-{keys[0]}'") == 1


def test_run_does_not_read_the_manifest_that_it_has_put(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The storage may fail by then, and the index has the filters all the same."""
    for _ in range(FAN_IN):  # the last run also merges
        (key,) = table.append()
        with monkeypatch.context() as patch:
            patch.setattr(upkeep, "commit", put_and_fail_to_read(patch))
            indexed(table, "k")
    assert table.matched(f"k = {key}") == 1
    assert len(table.segment_files()) > len(table.home.read().segments) == 1


def put_and_fail_to_read(patch: pytest.MonkeyPatch) -> Callable[..., IndexManifest]:
    def fail(*_: object) -> IndexManifest:
        raise StorageError("the storage is gone")

    def put(*arguments: object) -> IndexManifest:
        patch.setattr("puffin.index.home.read_newest", fail)
        return commit(*arguments)

    return put


def test_run_that_began_earlier_keeps_filters_of_files_that_came_since(tmp_path: Path) -> None:
    """An index is read after the table was opened, and may know more of it by then."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    rows = pa.table({"k": list(range(ROWS))})
    catalog.create_table("n.t", schema=rows.schema).append(rows)
    kept = {"catalog": "c", "catalog_properties": {"type": "sql", **catalog.properties}}
    index("n.t", IndexOptions(columns=("k",)), **kept)
    opened = load_table("n.t", **kept).open()
    catalog.load_table("n.t").append(rows)
    assert index("n.t", **kept).files_read == 1
    plan = existing_index(opened, None)
    assert plan is not None
    plan.published(())
    assert index("n.t", **kept).files_read == 0


def test_table_that_takes_no_commit_gets_an_index_and_says_so(tmp_path: Path) -> None:
    """A metadata file, and a directory whose metadata a catalog wrote; `clean` refuses both."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    rows = pa.table({"k": list(range(ROWS)), "s": ["x"] * ROWS})
    made = catalog.create_table("n.t", schema=rows.schema)
    made.append(rows)
    for name, column in ((made.metadata_location, "k"), (made.location(), "s")):
        assert index(name, IndexOptions(columns=(column,))).committed
        with pytest.raises(PuffinError, match=r"without a commit, .* and puffin index work on it"):
            clean(load_table(name))


def test_run_looks_for_files_that_have_gone_in_the_last_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay in the index until their snapshots expire; each run asks whether they have."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    rows = pa.table({"k": list(range(ROWS))})
    made = catalog.create_table("n.t", schema=rows.schema)
    for _ in range(12):
        made.append(rows)
    kept = {"catalog": "c", "catalog_properties": {"type": "sql", **catalog.properties}}
    index("n.t", IndexOptions(columns=("k",)), **kept)
    paths = [task.file.file_path for task in made.scan().plan_files()]
    made.overwrite(pa.table({"k": [*range(1, ROWS), 0]}), f"k < {ROWS}")
    made.append(rows)
    opened = load_table("n.t", **kept).open()
    _ = opened.tasks
    read: list[str] = []
    whole = LocalStore.read
    monkeypatch.setattr(LocalStore, "read", lambda store, uri: read.append(uri) or whole(store, uri))
    assert opened.still_referenced({paths[0]}) == {paths[0]}
    assert len(read) < 12
    assert opened.still_referenced({*paths, "gone"}) == {*paths}


def test_erased_values_leave_the_index_with_their_files(table: Table) -> None:
    keys = table.append(3)
    indexed(table, "k")
    DeltaTable(table.path).delete(f"k = {keys[0]}")
    DeltaTable(table.path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    report = indexed(table)
    assert report.files_indexed == report.files_total == 3
    live = {Path(path).name for path in DeltaTable(table.path).file_uris()}
    assert {Path(path).name for path in filters_of(table)} == live


def test_filters_of_a_table_that_was_here_before_are_not_used(tmp_path: Path) -> None:
    """A pipeline writes its files anew under the same names, and makes a table of them again; its columns stay."""
    path = tmp_path / "table"

    def recreate(first: int) -> None:
        shutil.rmtree(path / "_delta_log", ignore_errors=True)
        for i in range(3):
            pq.write_table(pa.table({"k": [first, first + 10 + i, first + 50]}), path / f"day-{i}.parquet")
        convert_to_deltalake(str(path))

    path.mkdir()
    recreate(0)
    index(str(path), IndexOptions(columns=("k",)))
    assert matched(path, "k = 11") == 1
    recreate(7)
    assert matched(path, "k = 18") == 3
    report = index(str(path))
    assert (report.files_read, report.files_indexed) == (3, 3)
    assert matched(path, "k = 18") == 1


def matched(path: Path, where: str) -> int:
    return Planner(load_table(str(path)).open()).plan(where).files_matched


def test_files_without_statistics_are_indexed(tmp_path: Path) -> None:
    """The log does not count their rows, so the filter starts from the size of the file."""
    table = Table(tmp_path)
    table.append(2)
    log = Path(table.path, "_delta_log", f"{1:020d}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (path,) = (action["add"]["path"] for action in actions if "add" in action)
    key = pq.read_table(Path(table.path, path))["k"][3].as_py()
    assert indexed(table, "k").files_indexed == 2
    assert table.matched(f"k = {key}") == 1


def index_files(table: Table) -> list[Path]:
    return sorted(file for file in Path(table.path, "_puffin_sidecar", "index").rglob("*") if file.is_file())


def test_clean_removes_what_the_index_no_longer_names(table: Table) -> None:
    keys = table.append(3)
    indexed(table, "k")
    old = index_files(table)
    DeltaTable(table.path).delete(f"k = {keys[0]}")
    DeltaTable(table.path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    indexed(table)
    young = clean(load_table(table.path))
    assert not [leftover for leftover in young.files if "/index/" in leftover.file.uri]
    assert {Path(kept.path) for kept in young.kept if "/index/" in kept.path} >= set(old)
    cleaning = clean(load_table(table.path), older_than=timedelta(), remove=True)
    assert {Path(leftover.file.uri) for leftover in cleaning.files} >= set(old)
    home = table.home
    manifest = home.read().manifest
    named = {Path(segment_uri(home.directory, segment.id)) for segment in manifest.segments}
    assert set(index_files(table)) == {Path(manifest_uri(home.directory, manifest.version)), *named}
    assert all(any(folder.iterdir()) for folder in Path(home.directory).rglob("*") if folder.is_dir())
    assert table.matched(f"k = {keys[1]}") == 1


def test_clean_removes_what_a_killed_writer_left_beside_or_before_its_manifest(table: Table) -> None:
    table.append()
    indexed(table, "k")
    home, before = table.home, index_files(table)
    for version in (1, 2):
        folder = Path(manifest_uri(home.directory, version)).parent
        folder.mkdir(exist_ok=True)
        (folder / f".puffin-sidecar-{0:032}.tmp").touch()
    clean(load_table(table.path), older_than=timedelta(), remove=True)
    assert index_files(table) == before


def test_clean_removes_a_temporary_file_beside_a_segment_of_the_index(table: Table) -> None:
    """A writer could not remove it once the segment had its name."""
    table.append()
    indexed(table, "k")
    before = index_files(table)
    (segment,) = (file for file in before if "segments" in file.parts)
    os.link(segment, segment.with_name(f".puffin-sidecar-{0:032}.tmp"))
    young = clean(load_table(table.path), remove=True)
    assert len(index_files(table)) == len(before) + 1
    assert not young.files
    clean(load_table(table.path), older_than=timedelta(), remove=True)
    assert index_files(table) == before


class Failing:
    """A function that works a few times before it fails."""

    def __init__(self, function: Callable[..., Any], failure: PuffinError, times: int = 0) -> None:
        self._function, self._failure, self._left = function, failure, times

    def __call__(self, *args: Any) -> Any:
        if self._left == 0:
            raise self._failure
        self._left -= 1
        return self._function(*args)


@pytest.mark.parametrize(
    ("module", "name", "times", "failure", "left"),
    [
        (file_filters, "write_segment", 1, StorageError("the disk is full"), 0),
        (upkeep, "commit", 0, StorageError("the disk is full"), 0),
        (upkeep, "commit", 0, ConflictError("another run was faster"), 0),
        (upkeep, "commit", 0, CommitUnknownError("no answer"), 2),
    ],
)
def test_failed_run_leaves_only_segments_that_a_manifest_may_name(
    table: Table, monkeypatch: Any, module: Any, name: str, times: int, failure: PuffinError, left: int
) -> None:
    (key,) = table.append()
    with monkeypatch.context() as patch:
        patch.setattr(module, name, Failing(getattr(module, name), failure, times))
        with pytest.raises(type(failure)):
            indexed(table, "k", "s")
    assert len(table.segment_files()) == left
    assert indexed(table, "k", "s").files_indexed == 1
    assert table.matched(f"k = {key}") == 1


@pytest.mark.parametrize("failure", [StorageError("the disk is full"), ConflictError("another run was faster")])
def test_merge_that_is_not_committed_leaves_the_segments_before_it(
    table: Table, monkeypatch: Any, failure: PuffinError
) -> None:
    for _ in range(FAN_IN - 1):
        table.append()
        indexed(table, "k")
    (key,) = table.append()
    with monkeypatch.context() as patch:
        patch.setattr(upkeep, "commit", Failing(upkeep.commit, failure, times=1))
        with contextlib.suppress(StorageError):
            indexed(table, "k")
    assert len(table.segment_files()) == len(table.home.read().segments) == FAN_IN
    assert table.matched(f"k = {key}") == 1


def test_no_run_passes_over_a_manifest_that_another_is_about_to_put(tmp_path: Path) -> None:
    """On a local disk the folder of a manifest is there before it."""
    directory, store = str(tmp_path), store_for(str(tmp_path))
    for number in range(1, 3):
        Path(manifest_uri(directory, number)).parent.mkdir()
        seen = read_newest(directory, store)
        made = commit(dataclasses.replace(seen, columns={str(number): 0.01}), directory, store)
        assert made.version == number
        with pytest.raises(ConflictError):
            commit(seen, directory, store)
    assert read_newest(directory, store) == made


@pytest.mark.parametrize("runs", [1, 2])
def test_clean_keeps_segments_while_the_newest_manifest_cannot_be_read(table: Table, runs: int) -> None:
    """Even if an older one can be, since the newest has named segments that no other names."""
    for _ in range(runs):
        table.append(3)
        indexed(table, "k")
    manifests = sorted(Path(table.path, "_puffin_sidecar", "index").glob("0*/*"))
    assert len(manifests) == runs
    manifests[-1].write_bytes(b"{}")
    before = index_files(table)
    cleaning = clean(load_table(table.path), older_than=timedelta(), remove=True)
    assert "the newest manifest of the index cannot be read" in {kept.reason for kept in cleaning.kept}
    assert index_files(table) == before


def test_later_run_removes_files_of_the_index_a_week_after_it_replaced_them(table: Table) -> None:
    """However old they are when they are replaced, since a reader may just have opened them."""
    (key,) = table.append()
    for _ in range(5):
        table.append()
        indexed(table, "k")
    home, left = table.home, set[str]()
    for merged in (0, 3, 0):
        for file in index_files(table):
            eight_days_ago = time.time() - 8 * 86400
            os.utime(file, (eight_days_ago, eight_days_ago))
        before = home.read().manifest
        table.append()
        indexed(table)
        after = home.read().manifest
        manifests = [int(folder.name) for folder in Path(home.directory).glob("0*")]
        assert sorted(manifests) == list(range(before.version, after.version + 1))
        assert len(set(before.segments) - set(after.segments)) == merged
        left = {file.parent.name for file in table.segment_files()}
        assert left >= {segment.id for segment in (*before.segments, *after.segments)}
    assert left == {segment.id for segment in after.segments}
    assert table.matched(f"k = {key}") == 1


def test_executors_write_large_filters_themselves(table: Table, spark: SparkSession, tmp_path: Path) -> None:
    """The driver gets their entries; the filters are those that it would have built."""
    random = np.random.default_rng(5)
    keys = random.integers(-(2**62), 2**62, (3, 60_000))
    for values in keys:
        write_deltalake(table.path, pa.table({"k": values}), mode="append")
    other = Table(tmp_path / "other")
    shutil.copytree(table.path, other.path)
    partials: list[Partial] = []

    def noted(self: IndexPlan, built: Sequence[Partial]) -> IndexPlan:
        partials.extend(built)
        return publish(self, built)

    publish = IndexPlan.published
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IndexPlan, "published", noted)
        report = index(table.path, IndexOptions(columns=("k",), driver_bytes=0), spark)
    (filters,) = (value for partial in partials for value in partial.added[1].values())
    assert len(filters.segments) >= 1
    assert not filters.whole
    indexed(other, "k")
    assert report.files_indexed == 3
    one, two = ({Path(path).name: bits for path, bits in filters_of(each).items()} for each in (table, other))
    assert one == two
    assert [table.matched(f"k = {values[9]}") for values in keys] == [1, 1, 1]


def test_run_that_is_killed_before_its_manifest_costs_only_time(table: Table) -> None:
    """It leaves a segment that no manifest names; the index is what it was, and the next run makes it whole."""
    keys = table.append(2)
    indexed(table, "k")
    keys += table.append(2)
    killed, _ = talking(index_until_the_manifest, table.path)
    killed.join(60)
    assert killed.exitcode == -signal.SIGKILL
    assert len(table.segment_files()) == 2
    plan = table.plan(f"k = {keys[0]}")
    assert (plan.index.files_covered, sum(1 for _ in plan.files), plan.warnings) == (2, 3, ())
    report = indexed(table)
    assert (report.files_read, report.files_indexed) == (2, 4)
    assert [table.matched(f"k = {key}") for key in keys] == [1] * 4


def index_until_the_manifest(_: object, path: str) -> None:
    upkeep.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    index(path)


@pytest.mark.parametrize("step", range(3))
def test_cut_or_lost_manifest_falls_back_to_the_one_before(table: Table, step: int) -> None:
    keys = table.append(2)
    indexed(table, "k")
    keys += table.append(2)
    indexed(table)
    newest = max(Path(table.path, "_puffin_sidecar", "index").glob("0*/*"))
    whole = newest.read_bytes()
    damages_ = [newest.unlink, lambda: newest.write_bytes(whole[: len(whole) // 2]), lambda: newest.write_bytes(b"")]
    damages_[step]()
    for key in keys:
        assert key_in_plan(table, key)
    indexed(table)
    assert [table.matched(f"k = {key}") for key in keys] == [1] * 4


def key_in_plan(table: Table, key: int) -> bool:
    """Whether the plan for a key has a file with it."""
    paths = [task.data_file.file_path for task in table.plan(f"k = {key}").files]
    return any(key in pq.read_table(path)["k"].to_pylist() for path in paths)


def test_segment_that_is_flipped_at_any_byte_is_healed_by_the_next_run(table: Table) -> None:
    """Wherever the byte is: in a row, in the directory, between them or in the footer."""
    keys = table.append(3)
    indexed(table, "k")
    source = random.Random(4)
    for _ in range(15):
        (file,) = table.segment_files()[-1:]
        whole = bytearray(file.read_bytes())
        whole[source.randrange(len(whole))] ^= 1 << source.randrange(8)
        rewrite(file, whole)
        assert all(key_in_plan(table, key) for key in keys)
        indexed(table)
        plans = [table.plan(f"k = {key}") for key in keys]
        assert [(sum(1 for _ in plan.files), plan.warnings) for plan in plans] == [(1, ())] * 3


def test_two_builders_in_two_processes_lose_nothing(table: Table) -> None:
    keys = table.append(6)
    indexed(table, "k")
    for _ in range(2):
        keys += table.append()
        at_once(index_s, [(table.path,)] * 2)
    assert [table.matched(f"k = {key}") for key in keys] == [1] * 8
    assert [table.matched(f"s = 'key-{key}'") for key in keys] == [1] * 8


def index_s(meet: Callable[[], object], path: str) -> None:
    meet()
    index(path, IndexOptions(columns=("s",)))
