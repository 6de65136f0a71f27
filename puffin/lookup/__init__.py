"""The planner's lookup: NDV, bounds and age of columns, and the files that a filter can match, from metadata alone."""

from puffin.lookup.cached_lookup import Lookup
from puffin.lookup.estimates import TableEstimate, estimate
from puffin.lookup.history import ColumnHistory, HistoryPoint
from puffin.lookup.listing import AnalyzedTable
from puffin.lookup.planner import lookup, ndv
from puffin.lookup.question import Question
from puffin.lookup.scan_plans import plan
from puffin.lookup.sets import JoinEstimate, JoinSide, UnionEstimate
from puffin.planning.file_plan import FilePlan
from puffin.statistics.answer import ColumnAnswer, Freshness, PartitionMatch, TableAnswer

__all__ = [
    "AnalyzedTable",
    "ColumnAnswer",
    "ColumnHistory",
    "FilePlan",
    "Freshness",
    "HistoryPoint",
    "JoinEstimate",
    "JoinSide",
    "Lookup",
    "PartitionMatch",
    "Question",
    "TableAnswer",
    "TableEstimate",
    "UnionEstimate",
    "estimate",
    "lookup",
    "ndv",
    "plan",
]
