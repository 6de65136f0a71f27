"""Private state beside statistics files is found, kept, carried, noticed when lost, and cleaned up."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from puffin.clean import clean
from puffin.errors import StorageError
from puffin.format import DISTRIBUTION_V1, ROW_COUNTS_V1, Blob, PuffinReader, PuffinWriter
from puffin.statistics.private_state.upkeep import remove_lost_state
from puffin.storage import FileInfo, LocalStore
from stats_jobs import Options
from stats_jobs.decide import is_stale
from tests.statistics.conftest import OwnDeltaTable
from tests.statistics.made_rows import numbers

LONG_AGO = 30 * 24 * 3600


def files(table) -> list[str]:
    return sorted(str(path.relative_to(table.private)) for path in table.private.rglob("*") if path.is_file())


def expire(table, snapshot_id: int) -> None:
    """Expire a snapshot and delete its statistics file, as Iceberg's Java library does."""
    path = table.state.statistics[snapshot_id].statistics_path
    table.load().maintenance.expire_snapshots().by_id(snapshot_id).commit()
    Path(path.removeprefix("file://")).unlink()


def age(*paths: Path) -> None:
    then = time.time() - LONG_AGO
    for path in paths:
        os.utime(path, (then, then))


def bases(report) -> dict[str, tuple[int, str]]:
    return {column.column.name: (column.ndv, column.basis) for column in report.columns}


def test_private_state_is_a_manifest_and_parts_that_orphan_removal_spares(table):
    manifest, *parts = sorted(files(table), key=lambda name: name.startswith("parts/"))
    assert manifest == Path(table.entry.statistics_path).name
    assert len(parts) == 2  # blobs with values of the table are in one of their own
    assert all(part.startswith("parts/") and part.endswith("/version-hint.text") for part in parts)
    assert table.check().current


def test_deleted_rows_are_subtracted_using_private_row_counts(table, private_payloads):
    table.delete("k >= 90")
    report = table.check()
    assert bases(report) == {"k": (90, "changed-files"), "n": (3, "changed-files")}
    assert private_payloads(table.table, report.entry, ROW_COUNTS_V1).keys() == {1, 2}


def test_unchanged_part_is_referenced_and_not_rewritten(table):
    """But blobs with values are copied, so that the values beside them can be erased."""
    first = {name for name in files(table) if name.startswith("parts/")}
    table.append(numbers(100))
    table.analyze(columns=("k",))
    parts = {name for name in files(table) if name.startswith("parts/")}
    manifest = json.loads((table.private / Path(table.entry.statistics_path).name).read_text())
    found = {
        f"parts/{part['id']}/version-hint.text": sorted((b["type"], b["fields"]) for b in part["blobs"])
        for part in manifest["parts"]
    }
    assert len(parts) == 4
    (kept,) = first & found.keys()
    assert found.pop(kept) == [(ROW_COUNTS_V1, [2])]
    assert sorted(found.values()) == [[(DISTRIBUTION_V1, [1]), (DISTRIBUTION_V1, [2])], [(ROW_COUNTS_V1, [1])]]


def test_part_may_have_blobs_of_others(table):
    """Whoever adds one lists the new size in the manifest."""
    path = table.private / Path(table.entry.statistics_path).name
    manifest = json.loads(path.read_text())
    for part in manifest["parts"]:
        stored = table.private / "parts" / part["id"] / "version-hint.text"
        blobs = PuffinReader(stored.read_bytes()).read_all_raw()
        with stored.open("wb") as sink:
            writer = PuffinWriter(sink)
            for blob in blobs:
                writer.copy(blob)
            writer.add(Blob(type="other", fields=(), snapshot_id=1, sequence_number=1, payload=b""))
            written = writer.finish()
        part |= {"file-size-in-bytes": written.file_size, "file-footer-size-in-bytes": written.footer_size}
    path.write_text(json.dumps(manifest))
    table.append(numbers(100))
    assert bases(table.analyze(columns=("k",))) == {"k": (101, "added-files")}
    assert bases(table.check()) == {"k": (101, "carried"), "n": (3, "added-files")}


@pytest.mark.parametrize("lost", ["manifest", "part", "all"])
def test_lost_state_is_noticed_and_rebuilt_and_its_cost_is_reported(table, lost):
    for name in files(table):
        if lost == "all" or name.startswith("parts/") == (lost == "part"):
            (table.private / name).unlink()
    assert is_stale(table.table, Options())
    table.delete("k < 10")
    report = table.check()
    assert bases(report) == {"k": (90, "full"), "n": (3, "full")}
    assert report.rows_read == 90
    assert table.check().current


def test_lost_state_is_rebuilt_from_an_ancestor_that_kept_its_own(table):
    table.append(numbers(*range(100, 110)))
    report = table.analyze()
    (table.private / Path(report.entry.statistics_path).name).unlink()
    report = table.check()
    assert bases(report) == {"k": (110, "added-files"), "n": (3, "added-files")}
    assert report.rows_read == 10


