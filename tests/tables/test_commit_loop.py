"""
The loop of `commit_statistics`, against a catalog in memory that answers as it is told; the statistics files are real.

``atomic`` is a catalog that compares before it sets, the other one sets and tells later what it replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    SnapshotNotFound,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
)
from puffin.format import PuffinReader
from puffin.iceberg.commit.patch import with_statistics
from puffin.iceberg.metadata.document import parse_state
from puffin.iceberg.table import IcebergSnapshot
from puffin.storage import store_for
from puffin.tables.commit import RetryPolicy, commit_statistics
from puffin.tables.snapshot import CURRENT
from puffin.tables.state import TableState
from puffin.tables.statistics_json import entry_to_json

SNAPSHOT = 10
OTHER_UUID = "00000000-0000-0000-0000-000000000000"


class Catalog:
    """
    One table, as the document of its current version.

    Attributes:
        before: Called, each once and in order, before a commit is applied.
        after: Likewise, when it has been applied.
        on_load: Likewise, before each load.

    Whatever they do to the table is done without calling any of them.
    """

    def __init__(self, document: dict, *, atomic: bool = True) -> None:
        self.document = document
        self.version = 1
        self.atomic = atomic
        self.commits = 0
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.on_load: list[Callable[[], None]] = []

    def state(self) -> TableState:
        return parse_state(copy.deepcopy(self.document), f"v{self.version}")

    def open(self, selector=CURRENT) -> IcebergSnapshot:
        self._call_next("on_load")
        return self.opened(selector)

    def opened(self, selector=CURRENT) -> IcebergSnapshot:
        state = self.state()
        return IcebergSnapshot(
            name="t", state=state, selector=selector, store_for=store_for, io_properties={}, table=self
        )

    def check_committable(self, state, *, ask_store):
        pass

    def commit(self, base, entry):
        self.commits += 1
        self._call_next("before")
        applied_to = self.state()
        if self.atomic and applied_to.metadata_location != base.state.metadata_location:
            raise ConflictError("another writer was faster")
        self.apply(entry)
        self._call_next("after")
        return applied_to

    def _call_next(self, name: str) -> None:
        hooks = self.before, self.after, self.on_load
        if following := getattr(self, name):
            self.before, self.after, self.on_load = [], [], []
            try:
                following.pop(0)()
            finally:
                self.before, self.after, self.on_load = hooks

    def apply(self, entry) -> None:
        self.change(**with_statistics(self.state(), entry, 0).document)

    def change(self, **fields) -> None:
        self.document = {**self.document, **fields}
        self.version += 1

    def entry(self):
        return self.state().statistics.get(SNAPSHOT)

    def listed(self) -> list[int]:
        """The fields of the blobs that the table's entry lists, after checking that its file has the same."""
        entry = self.entry()
        reader = PuffinReader(Path(entry.statistics_path).read_bytes(), file_size=entry.file_size_in_bytes)
        assert [b.fields for b in reader.file_metadata.blobs] == [b.fields for b in entry.blobs]
        return [field for blob in entry.blobs for field in blob.fields]


class Waits(list):
    """A replacement for sleep that records the waits."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


@pytest.fixture
def new_catalog(table_document, tmp_path):
    return lambda atomic=True, **options: Catalog(table_document(tmp_path, **options), atomic=atomic)


@pytest.fixture
def catalog(new_catalog):
    return new_catalog()


@pytest.fixture
def files(tmp_path):
    """The existing statistics files."""
    return lambda: sorted(str(path) for path in (tmp_path / "metadata").rglob("*.stats"))


def fail(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


def touch(catalog: Catalog) -> Callable[[], None]:
    """Commit something unrelated as another writer."""
    return lambda: catalog.change(**{"last-updated-ms": catalog.version})


def job(catalog, draft_of, sleep=None, **values) -> Callable[[], None]:
    """Run another whole job on the same snapshot."""
    return lambda: commit_statistics(catalog, draft_of(catalog, values), sleep=sleep or Waits())


# --- attempts -----------------------------------------------------------------------------------------------------


def test_commit_without_rivals_takes_one_attempt_and_no_wait(catalog, draft_of, files):
    waits = Waits()
    committed = commit_statistics(catalog, draft_of(catalog, {"a": [1, 2]}), sleep=waits)
    assert (committed.attempts, committed.entry, waits) == (1, catalog.entry(), [])
    assert catalog.listed() == [1]
    assert files() == [committed.entry.statistics_path]


def test_lost_race_is_retried_from_refreshed_metadata(catalog, draft_of, files):
    """The second attempt builds on the winner's commit, and nothing is lost."""
    catalog.before = [lambda: catalog.change(properties={"added": "meanwhile"})]
    committed = commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert committed.attempts == 2
    assert catalog.document["properties"] == {"added": "meanwhile"}
    assert files() == [committed.entry.statistics_path]


