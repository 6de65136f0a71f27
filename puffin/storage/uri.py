"""
Split and join paths and URIs as tables write them, without decoding.

Hadoop and Iceberg build locations by joining strings, so a location is a raw path behind a scheme and an authority:
``%3A`` in a partition directory is three characters of its name, and a space is a space. RFC 3986 would decode the
former and reject the latter, and so open the wrong file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from puffin.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

# At least two letters, and a slash after the colon: `C:\data` and `notes: today` are local paths.
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?=/)(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?P<query>\?.*)?", re.DOTALL
)

_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")

_SCHEMES_OF_HADOOP = {"s3a": "s3", "s3n": "s3"}
_OTHER_NAMES = {"gcs": "gs", "abfs": "abfss"}  # of one store, which opens by both

_PATH_WITHOUT_AUTHORITY = {"hdfs", "viewfs"}
_CONTAINER_AT_ACCOUNT = {"abfs", "abfss", "wasb", "wasbs"}


class SplitUri(NamedTuple):
    """The parts of a URI; ``query`` includes its question mark, and absent parts are empty."""

    scheme: str
    authority: str
    path: str
    query: str


def split(uri: str) -> SplitUri | None:
    """The parts of a URI with the scheme in lower case; None for a plain path."""
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    parts = match.groupdict(default="")
    return SplitUri(parts["scheme"].lower(), parts["authority"], parts["path"], parts["query"])


def has_controls(name: str) -> bool:
    """Whether control characters, line separators or lone surrogates are in a name; zero-width joiners are none."""
    return _CONTROLS.search(name) is not None


def has_escapes(uri: str) -> bool:
    """Whether a URI, not a plain path, has what RFC 3986 would decode, as those of ``Path.as_uri`` have."""
    return split(uri) is not None and _ESCAPE.search(uri) is not None


def local_path(uri: str) -> Path | None:
    """As `local_name`, but as a path."""
    from pathlib import Path  # slow to import, and reading a file needs only its name

    name = local_name(uri)
    return None if name is None else Path(name)


def local_name(uri: str) -> str | None:
    """
    The name of a local file, given as a path or a ``file:`` URI; None for any other scheme.

    Raises UsageError if the text is empty, or a ``file:`` URI that is relative or names another host.
    """
    if not uri:
        raise UsageError("path: expected a path or a URI, found nothing")
    parts = split(uri)
    if parts is None and not uri.lower().startswith("file:"):
        return uri
    if parts is None or (parts.scheme == "file" and parts.authority not in ("", "localhost")):
        raise UsageError(f"{uri}: expected file:/path or file:///path")
    return parts.path + parts.query if parts.scheme == "file" else None


def join(base_uri: str, *names: str) -> str:
    """The URI or path of a name below ``base_uri``; UsageError if that is empty."""
    if not base_uri:
        raise UsageError("path: expected a path or a URI, found nothing")
    return "/".join([base_uri.rstrip("/"), *(name.strip("/") for name in names)])


def has_query(uri: str) -> bool:
    """Whether a name is a URI with a query, which configures its file system."""
    parts = split(uri)
    return parts is not None and parts.scheme != "file" and bool(parts.query)


def is_same_place(one: str, other: str) -> bool:
    """Whether two names mean one directory, by `place_of`."""
    return place_of(one) == place_of(other)


def place_of(name: str) -> str:
    """
    The same text for all names of a file or directory: local links are resolved, and schemes of one store made one.

    A text that nothing can have as its name stays as it is: whoever opens it is told.
    """
    try:
        path, parts = local_name(name), split(name)
        if path is not None or parts is None:
            return os.path.realpath(path or name)
    except (UsageError, ValueError):  # such as file:here, or a null byte
        return name
    # The account of an Azure container is part of the place; the user before a bucket is not.
    authority = parts.authority if parts.scheme in _CONTAINER_AT_ACCOUNT else parts.authority.rpartition("@")[2]
    scheme = store_scheme(parts.scheme)
    return f"{_OTHER_NAMES.get(scheme, scheme)}://{authority}{parts.path.rstrip('/')}"


def store_scheme(scheme: str) -> str:
    """The store's own scheme for one of Hadoop's."""
    return _SCHEMES_OF_HADOOP.get(scheme, scheme)


def filesystem_path(uri: str) -> str:
    """The path of a URI in its pyarrow file system: bucket and key, container and path, or the path alone on HDFS."""
    parts = split(uri)
    if parts is None:
        return uri
    if parts.scheme in _PATH_WITHOUT_AUTHORITY:
        return parts.path
    if parts.scheme in _CONTAINER_AT_ACCOUNT:
        return parts.authority.partition("@")[0] + parts.path
    return parts.authority.rpartition("@")[2] + parts.path
