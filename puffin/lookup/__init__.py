"""The planner's lookup: NDV, bounds and age of columns, from table metadata and sketches alone."""

from puffin.lookup.cached_lookup import Lookup
from puffin.lookup.history import ColumnHistory, HistoryPoint
from puffin.lookup.listing import AnalyzedTable
from puffin.lookup.planner import lookup, ndv
from puffin.lookup.question import Question
from puffin.lookup.sets import JoinEstimate, JoinSide, UnionEstimate
from puffin.statistics.answer import ColumnAnswer, Freshness, PartitionMatch, TableAnswer

__all__ = [
    "AnalyzedTable",
    "ColumnAnswer",
    "ColumnHistory",
    "Freshness",
    "HistoryPoint",
    "JoinEstimate",
    "JoinSide",
    "Lookup",
    "PartitionMatch",
    "Question",
    "TableAnswer",
    "UnionEstimate",
    "lookup",
    "ndv",
]
