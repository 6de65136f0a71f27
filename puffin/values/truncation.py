"""
Cut bounds of strings and bytes short, as Iceberg's metrics do: still bounds, but maybe not values of the column.

A prefix of a value is not above it. A prefix whose last character is raised by one is above every value with that
prefix; if that character is the largest one, it is dropped and the one before it raised. Strings count code points, and
skip surrogates, which UTF-8 does not have (Java: ``UnicodeUtil``, ``BinaryUtil``).
"""

from __future__ import annotations

import sys

KEPT = 16  # code points of a string, bytes of anything else

_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000


def truncate_lower(value: str | bytes) -> str | bytes:
    return value[:KEPT]


def truncate_upper(value: str | bytes) -> str | bytes | None:
    """Cut an upper bound to at most `KEPT` characters; None if no such bound exists."""
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