def test_file_is_not_rewritten_while_its_basis_is_unchanged(catalog, draft_of, files):
    written = []
    catalog.before = [lambda: written.extend(files()), touch(catalog)]
    commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert files() == written


def test_columns_of_an_earlier_commit_are_merged(catalog, draft_of, files):
    """The losing attempt's file is deleted; the other job's is left to clean."""
    lost = []
    catalog.before = [lambda: (lost.extend(files()), job(catalog, draft_of, b=[1, 2, 3])())]
    committed = commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert committed.attempts == 2
    assert catalog.listed() == [1, 2]
    assert [blob.properties["ndv"] for blob in catalog.entry().blobs] == ["1", "3"]
    assert not set(lost) & set(files())
    assert len(files()) == 2


def test_attempts_and_waits_follow_the_table_properties(new_catalog, draft_of, files):
    properties = {
        "commit.retry.num-retries": "6",
        "commit.retry.min-wait-ms": "40",
        "commit.retry.max-wait-ms": "200",
    }
    catalog = new_catalog(properties=properties)
    catalog.before = [touch(catalog) for _ in range(20)]
    waits = Waits()
    with pytest.raises(ConflictError):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=waits)
    assert catalog.commits == 7
    for seconds, ceiling in zip(waits, (0.04, 0.08, 0.16, 0.2, 0.2, 0.2), strict=True):
        assert ceiling / 2 <= seconds <= ceiling
    assert files() == []


def test_default_is_four_retries(catalog, draft_of):
    catalog.before = [touch(catalog) for _ in range(20)]
    with pytest.raises(ConflictError):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert catalog.commits == 5


@pytest.mark.parametrize("nonsense", ["", "-1", "4.0", " 4", "many", "9" * 5000, "٤"])
def test_invalid_retry_property_is_ignored(new_catalog, nonsense):
    state = new_catalog(properties={"commit.retry.num-retries": nonsense}).state()
    assert RetryPolicy.of(state).num_retries == 4


def test_total_timeout_ends_before_the_retries(new_catalog, draft_of):
    catalog = new_catalog(properties={"commit.retry.total-timeout-ms": "0"})
    catalog.before = [touch(catalog) for _ in range(20)]
    with pytest.raises(ConflictError):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert catalog.commits == 1


def test_huge_wait_is_cut_at_the_maximum(new_catalog):
    policy = RetryPolicy.of(new_catalog(properties={"commit.retry.min-wait-ms": "9" * 18}).state())
    assert policy.wait_seconds(400) <= 60


# --- what happens to the table meanwhile --------------------------------------------------------------------------


def test_snapshot_that_expired_during_the_run_is_reported(catalog, draft_of, files):
    draft = draft_of(catalog, {"a": [1]})
    catalog.change(**{"snapshots": [], "current-snapshot-id": None})
    with pytest.raises(SnapshotNotFound, match="10"):
        commit_statistics(catalog, draft, sleep=Waits())
    assert (catalog.commits, files()) == (0, [])


def test_snapshot_that_expired_between_attempts_deletes_the_file(catalog, draft_of, files):
    catalog.before = [lambda: catalog.change(**{"snapshots": [], "current-snapshot-id": None})]
    with pytest.raises(SnapshotNotFound):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert files() == []


def test_other_table_of_the_same_name_is_unchanged(catalog, draft_of, files):
    catalog.before = [lambda: catalog.change(**{"table-uuid": OTHER_UUID})]
    with pytest.raises(TableNotFound, match=OTHER_UUID):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert (catalog.entry(), files()) == (None, [])


