"""
URIs that hold the content of a file (RFC 2397).

A Delta log may hold a small file inline; as a URI it can be passed wherever a path is expected.
"""

from __future__ import annotations

import base64

_PREFIX = "data:application/octet-stream;base64,"


def data_uri(content: bytes) -> str:
    return _PREFIX + base64.b64encode(content).decode()


def content_of(uri: str) -> bytes | None:
    """The content in a URI of `data_uri`; None for any other path or URI."""
    return base64.b64decode(uri.removeprefix(_PREFIX)) if uri.startswith(_PREFIX) else None
