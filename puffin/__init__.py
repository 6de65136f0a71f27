"""
NDV statistics for Iceberg and Delta tables: Puffin files, theta sketches and planner lookups.

The names below are loaded when they are first used, so that importing the package costs nothing: a dump of
a small file must not wait for Arrow, and a planner must not load Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from puffin.errors import PuffinError
from puffin.lazy import on_first_use

if TYPE_CHECKING:
    from puffin.format import Blob, PuffinReader, PuffinWriter
    from puffin.format.deletion_vector import DeletionVector
    from puffin.load import load_table
    from puffin.lookup import Lookup, estimate, ndv, plan
    from puffin.sketches.theta_sketch import ThetaSketch

__all__ = [
    "Blob",
    "DeletionVector",
    "Lookup",
    "PuffinError",
    "PuffinReader",
    "PuffinWriter",
    "ThetaSketch",
    "estimate",
    "load_table",
    "ndv",
    "plan",
]

_load = on_first_use(
    __name__,
    {
        "Blob": "puffin.format",
        "DeletionVector": "puffin.format.deletion_vector",
        "Lookup": "puffin.lookup",
        "PuffinReader": "puffin.format",
        "PuffinWriter": "puffin.format",
        "ThetaSketch": "puffin.sketches.theta_sketch",
        "estimate": "puffin.lookup",
        "load_table": "puffin.load",
        "ndv": "puffin.lookup",
        "plan": "puffin.lookup",
    },
)


def __getattr__(name: str) -> Any:
    if name != "__version__":
        return _load(name)
    from puffin.version import version

    return version()


def __dir__() -> list[str]:
    return __all__
