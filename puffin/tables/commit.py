"""
Committing a statistics entry against writers who do not wait for us.

Every attempt starts from the table as it is now: is it the same table, is the snapshot still there, which
entry does the snapshot have? Only a lost race is tried again. What becomes of our file depends on how sure
the failure is: after a certain one it is deleted, after an unclear one it is never deleted, because a
reference to it may have been committed.
"""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from puffin.errors import CommitUnknownError, ConflictError, PuffinError, SnapshotNotFound, TableNotFound
from puffin.tables.base import StatisticsEntry, TableState


class Committer(Protocol):
    """Where a table's current metadata lives: it can be read, and swapped for a next version."""

    def load(self) -> TableState:
        """The table as it is now."""
        ...

    def commit(self, base: TableState, entry: StatisticsEntry) -> TableState:
        """
        Make ``entry`` the entry of its snapshot.

        Returns:
            The state it was applied to. That is ``base`` where the swap is atomic; where the catalog has no
            compare-and-set for statistics it may be a later one, whose entry has then been overwritten.

        Raises:
            ConflictError: Another writer was faster; nothing was changed.
            CommitUnknownError: It may or may not have been applied.
            PuffinError: It was not applied, for a reason that another attempt does not cure.
        """
        ...


class Draft(Protocol):
    """A statistics file in the making, which can be written against any state of the table."""

    @property
    def snapshot_id(self) -> int:
        """The snapshot it is about."""
        ...

    @property
    def table_uuid(self) -> str | None:
        """The table it was computed from."""
        ...

    def write(self, state: TableState, existing: Sequence[StatisticsEntry]) -> StatisticsEntry:
        """Write the file, keeping what ``existing`` says of other columns, the first first; returns its entry."""
        ...

    def discard(self) -> None:
        """Delete the file, if one was written."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Committed:
    """A commit that was read back: the entry, and how many attempts it took."""

    entry: StatisticsEntry
    attempts: int


@dataclasses.dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a lost race is tried again: the ``commit.retry.*`` table properties, in milliseconds."""

    num_retries: int
    min_wait_ms: int
    max_wait_ms: int
    total_timeout_ms: int

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RetryPolicy:
        """The table's policy; Iceberg's defaults where it sets none, or nothing that is a number."""

        def number(name: str, default: int) -> int:
            text = properties.get(f"commit.retry.{name}", "")
            return int(text) if text.isdecimal() else default

        return cls(
            num_retries=number("num-retries", 4),
            min_wait_ms=number("min-wait-ms", 100),
            max_wait_ms=number("max-wait-ms", 60_000),
            total_timeout_ms=number("total-timeout-ms", 1_800_000),
        )

    def wait_ms(self, attempt: int) -> float:
        """How long to wait after this attempt (from 1): doubling, with jitter so that losers do not meet again."""
        ceiling = min(self.max_wait_ms, self.min_wait_ms << min(attempt - 1, 30))
        return random.uniform(0.5, 1.0) * ceiling  # noqa: S311 - no secret depends on it


def commit_statistics(table: Committer, draft: Draft, *, sleep: Callable[[float], None] = time.sleep) -> Committed:
    """
    Write the draft's file and make the table's metadata refer to it.

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
        entry, base = _write_against_current(table, draft, overwritten)
        try:
            applied_to = table.commit(base, entry)
        except ConflictError:
            retry = RetryPolicy.of(base.properties)
            if attempt > retry.num_retries or (time.monotonic() - started) * 1000 > retry.total_timeout_ms:
                draft.discard()
                raise
            sleep(retry.wait_ms(attempt) / 1000)
            continue
        except CommitUnknownError as exc:
            if not _is_committed(table, entry):
                raise CommitUnknownError(f"{exc}; the statistics file is kept: {entry.statistics_path}") from exc
            applied_to = base
        except PuffinError:
            draft.discard()
            raise
        overwritten = applied_to.statistics.get(draft.snapshot_id)
        if overwritten in (None, base.statistics.get(draft.snapshot_id)):
            _read_back(table, entry)
            return Committed(entry, attempt)


def _write_against_current(
    table: Committer, draft: Draft, overwritten: StatisticsEntry | None
) -> tuple[StatisticsEntry, TableState]:
    try:
        state = table.load()
        if state.uuid != draft.table_uuid:
            raise TableNotFound(
                f"{state.location}: expected table {draft.table_uuid}, found {state.uuid}: another has its place"
            )
        state.snapshot(draft.snapshot_id)
        existing = (state.statistics.get(draft.snapshot_id), overwritten)
        return draft.write(state, [entry for entry in existing if entry is not None]), state
    except PuffinError:
        draft.discard()
        raise


def _is_committed(table: Committer, entry: StatisticsEntry) -> bool:
    try:
        return any(entry.statistics_path == e.statistics_path for e in table.load().statistics.values())
    except PuffinError:
        return False


def _read_back(table: Committer, entry: StatisticsEntry) -> None:
    # Another job may have replaced our entry already; it then carries our blobs along.
    state = table.load()
    if entry.snapshot_id not in state.snapshots:
        raise SnapshotNotFound(
            f"{state.location}: snapshot {entry.snapshot_id} expired while its statistics were committed"
        )
    found = state.statistics.get(entry.snapshot_id)
    if found is None or not all(blob in found.blobs for blob in entry.blobs):
        raise CommitUnknownError(
            f"{state.location}: the commit was reported as done, but {state.metadata_location} does not have it; "
            f"the statistics file is kept: {entry.statistics_path}"
        )
