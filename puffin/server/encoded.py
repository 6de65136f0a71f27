"""Answers as sent: encoded once, and cached with the answer."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeAlias

from puffin.lookup import FilePlan
from puffin.lookup.cache import Kept

Headers: TypeAlias = list[tuple[bytes, bytes]]

COMMON: Headers = [(b"cache-control", b"private, no-cache"), (b"x-content-type-options", b"nosniff")]
"""Default headers of every response."""
IS_HEAD = "puffin.is-head"
"""In the scope of a request that wants no body, which routes see as GET."""

_ETAG_BYTES = 16


class Encoded:
    """An answer as sent; ``etag`` includes its quotes, ``headers`` belong to a response with the body."""

    __slots__ = ("body", "etag", "headers")

    def __init__(self, body: bytes, etag: bytes) -> None:
        self.body = body
        self.etag = etag
        length = str(len(body)).encode()
        self.headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"etag", etag), *COMMON]

    @classmethod
    def of(cls, kept: Kept) -> Encoded:
        """The encoded form of a table's answer, cached with it."""
        encoded: Encoded | None = kept.encoded
        if encoded is None:
            body = encode(kept.answer.to_json())
            files = "\n".join(column.statistics_path or "" for column in kept.answer.columns)
            digest = hashlib.blake2b(body + files.encode(errors="surrogatepass"), digest_size=_ETAG_BYTES).hexdigest()
            encoded = kept.encoded = cls(body, f'"{digest}"'.encode())
        return encoded

    def response_to(self, headers: Headers) -> tuple[int, Headers, bytes]:
        """The status, headers and body for a request with these headers: 304 if its caller has the answer."""
        for name, value in headers:
            if name == b"if-none-match" and is_among(self.etag, value):
                return 304, [(b"etag", self.etag), *COMMON], b""
        return 200, self.headers, self.body


def is_among(etag: bytes, if_none_match: bytes) -> bool:
    """Whether one of the tags is this one, by the weak comparison of RFC 9110 for If-None-Match."""
    if if_none_match.strip() == b"*":
        return True
    return etag in (tag.strip().removeprefix(b"W/") for tag in if_none_match.split(b","))


def encode_plan(plan: FilePlan) -> bytes:
    """A plan as sent, encoded file by file: one call for all files would let no other thread run meanwhile."""
    files = b",".join(map(encode, plan.files_to_json()))
    return b"".join((encode(plan.head_to_json())[:-1], b',"files":[', files, b"]}"))


def encode(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