def test_table_that_gets_its_uuid_during_the_run_is_the_same(new_catalog, draft_of):
    """Version 1 tables may have none, and get one when they are upgraded."""
    catalog = new_catalog(version=1)
    uuid = catalog.document.pop("table-uuid")
    draft = draft_of(catalog, {"a": [1]})
    catalog.change(**{"table-uuid": uuid})
    assert commit_statistics(catalog, draft, sleep=Waits()).attempts == 1


def test_column_dropped_during_the_run_gets_no_blob(catalog, draft_of):
    draft = draft_of(catalog, {"a": [1], "b": [1, 2]})
    schema = catalog.document["schemas"][0]
    catalog.change(schemas=[{**schema, "fields": schema["fields"][1:]}])
    commit_statistics(catalog, draft, sleep=Waits())
    assert catalog.listed() == [2]


def test_column_dropped_between_attempts_is_removed_from_the_file(catalog, draft_of):
    schema = catalog.document["schemas"][0]
    catalog.before = [lambda: catalog.change(schemas=[{**schema, "fields": schema["fields"][1:]}])]
    commit_statistics(catalog, draft_of(catalog, {"a": [1], "b": [1, 2]}), sleep=Waits())
    assert catalog.listed() == [2]


def test_unsupported_commit_is_refused_before_writing(catalog, draft_of, monkeypatch, files):
    draft = draft_of(catalog, {"a": [1]})
    monkeypatch.setattr(draft, "write", lambda *_: pytest.fail("a file was written"))
    monkeypatch.setattr(catalog, "check_committable", lambda *_, **__: fail(UnsupportedTableError("never"))())
    with pytest.raises(UnsupportedTableError, match="never"):
        commit_statistics(catalog, draft, sleep=Waits())


# --- failures -----------------------------------------------------------------------------------------------------


def test_certain_failure_is_not_retried_and_deletes_the_file(catalog, draft_of, files):
    catalog.before = [fail(StorageError("the disk is full"))]
    with pytest.raises(StorageError, match="the disk is full"):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert (catalog.commits, files()) == (1, [])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_refused_commit_keeps_the_file_if_the_table_cannot_be_read(catalog, draft_of, files, moment):
    """It may have been done."""
    draft = draft_of(catalog, {"a": [1]})
    setattr(catalog, moment, [fail(ConflictError("409"))])
    catalog.on_load = [lambda: None, fail(StorageError("unreachable"))]
    with pytest.raises(CommitUnknownError, match=r"409.*unreachable.*kept") as raised:
        commit_statistics(catalog, draft, sleep=Waits())
    assert files()[0] in str(raised.value)


def test_refused_commit_to_a_table_that_is_gone_deletes_the_file(catalog, draft_of, files):
    draft = draft_of(catalog, {"a": [1]})
    catalog.before = [fail(TableNotFound("404"))]
    catalog.on_load = [lambda: None, fail(TableNotFound("gone"))]
    with pytest.raises(TableNotFound, match="404"):
        commit_statistics(catalog, draft, sleep=Waits())
    assert files() == []


def test_unclear_outcome_that_is_found_is_a_success(catalog, draft_of, files):
    catalog.after = [fail(CommitUnknownError("timeout"))]
    committed = commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert catalog.entry() == committed.entry
    assert files() == [committed.entry.statistics_path]


def test_unclear_outcome_is_checked_as_often_as_the_table_says(new_catalog, draft_of, files):
    """A commit may become visible late; an equal earlier entry is not it."""
    catalog = new_catalog(properties={"commit.status-check.min-wait-ms": "10"})
    job(catalog, draft_of, a=[1])()
    draft, waits, late = draft_of(catalog, {"a": [1]}), Waits(), []
    commit = catalog.commit

    def answer_too_late(base, entry):
        late.append(entry)
        raise CommitUnknownError("timeout")

    catalog.commit = answer_too_late
    catalog.on_load = [
        lambda: None,
        lambda: None,
        fail(StorageError("busy")),
        lambda: commit(catalog.opened(), late[0]),
    ]
    assert commit_statistics(catalog, draft, sleep=waits).entry == catalog.entry()
    assert len(waits) == 2
    assert waits[0] <= 0.01


