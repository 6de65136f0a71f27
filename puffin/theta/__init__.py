"""
Theta sketches over Iceberg single-value bytes, equal to those of Apache DataSketches for Java.

The names are loaded when they are first used: whoever only looks into the image of a sketch waits neither for numpy nor
for Arrow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from puffin.theta.hashing import hash_array
    from puffin.theta.image import MAX_THETA, SEED_HASH, SketchImage
    from puffin.theta.row_counts import RowCounts, RowCountsBuilder, row_counts_limit
    from puffin.theta.sketch import (
        DEFAULT_LG_K,
        MAX_LG_K,
        MIN_LG_K,
        ThetaSketch,
        ThetaSketchBuilder,
        check_lg_k,
        merge,
    )
    from puffin.theta.value_type import is_hashable

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
    "DEFAULT_LG_K": "sketch",
    "MAX_LG_K": "sketch",
    "MAX_THETA": "image",
    "MIN_LG_K": "sketch",
    "RowCounts": "row_counts",
    "RowCountsBuilder": "row_counts",
    "SEED_HASH": "image",
    "SketchImage": "image",
    "ThetaSketch": "sketch",
    "ThetaSketchBuilder": "sketch",
    "check_lg_k": "sketch",
    "hash_array": "hashing",
    "is_hashable": "value_type",
    "merge": "sketch",
    "row_counts_limit": "row_counts",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
