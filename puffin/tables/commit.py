"""
Committing a statistics entry against writers who do not wait for us.

Every attempt starts from the table as it is now: is it the same table, is the snapshot still there, which
entry does the snapshot have? Only a lost race is tried again. What becomes of our file depends on how sure
the failure is: after a certain one it is deleted, after an unclear one it is never deleted, because a
reference to it may have been committed. A success is read back, since a catalog may say "done" and do nothing.

Entries of snapshots that are gone are taken out in the same way, with no file to think of.

Where a catalog cannot compare before it sets, one job's entry may replace another's. Whoever did that merges
what was replaced and commits again, and so does whoever finds its own columns gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from puffin.errors import CommitUnknownError, ConflictError, PuffinError, SnapshotNotFound, TableNotFound
from puffin.tables.base import SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.leftovers import StoredEntry
from puffin.tables.snapshot import MetadataEntries, TableSnapshot
from puffin.tables.table import Table


class Draft(Protocol):
    """A statistics file in the making, which can be written against any version of the table."""

    @property
    def snapshot_id(self) -> int:
        """The snapshot it is about."""
        ...

    @property
    def table_uuid(self) -> str | None:
        """The table it was computed from, or None if that had no uuid."""
        ...

    def write(self, opened: TableSnapshot, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """Write the file, keeping what ``existing`` says of other columns, the first first; returns its entry."""
        ...

    def keep(self) -> None:
        """Let go of the file: something refers to it, or may."""
        ...

    def discard(self) -> None:
        """Delete the file, if one was written and not let go of."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Committed:
    """A commit that was read back: the entry, how many attempts it took, and the table that has it."""

    entry: StatisticsEntry
    attempts: int
    opened: TableSnapshot


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often something is tried again and after how long, in milliseconds, as table properties say."""

    num_retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_timeout_ms: int

    @classmethod
    def of(
        cls, state: TableState, prefix: str = "commit.retry", *, num_retries: int = 4, min_wait_ms: int = 100
    ) -> RetryPolicy:
        """The table's policy; Iceberg's defaults where it sets none, or nothing that is a number."""
        return cls(
            num_retries=state.number_property(f"{prefix}.num-retries", num_retries),
            min_wait_ms=state.number_property(f"{prefix}.min-wait-ms", min_wait_ms),
            max_wait_ms=state.number_property(f"{prefix}.max-wait-ms", 60_000),
            total_timeout_ms=state.number_property(f"{prefix}.total-timeout-ms", 1_800_000),
        )

    @classmethod
    def of_status_checks(cls, state: TableState) -> RetryPolicy:
        """How an unclear outcome is looked into: the ``commit.status-check.*`` properties."""
        return cls.of(state, "commit.status-check", num_retries=3, min_wait_ms=1000)

    def gives_up(self, attempt: int, started: float) -> bool:
        """Whether no other attempt follows this one (from 1); ``started`` is a reading of the monotonic clock."""
        return attempt > self.num_retries or (time.monotonic() - started) * 1000 > self.total_timeout_ms

    def wait_seconds(self, attempt: int) -> float:
        """How long to wait after this attempt (from 1): doubling, with jitter so that losers do not meet again."""
        ceiling = min(self.max_wait_ms, self.min_wait_ms << min(attempt - 1, 30))
        return random.uniform(0.5, 1.0) * ceiling / 1000  # noqa: S311 - no secret depends on it


def commit_statistics(table: Table, draft: Draft, *, sleep: Callable[[float], None] = time.sleep) -> Committed:
    """
    Write the draft's file and make the table's metadata refer to it.

    Args:
        sleep: Waits between attempts, a number of seconds.

    Raises:
        SnapshotNotFound: The snapshot has expired meanwhile.
        TableNotFound: The table is gone, or another one has its name.
        ConflictError: Other writers were faster in every attempt that ``commit.retry.*`` allows.
        CommitUnknownError: The outcome is unclear; the file is left in place.
    """
    started = time.monotonic()
    overwritten: StatisticsEntry | None = None
    attempt = 0
    while True:
        attempt += 1
        with _discarding(draft):
            entry, base = _write_against_current(table, draft, overwritten)
        policy = RetryPolicy.of(base.state)
        try:
            applied_to = base.commit(entry)
        except ConflictError:
            with _discarding(draft):
                if policy.gives_up(attempt, started):
                    raise
                sleep(policy.wait_seconds(attempt))
            continue
        except CommitUnknownError as exc:
            if not _turns_up(table, base.state, entry, sleep):
                raise CommitUnknownError(f"{exc}; the statistics file is kept: {entry.statistics_path}") from exc
            applied_to = base.state
        except PuffinError:
            draft.discard()
            raise
        draft.keep()
        replaced = applied_to.statistics.get(entry.snapshot_id)
        overwritten = None if replaced == base.state.statistics.get(entry.snapshot_id) else replaced
        if overwritten is None and (opened := _standing(table, base.state, entry)) is not None:
            return Committed(entry, attempt, opened)
        if policy.gives_up(attempt, started):
            raise CommitUnknownError(
                f"{base.state.location}: committed, but other jobs replaced the entry of snapshot {entry.snapshot_id} "
                f"in every one of {attempt} attempts; the statistics file is kept: {entry.statistics_path}"
            )
        sleep(policy.wait_seconds(attempt))


def remove_dead_entries(table: Table, *, sleep: Callable[[float], None] = time.sleep) -> tuple[StoredEntry, ...]:
    """
    Take the entries of snapshots that are gone out of the table's metadata, and see that they are.

    To do it twice does no harm, so an unclear outcome is tried again like a lost race. Returns those that were there.

    Raises:
        ConflictError: Other writers were faster in every attempt that ``commit.retry.*`` allows.
        CommitUnknownError: They may still be there.
    """
    started = time.monotonic()
    found: dict[StoredEntry, None] = {}
    failure: PuffinError | None = None
    attempt = 0
    while isinstance(opened := table.open(), MetadataEntries) and (dead := opened.dead_entries()):
        policy = RetryPolicy.of(opened.state)
        if attempt > 0:
            if policy.gives_up(attempt, started):
                raise failure or CommitUnknownError(
                    f"{opened.state.location}: the removal of {len(dead)} entries was reported as done, but "
                    f"{opened.state.metadata_location} has them still"
                )
            sleep(policy.wait_seconds(attempt))
        attempt += 1
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
            f"{state.location}: expected table {draft.table_uuid}, found {state.uuid}: another has its place"
        )
    state.snapshot(draft.snapshot_id)
    opened.check_committable()
    existing = (state.statistics.get(draft.snapshot_id), overwritten)
    return draft.write(opened, [entry for entry in existing if entry is not None]), opened


def _turns_up(table: Table, base: TableState, entry: StatisticsEntry, sleep: Callable[[float], None]) -> bool:
    """Whether the entry is found after an unclear outcome, itself or merged into another job's."""
    policy = RetryPolicy.of_status_checks(base)
    before = base.statistics.get(entry.snapshot_id)
    for look in range(1, policy.num_retries + 2):
        # A catalog that did not answer the commit may not answer this either, or not have finished yet.
        with contextlib.suppress(PuffinError):
            found = _open(table, entry.snapshot_id).state.statistics.get(entry.snapshot_id)
            if found not in (None, before) and all(blob in found.blobs for blob in entry.blobs):
                return True
        if look <= policy.num_retries:
            sleep(policy.wait_seconds(look))
    return False