def test_manifest_of_another_statistics_file_is_never_used(table):
    table.append(numbers(0, 1))
    older = (
        table.private
        / Path(
            table.state.statistics[table.state.snapshot(table.state.current_snapshot_id).parent_id].statistics_path
        ).name
    )
    report = table.analyze()
    newer = table.private / Path(report.entry.statistics_path).name
    newer.write_bytes(older.read_bytes())
    table.delete("k < 2")
    assert bases(table.check())["k"] == (98, "changed-files")  # built on the older statistics, whose own state it is


def test_incremental_run_works_without_lost_state_and_reads_no_more(table):
    (table.private / Path(table.entry.statistics_path).name).unlink()
    assert table.analyze(mode="incremental").current
    table.append(numbers(100))
    assert bases(table.analyze(mode="incremental"))["k"] == (101, "added-files")


def test_runs_that_cannot_rebuild_lost_state_do_not_forget_it(table):
    table.append(numbers(100))
    (table.private / Path(table.entry_of_parent.statistics_path).name).unlink()
    assert bases(table.analyze(columns=("k",))) == {"k": (101, "full")}
    assert is_stale(table.table, Options(columns=("n",)))
    assert bases(table.analyze(mode="incremental"))["n"] == (3, "added-files")
    assert is_stale(table.table, Options())
    assert bases(table.check())["n"] == (3, "full")
    table.delete("k < 10")
    assert {c.basis for c in table.check().columns} == {"changed-files"}


def test_lost_state_of_other_columns_makes_no_run_read_again(table):
    table.append(numbers(100))
    table.analyze(columns=("k",))
    manifest = json.loads((table.private / Path(table.entry.statistics_path).name).read_text())
    (lost,) = [part["id"] for part in manifest["parts"] if all(blob["fields"] == [2] for blob in part["blobs"])]
    (table.private / "parts" / lost / "version-hint.text").unlink()
    assert table.analyze(columns=("k",)).current
    assert bases(table.check()) == {"k": (101, "carried"), "n": (3, "full")}
    assert table.check().current


def test_unwanted_row_counts_are_not_reported_as_lost(shared):
    table = shared("t", numbers(*range(50)))
    table.analyze(row_counts=False)
    assert table.analyze().current
    table.append(numbers(50))
    assert bases(table.analyze())["k"] == (51, "added-files")
    assert table.analyze().current
    table.delete("k < 10")
    assert bases(table.check())["k"] == (41, "full")


def test_home_chosen_by_the_caller_is_found_from_the_entry(shared, tmp_path):
    table, home = shared("t", numbers(*range(50))), tmp_path / "home"
    report = table.analyze(home=str(home))
    assert not table.private.exists()
    (of_table,) = home.iterdir()
    assert (of_table / Path(report.entry.statistics_path).name).exists()
    table.delete("k >= 40")
    moved = table.analyze()  # to the default home, since this run says no other
    assert bases(moved)["k"] == (40, "changed-files")
    assert table.private.exists()
    assert table.check().current


def test_home_in_the_current_directory_is_found_from_others(shared, tmp_path, monkeypatch):
    table = shared("t", numbers(*range(50)))
    monkeypatch.chdir(tmp_path)
    table.analyze(home=Path("home"))
    monkeypatch.chdir("/")
    table.delete("k >= 40")
    assert bases(table.analyze())["k"] == (40, "changed-files")


@pytest.mark.parametrize("how", ["gone", "broken"])
def test_lost_part_of_another_column_does_not_fail_a_run_with_another_home(shared, tmp_path, caplog, how):
    table, home = shared("t", numbers(*range(50))), str(tmp_path / "home")
    table.analyze()
    table.append(numbers(50))
    for part in table.private.glob("parts/*/*"):
        if how == "gone":
            part.unlink()
        else:
            part.write_bytes(part.read_bytes()[:-4] + b"PFA2")
    report = table.analyze(columns=("k",), mode="full", home=home)
    assert bases(report) == {"k": (51, "full")}
    assert f"{table.private}/parts/" in caplog.text
    assert table.analyze(columns=("k",), home=home).current
    assert bases(table.analyze(home=home)) == {"k": (51, "carried"), "n": (3, "full")}
    assert table.analyze(home=home).current


def test_home_set_by_the_table_is_used_and_carried_blobs_are_copied_there(shared, tmp_path):
    table = shared("t", numbers(*range(50)))
    table.analyze()
    with table.load().transaction() as transaction:
        transaction.set_properties({"puffin-sidecar.home": str(tmp_path / "home")})
    table.append(numbers(50))
    table.analyze(columns=("k",))
    for path in table.private.rglob("*.*"):
        path.unlink()  # what was carried does not need it
    table.delete("k >= 40")
    report = table.analyze()
    assert {c.basis for c in report.columns} == {"changed-files"}
    assert list((tmp_path / "home").rglob("version-hint.text"))


