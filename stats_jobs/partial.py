"""Partial results: the values that one batch of files gave, and many of them merged."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from puffin.errors import CorruptError, NotFoundError, UnsupportedError
from puffin.statistics.aside import PutAside
from puffin.statistics.kinds.kind import Values, merged


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """
    The values of some of the rows.

    Attributes:
        added: By field id, for rows that are in the table.
        removed: By field id, for rows that were deleted.
        bytes_read: Compressed bytes of the column chunks.
        lifted: Columns, by field id, and files whose Bloom filters were taken instead of values.
        mapped: Field ids of columns that the table's name mapping resolved, since a file had no field ids.
        failure: Why there are no values.
        resumed: What tells the data files that were not read, since an earlier run had read them; see
            `stats_jobs.scan.name_and_count`.
    """

    added: Mapping[int, Values] = dataclasses.field(default_factory=dict)
    removed: Mapping[int, Values] = dataclasses.field(default_factory=dict)
    rows: int = 0
    bytes_read: int = 0
    mapped: frozenset[int] = frozenset()
    lifted: frozenset[tuple[int, str]] = frozenset()
    failure: CorruptError | UnsupportedError | NotFoundError | None = None
    resumed: frozenset[str] = frozenset()


def merge_partials(left: Partial, right: Partial, put: PutAside | None = None) -> Partial:
    """Merge two partial results; if one failed, so does the result. ``put`` may put aside what each column gets."""
    if left.failure or right.failure:
        return left if left.failure else right
    return Partial(
        _merged(left.added, right.added, put),
        _merged(left.removed, right.removed, put),
        left.rows + right.rows,
        left.bytes_read + right.bytes_read,
        left.mapped | right.mapped,
        left.lifted | right.lifted,
        resumed=left.resumed | right.resumed,
    )


def each_column(partial: Partial, change: Callable[[Any], Any]) -> Partial:
    """A partial result with the values of each of its columns as ``change`` makes them."""
    added, removed = (
        {field_id: change(values) for field_id, values in of.items()} for of in (partial.added, partial.removed)
    )
    return dataclasses.replace(partial, added=added, removed=removed)


def _merged(left: Mapping[int, Values], right: Mapping[int, Values], put: PutAside | None) -> dict[int, Values]:
    both = {}
    for field_id, values in left.items():
        if field_id in right:
            of_both = merged(values, right[field_id])
            both[field_id] = of_both if put is None else put(of_both)
    return {**left, **right, **both}
