"""The planner's lookup: NDV from metadata alone."""

from puffin.lookup.answer import ColumnAnswer, PartitionMatch, TableAnswer
from puffin.lookup.planner import lookup, ndv

__all__ = ["ColumnAnswer", "PartitionMatch", "TableAnswer", "lookup", "ndv"]
