"""Theta sketches over Iceberg single-value bytes, equal to those of Apache DataSketches for Java."""

from puffin.theta.hashing import hash_array
from puffin.theta.image import MAX_THETA, SEED_HASH, SketchImage
from puffin.theta.sketch import DEFAULT_LG_K, MAX_LG_K, MIN_LG_K, ThetaSketch, ThetaSketchBuilder, check_lg_k, merge
from puffin.theta.value_type import is_hashable

__all__ = [
    "DEFAULT_LG_K",
    "MAX_LG_K",
    "MAX_THETA",
    "MIN_LG_K",
    "SEED_HASH",
    "SketchImage",
    "ThetaSketch",
    "ThetaSketchBuilder",
    "check_lg_k",
    "hash_array",
    "is_hashable",
    "merge",
]
