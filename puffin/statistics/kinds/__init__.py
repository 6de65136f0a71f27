"""The kinds of statistics, and the table that lists them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from puffin.statistics.blob_properties import HASHED_HERE, Provenance
from puffin.statistics.kinds.distribution import DISTRIBUTION
from puffin.statistics.kinds.joint import JOINT
from puffin.statistics.kinds.kind import Home, Kind, Values
from puffin.statistics.kinds.partition_sketches import PARTITION_SKETCHES
from puffin.statistics.kinds.row_counts import ROW_COUNTS
from puffin.statistics.kinds.summary import SUMMARY
from puffin.statistics.kinds.theta import THETA

__all__ = [
    "DISTRIBUTION",
    "JOINT",
    "KINDS",
    "PARTITION_SKETCHES",
    "ROW_COUNTS",
    "SUMMARY",
    "THETA",
    "private_kinds",
    "sized_kinds",
    "to_properties",
]

KINDS: tuple[Kind[Any], ...] = (ROW_COUNTS, DISTRIBUTION, THETA, PARTITION_SKETCHES, JOINT, SUMMARY)
"""The order in which values are combined, blobs written and properties listed."""


def private_kinds() -> tuple[Kind[Any], ...]:
    """The kinds whose blobs are in private state, beside the sketch of the same field and snapshot."""
    return _private(KINDS)


def to_properties(values: Values, type_: str, provenance: Provenance = HASHED_HERE) -> dict[str, str]:
    """The properties of our sketch for a column with these values."""
    in_order = sorted(values, key=KINDS.index)
    properties = {key: text for kind in in_order for key, text in kind.properties(values, type_).items()}
    return {**properties, **provenance.to_properties()}


def sized_kinds(lg_k: int) -> tuple[Kind[Any], ...]:
    return _sized(KINDS, lg_k)


@functools.lru_cache
def _private(kinds: tuple[Kind[Any], ...]) -> tuple[Kind[Any], ...]:
    return tuple(kind for kind in kinds if kind.home is Home.PRIVATE)


@functools.lru_cache
def _sized(kinds: tuple[Kind[Any], ...], lg_k: int) -> tuple[Kind[Any], ...]:
    return tuple(dataclasses.replace(kind, lg_k=lg_k) for kind in kinds)
