"""The planner's lookup: NDV from metadata alone."""

from puffin.lookup.answer import ColumnAnswer, TableAnswer
from puffin.lookup.ndv import lookup, ndv

__all__ = ["ColumnAnswer", "TableAnswer", "lookup", "ndv"]
