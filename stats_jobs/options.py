"""The options of an analysis and of the index job, checked when they are made."""

from __future__ import annotations

import dataclasses
from typing import Any

from puffin.errors import UsageError
from puffin.format import LZ4, ZSTD
from puffin.index.sizes import check_fpp
from puffin.sketches.joint_image import LEAST_COLUMNS, MOST_COLUMNS
from puffin.sketches.sizes import DEFAULT_LG_K, check_lg_k
from puffin.statistics.kinds import DISTRIBUTION, ROW_COUNTS, sized_kinds
from puffin.statistics.kinds.kind import Kind
from puffin.tables.arguments import NameOrPath, check_bytes, check_integer, check_list
from puffin.tables.base import SnapshotSelector

AUTO, FULL, INCREMENTAL = "auto", "full", "incremental"
MODES = (AUTO, FULL, INCREMENTAL)
CODECS = ("none", ZSTD, LZ4)

DRIVER_BYTES = 1024 * 1024 * 1024
"""How many bytes are read without Spark by default: in the time that Spark takes to start, two cores read more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    How to analyze a table.

    Attributes:
        columns: Names or dotted paths; None for every primitive column outside lists and maps.
        selector: The snapshot to analyze, by default the current one.
        mode: ``"auto"`` reads what changed since earlier statistics, and all rows of columns without a base;
            ``"incremental"`` fails rather than read all rows; ``"full"`` reads all rows and always commits.
        lg_k: Base-2 logarithm of a sketch's nominal entries.
        codec: The compression of sketches: ``"none"``, ``"zstd"`` or ``"lz4"``.
        joint: Sets of columns to keep joint sketches of, each as ``"country+city"``, of 2 to 4 columns.
        partitions: Whether to keep statistics by partition too, and to write a partition statistics file.
        row_counts: Whether to keep row counts in private state, to subtract deleted rows later, and distributions, for
            estimates. After a run without them only ``"full"`` brings them back.
        no_values: Whether to keep no value of the table, or the columns to keep none of: hashes only, and no bounds.
            Later runs that are not ``"full"`` keep none either.
        no_joint: Whether to drop joint sketches that an earlier run was asked for and this one is not.
        home: A directory for private state, by its path or URI; None for the table's property, or a hidden folder of
            the table.
        index: Whether to catch up the table's index, if it has one, with the same reading.
        keep_entries: How many statistics entries of ours the table's metadata keeps, this run's included; None for all.
            The nearest entry of each branch and tag stays beside them.
        commit: Whether the table's metadata gets to refer to the file.
        dry_run: Compute only; write nothing at all.
        driver_bytes: The most bytes to read in this process, without starting Spark.

    Raises:
        UsageError: A value is not one of the choices, or there is a text in place of a list.
    """

    columns: tuple[str, ...] | None = None
    selector: SnapshotSelector = dataclasses.field(default_factory=SnapshotSelector)
    mode: str = AUTO
    lg_k: int = DEFAULT_LG_K
    codec: str = "none"
    joint: tuple[str, ...] = ()
    partitions: bool = False
    row_counts: bool = True
    no_values: bool | tuple[str, ...] = False
    no_joint: bool = False
    home: NameOrPath | None = None
    index: bool = True
    keep_entries: int | None = None
    commit: bool = True
    dry_run: bool = False
    driver_bytes: int = DRIVER_BYTES

    @property
    def writes(self) -> bool:
        """Whether the run changes the table's metadata."""
        return self.commit and not self.dry_run

    def omits_values(self, column: str) -> bool:
        """Whether no value of the column of this name may be kept."""
        return self.no_values if isinstance(self.no_values, bool) else column in self.no_values

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The kinds of statistics that are kept for whole columns."""
        kept = (kind for kind in sized_kinds(self.lg_k) if kind.is_default)
        wanted = (kind for kind in kept if self.row_counts or kind not in (ROW_COUNTS, DISTRIBUTION))
        without = dataclasses.replace(DISTRIBUTION, lg_k=self.lg_k, keeps_values=False)
        return tuple(without if self.no_values is True and kind == DISTRIBUTION else kind for kind in wanted)

    def __post_init__(self) -> None:
        check_list(self.columns, "column names")
        check_list(self.joint, "sets of columns")
        check_list(self.no_values, "column names")
        check_lg_k(self.lg_k)
        for what, value, known in (("mode", self.mode, MODES), ("codec", self.codec, CODECS)):
            if value not in known:
                raise UsageError(f"{what}: expected one of {', '.join(known)}, found {value!r}")
        if self.keep_entries is not None:
            check_integer(self.keep_entries, "keep_entries", 1)
        check_bytes(self.driver_bytes, "driver_bytes")
        for columns in self.joint:
            names = columns.split("+")
            if not LEAST_COLUMNS <= len(names) <= MOST_COLUMNS or not all(names):
                raise UsageError(f"joint: expected 2 to 4 columns such as country+city, found {columns!r}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class IndexOptions:
    """
    How to index a table.

    Attributes:
        columns: Names or dotted paths to add; None to catch up the columns that the index has.
        drop: Names or dotted paths to take out.
        fpp: The rate of false positives; None for that of the index, or 0.01 for new columns. Another rate than before
            makes the column be read again.
        home: As `stats_jobs.Options.home`.
        dry_run: Write nothing.
        driver_bytes: As `stats_jobs.Options.driver_bytes`.

    Raises:
        UsageError: The rate is not between 0.000001 and 0.5, there is a text in place of a list, or a column is to be
            added and taken out.
    """

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    fpp: float | None = None
    home: NameOrPath | None = None
    dry_run: bool = False
    driver_bytes: int = DRIVER_BYTES

    def __post_init__(self) -> None:
        check_list(self.columns, "column names")
        check_list(self.drop, "column names")
        check_bytes(self.driver_bytes, "driver_bytes")
        if both := set(self.columns or ()).intersection(self.drop):
            raise UsageError(f"columns and drop: expected different columns, found {', '.join(sorted(both))} in both")
        if self.fpp is not None:
            check_fpp(self.fpp)
