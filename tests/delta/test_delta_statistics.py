"""The statistics directory of a Delta table: what is read from it, how jobs share it, and what is removed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from puffin.delta.statistics.documents import (
    StatisticsDocument,
    decode_entry,
    decode_field_ids,
    encode_entry,
    encode_field_ids,
)
from puffin.delta.statistics.entries import SAFETY_AGE, StatisticsDirectory
from puffin.delta.statistics.files import Listing, entry_name, field_ids_name
from puffin.errors import (
    ConflictError,
    CorruptMetadataError,
    StorageError,
    UnsupportedTableError,
    UsageError,
)
from puffin.format import THETA_V1
from puffin.storage import LocalStore
from puffin.tables.base import BlobEntry, StatisticsEntry

TABLE_ID = "f8e13838-33ca-4f53-83df-c36289047bd5"
COLUMNS = {1: ("a",), 2: ("b",), 3: ("s", "c")}
NOW = datetime.datetime.now(datetime.timezone.utc)
WEEK_AGO = NOW - SAFETY_AGE
HOUR = datetime.timedelta(hours=1)


class WatchedStore(LocalStore):
    """A store that records its reads, and fails to delete given files."""

    def __init__(self) -> None:
        self.lists: list[str] = []
        self.reads: list[str] = []
        self.deletes: list[str] = []
        self.stuck: set[str] = set()

    def list(self, directory_uri):
        self.lists.append(directory_uri)
        return super().list(directory_uri)

    def read(self, uri):
        self.reads.append(Path(uri).name)
        return super().read(uri)

    def delete(self, uri):
        if Path(uri).name in self.stuck:
            raise StorageError(f"{uri}: stuck")
        self.deletes.append(Path(uri).name)
        super().delete(uri)


@pytest.fixture
def store():
    return WatchedStore()


@pytest.fixture
def directory(tmp_path, store):
    return StatisticsDirectory(str(tmp_path / "t"), store)


@pytest.fixture
def files(tmp_path):
    """Return where the files of `directory` are."""
    return tmp_path / "t" / "_delta_log" / "_puffin_sidecar"


def entry_of(directory, version, *fields):
    """An entry with a new statistics file that has a sketch of each field."""
    path = Path(directory.new_path(version))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"PFA1")
    blobs = tuple(BlobEntry(THETA_V1, version, version, (field,), {"ndv": str(field)}) for field in fields)
    return StatisticsEntry(version, str(path), 400, 100, blobs)


def put(directory, version, *fields, generation=0, table_id=TABLE_ID):
    entry = entry_of(directory, version, *fields)
    directory.put(entry, table_id, COLUMNS, generation, None)
    return entry


def entries(directory, version, listing=None):
    return directory.entries(
        listing or directory.listing(), version, TABLE_ID, lambda i, path: COLUMNS.get(i) == path, lambda _: None
    )


def age(path: Path, age: datetime.timedelta) -> None:
    """Make a file this old at `NOW`."""
    when = (NOW - age).timestamp()
    os.utime(path, (when, when))


def test_table_without_the_directory_has_nothing(directory):
    listing = directory.listing()
    assert listing == Listing({}, {}, {})
    assert list(entries(directory, 5, listing)) == []
    assert directory.field_ids(listing) == {}
    assert (listing.next_generation(5), listing.next_field_ids_generation()) == (0, 0)


def test_entry_is_read_as_it_was_put(directory):
    entry = put(directory, 7, 1, 3)
    assert list(entries(directory, 7)) == [entry]
    assert directory.listing().next_generation(7) == 1


def test_version_sees_its_own_entry_and_the_nearest_older_ones(directory):
    """Versions are numbers: 10 comes after 9."""
    for version in (2, 9, 10, 11):
        put(directory, version, 1)
    assert [entry.snapshot_id for entry in entries(directory, 10)] == [10, 9, 2]


def test_newest_generation_of_a_version_counts(directory):
    put(directory, 3, 1)
    for generation in range(1, 11):
        newest = put(directory, 3, 1, 2, generation=generation)
    assert list(entries(directory, 3)) == [newest]


def test_entries_are_read_on_demand_and_the_directory_is_listed_once(directory, store):
    for version in range(20):
        put(directory, version, 1)
    store.reads.clear()
    listing = directory.listing()
    assert next(entries(directory, 12, listing)).snapshot_id == 12
    directory.field_ids(listing)
    assert (store.reads, len(store.lists)) == (["12-0.json"], 1)


def test_other_files_are_ignored(directory, files):
    """Names with an unpadded number, and temporary files of a dead writer, too."""
    entry = put(directory, 3, 1)
    for name in ("03-0.json", "4-00.json", "4.json", "x-1.json", ".puffin-sidecar-1.tmp", "field-ids-.json", "a.stats"):
        (files / name).write_text("{}")
    assert list(entries(directory, 9)) == [entry]
    assert directory.field_ids(directory.listing()) == {}


def broken_entries(good: dict) -> dict[str, bytes]:
    """Unusable contents of an entry file, by what is wrong with them."""

    def changed(**fields) -> bytes:
        return json.dumps({**good, **fields}).encode()

    def statistics(**fields) -> bytes:
        return changed(statistics={**good["statistics"], **fields})

    return {
        "empty": b"",
        "cut short": json.dumps(good).encode()[:-9],
        "not an object": b"[]",
        "nested too deep": b"[" * 100_000,
        "a number of too many digits": b'{"format-version":' + b"9" * 5000 + b"}",
        "no format version": changed(**{"format-version": None}),
        "a format version that is no number": changed(**{"format-version": True}),
        "a format version before the first": changed(**{"format-version": 0}),
        "a later format version": changed(**{"format-version": 3}),
        "another version": changed(version=4),
        "another generation": changed(generation=7),
        "no table": changed(**{"table-id": None}),
        "a checksum that is no text": changed(**{"log-entry": 1}),
        "no statistics": changed(statistics=None),
        "another snapshot": statistics(**{"snapshot-id": 4}),
        "a path that leads elsewhere": statistics(**{"statistics-path": "../3-x.stats"}),
        "an absolute path": statistics(**{"statistics-path": "/tmp/3-x.stats"}),
        "the file of another version": statistics(**{"statistics-path": "4-x.stats"}),
        "no blobs": statistics(**{"blob-metadata": None}),
        "a field id out of any range": statistics(
            **{"blob-metadata": [{**good["statistics"]["blob-metadata"][0], "fields": [float("inf")]}]}
        ),
        "no columns": changed(columns=None),
        "a path of a number": changed(columns=[{"id": 1, "path": [1]}]),
        "a column without a path": changed(columns=[[1]]),
        "an id twice": changed(columns=[{"id": 1, "path": ["a"]}, {"id": 1, "path": ["b"]}]),
        "a path twice": changed(columns=[{"id": 1, "path": ["a"]}, {"id": 2, "path": ["a"]}]),
    }


GOOD = {
    "format-version": 1,
    "table-id": TABLE_ID,
    "version": 3,
    "generation": 1,
    "statistics": {
        "snapshot-id": 3,
        "statistics-path": "3-x.stats",
        "file-size-in-bytes": 400,
        "file-footer-size-in-bytes": 100,
        "blob-metadata": [
            {"type": THETA_V1, "snapshot-id": 3, "sequence-number": 3, "fields": [1], "properties": {"ndv": "1"}}
        ],
    },
    "columns": [{"id": 1, "path": ["a"]}],
}


def test_unknown_fields_are_ignored(directory, files):
    files.mkdir(parents=True)
    statistics = {**GOOD["statistics"], "key-metadata": None, "new": {}}
    document = {**GOOD, "statistics": statistics, "comment": [1], "columns": [{"id": 1, "path": ["a"], "x": 1}]}
    (files / "3-1.json").write_text(json.dumps(document))
    (found,) = entries(directory, 3)
    assert found.statistics_path == str(files / "3-x.stats")
    assert found.sketches[1].properties == {"ndv": "1"}


@pytest.mark.parametrize("content", broken_entries(GOOD).values(), ids=broken_entries(GOOD).keys())
def test_unusable_entry_is_skipped_with_a_warning(directory, files, caplog, content):
    """The previous generation answers, or else the previous version."""
    older, oldest = put(directory, 3, 1), put(directory, 2, 1)
    (files / "3-1.json").write_bytes(content)
    assert list(entries(directory, 3)) == [older, oldest]
    assert str(files / "3-1.json") in caplog.text
    (files / "3-0.json").unlink()
    assert list(entries(directory, 3)) == [oldest]


@pytest.mark.parametrize("content", broken_entries(GOOD).values(), ids=broken_entries(GOOD).keys())
def test_error_in_an_entry_names_the_file(content):
    with pytest.raises((CorruptMetadataError, UnsupportedTableError), match=r"^t/3-1\.json: "):
        decode_entry(content, "t/3-1.json", 3, 1)


@pytest.mark.parametrize(("count", "version", "bytes_per_column"), [(256, 1, 180), (2000, 2, 160)])
def test_entry_of_many_columns_is_short(count, version, bytes_per_column):
    properties = {"ndv": "1000000", "sidecar": "1"}
    blobs = tuple(BlobEntry(THETA_V1, 123, 123, (field_id,), properties) for field_id in range(1, count + 1))
    entry = StatisticsEntry(123, "123-x.stats", 161_000_000, 670_000, blobs)
    document = StatisticsDocument(TABLE_ID, entry, {field_id: (f"c{field_id}",) for field_id in range(1, count + 1)})
    content = encode_entry(document, 0)
    assert json.loads(content)["format-version"] == version
    assert len(content) <= bytes_per_column * count
    assert decode_entry(content, "t/123-0.json", 123, 0) == document


def test_entry_removed_after_the_listing_is_skipped(directory, files):
    put(directory, 3, 1)
    older = put(directory, 2, 1)
    listing = directory.listing()
    (files / "3-0.json").unlink()
    assert list(entries(directory, 3, listing)) == [older]


def test_failing_store_is_no_missing_entry(directory, store, monkeypatch):
    put(directory, 3, 1)

    def fail(uri):
        raise StorageError(f"{uri}: no answer")

    monkeypatch.setattr(store, "read", fail)
    with pytest.raises(StorageError, match="no answer"):
        list(entries(directory, 3))


def test_entries_of_a_previous_table_are_skipped(directory):
    ours = put(directory, 2, 1)
    put(directory, 2, 1, generation=1, table_id="another")
    put(directory, 3, 1, table_id="another")
    assert list(entries(directory, 3)) == [ours]


def test_blobs_of_a_reassigned_field_id_are_dropped(directory):
    """Each blob is checked by the paths written with it, for all of its fields."""
    entry = entry_of(directory, 3, 1, 2, 3)
    both = BlobEntry("two", 3, 3, (1, 2), {})
    directory.put(dataclasses.replace(entry, blobs=(*entry.blobs, both)), TABLE_ID, COLUMNS, 0, None)
    now = {1: ("a",), 2: ("renamed",), 3: ("s", "c")}
    (found,) = directory.entries(directory.listing(), 3, TABLE_ID, lambda i, path: now.get(i) == path, lambda _: None)
    assert [blob.fields for blob in found.blobs] == [(1,), (3,)]


def test_table_can_be_moved(directory, tmp_path):
    entry = put(directory, 3, 1)
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    moved = StatisticsDirectory(str(tmp_path / "elsewhere"), LocalStore())
    (found,) = entries(moved, 3)
    assert found.statistics_path == entry.statistics_path.replace("/t/", "/elsewhere/")
    assert Path(found.statistics_path).exists()


def test_file_names_do_not_look_like_log_entries(directory):
    """deltalake's log cleanup deletes, in directories below the log too, what ends in twenty digits and ``.json``."""
    longest = (1 << 63) - 1
    names = [entry_name(longest, 10**9 - 1), field_ids_name(10**9 - 1), Path(directory.new_path(longest)).name]
    assert not [name for name in names if re.search(r"[0-9]{20}\.", name)]