def test_outcome_that_stays_unclear_keeps_the_file(catalog, draft_of, files):
    catalog.before = [fail(CommitUnknownError("timeout"))]
    waits = Waits()
    with pytest.raises(CommitUnknownError, match=r"timeout.*kept") as raised:
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=waits)
    assert len(waits) == 3
    assert files()[0] in str(raised.value)


def test_unclear_outcome_is_not_checked_beyond_the_total_timeout(new_catalog, draft_of):
    catalog, waits = new_catalog(properties={"commit.status-check.total-timeout-ms": "0"}), Waits()
    catalog.before = [fail(CommitUnknownError("timeout"))]
    with pytest.raises(CommitUnknownError):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=waits)
    assert waits == []


def test_unclear_outcome_is_not_mistaken_for_an_equal_earlier_entry(catalog, draft_of, files):
    """The earlier entry has equal blobs but another file."""
    job(catalog, draft_of, a=[1])()
    catalog.before = [fail(CommitUnknownError("timeout"))]
    with pytest.raises(CommitUnknownError):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert len(files()) == 2


def test_unclear_outcome_is_found_inside_another_jobs_entry(catalog, draft_of):
    catalog.after = [lambda: (job(catalog, draft_of, b=[1])(), fail(CommitUnknownError("timeout"))())]
    commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert catalog.listed() == [1, 2]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_interrupt_while_committing_keeps_the_file(catalog, draft_of, files, moment):
    setattr(catalog, moment, [fail(KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert len(files()) == 1


def test_interrupt_between_attempts_deletes_the_file(catalog, draft_of, files):
    """The race was certainly lost, so nothing refers to the file."""
    catalog.before = [touch(catalog)]
    with pytest.raises(KeyboardInterrupt):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=lambda _: fail(KeyboardInterrupt())())
    assert files() == []


@pytest.mark.parametrize("error", [ConflictError, StorageError, TableNotFound])
@pytest.mark.parametrize("retries", ["0", "4"])
def test_commit_that_was_refused_after_it_was_done_is_a_success(new_catalog, draft_of, files, error, retries):
    """A proxy or a server that repeats a request meets its own first try."""
    catalog = new_catalog(properties={"commit.retry.num-retries": retries})
    catalog.after = [fail(error("refused"))]
    committed = commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert (committed.attempts, catalog.commits) == (1, 1)
    assert catalog.entry() == committed.entry
    assert files() == [committed.entry.statistics_path]


# --- reading back -------------------------------------------------------------------------------------------------


def test_catalog_that_ignores_commits_is_detected(catalog, draft_of, files):
    job(catalog, draft_of, b=[1])()
    catalog.apply = lambda _: None
    with pytest.raises(CommitUnknownError, match="does not have it"):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert len(files()) == 2


def test_success_that_cannot_be_read_back_is_unclear_and_keeps_the_file(catalog, draft_of, files):
    draft = draft_of(catalog, {"a": [1]})
    catalog.on_load = [lambda: None, fail(StorageError("unreachable"))]
    with pytest.raises(CommitUnknownError, match=r"cannot be read back.*unreachable.*kept"):
        commit_statistics(catalog, draft, sleep=Waits())
    assert files() == [catalog.entry().statistics_path]


def test_snapshot_that_expires_right_after_the_commit_is_reported(catalog, draft_of):
    catalog.after = [lambda: catalog.change(**{"snapshots": [], "current-snapshot-id": None, "statistics": []})]
    with pytest.raises(SnapshotNotFound, match="expired while"):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())


def test_entry_extended_by_another_job_still_counts(catalog, draft_of):
    catalog.after = [job(catalog, draft_of, b=[1, 2])]
    assert commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits()).attempts == 1
    assert catalog.listed() == [1, 2]


def test_column_recomputed_by_another_job_still_counts(catalog, draft_of):
    """Its sketch is as good as ours."""
    catalog.after = [lambda: commit_statistics(catalog, draft_of(catalog, {"a": range(2000)}, lg_k=5), sleep=Waits())]
    assert commit_statistics(catalog, draft_of(catalog, {"a": range(2000)}), sleep=Waits()).attempts == 1