def _standing(table: Table, base: TableState, entry: StatisticsEntry) -> TableSnapshot | None:
    """The table with a commit reported as done; None if another job's entry has replaced it without its columns."""
    try:
        opened = _open(table, entry.snapshot_id)
    except PuffinError as exc:
        raise CommitUnknownError(
            f"{base.location}: the commit was reported as done, but cannot be read back: {exc}; "
            f"the statistics file is kept: {entry.statistics_path}"
        ) from exc
    state = opened.state
    if entry.snapshot_id not in state.snapshots:
        raise SnapshotNotFound(
            f"{state.location}: snapshot {entry.snapshot_id} expired while its statistics were committed"
        )
    found = state.statistics.get(entry.snapshot_id)
    lacks_partitions = entry.partitions is not None and entry.snapshot_id not in state.partition_statistics
    if found is None or found == base.statistics.get(entry.snapshot_id) or lacks_partitions:
        raise CommitUnknownError(
            f"{state.location}: the commit was reported as done, but {state.metadata_location} does not have it; "
            f"the statistics file is kept: {entry.statistics_path}"
        )
    # A job that came later has our columns too: carried along, or computed anew.
    return opened if {blob.fields for blob in entry.blobs} <= {blob.fields for blob in found.blobs} else None


def _open(table: Table, snapshot_id: int) -> TableSnapshot:
    return table.open(SnapshotSelector(snapshot_id=snapshot_id))


@contextlib.contextmanager
def _discarding(draft: Draft) -> Iterator[None]:
    """For when no commit is under way: whatever ends the block, an interrupt too, nothing can refer to the file."""
    try:
        yield
    except BaseException:
        draft.discard()
        raise
