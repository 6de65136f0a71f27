"""
Paths and URIs as tables write them: split, joined, never decoded.

Hadoop and Iceberg build locations by joining strings, so a location is a raw path behind a scheme and an authority:
``%3A`` in a partition directory is three characters of its name, and a space is a space. RFC 3986 would decode the
one and refuse the other, and would then open another file than the table means.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from puffin.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

# Two letters at least and a slash after the colon: `C:\data` and `notes: today` are local paths.
_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?=/)(?://(?P<authority>[^/?]*))?(?P<path>[^?]*)(?P<query>\?.*)?", re.DOTALL
)

_SCHEMES_OF_HADOOP = {"s3a": "s3", "s3n": "s3"}

_PATH_WITHOUT_AUTHORITY = {"hdfs", "viewfs"}
_CONTAINER_AT_ACCOUNT = {"abfs", "abfss", "wasb", "wasbs"}


class SplitUri(NamedTuple):
    """A URI in its parts; ``query`` begins with its question mark, and absent parts are empty."""

    scheme: str
    authority: str
    path: str
    query: str


def split(uri: str) -> SplitUri | None:
    """The parts of a URI, the scheme in lower case; None for a plain path."""
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    parts = match.groupdict(default="")
    return SplitUri(parts["scheme"].lower(), parts["authority"], parts["path"], parts["query"])


def local_path(uri: str) -> Path | None:
    """
    The path of a local file: a plain path, or that of a ``file:`` URI as it stands; None for any other scheme.

    Raises:
        UsageError: The text is empty, or a ``file:`` URI that is relative or names another host.
    """
    from pathlib import Path  # here, since to open a file and read it its name will do, and this import is slow

    name = local_name(uri)
    return None if name is None else Path(name)


def local_name(uri: str) -> str | None:
    """What ``local_path`` gives, as text; the errors are the same."""
    if not uri:
        raise UsageError("path: expected a path or a URI, found nothing")
    parts = split(uri)
    if parts is None and not uri.lower().startswith("file:"):
        return uri
    if parts is None or (parts.scheme == "file" and parts.authority not in ("", "localhost")):
        raise UsageError(f"{uri}: expected file:/path or file:///path")
    return parts.path + parts.query if parts.scheme == "file" else None


def join(base_uri: str, *names: str) -> str:
    """The URI of something below ``base_uri``, in the same form: a path stays a path. UsageError if it is empty."""
    if not base_uri:
        raise UsageError("path: expected a path or a URI, found nothing")
    return "/".join([base_uri.rstrip("/"), *(name.strip("/") for name in names)])


def has_query(uri: str) -> bool:
    """Whether a name is a URI with a query, which says how its store is reached."""
    parts = split(uri)
    return parts is not None and parts.scheme != "file" and bool(parts.query)


def is_same_place(one: str, other: str) -> bool:
    """Whether two names mean one directory: local ones with links resolved, others whatever Hadoop calls the scheme."""
    paths = [local_path(name) for name in (one, other)]
    if None not in paths:
        return len({path.resolve() for path in paths if path is not None}) == 1
    return _place(one) == _place(other)


def store_scheme(scheme: str) -> str:
    """The scheme by which stores know what Hadoop may call by this one."""
    return _SCHEMES_OF_HADOOP.get(scheme, scheme)


def filesystem_path(uri: str) -> str:
    """What a pyarrow file system calls a URI: bucket and key, container and path, or the path alone on HDFS."""
    parts = split(uri)
    if parts is None:
        return uri
    if parts.scheme in _PATH_WITHOUT_AUTHORITY:
        return parts.path
    if parts.scheme in _CONTAINER_AT_ACCOUNT:
        return parts.authority.partition("@")[0] + parts.path
    return parts.authority.rpartition("@")[2] + parts.path


def _place(name: str) -> object:
    parts = split(name)
    if parts is None:
        return name
    # An account at an Azure container is part of the place; what stands before a bucket is who asks.
    authority = parts.authority if parts.scheme in _CONTAINER_AT_ACCOUNT else parts.authority.rpartition("@")[2]
    return store_scheme(parts.scheme), authority, parts.path.rstrip("/")
