"""
Theta sketches over Iceberg single-value bytes, equal to those of Apache DataSketches for Java.

Names load on first use, so code that only inspects a sketch image imports neither numpy nor Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puffin.sketches.hashing import hash_array
    from puffin.sketches.row_counts import RowCounts, RowCountsBuilder, row_counts_limit
    from puffin.sketches.theta_image import MAX_THETA, SEED_HASH, SketchImage
    from puffin.sketches.theta_sketch import (
        DEFAULT_LG_K,
        MAX_LG_K,
        MIN_LG_K,
        ThetaSketch,
        ThetaSketchBuilder,
        check_lg_k,
        merge,
    )
    from puffin.values.value_type import is_hashable

__all__ = [  # noqa: RUF022 - in the order of `sorted`
    "DEFAULT_LG_K",
    "MAX_LG_K",
    "MAX_THETA",
    "MIN_LG_K",
    "RowCounts",
    "RowCountsBuilder",
    "SEED_HASH",
    "SketchImage",
    "ThetaSketch",
    "ThetaSketchBuilder",
    "check_lg_k",
    "hash_array",
    "is_hashable",
    "merge",
    "row_counts_limit",
]

_HOMES = {
    **dict.fromkeys(("RowCounts", "RowCountsBuilder", "row_counts_limit"), "puffin.sketches.row_counts"),
    **dict.fromkeys(("MAX_THETA", "SEED_HASH", "SketchImage"), "puffin.sketches.theta_image"),
    "hash_array": "puffin.sketches.hashing",
    "is_hashable": "puffin.values.value_type",
    **dict.fromkeys(("DEFAULT_LG_K", "MAX_LG_K", "MIN_LG_K", "check_lg_k"), "puffin.sketches.theta_sketch"),
    **dict.fromkeys(("ThetaSketch", "ThetaSketchBuilder", "merge"), "puffin.sketches.theta_sketch"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