def test_existing_generation_is_a_conflict(directory):
    first = put(directory, 3, 1)
    with pytest.raises(ConflictError):
        put(directory, 3, 2)
    assert list(entries(directory, 3)) == [first]


def test_entry_of_a_later_version_is_not_replaced(directory, files):
    """It may hold statistics that would be lost; broken ones hold none."""
    put(directory, 3, 1)
    (files / "3-1.json").write_text(json.dumps({**GOOD, "format-version": 3}))
    with pytest.raises(UnsupportedTableError, match=r"3-1\.json: expected format-version 2 at most, found 3"):
        put(directory, 3, 1, generation=2)
    (files / "3-1.json").write_text("{")
    newest = put(directory, 3, 1, generation=2)
    assert list(entries(directory, 3)) == [newest]


@pytest.mark.parametrize("path", ["/elsewhere/3-x.stats", "4-x.stats", "3-x.puffin", "sub/3-x.stats"])
def test_statistics_file_of_another_place_or_version_is_refused(directory, files, path):
    entry = dataclasses.replace(entry_of(directory, 3, 1), statistics_path=os.path.join(files, path))  # noqa: PTH118
    with pytest.raises(UsageError, match="expected a statistics file of this version"):
        directory.put(entry, TABLE_ID, COLUMNS, 0, None)


