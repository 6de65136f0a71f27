"""
Some texts looked for in the records of Avro files, without understanding these.

A string stands in a record as its UTF-8 bytes. A block of records that has them nowhere holds none of the texts, and
telling that takes a twentieth of what decoding it does, or less. Paths of one table begin alike, so that any number of
them is looked for at once: where the common beginning stands, one of them may.
"""

from __future__ import annotations

from collections.abc import Collection

_SHORTEST_PREFIX = 8  # bytes; a shorter one stands almost anywhere


class SoughtTexts:
    """Texts to be looked for in the decompressed blocks of Avro files."""

    def __init__(self, texts: Collection[str]) -> None:
        self._texts = frozenset(text.encode() for text in texts)
        self._lengths = sorted({len(text) for text in self._texts})
        prefix = _common_prefix(min(self._texts, default=b""), max(self._texts, default=b""))
        self._prefix = prefix if len(prefix) >= _SHORTEST_PREFIX else b""

    def may_stand_in(self, content: bytes) -> bool:
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
    # What the first and the last of them in order have in common, all between have too.
    differing = (at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other)
    return first[: next(differing, min(len(first), len(last)))]
