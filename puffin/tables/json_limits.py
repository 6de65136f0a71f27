"""Reads JSON documents beside a table, within limits: whoever may write to the table can have made them."""

from __future__ import annotations

import json
from typing import Any

MAX_DOCUMENT_BYTES = 512 * 1024 * 1024
"""The longest readable document: Iceberg metadata of some 400,000 snapshots."""
MAX_DOCUMENT_VALUES = 32 * 1024 * 1024
"""The most values in a document. Tables have at most one in 16 bytes; three bytes, `{},`, take 72 bytes of memory."""


def read_json(text: bytes, **hooks: Any) -> Any:
    """
    Parse a document; ``hooks`` are those of `json.loads`.

    Raises ValueError if it is no JSON, or would take too much memory once it is parsed, and RecursionError.
    """
    if len(text) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"more than {MAX_DOCUMENT_BYTES} bytes")
    # Every value follows a comma or begins a list or an object; the count includes such characters in strings.
    if len(text) > MAX_DOCUMENT_VALUES and sum(map(text.count, (b",", b"[", b"{"))) > MAX_DOCUMENT_VALUES:
        raise ValueError(f"more than {MAX_DOCUMENT_VALUES} values")
    return json.loads(text, **hooks)