def test_blob_of_a_field_id_without_a_column_is_refused(directory):
    with pytest.raises(UsageError, match=r"no column has the field ids \[8, 9\]"):
        directory.put(entry_of(directory, 3, 1, 9, 8), TABLE_ID, COLUMNS, 0, None)


def at_once(number, work):
    """The results of several threads that start at the same moment."""
    barrier = threading.Barrier(number)

    def run(index):
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run, range(number)))


def test_one_of_several_jobs_wins_a_generation(directory, tmp_path):
    for version in range(20):

        def race(index, version=version):
            own = StatisticsDirectory(str(tmp_path / "t"), LocalStore())
            try:
                return put(own, version, 1 + index % 3)
            except ConflictError:
                return None

        (winner,) = (entry for entry in at_once(6, race) if entry is not None)
        assert next(entries(directory, version)) == winner


def test_concurrent_jobs_that_merge_lose_nothing(directory, tmp_path):
    columns = {field: (str(field),) for field in range(6)}

    def job(index):
        own = StatisticsDirectory(str(tmp_path / "t"), LocalStore())
        while True:
            listing = own.listing()
            before = next(own.entries(listing, 3, TABLE_ID, lambda *_: True, lambda _: None), None)
            entry = entry_of(own, 3, index)
            merged = dataclasses.replace(entry, blobs=(*(before.blobs if before else ()), *entry.blobs))
            try:
                return own.put(merged, TABLE_ID, columns, listing.next_generation(3), None)
            except ConflictError:
                continue

    at_once(6, job)
    assert list(directory.listing().entries[3]) == [5, 4, 3, 2, 1, 0]
    (found,) = directory.entries(directory.listing(), 3, TABLE_ID, lambda *_: True, lambda _: None)
    assert sorted(blob.fields for blob in found.blobs) == [(field,) for field in range(6)]


