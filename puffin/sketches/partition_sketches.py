"""
The sketches of one column by partition: small, of one size, and bounded in total.

A table may have thousands of partitions, so a few arrays hold all sketches, and a merge works on all of them at once.
Each is a canonical theta sketch of 2^lg_k nominal entries. `lg_k_for` derives lg_k from the number of partitions, which
bounds the total. A union is not cut to that size: it has all hashes that its parts retain below their lowest theta, so
it estimates many partitions better than each sketch estimates its own.

Partitions without live rows are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.errors import UsageError
from puffin.sketches.hash_arrays import is_first_of_run
from puffin.sketches.parcel import ByImage
from puffin.sketches.partition_sketches_image import (
    MAX_KEY_BYTES,
    MAX_LG_K,
    MAX_PARTITIONS,
    MIN_LG_K,
    PartitionSketchesImage,
)
from puffin.sketches.set_operations import below
from puffin.sketches.theta_image import MAX_THETA
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.values.partition_tuples import PartitionKey

BUDGET = 1 << 18
"""The most hashes in all partitions of a column, unless 2^MIN_LG_K for each partition are more."""

_LEAST_WORTH_SORTING = 1 << 16
_ID_SHIFT, _PLACE = np.uint64(32), np.uint64(0xFFFF_FFFF)  # a partition and a place in one number

_Words: TypeAlias = npt.NDArray[np.uint64]


def lg_k_for(keys: Collection[PartitionKey]) -> int:
    """
    The size of the sketches of these partitions: base-2 logarithm of the nominal entries, 4 to 9.

    UsageError, with the number found, if there are too many partitions or their keys are too long.
    """
    if len(keys) > MAX_PARTITIONS:
        raise UsageError(f"partition sketches: expected at most {MAX_PARTITIONS} partitions, found {len(keys)}")
    key_bytes = sum(len(text.encode()) for _, text in keys)
    if key_bytes > MAX_KEY_BYTES:
        raise UsageError(f"partition tuples: expected at most {MAX_KEY_BYTES} bytes in JSON, found {key_bytes}")
    return max(MIN_LG_K, min(MAX_LG_K, (BUDGET // max(1, len(keys))).bit_length() - 1))


@dataclass(frozen=True, slots=True, eq=False)
class PartitionSketches(ByImage):
    """The sketches of one column's partitions. Immutable; equal partition sketches have equal bytes."""

    image: PartitionSketchesImage

    @classmethod
    def from_bytes(cls, image: bytes | bytearray | memoryview) -> PartitionSketches:
        """Read the payload of a partition sketches blob; raise CorruptSketchError if it is invalid."""
        return cls(PartitionSketchesImage.parse(image))

    def to_bytes(self) -> bytes:
        """The payload of a ``puffin-sidecar-partition-sketches-v1`` blob; it compresses well."""
        return self.image.to_bytes()

    @property
    def lg_k(self) -> int:
        """Base-2 logarithm of the nominal entries of each sketch."""
        return self.image.lg_k

    @property
    def keys(self) -> tuple[PartitionKey, ...]:
        """The partitions, ascending."""
        return self.image.keys

    def union(self, of: Callable[[PartitionKey], bool] | None = None) -> ThetaSketch:
        """
        The values of the partitions that meet a condition, or of all partitions.

        The sketch has as many hashes as these partitions retain below the lowest of their thetas.
        """
        image = self.image
        is_chosen = np.array([of is None or of(key) for key in image.keys], bool)
        theta = int(image.thetas[is_chosen].min(initial=np.uint64(MAX_THETA)))
        is_retained = np.zeros(len(image.hashes), bool)
        is_retained[image.places[np.repeat(is_chosen, image.counts)]] = True
        return ThetaSketch(*below(theta, image.hashes[is_retained]), True)


