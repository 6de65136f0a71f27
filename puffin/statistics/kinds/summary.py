"""Summaries: rows, nulls, NaNs, bytes and bounds, in a property of the column's sketch."""

from __future__ import annotations

import dataclasses

from puffin.statistics.blob_properties import LOOSE_PROPERTY, SUMMARY_PROPERTY, SketchProperties
from puffin.statistics.kinds.kind import Builder, Home, Kind, Need, Parts, Values
from puffin.tables.base import Column
from puffin.values.row_summary import RowSummary


class SummaryKind(Kind[RowSummary]):
    """The summary of a column; removed rows reduce its counts, and its bounds stay."""

    name = "summary"
    title = "a summary"
    codec = RowSummary
    home = Home.PROPERTIES
    needs = frozenset((Need.SUMMARIES,))

    def start(self) -> Builder[RowSummary]:
        return _Builder()

    def merge(self, left: RowSummary, right: RowSummary) -> RowSummary:
        return left.plus(right)

    def combined(self, parts: Parts, made: Values) -> RowSummary | None:
        made_of = super().combined(parts, made)
        removed = self.of(parts.removed)
        return made_of if made_of is None or removed is None else made_of.minus(removed)

    def cannot_subtract(self, values: Values) -> str | None:
        return None

    def properties(self, values: Values, type_: str) -> dict[str, str]:
        value: RowSummary = values[self]
        loose = {LOOSE_PROPERTY: "true"} if value.is_loose else {}
        return {SUMMARY_PROPERTY: value.to_column(type_).to_text(), **loose}

    def read(self, properties: SketchProperties, column: Column, payload: bytes | None) -> RowSummary | None:
        if properties.summary is None:
            return None
        return dataclasses.replace(RowSummary.of(properties.summary, column.type), is_loose=properties.has_loose_bounds)


class _Builder:
    def __init__(self) -> None:
        self._sum = RowSummary()

    def update_summary(self, summary: RowSummary) -> None:
        self._sum = self._sum.plus(summary)

    def compact(self) -> RowSummary:
        return self._sum


SUMMARY = SummaryKind()
