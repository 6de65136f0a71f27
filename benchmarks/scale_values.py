"""
The statistics of values that a task draws, in a sixth of the time that it takes to build them value by value.

A column in a task has 20,000 values, more than its row counts keep, so that every statistic has its full size. Half of
them are in every task, with numbers of rows that follow Zipf's law; these make all heavy values that a distribution of
a part of the rows may have. The other values are drawn for each task and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from puffin.kernels import load_kernels
from puffin.sketches.distribution import HEAVY, PARTS, SAMPLE, Distribution
from puffin.sketches.distribution_image import BUCKETS
from puffin.sketches.hash_arrays import bucket_of, order_of
from puffin.sketches.hashing import hash_array
from puffin.sketches.row_counts import RowCounts, row_counts_limit
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.sketches.value_tally import many_of
from puffin.statistics.kinds import DISTRIBUTION, ROW_COUNTS, SUMMARY
from puffin.statistics.kinds.kind import Values
from puffin.tables.base import Column
from puffin.tables.scan_task import DATA, PARQUET, ContentFile, FileScanTask
from puffin.values.column_chunk import Values as ColumnValues
from puffin.values.row_summary import RowSummary
from puffin.values.serialized import Words
from puffin.values.value_bytes import words_as_binary
from stats_jobs.column_reading import ColumnReading, WaitingRoom
from stats_jobs.options import Options
from stats_jobs.partial import Partial

_COMMON, _OWN = 10_000, 10_000  # values of a column in a task
_MOST_FREQUENT = 1_000_000  # rows
_TYPE = "long"
_COLUMN_SHIFT = 45  # of a value: columns have none in common
_STRIDE = (1 << 40) // _OWN

_Numbers = npt.NDArray[np.int64]

_ROWS_OF_COMMON: _Numbers = _MOST_FREQUENT // np.arange(1, _COMMON + 1)
_ROWS_OF_OWN: _Numbers = np.arange(_OWN) % 40 + 1
ROWS = int(_ROWS_OF_COMMON.sum() + _ROWS_OF_OWN.sum())
"""Rows that a task reads."""


def column(field_id: int) -> Column:
    """The simulated column of an id."""
    return Column(field_id, f"c{field_id}", _TYPE, (field_id,), (None,))


def partial_of(task: int, columns: Sequence[int]) -> Partial:
    """What a task of this number finds in these columns."""
    load_kernels()
    found = {field_id: _statistics(*_drawn(task, field_id)) for field_id in columns}
    return Partial(found, {}, ROWS if 0 in columns else 0)


def check() -> None:
    """SystemExit unless a column's statistics are those of a task that reads its values."""
    load_kernels()
    values, rows = _drawn(3, 7)
    file = ContentFile(
        content=DATA, file_path="made", file_format=PARQUET, spec_id=0, partition={}, record_count=ROWS,
        file_size_in_bytes=0,
    )  # fmt: skip
    reading = ColumnReading(column(7), Options().kinds, WaitingRoom())
    reading.update_values(ColumnValues(pa.array(values), rows), FileScanTask(file, (), 0, 0))
    made = _statistics(values, rows)
    if reading.values() != made:
        raise SystemExit("expected the statistics that reading the values gives, found others")
    if np.count_nonzero(made[DISTRIBUTION].is_heavy) < 0.9 * PARTS * HEAVY:
        raise SystemExit("expected a distribution of full size, found a smaller one")


def _drawn(task: int, field_id: int) -> tuple[_Numbers, _Numbers]:
    """The values of a column in a task, all different, and the rows of each."""
    random = np.random.default_rng((task, field_id))
    own = _COMMON + np.arange(_OWN) * _STRIDE + random.integers(0, _STRIDE, _OWN)
    values = np.concatenate((np.arange(_COMMON), own)) + (field_id << _COLUMN_SHIFT)
    # Which of the common values have how many rows is a little different in each task, so that they do not agree.
    return values, np.concatenate((np.roll(_ROWS_OF_COMMON, random.integers(_COMMON // 20)), _ROWS_OF_OWN))


def _statistics(values: _Numbers, rows: _Numbers) -> Values:
    hashes = np.concatenate(list(hash_array(pa.array(values), _TYPE)))
    order = order_of(hashes)
    hashes, rows = hashes[order], rows[order]
    limit = row_counts_limit(DEFAULT_LG_K)
    counts = RowCounts(int(hashes[limit]), _read_only(hashes[:limit]), _read_only(rows[:limit]))
    of_each = rows.view(np.uint64)
    has_many = of_each >= np.uint64(many_of(ROWS))
    theta = int(hashes[SAMPLE])
    is_known = has_many | (hashes < np.uint64(theta))
    known = np.flatnonzero(is_known)
    distribution = Distribution(
        rows=ROWS,
        missed=int(of_each[~is_known].max()),
        theta=theta,
        hashes=hashes[known],
        low=of_each[known],
        high=of_each[known],
        is_heavy=has_many[known],
        values=words_as_binary(Words(values[order[known]].view(np.uint64), None, 8)),
        is_cut=np.zeros(len(known), np.bool_),
        buckets=np.bincount(bucket_of(hashes, BUCKETS), rows, BUCKETS).astype(np.uint64),
    )
    return {ROW_COUNTS: counts, DISTRIBUTION: distribution.cut(SAMPLE, PARTS), SUMMARY: RowSummary()}


def _read_only(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy, which does not keep the rest in memory."""
    found = numbers.copy()
    found.setflags(write=False)
    return found
