"""
Commits a statistics entry while other writers commit too.

Every attempt starts from the current table: it checks that this is the same table, that the snapshot still exists, and
which entry the snapshot has. Only a lost race is tried again. A refused commit may have been done all the same, if
something between the job and the catalog sent it twice. So the job deletes its file only if the table does not refer to
it, and keeps it after an unclear outcome. A success is read back, since a catalog may report one and do nothing.

The same loop removes entries of expired snapshots, without a file.

Where a catalog has no compare-and-set, one job's entry may replace another's. The job that replaced an entry merges it
and commits again; so does a job that finds its own columns gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from puffin.errors import CommitUnknownError, ConflictError, PuffinError, SnapshotNotFound, TableNotFound
from puffin.tables.base import SnapshotSelector, StatisticsEntry
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import Table, TableSnapshot
from puffin.tables.state import TableState


class Draft(Protocol):
    """A statistics file in the making, which can be written against any version of the table."""

    snapshot_id: int
    table_uuid: str | None  # of the table they were computed from

    def write(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """
        Write the file and return its entry; other columns come from ``existing``, of which earlier entries take
        precedence.
        """

    def keep(self) -> None:
        """Keep the file: an entry refers to it, or may."""

    def discard(self) -> None:
        """Delete the file, if one was written and not kept."""


@dataclasses.dataclass(frozen=True, slots=True)
class Committed:
    """A commit that was read back, how many attempts it took, and the table that contains it."""

    entry: StatisticsEntry
    attempts: int
    opened: TableSnapshot


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to try again and how long to wait, in milliseconds, as table properties say."""

    num_retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_timeout_ms: int

    @classmethod
    def of(
        cls, state: TableState, prefix: str = "commit.retry", *, num_retries: int = 4, min_wait_ms: int = 100
    ) -> RetryPolicy:
        """The table's policy; Iceberg's defaults for properties that are missing or not numbers."""
        return cls(
            num_retries=state.number_property(f"{prefix}.num-retries", num_retries),
            min_wait_ms=state.number_property(f"{prefix}.min-wait-ms", min_wait_ms),
            max_wait_ms=state.number_property(f"{prefix}.max-wait-ms", 60_000),
            total_timeout_ms=state.number_property(f"{prefix}.total-timeout-ms", 1_800_000),
        )

    @classmethod
    def of_status_checks(cls, state: TableState) -> RetryPolicy:
        """How to look into an unclear outcome: the ``commit.status-check.*`` properties."""
        return cls.of(state, "commit.status-check", num_retries=3, min_wait_ms=1000)

    def wait_seconds(self, attempt: int) -> float:
        """How long to wait after this attempt (from 1): doubling, with jitter to keep the losers apart."""
        ceiling = min(self.max_wait_ms, self.min_wait_ms << min(attempt - 1, 30))
        return random.uniform(0.5, 1.0) * ceiling / 1000  # noqa: S311 - not a secret


class Attempts:
    """Counts the attempts of one operation, from 1, and waits between them; ``sleep`` waits for seconds."""

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.number = 1
        self._sleep = sleep
        self._started = time.monotonic()

    def wait(self, policy: RetryPolicy) -> bool:
        """Wait for the next attempt; False at once if the policy allows no other."""
        elapsed_ms = (time.monotonic() - self._started) * 1000
        if self.number > policy.num_retries or elapsed_ms > policy.total_timeout_ms:
            return False
        self._sleep(policy.wait_seconds(self.number))
        self.number += 1
        return True


def commit_statistics(table: Table, draft: Draft, *, sleep: Callable[[float], None] = time.sleep) -> Committed:
    """
    Write the draft's file and make the table's metadata refer to it; ``sleep`` waits for seconds between attempts.

    Raises:
        SnapshotNotFound: The snapshot has expired meanwhile.
        TableNotFound: The table is gone, or another one has its name.
        ConflictError: Other writers won every attempt that ``commit.retry.*`` allows.
        CommitUnknownError: The outcome is unclear; the file stays.
        StorageError, UnsupportedTableError: The commit was refused.
    """
    attempts = Attempts(sleep)
    overwritten: StatisticsEntry | None = None
    while True:
        with _discarding(draft):
            entry, base = _write_against_current(table, draft, overwritten)
        policy = RetryPolicy.of(base.state)
        try:
            applied_to = base.commit(entry)
        except CommitUnknownError as exc:
            if not _turns_up(table, base.state, entry, sleep):
                raise CommitUnknownError(f"{exc}; the statistics file is kept: {entry.statistics_path}") from exc
            applied_to = base.state
        except PuffinError as refusal:
            if not _was_done(table, entry, refusal):
                with _discarding(draft):
                    if not isinstance(refusal, ConflictError) or not attempts.wait(policy):
                        raise
                continue
            applied_to = base.state
        draft.keep()
        replaced = applied_to.statistics.get(entry.snapshot_id)
        overwritten = None if replaced == base.state.statistics.get(entry.snapshot_id) else replaced
        if overwritten is None and (opened := _standing(table, base.state, entry)) is not None:
            return Committed(entry, attempts.number, opened)
        if not attempts.wait(policy):
            raise CommitUnknownError(
                f"{base.state.name}: committed, but other jobs replaced the entry of snapshot {entry.snapshot_id} "
                f"in every one of {attempts.number} attempts; the statistics file is kept: {entry.statistics_path}"
            )