def test_newest_readable_field_ids_are_used(directory, files, caplog):
    first, second = {("a",): 1}, {("a",): 1, ("s", "ü\ud800"): 2}
    directory.put_field_ids(first, 0)
    directory.put_field_ids(second, 1)
    listing = directory.listing()
    assert directory.field_ids(listing) == second
    assert listing.next_field_ids_generation() == 2
    (files / "field-ids-1.json").write_text("{")
    assert directory.field_ids(directory.listing()) == first
    assert "field-ids-1.json" in caplog.text


def test_two_jobs_share_a_generation_of_field_ids_only_if_they_agree(directory):
    directory.put_field_ids({("a",): 1}, 0)
    directory.put_field_ids({("a",): 1}, 0)
    with pytest.raises(ConflictError):
        directory.put_field_ids({("b",): 1}, 0)


def test_field_ids_of_a_later_version_are_not_replaced(directory, files):
    files.mkdir(parents=True)
    (files / "field-ids-0.json").write_text('{"format-version": 2, "columns": []}')
    assert directory.field_ids(directory.listing()) == {}
    with pytest.raises(UnsupportedTableError, match=r"field-ids-0\.json"):
        directory.put_field_ids({("a",): 1}, 1)


@pytest.mark.parametrize("columns", ["null", '[{"id": 1}]', '[{"id": "1", "path": ["a"]}]', "[[]]"])
def test_broken_field_ids_name_the_file(columns):
    with pytest.raises(CorruptMetadataError, match=r"^t/f\.json: not a list of field ids"):
        decode_field_ids(b'{"format-version": 1, "columns": %s}' % columns.encode(), "t/f.json")
    assert decode_field_ids(encode_field_ids({("a", "b"): 3}), "f") == {("a", "b"): 3}


