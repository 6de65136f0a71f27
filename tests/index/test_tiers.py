"""Segments alone: how they merge by tiers, by their sizes, and how a directory that contradicts itself is reported."""

import dataclasses
import json
import math
import random
import zlib

import pytest

from puffin.errors import CorruptMetadataError
from puffin.format import ZSTD
from puffin.format.compression import compress
from puffin.index.segment import SegmentColumn, SegmentEntry, read_directory
from puffin.index.tiers import FAN_IN, MOST_AT_ONCE, groups_to_merge
from puffin.storage.local import BytesSource

MIB = 1024 * 1024


def segment(name: str, size: int) -> SegmentEntry:
    return SegmentEntry(name, SegmentColumn(1, "k", "long", None, 0.01), 1, size, 0, 0, 0)


def merged(segments: list[SegmentEntry]) -> tuple[list[SegmentEntry], int]:
    """The segments when none is due any more, and the bytes that were written for it."""
    written = 0
    while groups := groups_to_merge(segments, ()):
        for group in groups:
            size = sum(each.file_size for each in group)
            segments = [each for each in segments if each not in group]
            segments.append(dataclasses.replace(group[0], id=f"{group[0].id}'", file_size=size))
            written += size
    return segments, written


@pytest.mark.parametrize("seed", range(5))
def test_segments_grow_with_the_logarithm_of_the_index(seed: int) -> None:
    draw = random.Random(seed)
    segments: list[SegmentEntry] = []
    total = written = 0
    for i in range(2000):
        size = int(math.exp(draw.uniform(math.log(10_000), math.log(30 * MIB))))
        segments, more = merged([*segments, segment(str(i), size)])
        total, written = total + size, written + more
        tiers = math.log(max(total / MIB, 1), 4) + 2
        assert len(segments) <= (FAN_IN - 1) * tiers
    assert written <= total * tiers


def test_many_new_segments_are_merged_a_few_at_a_time() -> None:
    segments = [segment(str(i), 20 * MIB) for i in range(1000)]
    assert max(map(len, groups_to_merge(segments, ()))) == MOST_AT_ONCE
    assert len(merged(segments)[0]) < FAN_IN


def test_small_segments_merge_beside_a_large_one() -> None:
    segments = [segment("large", 4 * MIB), *(segment(str(i), 10_000) for i in range(FAN_IN))]
    assert [len(group) for group in groups_to_merge(segments, ())] == [FAN_IN]


def test_segment_with_gone_files_is_written_again() -> None:
    segments = [segment("a", 9 * MIB), segment("b", 10_000)]
    assert groups_to_merge(segments, {"a"}) == [[segments[0]]]
    assert groups_to_merge(segments, ()) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lg-blocks": 23}, "lg-blocks: expected 0 to 22, found 23"),
        ({"rows-per-chunk": 0}, "rows-per-chunk: expected at least 1, found 0"),
        ({"offsets": []}, "expected an offset for each chunk, found 0"),
    ],
)
def test_directory_says_what_is_wrong_with_a_class(wrong: dict, message: str) -> None:
    size_class = {"lg-blocks": 3, "files": ["a"], "rows-per-chunk": 8, "offsets": [4], **wrong}
    stored = compress(ZSTD, json.dumps({"classes": [size_class]}).encode())
    entry = dataclasses.replace(segment("s", 0), directory_length=len(stored), directory_crc=zlib.crc32(stored))
    with pytest.raises(CorruptMetadataError, match=f"{message}$"):
        read_directory(entry, BytesSource(stored), "/index")
