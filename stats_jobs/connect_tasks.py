"""
What runs on the executors of a Spark Connect server: documents and pieces come and go as rows in Arrow batches.

A piece is cut into rows, and each row is a batch, so that each fits into a message: these have 128 MB at most, and a
server's batches 4 MB where rows allow it.
"""

from __future__ import annotations

import base64
import itertools
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

from puffin.errors import CorruptError, NotFoundError, PuffinError, UnsupportedError
from stats_jobs.cluster import SharedT, prepare_worker
from stats_jobs.execute import read_document
from stats_jobs.merge import Groups, Piece, cut, dumped, merge_runs
from stats_jobs.shipment import Shared

KEY = ("column_group", "segment", "task", "part")
"""The columns of a piece's key and the number of the part, in the order in which pieces are merged."""
PIECES = ", ".join([*(f"{name} int" for name in KEY), "piece binary"])
DOCUMENTS = "place int, scan int, document binary"

_Row: TypeAlias = "tuple[int, int, int, int, bytes]"

_ROW_BYTES = 4 * 1024 * 1024
_SCHEMA = pa.schema([*((name, pa.int32()) for name in KEY), ("piece", pa.binary())])
_FAILURE = re.compile(r"puffin-failure:([A-Za-z0-9+/=]+)")


class UnreadableFileError(Exception):
    """A task's failure, which a retry would not cure; its message has the error for the driver."""

    def __init__(self, failure: PuffinError) -> None:
        super().__init__(f"puffin-failure:{base64.b64encode(pickle.dumps(failure)).decode()}")


def failure_in(report: str) -> CorruptError | UnsupportedError | NotFoundError | None:
    """The task's failure that Spark's report of an error quotes, if it does."""
    found = _FAILURE.search(report)
    if found is None:
        return None
    failure: CorruptError | UnsupportedError | NotFoundError = pickle.loads(base64.b64decode(found[1]))  # noqa: S301 - ours
    return failure


def prepare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    prepare_worker()
    yield pa.record_batch([pa.array([0], pa.int32())], ["worker"])


def read(shared: Shared, batches: Iterable[pa.RecordBatch], groups: Groups | None = None) -> Iterator[pa.RecordBatch]:
    """Read documents; cut what they have into pieces by groups, or keep it in one."""
    for batch in batches:
        for place, *document in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            partial = read_document(shared, tuple(document))
            if partial.failure is not None:
                raise UnreadableFileError(partial.failure)
            if groups is None:
                yield from _rows([((0, 0, place), dumped(partial))])
            else:
                yield from _rows(cut(groups, place, [partial]))


def call(
    function: Callable[[SharedT, bytes], object], shared: SharedT, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What the function returns for each document, pickled, as a piece whose key has its place."""
    for batch in batches:
        for place, _, document in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield from _rows([((0, 0, place), pickle.dumps(function(shared, document)))])


def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return _rows(merge_runs(joined(rows)))


def joined(rows: Iterable[_Row]) -> Iterator[Piece]:
    """The pieces whose rows come one after the other."""
    for key, parts in itertools.groupby(rows, key=lambda row: row[:3]):
        yield key, b"".join(part for *_, part in parts)


def _rows(pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
    for key, content in pieces:
        for part, start in enumerate(range(0, len(content), _ROW_BYTES)):
            row = [*key, part, content[start : start + _ROW_BYTES]]
            yield pa.record_batch([pa.array([v], of.type) for v, of in zip(row, _SCHEMA, strict=True)], schema=_SCHEMA)