def test_format_version_before_the_first_is_told_from_a_later_one():
    with pytest.raises(CorruptMetadataError, match=r"^t/f\.json: expected format-version 1 or later, found 0$"):
        decode_field_ids(b'{"format-version": 0, "columns": []}', "t/f.json")


def names(found):
    return [file.name for file in found]


@pytest.fixture
def history(directory, files):
    """Three generations of version 3: the first was superseded ten days before `NOW`, the second two days before."""
    generations = [put(directory, 3, 1, generation=generation) for generation in range(3)]
    put(directory, 2, 1)
    running = entry_of(directory, 3, 1)
    for path in files.iterdir():
        age(path, datetime.timedelta(days=30))
    age(files / "3-1.json", datetime.timedelta(days=10))
    age(files / "3-2.json", datetime.timedelta(days=2))
    return [Path(entry.statistics_path).name for entry in (*generations, running)]


def test_entry_is_removed_when_its_successor_passes_the_safety_age(directory, files, history):
    """Its own age does not matter: a reader with an older listing may be about to read it."""
    assert names(directory.superseded(directory.listing(), WEEK_AGO)) == ["3-0.json", history[0]]
    directory.remove_superseded(directory.listing())
    left = {"2-0.json", "3-1.json", "3-2.json", *history[1:]}
    assert left < {path.name for path in files.iterdir()}
    assert not (files / "3-0.json").exists()
    assert not (files / history[0]).exists()


@pytest.mark.parametrize(
    ("days", "removed"),
    [(9, ["3-0.json", 0]), (11, []), (1, ["3-1.json", "3-0.json", 0, 1]), (0, ["3-1.json", "3-0.json", 0, 1])],
)
def test_safety_age_can_be_chosen(directory, history, days, removed):
    """The newest generation stays at any age, and so does the file of a running job."""
    found = names(directory.superseded(directory.listing(), NOW - datetime.timedelta(days=days)))
    expected = [history[name] if isinstance(name, int) else name for name in removed]
    assert sorted(found) == sorted(expected)
    assert [name.endswith(".json") for name in found] == sorted(
        (name.endswith(".json") for name in found), reverse=True
    )


def test_files_of_unknown_age_are_kept(directory, history):
    listing = directory.listing()
    timeless = {
        version: {generation: file._replace(mtime=None) for generation, file in generations.items()}
        for version, generations in listing.entries.items()
    }
    assert directory.superseded(dataclasses.replace(listing, entries=timeless), WEEK_AGO) == ()


def test_entries_that_readers_fall_back_on_are_kept(directory, files, history):
    (files / "3-2.json").write_text("{")
    age(files / "3-2.json", SAFETY_AGE + HOUR)
    assert directory.superseded(directory.listing(), WEEK_AGO) == ()


def test_entry_of_another_table_supersedes_none(directory, files, history):
    document = json.loads((files / "3-2.json").read_text())
    (files / "3-2.json").write_text(json.dumps({**document, "table-id": "another"}))
    age(files / "3-2.json", SAFETY_AGE + HOUR)
    assert directory.superseded(directory.listing(), WEEK_AGO) == ()


def test_broken_entry_is_kept_with_its_unknown_statistics_file(directory, files, history):
    (files / "3-0.json").write_text("{")
    assert directory.superseded(directory.listing(), WEEK_AGO) == ()


def test_statistics_file_that_a_newer_entry_names_is_kept(directory, files, history):
    document = json.loads((files / "3-2.json").read_text())
    document["statistics"]["statistics-path"] = history[0]
    (files / "3-2.json").write_text(json.dumps(document))
    age(files / "3-2.json", HOUR)
    assert names(directory.superseded(directory.listing(), WEEK_AGO)) == ["3-0.json"]


def test_failed_removal_keeps_the_statistics_file_and_fails_nothing(directory, files, store, history, caplog):
    """An entry never names a missing file."""
    store.stuck.add("3-0.json")
    directory.remove_superseded(directory.listing())
    assert (files / history[0]).exists()
    assert "superseded statistics are left behind: " in caplog.text
    store.stuck = {history[0]}
    directory.remove_superseded(directory.listing())
    assert store.deletes == ["3-0.json"]
