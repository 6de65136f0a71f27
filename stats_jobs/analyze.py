"""
The statistics job: a snapshot in, a committed statistics file out.

Each step returns what it did and the next one uses that: the snapshot is planned into batches, the batches are
sketched on the executors, the sketches become a file, the file becomes an entry of the table's metadata.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puffin.errors import UsageError
from puffin.format import LZ4, ZSTD
from puffin.lookup.answer import SNAPSHOT, ColumnAnswer
from puffin.lookup.ndv import answer_columns
from puffin.tables.base import Column, Snapshot, SnapshotSelector, StatisticsEntry, TableState
from puffin.tables.blob_properties import Distinct, lg_k_of
from puffin.tables.commit import commit_statistics
from puffin.tables.iceberg_metadata import name_mapping, partition_specs
from puffin.tables.iceberg_plan import plan_snapshot
from puffin.tables.load import Table, load_table
from puffin.tables.scan_task import FileScanTask, encode_batch
from puffin.theta import DEFAULT_LG_K, ThetaSketch, ThetaSketchBuilder, check_lg_k
from stats_jobs.draft import StatisticsDraft
from stats_jobs.execute import Partial, merge_partials, sketch_batch
from stats_jobs.plan import plan_batches
from stats_jobs.session import Progress, SparkStarter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO, FULL, INCREMENTAL = "auto", "full", "incremental"
CARRIED = "carried"
CODECS = ("none", ZSTD, LZ4)
_FLAT_MERGE = 32  # up to this many partials the driver merges them itself; more are merged on the executors first


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    How a table is analyzed.

    Attributes:
        columns: Names or dotted paths; None for every primitive column outside lists and maps.
        mode: ``"full"`` reads and commits always; ``"auto"`` does neither if the statistics are current.
        lg_k: Base-2 logarithm of a sketch's nominal entries.
        codec: What blobs are compressed with: ``"none"``, ``"zstd"`` or ``"lz4"``.
        commit: Whether the table's metadata is made to refer to the file.
        dry_run: Compute only; write nothing at all.
    """

    columns: tuple[str, ...] | None = None
    selector: SnapshotSelector = dataclasses.field(default_factory=SnapshotSelector)
    mode: str = AUTO
    lg_k: int = DEFAULT_LG_K
    codec: str = "none"
    commit: bool = True
    dry_run: bool = False

    def __post_init__(self) -> None:
        check_lg_k(self.lg_k)
        for what, value, known in (("mode", self.mode, (AUTO, FULL)), ("codec", self.codec, CODECS)):
            if value not in known:
                raise UsageError(f"{what}: expected one of {', '.join(known)}, found {value!r}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What a run did.

    Attributes:
        snapshot: None if the table has none yet; then nothing was computed.
        entry: What refers to the statistics; None if no file was written.
        bytes_read: Compressed bytes of the column chunks that were read.
        elapsed_seconds: From planning to the commit, without ``session_seconds``.
        session_seconds: Starting Spark and its Python workers.
        attempts: How often the commit was tried.
    """

    table: str
    format: str
    snapshot: Snapshot | None
    columns: tuple[ColumnAnswer, ...]
    mode: str = FULL
    entry: StatisticsEntry | None = None
    committed: bool = False
    files_read: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    elapsed_seconds: float = 0.0
    session_seconds: float = 0.0
    attempts: int = 0

    def to_json(self) -> dict[str, Any]:
        """The report as programs get it."""
        return {
            "table": self.table,
            "format": self.format,
            "snapshot-id": None if self.snapshot is None else self.snapshot.snapshot_id,
            "sequence-number": None if self.snapshot is None else self.snapshot.sequence_number,
            "mode": self.mode,
            "statistics-file": None
            if self.entry is None
            else {
                "path": self.entry.statistics_path,
                "file-size-in-bytes": self.entry.file_size_in_bytes,
                "file-footer-size-in-bytes": self.entry.file_footer_size_in_bytes,
            },
            "committed": self.committed,
            "columns": [column.to_json() for column in self.columns],
            "files-read": self.files_read,
            "rows-read": self.rows_read,
            "bytes-read": self.bytes_read,
            "elapsed-seconds": round(self.elapsed_seconds, 3),
            "session-seconds": round(self.session_seconds, 3),
            "attempts": self.attempts,
        }


def analyze(
    table: str | Table,
    options: Options | None = None,
    spark: SparkSession | SparkStarter | None = None,
    progress: Progress | None = None,
    *,
    catalog: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
) -> Report:
    """
    Compute the statistics of a table's snapshot and commit them.

    Args:
        table: A table at hand, or its name as for `puffin.load_table`, which takes the catalog too.
        options: By default all of those that `Options` has.
        spark: A session to use, which is left running, or a starter that several tables share; by default a session
            on every core of this machine, for this call.
        progress: Called with the number of finished Spark tasks and of all of them.

    Raises:
        NotFoundError: There is no such table, snapshot or column.
        UnsupportedError: The table has something that cannot be honoured; nothing was computed.
        CorruptError: A data file, a delete file or metadata cannot be read.
        ConflictError, CommitUnknownError: As `puffin.tables.commit.commit_statistics`.
        StorageError: The storage, the catalog or Spark failed.
        SetupError: This machine lacks what Spark or the catalog needs.
    """
    if isinstance(table, str):
        table = load_table(table, catalog=catalog, catalog_properties=catalog_properties)
    if isinstance(spark, SparkStarter):
        return _analyze(table, options or Options(), spark, progress)
    with SparkStarter(spark) as starter:
        return _analyze(table, options or Options(), starter, progress)


def _analyze(table: Table, options: Options, spark: SparkStarter, progress: Progress | None) -> Report:
    started = time.monotonic()
    state = table.load()
    snapshot = state.select_snapshot(options.selector)
    columns = state.select_columns(options.columns)
    if snapshot is None:
        missing = tuple(ColumnAnswer.missing(column) for column in columns)
        return Report(table=table.name, format=state.format, snapshot=None, columns=missing)
    current = _current(table, state, snapshot, columns, options)
    if current is not None:
        return Report(
            table=table.name,
            format=state.format,
            snapshot=snapshot,
            columns=current,
            mode=INCREMENTAL,
            entry=state.statistics[snapshot.snapshot_id],
            elapsed_seconds=time.monotonic() - started,
        )

    if options.commit and not options.dry_run:
        table.check_committable(state)
    files = plan_snapshot(state, snapshot, table.io_properties)
    session_seconds = spark.start() if files else 0.0
    partial = _sketch(table, state, files, columns, options.lg_k, spark, progress)
    entry, attempts = _publish(table, state, snapshot, columns, partial.sketches, options)
    return Report(
        table=table.name,
        format=state.format,
        snapshot=snapshot,
        columns=tuple(_computed(column, partial.sketches[column.field_id], snapshot) for column in columns),
        entry=entry,
        committed=attempts > 0,
        files_read=len(files),
        rows_read=partial.rows,
        bytes_read=partial.bytes_read,
        elapsed_seconds=time.monotonic() - started - session_seconds,
        session_seconds=session_seconds,
        attempts=attempts,
    )


def _current(
    table: Table, state: TableState, snapshot: Snapshot, columns: Sequence[Column], options: Options
) -> tuple[ColumnAnswer, ...] | None:
    """The answers that stand already, if every column asked for has one of this snapshot and this size."""
    entry = state.statistics.get(snapshot.snapshot_id)
    if options.mode != AUTO or entry is None:
        return None
    if not all(state.field_ids.issuperset(blob.fields) for blob in entry.blobs):
        return None  # a blob for a field that is gone makes Spark's planner fail: only a new entry takes it out
    answers = tuple(dataclasses.replace(a, basis=CARRIED) for a in answer_columns(table, state, snapshot, columns))
    sizes = (lg_k_of(blob.properties) for column in columns if (blob := entry.sketch_of(column.field_id)))
    if all(answer.source == SNAPSHOT for answer in answers) and all(size == options.lg_k for size in sizes):
        return answers
    return None


def _sketch(
    table: Table,
    state: TableState,
    files: Sequence[FileScanTask],
    columns: tuple[Column, ...],
    lg_k: int,
    spark: SparkStarter,
    progress: Progress | None,
) -> Partial:
    nothing = Partial({column.field_id: ThetaSketchBuilder(lg_k).compact() for column in columns}, 0, 0)
    if not files:
        return nothing
    context = spark.context
    batches = plan_batches(
        files,
        columns,
        parallelism=context.defaultParallelism,
        specs=partition_specs(state.document),
        name_mapping=name_mapping(state),
        io_properties=table.io_properties,
    )
    documents = context.parallelize([encode_batch(batch) for batch in batches], len(batches))
    partials = documents.map(functools.partial(sketch_batch, lg_k=lg_k))
    with spark.job(len(batches), progress):
        depth = 1 if len(batches) <= _FLAT_MERGE else 2
        merged = partials.treeReduce(functools.partial(merge_partials, lg_k=lg_k), depth)
    if merged.failure is not None:
        raise merged.failure
    return merged


def _publish(
    table: Table,
    state: TableState,
    snapshot: Snapshot,
    columns: Sequence[Column],
    sketches: Mapping[int, ThetaSketch],
    options: Options,
) -> tuple[StatisticsEntry | None, int]:
    """The entry of the file written and the number of commit attempts, none for a file without a commit."""
    if options.dry_run:
        return None, 0
    draft = StatisticsDraft(
        state,
        snapshot,
        columns,
        sketches,
        lg_k=options.lg_k,
        codec=None if options.codec == "none" else options.codec,
        store_for=table.store,
    )
    if options.commit:
        committed = commit_statistics(table, draft)
        return committed.entry, committed.attempts
    existing = state.statistics.get(snapshot.snapshot_id)
    return draft.write(state, [] if existing is None else [existing]), 0


def _computed(column: Column, sketch: ThetaSketch, snapshot: Snapshot) -> ColumnAnswer:
    return ColumnAnswer(column, Distinct.of(sketch), snapshot.snapshot_id, SNAPSHOT, basis=FULL)
