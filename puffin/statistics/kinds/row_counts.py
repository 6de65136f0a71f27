"""Row counts: how many rows have each of the smallest hashes, to subtract deleted rows later."""

from __future__ import annotations

from puffin.errors import PuffinError
from puffin.format import ROW_COUNTS_V1
from puffin.sketches.row_counts import RowCounts, RowCountsBuilder, row_counts_limit
from puffin.statistics.kinds.kind import Kind, Need, Parts, Unsubtractable, Values


class RowCountsKind(Kind[RowCounts]):
    """Row counts of a column, with headroom for a sketch of ``lg_k``."""

    name = ROW_COUNTS_V1
    title = "row counts"
    needs = frozenset((Need.COUNTED_HASHES,))
    codec = RowCounts

    def start(self) -> RowCountsBuilder:
        return RowCountsBuilder(row_counts_limit(self.lg_k))

    def merge(self, left: RowCounts, right: RowCounts) -> RowCounts:
        return left.plus(right, row_counts_limit(self.lg_k))

    def combined(self, parts: Parts, made: Values) -> RowCounts | None:
        added, removed = (self.of(part) or self.start().compact() for part in (parts.added, parts.removed))
        if parts.base is None:
            return added
        base = self.of(parts.base)
        try:
            return None if base is None else base.combine(added, removed, row_counts_limit(self.lg_k))
        except PuffinError as exc:
            raise Unsubtractable(str(exc)) from exc

    def cannot_subtract(self, values: Values) -> str | None:
        if self in values:
            return None
        return "rows were deleted, and the earlier statistics have no row counts to subtract them from"


ROW_COUNTS = RowCountsKind()
