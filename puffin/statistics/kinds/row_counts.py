"""Row counts: how many rows have each of the smallest hashes, so that deleted rows can be subtracted later."""

from __future__ import annotations

from puffin.errors import PuffinError
from puffin.format import ROW_COUNTS_V1
from puffin.sketches import RowCounts, RowCountsBuilder, row_counts_limit
from puffin.sketches.row_tally import Hashes, Rows
from puffin.statistics.kinds.kind import Kind, Need, Parts, Taker, Unsubtractable, Values


class RowCountsKind(Kind[RowCounts]):
    """Row counts of a column, with headroom for a sketch of ``lg_k``."""

    name = ROW_COUNTS_V1
    title = "row counts"
    needs = frozenset((Need.HASHES, Need.EVERY_ROW))

    @property
    def limit(self) -> int:
        """The most hashes that row counts hold."""
        return row_counts_limit(self.lg_k)

    def start(self) -> Taker[RowCounts]:
        return _Taker(self.limit)

    def merge(self, left: RowCounts, right: RowCounts) -> RowCounts:
        builder = RowCountsBuilder(self.limit)
        builder.merge(left)
        builder.merge(right)
        return builder.compact()

    def combined(self, parts: Parts, made: Values) -> RowCounts | None:
        added, removed = (self.of(part) or self.start().value() for part in (parts.added, parts.removed))
        if parts.base is None:
            return added
        base = self.of(parts.base)
        try:
            return None if base is None else base.combine(added, removed, self.limit)
        except PuffinError as exc:
            raise Unsubtractable(str(exc)) from exc

    def cannot_forget(self, values: Values) -> str | None:
        if self in values:
            return None
        return "rows were deleted, and the earlier statistics have no row counts to subtract them from"

    def to_bytes(self, value: RowCounts) -> bytes:
        return value.to_bytes()

    def from_bytes(self, payload: bytes) -> RowCounts:
        return RowCounts.from_bytes(payload)


class _Taker(Taker[RowCounts]):
    def __init__(self, limit: int) -> None:
        self._builder = RowCountsBuilder(limit)

    def add_hashes(self, hashes: Hashes, rows: Rows | None) -> None:
        self._builder.update_hashes(hashes, rows)

    def value(self) -> RowCounts:
        return self._builder.compact()


ROW_COUNTS = RowCountsKind()