class PartitionSketchesBuilder:
    """Builds partition sketches in memory proportional to the hashes they retain."""

    def __init__(self, lg_k: int) -> None:
        """Start with no partitions; UsageError if ``lg_k`` is not an integer from 4 to 9."""
        if not isinstance(lg_k, int) or not MIN_LG_K <= lg_k <= MAX_LG_K:
            raise UsageError(f"lg_k of partitions: expected an integer from {MIN_LG_K} to {MAX_LG_K}, found {lg_k!r}")
        self._lg_k = lg_k
        self._ids: dict[PartitionKey, int] = {}
        self._thetas: list[int] = []
        self._kept_count = 0
        self._parts: list[tuple[_Words, _Words]] = [(np.empty(0, np.uint64), np.empty(0, np.uint64))]
        self._pending_count = 0

    @property
    def k(self) -> int:
        """The nominal entries of each sketch."""
        return 1 << self._lg_k

    def add(self, key: PartitionKey, theta: int, hashes: _Words) -> None:
        """
        Add values to a partition, and the partition itself even if it has no values.

        ``hashes`` are above 0 and below ``theta``, in any order, and may repeat; hashes from ``theta`` on were dropped.
        """
        self._add(np.full(len(hashes), self._id_of(key, theta), np.uint64), hashes)

    def merge(self, sketches: PartitionSketches, *, without: Collection[PartitionKey] = ()) -> None:
        """Add the sketches of other partitions, of the same size or larger, except those in ``without``."""
        image = sketches.image
        if image.lg_k < self._lg_k:
            raise UsageError(f"partition sketches: expected lg_k from {self._lg_k} on, found {image.lg_k}")
        is_wanted = np.array([key not in without for key in image.keys], bool)
        wanted = zip(itertools.compress(image.keys, is_wanted), image.thetas[is_wanted].tolist(), strict=True)
        ids = np.array([self._id_of(key, theta) for key, theta in wanted], np.uint64)
        is_retained = np.repeat(is_wanted, image.counts)
        self._add(np.repeat(ids, image.counts[is_wanted]), image.hashes[image.places[is_retained]])

    def compact(self) -> PartitionSketches:
        """The sketches so far; the builder stays usable."""
        self._settle()
        ((ids, hashes),) = self._parts
        keys = sorted(self._ids)
        order = np.array([self._ids[key] for key in keys], np.intp)
        rank = np.empty(len(keys), np.uint64)
        rank[order] = np.arange(len(keys))
        ranks, places, distinct = _by_partition(rank[ids.astype(np.intp)], hashes)
        image = PartitionSketchesImage(
            lg_k=self._lg_k,
            keys=tuple(keys),
            thetas=np.array(self._thetas, np.uint64)[order],
            counts=np.bincount(ranks.astype(np.intp), minlength=len(keys)),
            hashes=distinct,
            places=places,
        )
        return PartitionSketches(image)

    def _id_of(self, key: PartitionKey, theta: int) -> int:
        """The position of a partition in order of arrival; also lowers its theta to this one."""
        id_ = self._ids.setdefault(key, len(self._ids))
        if id_ == len(self._thetas):
            self._thetas.append(theta)
        else:
            self._thetas[id_] = min(self._thetas[id_], theta)
        return id_

    def _add(self, ids: _Words, hashes: _Words) -> None:
        self._parts.append((ids, hashes))
        self._pending_count += len(hashes)
        if self._pending_count > max(self._kept_count, _LEAST_WORTH_SORTING):
            self._settle()

    def _settle(self) -> None:
        """Keep the k smallest distinct hashes of each partition, and the next one as its theta."""
        ids, hashes = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        is_below = hashes < np.array(self._thetas, np.uint64)[ids.astype(np.intp)]
        ids, places, distinct = _by_partition(ids[is_below], hashes[is_below])
        hashes = distinct[places]

        starts = np.flatnonzero(np.diff(ids, prepend=np.uint64(len(self._ids))))
        rank = np.arange(len(ids)) - np.repeat(starts, np.diff(starts, append=len(ids)))
        is_next = rank == self.k
        for id_, theta in zip(ids[is_next].tolist(), hashes[is_next].tolist(), strict=True):
            self._thetas[id_] = theta
        is_kept = rank < self.k
        self._parts = [(ids[is_kept], hashes[is_kept])]
        self._kept_count = int(is_kept.sum())
        self._pending_count = 0


def _by_partition(ids: _Words, hashes: _Words) -> tuple[_Words, npt.NDArray[np.int64], _Words]:
    """Sort and deduplicate pairs: their partitions, the places of their hashes, and the hashes at these places."""
    order = hashes.argsort()
    ascending = hashes[order]
    is_first = is_first_of_run(ascending)
    pairs = np.sort(ids[order] << _ID_SHIFT | (np.cumsum(is_first) - 1).astype(np.uint64))
    pairs = pairs[is_first_of_run(pairs)]
    return pairs >> _ID_SHIFT, (pairs & _PLACE).astype(np.int64), ascending[is_first]
