"""
Opening, reading and writing files by path or URI: the one place which knows file systems.

``uri`` reads names, ``base`` says what a store can do and how its failures are told, ``local`` and ``arrow`` are the
stores, ``new_objects`` is what commits need of object stores, ``access`` picks one. Local files go through ``open`` and
never import pyarrow. Everything else is a pyarrow file system; what pyarrow does not know, fsspec may, through
pyarrow's own adapter: so there are two stores, not three.

Names are taken as they stand: what a table writes in its metadata is a raw path, in which ``%20`` is three
characters. No error of the operating system or of a library gets out: each becomes ``FileNotFound``,
``ConflictError`` or ``StorageError``, with the URI in its message.
"""

from puffin.storage.access import open_source, store_for
from puffin.storage.local import LocalStore, is_temporary_name
from puffin.storage.store import FileInfo, FileSource, Sink, Store
from puffin.storage.uri import has_query, is_same_place, join, local_path

__all__ = [
    "FileInfo",
    "FileSource",
    "LocalStore",
    "Sink",
    "Store",
    "has_query",
    "is_same_place",
    "is_temporary_name",
    "join",
    "local_path",
    "open_source",
    "store_for",
]
