"""
Open, read and write files by path or URI.

``LocalStore`` uses the operating system and never imports pyarrow. ``ArrowStore`` covers everything else: a file system
of pyarrow, or one of fsspec through pyarrow's adapter.

Names are taken literally: tables write raw paths in their metadata, in which ``%20`` is three characters. Every error
of the operating system or a library becomes ``FileNotFound``, ``ConflictError`` or ``StorageError`` and names the URI.
"""

from puffin.storage.access import open_source, store_for
from puffin.storage.local import LocalStore, is_temporary_name
from puffin.storage.store import FileInfo, FileSource, Sink, Store, is_storage_failure
from puffin.storage.uri import has_escapes, has_query, is_same_place, join, local_path, place_of

__all__ = [
    "FileInfo",
    "FileSource",
    "LocalStore",
    "Sink",
    "Store",
    "has_escapes",
    "has_query",
    "is_same_place",
    "is_storage_failure",
    "is_temporary_name",
    "join",
    "local_path",
    "open_source",
    "place_of",
    "store_for",
]
