"""The planner's lookup: NDV, bounds and age of columns, and the files that a filter can match, from metadata alone."""

from typing import TYPE_CHECKING

from puffin.lazy import on_first_use

if TYPE_CHECKING:
    from puffin.lookup.cached_lookup import Lookup
    from puffin.lookup.column_sketches import UnionEstimate
    from puffin.lookup.estimates import TableEstimate, estimate
    from puffin.lookup.history import ColumnHistory, HistoryPoint
    from puffin.lookup.join_estimate import JoinEstimate, JoinSide
    from puffin.lookup.kept_joins import JoinQuestion
    from puffin.lookup.listing import AnalyzedTable
    from puffin.lookup.planner import lookup, ndv, plan
    from puffin.lookup.question import Question
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
    "JoinQuestion",
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


def __dir__() -> list[str]:
    return __all__


__getattr__ = on_first_use(
    __name__,
    {
        "AnalyzedTable": "puffin.lookup.listing",
        "ColumnAnswer": "puffin.statistics.answer",
        "ColumnHistory": "puffin.lookup.history",
        "FilePlan": "puffin.planning.file_plan",
        "Freshness": "puffin.statistics.answer",
        "HistoryPoint": "puffin.lookup.history",
        "JoinEstimate": "puffin.lookup.join_estimate",
        "JoinQuestion": "puffin.lookup.kept_joins",
        "JoinSide": "puffin.lookup.join_estimate",
        "Lookup": "puffin.lookup.cached_lookup",
        "PartitionMatch": "puffin.statistics.answer",
        "Question": "puffin.lookup.question",
        "TableAnswer": "puffin.statistics.answer",
        "TableEstimate": "puffin.lookup.estimates",
        "UnionEstimate": "puffin.lookup.column_sketches",
        "estimate": "puffin.lookup.estimates",
        "lookup": "puffin.lookup.planner",
        "ndv": "puffin.lookup.planner",
        "plan": "puffin.lookup.planner",
    },
)
