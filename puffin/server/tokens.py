"""The server's own bearer token."""

from __future__ import annotations

import hmac
from collections.abc import Iterable


def has_token(headers: Iterable[tuple[bytes, bytes]], token: bytes) -> bool:
    """Whether a request presents the token, and no other."""
    presented = [value for name, value in headers if name == b"authorization"]
    if len(presented) != 1:
        return False
    scheme, _, value = presented[0].partition(b" ")
    return hmac.compare_digest(value.strip(), token) and scheme.lower() == b"bearer"
