"""
Search the records of Avro files for texts without decoding them.

A record holds a string as its UTF-8 bytes, so a block without these bytes has no such string. This test takes at most a
twentieth of the time to decode the block. Paths of one table share a prefix, so one search for the prefix finds any
number of them.
"""

from __future__ import annotations

from collections.abc import Collection

_SHORTEST_PREFIX = 8  # bytes; a shorter one occurs almost anywhere


class SoughtTexts:
    """Texts to search for in the decompressed blocks of Avro files."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = frozenset(text.encode() for text in texts)
        self._lengths = sorted({len(text) for text in self._texts})
        prefix = _common_prefix(min(self._texts, default=b""), max(self._texts, default=b""))
        self._prefix = prefix if len(prefix) >= _SHORTEST_PREFIX else b""

    def may_be_in(self, content: bytes) -> bool:
        """Whether a block may have one of the texts; never False if it has."""
        if not self._prefix:
            return bool(self._texts)
        at = content.find(self._prefix)
        while at >= 0:
            if any(content[at : at + length] in self._texts for length in self._lengths):
                return True
            at = content.find(self._prefix, at + 1)
        return False


def _common_prefix(first: bytes, last: bytes) -> bytes:
    # Sorted texts all share the common prefix of the first and the last.
    differing = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differing, min(len(first), len(last)))]
