"""
URIs that hold a file's content themselves (RFC 2397).

A table's log may hold the content of a small file; in this form it goes wherever a path can go.
"""

from __future__ import annotations

import base64

_PREFIX = "data:application/octet-stream;base64,"


def data_uri(content: bytes) -> str:
    """The URI that is this content."""
    return _PREFIX + base64.b64encode(content).decode()


def content_of(uri: str) -> bytes | None:
    """The content that a URI of `data_uri` is; None for any other path or URI."""
    return base64.b64decode(uri.removeprefix(_PREFIX)) if uri.startswith(_PREFIX) else None