def test_columns_dropped_by_another_writer_are_committed_again(catalog, draft_of):
    """Spark's procedure replaces a snapshot's entry and keeps nothing."""

    def replace_wholesale() -> None:
        draft = draft_of(catalog, {"b": [1, 2]})
        catalog.apply(draft.write(catalog.opened(), []))

    catalog.after = [replace_wholesale]
    committed = commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert committed.attempts == 2
    assert catalog.listed() == [1, 2]


# --- catalogs without compare-and-set -----------------------------------------------------------------------------


@pytest.fixture
def blind(new_catalog):
    return new_catalog(atomic=False)


def test_overwritten_entry_is_merged_and_committed_again(blind, draft_of, files):
    """Our first file stays: the table referred to it, and another job may be copying its blobs."""
    first = []
    blind.before = [job(blind, draft_of, b=[1, 2])]
    blind.after = [lambda: None, lambda: first.append(blind.entry().statistics_path)]
    committed = commit_statistics(blind, draft_of(blind, {"a": [1]}), sleep=Waits())
    assert committed.attempts == 2
    assert blind.listed() == [1, 2]
    assert set(first) <= set(files())
    assert len(files()) == 3


def test_earlier_blobs_survive_the_second_round(blind, draft_of):
    """They are in our own first file, which the second round reads."""
    job(blind, draft_of, c=[1, 2, 3])()
    blind.before = [job(blind, draft_of, b=[1, 2])]
    commit_statistics(blind, draft_of(blind, {"a": [1]}), sleep=Waits())
    assert blind.listed() == [1, 2, 3]


def test_overwritten_blob_of_newer_rows_wins_over_our_carried_one(new_catalog, draft_of):
    """Both jobs carried b; the other one then computed it again."""
    blind = new_catalog(atomic=False, snapshots=(5, SNAPSHOT))
    commit_statistics(blind, draft_of(blind, {"b": [1]}, 5), sleep=Waits())
    old = blind.state().statistics[5]
    blind.change(statistics=[entry_to_json(old), {**entry_to_json(old), "snapshot-id": SNAPSHOT}])
    blind.before = [job(blind, draft_of, b=[1, 2])]
    commit_statistics(blind, draft_of(blind, {"a": [1]}), sleep=Waits())
    assert [(b.fields, b.snapshot_id, b.properties["ndv"]) for b in blind.entry().blobs] == [
        ((1,), SNAPSHOT, "1"),
        ((2,), SNAPSHOT, "2"),
    ]


def test_failure_in_the_second_round_keeps_the_first_file(blind, draft_of, files):
    draft = draft_of(blind, {"a": [1]})
    blind.before = [job(blind, draft_of, b=[1, 2]), fail(StorageError("refused"))]
    with pytest.raises(StorageError, match="refused"):
        commit_statistics(blind, draft, sleep=Waits())
    assert blind.entry().statistics_path in files()
    assert len(files()) == 2


def test_two_jobs_that_overwrite_each_other_converge(blind, draft_of):
    """Each first commit lands on top of the other's, unseen when it was prepared."""
    outer, inner = draft_of(blind, {"a": [1]}), draft_of(blind, {"b": [1, 2]})
    # The inner job reads the table before the outer commit and writes after it.
    stale = blind.opened()
    blind.after = [lambda: blind.apply(inner.write(stale, []))]
    committed = commit_statistics(blind, outer, sleep=Waits())
    assert committed.attempts == 2
    assert blind.listed() == [1, 2]


def test_entry_that_is_replaced_every_time_is_given_up_and_kept(new_catalog, draft_of, files):
    catalog = new_catalog(properties={"commit.retry.num-retries": "2"})

    def replace_wholesale() -> None:
        draft = draft_of(catalog, {"b": [1, 2]})
        catalog.apply(draft.write(catalog.opened(), []))

    catalog.after = [replace_wholesale] * 20
    with pytest.raises(CommitUnknownError, match=r"every one of 3 attempts.*kept"):
        commit_statistics(catalog, draft_of(catalog, {"a": [1]}), sleep=Waits())
    assert catalog.commits == 3
    assert len(files()) == 6