def test_clean_of_another_home_searches_that_of_the_owner_too(table, tmp_path):
    with table.load().transaction() as transaction:
        transaction.set_properties({"puffin-sidecar.home": str(tmp_path / "owner")})
    lost = tmp_path / "owner" / table.state.uuid / "parts" / "a" / "version-hint.text"  # which no manifest refers to
    lost.parent.mkdir(parents=True)
    lost.touch()
    age(lost)
    assert [each.file.uri for each in clean(table.table, home=tmp_path / "other").files] == [str(lost)]


def test_copies_of_a_table_leave_each_others_private_state_in_a_home_that_they_share(delta, tmp_path, monkeypatch):
    home, original, copy = tmp_path / "home", delta(numbers(*range(50))), OwnDeltaTable(tmp_path / "copy")
    shutil.copytree(original.name, copy.name)  # its uuid too
    original.analyze(home=home)
    copy.analyze(home=home)
    age(*home.rglob("*.*"))
    copy.append(numbers(50))
    copy.analyze(home=home)
    clean(copy.table, home=home, remove=True)
    assert original.analyze(home=home).current
    listed = LocalStore.list

    def refuse(store: LocalStore, uri: str) -> Sequence[FileInfo]:
        if uri.startswith(original.name):
            raise StorageError(f"{uri}: no")
        return listed(store, uri)

    with monkeypatch.context() as others:
        others.setattr(LocalStore, "list", refuse)
        clean(copy.table, home=home, remove=True)
    assert original.analyze(home=home).current
    shutil.rmtree(original.name)
    clean(copy.table, home=home, remove=True)
    assert {path.name for path in home.rglob("*.stats")} == {path.name for path in Path(copy.name).rglob("*.stats")}


def test_earlier_metadata_directory_of_a_table_is_not_taken_for_that_of_a_copy(shared, tmp_path):
    """Engines may leave its files there for good, and private state has values of rows that were deleted since."""
    table, home = shared("t", numbers(*range(50))), tmp_path / "home"
    location = table.state.location
    for name in ("m1", "m2"):
        with table.load().transaction() as transaction:
            transaction.set_properties({"write.metadata.path": f"{location}/{name}"})
        table.analyze(home=home, mode="full")
    age(*home.rglob("*.*"))
    clean(table.table, home=home, remove=True)
    assert [path.name for path in home.rglob("*.stats")] == [Path(table.entry.statistics_path).name]


def test_private_state_stays_as_long_as_its_file_in_the_default_directory(table):
    """Metadata of the log still names the file, and somebody may go back to that."""
    before = table.load()
    with before.transaction() as transaction:
        transaction.set_properties({"write.metadata.path": f"{table.state.location}/m2"})
    table.append(numbers(100))
    table.analyze(keep_entries=1)
    age(*Path(table.state.location.removeprefix("file://")).rglob("*.*"))
    assert clean(table.table, remove=True).files == ()
    table.catalog.drop_table(table.name)
    table.catalog.register_table(table.name, before.metadata_location)
    assert table.check().current


def test_private_state_is_deleted_with_its_statistics_file(table):
    first = files(table)
    table.append(numbers(100))
    table.analyze()
    state = table.state
    (old,) = [e for s, e in state.statistics.items() if s != state.current_snapshot_id]
    expire(table, old.snapshot_id)
    assert clean(table.table, remove=True).files == ()  # young
    now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=30)
    cleaning = clean(table.table, now=now)
    private = [leftover.file.uri for leftover in cleaning.files if "_puffin_sidecar/" in leftover.file.uri]
    assert sorted(uri.partition("_puffin_sidecar/")[2] for uri in private) == first
    clean(table.table, remove=True, now=now)
    assert not set(first) & set(files(table))
    assert len(files(table)) == 3
    assert len(list((table.private / "parts").iterdir())) == 2
    assert table.check().current


def test_later_runs_remove_state_that_nothing_refers_to_any_more(table):
    age(*(table.private / name for name in files(table)))
    first = files(table)
    table.append(numbers(100))
    table.analyze()
    old = next(s for s in table.state.statistics if s != table.state.current_snapshot_id)
    assert set(first) < set(files(table))
    expire(table, old)
    table.append(numbers(101))
    table.analyze()
    assert not set(first) & set(files(table))


def test_unreadable_manifest_keeps_every_part(table):
    (table.private / "7-broken.stats").write_text("{")
    for path in table.private.rglob("*"):
        if path.is_file():
            age(path)
    (table.private / Path(table.entry.statistics_path).name).unlink()
    remove_lost_state(table.table.open(), None)
    assert [name for name in files(table) if name.startswith("parts/")]


def test_store_failure_during_cleanup_does_not_fail_the_run(table, monkeypatch, caplog):
    def fail(self, uri):
        raise StorageError(f"{uri}: no")

    opened = table.table.open()
    monkeypatch.setattr(LocalStore, "list", fail)
    remove_lost_state(opened, None)
    assert "private state is left behind" in caplog.text