def remove_dead_entries(table: Table, *, sleep: Callable[[float], None] = time.sleep) -> tuple[StoredEntry, ...]:
    """
    Remove the entries of expired snapshots from the table's metadata and return them.

    Removing an entry twice does no harm, so an unclear outcome is tried again like a lost race.

    Raises:
        ConflictError: Other writers won every attempt that ``commit.retry.*`` allows.
        CommitUnknownError: The entries may still be there.
    """
    attempts = Attempts(sleep)
    found: dict[StoredEntry, None] = {}
    failure: PuffinError | None = None
    while dead := (opened := table.open()).dead_entries():
        if found and not attempts.wait(RetryPolicy.of(opened.state)):
            raise failure or CommitUnknownError(
                f"{opened.name}: the removal of {len(dead)} entries was reported as done, but "
                f"{opened.state.metadata_location} still has them"
            )
        found |= dict.fromkeys(dead)
        failure = None
        try:
            opened.remove_entries(dead)
        except (ConflictError, CommitUnknownError) as exc:
            failure = exc
    return tuple(found)


def _write_against_current(
    table: Table, draft: Draft, overwritten: StatisticsEntry | None
) -> tuple[StatisticsEntry, TableSnapshot]:
    opened = _open(table, draft.snapshot_id)
    state = opened.state
    if draft.table_uuid not in (None, state.uuid):
        raise TableNotFound(
            f"{state.name}: expected table {draft.table_uuid}, found {state.uuid}: another table has replaced it"
        )
    state.snapshot(draft.snapshot_id)
    opened.check_committable()
    existing = (state.statistics.get(draft.snapshot_id), overwritten)
    return draft.write(opened, [entry for entry in existing if entry is not None]), opened


def _was_done(table: Table, entry: StatisticsEntry, refusal: PuffinError) -> bool:
    """Whether the table refers to the file of a refused commit; CommitUnknownError if that cannot be found out."""
    try:
        found = _open(table, entry.snapshot_id).state.statistics.get(entry.snapshot_id)
    except TableNotFound:
        return False
    except PuffinError as exc:
        raise CommitUnknownError(
            f"{refusal}; whether the table refers to the statistics file cannot be found out: {exc}; "
            f"it is kept: {entry.statistics_path}"
        ) from refusal
    return found is not None and found.statistics_path == entry.statistics_path


def _turns_up(table: Table, base: TableState, entry: StatisticsEntry, sleep: Callable[[float], None]) -> bool:
    """Whether the entry appears after an unclear outcome, perhaps merged into another job's."""
    policy = RetryPolicy.of_status_checks(base)
    before = base.statistics.get(entry.snapshot_id)
    attempts = Attempts(sleep)
    while True:
        # The catalog may still not answer, or may not have finished yet.
        with contextlib.suppress(PuffinError):
            found = _open(table, entry.snapshot_id).state.statistics.get(entry.snapshot_id)
            if found not in (None, before) and all(blob in found.blobs for blob in entry.blobs):
                return True
        if not attempts.wait(policy):
            return False


def _standing(table: Table, base: TableState, entry: StatisticsEntry) -> TableSnapshot | None:
    """The table with the committed entry; None if another job's entry has replaced it without its columns."""
    try:
        opened = _open(table, entry.snapshot_id)
    except PuffinError as exc:
        raise CommitUnknownError(
            f"{base.name}: the commit was reported as done, but cannot be read back: {exc}; "
            f"the statistics file is kept: {entry.statistics_path}"
        ) from exc
    state = opened.state
    if entry.snapshot_id not in state.snapshots:
        raise SnapshotNotFound(
            f"{state.name}: snapshot {entry.snapshot_id} expired while its statistics were committed"
        )
    found = state.statistics.get(entry.snapshot_id)
    lacks_partitions = entry.partitions is not None and entry.snapshot_id not in state.partition_statistics
    if found is None or found == base.statistics.get(entry.snapshot_id) or lacks_partitions:
        raise CommitUnknownError(
            f"{state.name}: the commit was reported as done, but {state.metadata_location} does not have it; "
            f"the statistics file is kept: {entry.statistics_path}"
        )
    # A later job's entry has our columns too, either kept or computed again.
    return opened if {blob.fields for blob in entry.blobs} <= {blob.fields for blob in found.blobs} else None


def _open(table: Table, snapshot_id: int) -> TableSnapshot:
    return table.open(SnapshotSelector(snapshot_id=snapshot_id))


@contextlib.contextmanager
def _discarding(draft: Draft) -> Iterator[None]:
    """
    Discard the file if the block fails or is interrupted. No commit is under way, so nothing can refer to the file.
    """
    try:
        yield
    except BaseException:
        draft.discard()
        raise
