"""
Bounds of strings and bytes cut short, as Iceberg's metrics have them: still bounds, if not values of the column.

The beginning of a value is not above it. Nothing that begins alike is above the beginning with its last character
raised by one; one that is the largest already is left out, and the character before it raised. Strings are counted and
raised by code points, and never to a surrogate, which has no place in UTF-8 (Java: ``UnicodeUtil``, ``BinaryUtil``).
"""

from __future__ import annotations

import sys

KEPT = 16
"""Code points of a string, bytes of anything else."""

_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000


def truncate_lower(value: str | bytes) -> str | bytes:
    """A lower bound of at most `KEPT` characters for what this is one for."""
    return value[:KEPT]


def truncate_upper(value: str | bytes) -> str | bytes | None:
    """An upper bound of at most `KEPT` characters for what this is one for; None if there is none so short."""
    if len(value) <= KEPT:
        return value
    return _raised(value[:KEPT]) if isinstance(value, str) else _raised_bytes(value[:KEPT])


def _raised(text: str) -> str | None:
    kept = text.rstrip(chr(sys.maxunicode))
    if not kept:
        return None
    last = ord(kept[-1])
    return kept[:-1] + chr(_AFTER_SURROGATES if last == _BEFORE_SURROGATES else last + 1)


def _raised_bytes(data: bytes) -> bytes | None:
    kept = data.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
