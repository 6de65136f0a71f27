"""
Which segments to merge: those of a size tier of a column once there are four, and those with files that are gone.

Each tier holds segments of up to four times the bytes of the one before. So the number of segments grows with the
logarithm of the table, and a filter is written again as often.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from puffin.index.segment import SegmentColumn, SegmentEntry

FAN_IN = 4
MOST_AT_ONCE = 32  # a merge reads a little of each, again and again
_SMALLEST_TIER = 1024 * 1024  # bytes; whatever is smaller is one tier


def groups_to_merge(segments: Sequence[SegmentEntry], with_gone_files: Collection[str]) -> list[list[SegmentEntry]]:
    """
    The groups of segments to merge into one each; ``with_gone_files`` has the ids of segments to write again anyway.

    Segments merge only with those of the same column, type, mapping and rate.
    """
    alike: dict[SegmentColumn, list[SegmentEntry]] = {}
    for segment in segments:
        alike.setdefault(segment.column, []).append(segment)
    return [group for of_column in alike.values() for group in _groups(of_column, with_gone_files)]


def _groups(segments: Sequence[SegmentEntry], with_gone_files: Collection[str]) -> list[list[SegmentEntry]]:
    tiers: dict[int, list[SegmentEntry]] = {}
    for segment in segments:
        tiers.setdefault(max(segment.file_size // _SMALLEST_TIER, 1).bit_length() // 2, []).append(segment)
    groups: list[list[SegmentEntry]] = []
    merging: list[SegmentEntry] = []
    for tier in sorted(tiers):
        # What is merged from below counts as one segment of this tier.
        if len(tiers[tier]) + bool(merging) >= FAN_IN:
            merging += tiers[tier]
            continue
        groups += [merging, *([segment] for segment in tiers[tier])]
        merging = []
    parts = (group[i : i + MOST_AT_ONCE] for group in (*groups, merging) for i in range(0, len(group), MOST_AT_ONCE))
    return [part for part in parts if len(part) > 1 or part[0].id in with_gone_files]
