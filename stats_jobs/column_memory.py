"""How much memory columns take while they are read, and scans divided by columns so that none takes too much."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable

from puffin.statistics.kinds import PARTITION_SKETCHES
from puffin.tables.base import Column
from stats_jobs.scan import Scan

_MB = 1_000_000
MOST_STATE = 640 * _MB  # of the columns of a batch while they are read; Python itself takes a third of a GB
NUMBERS_STATE, _TEXTS_STATE = 7 * _MB, 14 * _MB  # of a column of many values; of texts, the first 64 bytes are kept
_TEXTS = ("string", "binary", "fixed")
_BY_PARTITION = 8  # a column with sketches by partition is about as large as this many without


def by_columns(scan: Scan) -> list[Scan]:
    """
    Divide a scan of many columns into several of at most `MOST_STATE` each, for the memory of who reads it.

    The columns of joint sketches stay together.
    """
    if sum(map(state_bytes, scan.kinds)) <= MOST_STATE:
        return [scan]
    tied = frozenset[int]().union(*(kind.side_by_side for of in scan.kinds.values() for kind in of))
    together = [column for column in scan.columns if column.field_id in tied]
    others = [column for column in scan.columns if column.field_id not in tied]
    groups: list[list[Column]] = [[]]
    taken = 0
    for column in others:
        taken += state_bytes(column)
        if taken > MOST_STATE:
            groups.append([])
            taken = state_bytes(column)
        groups[-1].append(column)
    return [
        dataclasses.replace(
            scan, kinds={column: scan.kinds[column] for column in group}, counts=scan.counts and at == 0
        )
        for at, group in enumerate(group for group in (together, *groups) if group)
    ]


def passes_over(columns: Iterable[Column]) -> int:
    """About how often each file is opened to read these columns."""
    return -(-sum(map(state_bytes, columns)) // MOST_STATE)


def state_bytes(column: Column) -> int:
    """The memory that a column of many values takes while a task reads it."""
    return _TEXTS_STATE if column.type.startswith(_TEXTS) else NUMBERS_STATE


def weight(scans: Iterable[Scan]) -> int:
    """The size of a column's values, relative to one without sketches by partition."""
    return _BY_PARTITION if any(PARTITION_SKETCHES in of for scan in scans for of in scan.kinds.values()) else 1


def state_columns(scans: Collection[Scan]) -> int:
    """The number of columns; if a scan keeps sketches by partition, each counts as eight."""
    return weight(scans) * len({column.field_id for scan in scans for column in scan.columns})
