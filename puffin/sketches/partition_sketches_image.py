"""
The byte image of partition sketches: the payload of a ``puffin-sidecar-partition-sketches-v1`` blob.

Everything is little-endian. Partitions share most of their values, so the image stores each hash once, and each
partition retains places among the hashes::

    byte   0  version            1 byte, 1
           1  lg k               1 byte, 4 to 9
           2  seed hash          2 bytes, as in the image of a sketch
           4  partitions         4 bytes
           8  key bytes          4 bytes
          12  distinct hashes    4 bytes
          16  retained           4 bytes, by all partitions together
          20  thetas             8 bytes for each partition; 2^63 - 1 while its sketch is exact
      then    spec ids           4 bytes each, signed
              key sizes          4 bytes each
              counts             4 bytes each, the hashes it retains; k where theta is below 2^63 - 1
              keys               one after the other, each a partition tuple in UTF-8 encoded JSON
              hashes             8 planes, each of one byte of every number: the difference to the hash before
              places             4 planes; the first place of each partition, then the difference to the one before

A key is a JSON object from partition field ids to single values (appendix D), compact, the ids in ascending order.
Partitions ascend by spec id and key, hashes ascend, and so do the places of each partition. Some partition retains each
hash. The first plane holds the lowest bytes of all numbers, the next one their second bytes, and so on; differences in
planes compress well. An error gives the offset of the lowest byte of the number it names.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from puffin.errors import CorruptSketchError
from puffin.sketches.image_arrays import from_planes, to_planes
from puffin.sketches.image_rules import SEED_HASH, ImageRules
from puffin.sketches.theta_image import MAX_THETA
from puffin.values.partition_tuples import PartitionKey

MIN_LG_K, MAX_LG_K = 4, 9
MAX_PARTITIONS = 1 << 17
MAX_KEY_BYTES = 1 << 24

_RULES = ImageRules("partition sketches")
_expect = _RULES.expect
_VERSION = 1

_PREAMBLE = struct.Struct("<BBHIIII")
_VERSION_OFFSET, _LG_K_OFFSET, _SEED_HASH_OFFSET = 0, 1, 2
_PARTITIONS_OFFSET, _KEY_BYTES_OFFSET, _HASHES_COUNT_OFFSET, _RETAINED_OFFSET, _THETAS_OFFSET = 4, 8, 12, 16, 20

_Words: TypeAlias = npt.NDArray[np.uint64]
_Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartitionSketchesImage:
    """
    The content of the image. The arrays become read-only.

    Attributes:
        keys: Ascending.
        thetas: One for each partition.
        counts: The number of hashes that each partition retains.
        hashes: All of them, ascending.
        places: For each partition in turn, the places of its hashes in ``hashes``.
    """

    lg_k: int
    keys: tuple[PartitionKey, ...]
    thetas: _Words
    counts: _Integers
    hashes: _Words
    places: _Integers

    def __post_init__(self) -> None:
        for array in (self.thetas, self.counts, self.hashes, self.places):
            array.setflags(write=False)

    def to_bytes(self) -> bytes:
        texts = [key.encode() for _, key in self.keys]
        sizes = [len(self.keys), sum(map(len, texts)), len(self.hashes), len(self.places)]
        starts = _starts(self.counts)
        steps = np.diff(self.places, prepend=0)
        is_first = starts[self.counts > 0]
        steps[is_first] = self.places[is_first]
        return b"".join(
            (
                _PREAMBLE.pack(_VERSION, self.lg_k, SEED_HASH, *sizes),
                self.thetas.astype("<u8").tobytes(),
                np.array([spec_id for spec_id, _ in self.keys], "<i4").tobytes(),
                np.array([len(text) for text in texts], "<u4").tobytes(),
                self.counts.astype("<u4").tobytes(),
                *texts,
                to_planes(np.diff(self.hashes, prepend=np.uint64(0)).astype("<u8")),
                to_planes(steps.astype("<u4")),
            )
        )

    @classmethod
    def parse(cls, image: bytes | bytearray | memoryview) -> PartitionSketchesImage:
        """Read what `to_bytes` wrote; raise CorruptSketchError if a field breaks its rule or the size is wrong."""
        view = memoryview(image).cast("B")
        _RULES.expect_at_least(view, _PREAMBLE.size)
        version, lg_k, seed_hash, partitions, key_bytes, distinct, retained = _PREAMBLE.unpack_from(view)
        _expect(version == _VERSION, _VERSION_OFFSET, "version", _VERSION, version)
        _expect(MIN_LG_K <= lg_k <= MAX_LG_K, _LG_K_OFFSET, "lg k", f"{MIN_LG_K} to {MAX_LG_K}", lg_k)
        _RULES.expect_seed_hash(seed_hash, _SEED_HASH_OFFSET)
        _RULES.expect_at_most(partitions, MAX_PARTITIONS, _PARTITIONS_OFFSET, "partitions")
        _RULES.expect_at_most(key_bytes, MAX_KEY_BYTES, _KEY_BYTES_OFFSET, "key bytes")
        _RULES.expect_at_most(retained, partitions << lg_k, _RETAINED_OFFSET, "retained")
        _RULES.expect_at_most(distinct, retained, _HASHES_COUNT_OFFSET, "distinct hashes")

        spec_ids_offset = _THETAS_OFFSET + partitions * 8
        key_sizes_offset = spec_ids_offset + partitions * 4
        counts_offset = key_sizes_offset + partitions * 4
        keys_offset = counts_offset + partitions * 4
        hashes_offset = keys_offset + key_bytes
        places_offset = hashes_offset + distinct * 8
        _RULES.expect_size(view, places_offset + retained * 4)

        thetas = np.frombuffer(view[_THETAS_OFFSET:spec_ids_offset], "<u8")
        counts = np.frombuffer(view[counts_offset:keys_offset], "<u4").astype(np.int64)
        is_theta = (thetas >= 1) & (thetas <= MAX_THETA)
        _RULES.expect_each(thetas, is_theta, (_THETAS_OFFSET, 8), "theta", f"1 to {MAX_THETA}")
        is_full = np.where(thetas < MAX_THETA, counts == 1 << lg_k, counts <= 1 << lg_k)
        _RULES.expect_each(counts, is_full, (counts_offset, 4), "count", f"at most {1 << lg_k}, and that below a theta")
        _expect(counts.sum() == retained, counts_offset, "counts", f"a sum of {retained}", counts.sum())

        spec_ids = np.frombuffer(view[spec_ids_offset:key_sizes_offset], "<i4")
        key_sizes = np.frombuffer(view[key_sizes_offset:counts_offset], "<u4")
        texts = bytes(view[keys_offset:hashes_offset])
        _expect(key_sizes.sum() == key_bytes, key_sizes_offset, "key sizes", f"a sum of {key_bytes}", key_sizes.sum())
        keys = _parse_keys(spec_ids.tolist(), key_sizes.tolist(), texts, keys_offset)

        hashes = _parse_hashes(view[hashes_offset:places_offset], hashes_offset)
        places = _parse_places(view[places_offset:], counts, distinct, places_offset)
        _check_used(hashes, places, hashes_offset)
        is_below = hashes[places] < np.repeat(thetas, counts)
        _RULES.expect_each(places, is_below, (places_offset, 1), "place", "that of a hash below theta")
        return cls(lg_k, keys, thetas.astype(np.uint64), counts, hashes, places)


def _parse_keys(spec_ids: Sequence[int], sizes: Sequence[int], texts: bytes, offset: int) -> tuple[PartitionKey, ...]:
    keys: list[PartitionKey] = []
    start = 0
    for spec_id, size in zip(spec_ids, sizes, strict=True):
        where, text = offset + start, texts[start : start + size]
        try:
            key = spec_id, text.decode()
            is_tuple = _is_tuple(json.loads(text))
        except (ValueError, RecursionError) as exc:
            message = (
                f"partition sketches, key at offset {where}: expected a partition tuple in JSON, found {text[:40]!r}"
            )
            raise CorruptSketchError(message) from exc
        _expect(is_tuple, where, "key", "single values by partition field id", text[:40])
        _expect(not keys or keys[-1] < key, where, "key", f"above the one before it, {keys[-1:]}", key)
        keys.append(key)
        start += size
    return tuple(keys)


def _is_tuple(document: Any) -> bool:
    return isinstance(document, dict) and all(
        name.isascii() and name.isdecimal() and not isinstance(value, list | dict) for name, value in document.items()
    )


def _parse_hashes(planes: memoryview, offset: int) -> _Words:
    steps = from_planes(planes, 8)
    _RULES.expect_each(steps, (steps > 0) & (steps < MAX_THETA), (offset, 1), "hash", "above the one before it")
    hashes = np.cumsum(steps, dtype=np.uint64)
    # A hash and a step, both below 2^63, add up without overflow, so the check finds the first hash out of range.
    _RULES.expect_each(hashes, hashes < MAX_THETA, (offset, 1), "hash", f"below {MAX_THETA}")
    return hashes


def _parse_places(planes: memoryview, counts: _Integers, distinct: int, offset: int) -> _Integers:
    steps = from_planes(planes, 4).astype(np.int64)
    starts = _starts(counts)[counts > 0]
    is_first = np.zeros(len(steps), bool)
    is_first[starts] = True
    _RULES.expect_each(steps, (steps > 0) | is_first, (offset, 1), "place", "above the one before it")
    sums = np.cumsum(steps)
    places = sums - np.repeat((sums - steps)[starts], counts[counts > 0])
    _RULES.expect_each(places, places < distinct, (offset, 1), "place", f"below {distinct}")
    return places


def _check_used(hashes: _Words, places: _Integers, offset: int) -> None:
    is_used = np.zeros(len(hashes), bool)
    is_used[places] = True
    _RULES.expect_each(hashes, is_used, (offset, 1), "hash", "one that a partition retains")


def _starts(counts: _Integers) -> _Integers:
    """Where the places of each partition begin."""
    return np.cumsum(counts) - counts
