"""
Every error this project raises on purpose, sorted by what the caller does next.

::

    PuffinError
    ├── UsageError                      fix the call
    │   └── ClosedWriterError               a writer was used after finish or failure
    ├── SetupError                      install or configure something
    │   └── MissingDependencyError          an extra is not installed
    ├── NotFoundError                   name something that exists
    │   ├── FileNotFound
    │   ├── TableNotFound
    │   ├── SnapshotNotFound
    │   └── ColumnNotFound
    ├── CorruptError                    distrust the file
    │   ├── CorruptPuffinError              the layout of a Puffin file; carries the broken rule
    │   ├── CorruptSketchError
    │   ├── CorruptDeletionVectorError
    │   ├── CorruptMetadataError            table metadata, manifests
    │   └── CorruptDataFileError            data files, delete files
    ├── UnsupportedError                upgrade, or use another engine for this one
    │   ├── UnsupportedCodecError
    │   ├── UnsupportedTypeError
    │   └── UnsupportedTableError
    ├── ConflictError                   retry: another writer was faster
    ├── CommitUnknownError              investigate: the commit may or may not have happened
    └── StorageError                    check the store, then retry

A message says what is wrong, where, what was expected and what was found. The error of another library
is never let through: it is the ``__cause__`` of one of these.
"""

from __future__ import annotations

from typing import Any


class PuffinError(Exception):
    """The root: everything this project raises on purpose is one of these. All of them can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Whatever a class's constructor takes: an executor's error has to reach the driver.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


class UsageError(PuffinError):
    """The call itself cannot be carried out; nothing was read or written."""


class ClosedWriterError(UsageError):
    """A Puffin writer was used after it finished or failed."""


class SetupError(PuffinError):
    """This machine lacks something that the call needs: Java, a working Spark, a configured catalog."""


class MissingDependencyError(SetupError):
    """A library of an optional extra is needed and not installed."""

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed: pip install 'puffin-sidecar[{extra}]'")
        self.library = library
        self.extra = extra


class NotFoundError(PuffinError):
    """What was named does not exist."""


class FileNotFound(NotFoundError):
    """No file at the path."""


class TableNotFound(NotFoundError):
    """No table at the path, or none of that name in the catalog."""


class SnapshotNotFound(NotFoundError):
    """The table has no such snapshot, branch or tag."""


class ColumnNotFound(NotFoundError):
    """The schema has no such column."""


class CorruptError(PuffinError):
    """The bytes break the rules of their format."""


class CorruptPuffinError(CorruptError):
    """
    A Puffin file breaks a rule of its layout.

    Attributes:
        rule: The name of the rule, stable across releases (``"head-magic"``).
        offset: The offset in the file, in bytes, where the rule is broken, or None if it has no place.
        expected: What the rule asks for.
        found: What stands there.
    """

    def __init__(self, rule: str, *, offset: int | None, expected: object, found: object) -> None:
        where = "" if offset is None else f" at offset {offset}"
        super().__init__(f"{rule}{where}: expected {expected}, found {found}")
        self.rule = rule
        self.offset = offset
        self.expected = expected
        self.found = found


class CorruptSketchError(CorruptError):
    """The bytes are not the image of a compact theta sketch."""


class CorruptDeletionVectorError(CorruptError):
    """The bytes are not a ``deletion-vector-v1`` payload."""


class CorruptMetadataError(CorruptError):
    """Table metadata, a manifest list or a manifest cannot be understood."""


class CorruptDataFileError(CorruptError):
    """A data file or a delete file cannot be read."""


class UnsupportedError(PuffinError):
    """Valid, but this version cannot do it."""


class UnsupportedCodecError(UnsupportedError):
    """A compression codec this version does not know."""


class UnsupportedTypeError(UnsupportedError):
    """A column type that has no single-value bytes to hash."""


class UnsupportedTableError(UnsupportedError):
    """A table feature, file format or catalog this version cannot honour."""


class ConflictError(PuffinError):
    """Another writer committed first; nothing was changed, so the same call may succeed."""


class CommitUnknownError(PuffinError):
    """The store failed while committing: the commit may have happened, and no file was deleted."""


class StorageError(PuffinError):
    """Reading or writing failed in the file system, the object store or the catalog."""


def _rebuild(cls: type[PuffinError], args: tuple[Any, ...], attributes: dict[str, Any]) -> PuffinError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(attributes)
    return error
