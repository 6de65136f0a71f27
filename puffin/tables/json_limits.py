"""Limits on JSON documents beside a table, which whoever may write to the table can have made."""

from __future__ import annotations

MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""The longest readable document: Iceberg metadata of some 400,000 snapshots."""
MAX_DOCUMENT_VALUES = 32 * 1024 * 1024
"""The most values in a document. Tables have at most one in 16 bytes; three bytes, `{},`, take 72 bytes of memory."""


def check_json_size(text: bytes) -> None:
    """Refuse a document that would take too much memory once it is parsed, with ValueError."""
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"more than {MAX_DOCUMENT_BYTES} bytes")
    # Every value follows a comma or begins a list or an object; the count includes such characters in strings.
    if len(text) > MAX_DOCUMENT_VALUES and sum(map(text.count, (b",", b"[", b"{"))) > MAX_DOCUMENT_VALUES:
        raise ValueError(f"more than {MAX_DOCUMENT_VALUES} values")
