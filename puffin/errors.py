"""
Every error this project raises on purpose, sorted by what the caller does next.

::

    PuffinError
    ├── UsageError                      fix the call
    │   └── ClosedWriterError               a writer was used after finish or failure
    ├── SetupError                      install or configure something
    │   ├── MissingDependencyError          an extra is not installed
    │   └── PolicyError                     a policy file has mistakes; carries them with their lines
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
        └── NotWritable                     allow writing to the directory, or name another one

A message says what is wrong, where, what was expected and what was found. Errors of other libraries never get out:
each is the ``__cause__`` of one of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

_LONGEST_NAME = 64
_MOST_CANDIDATES = 500
_LEAST_LIKENESS = 0.75


class PuffinError(Exception):
    """The root of the tree. Every error in it can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Constructors differ in their arguments, and every error must get from an executor to the driver.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UsageError(PuffinError):
    """The caller asked for something impossible."""


class ClosedWriterError(UsageError):
    """A Puffin writer was used after it finished or failed."""


class SetupError(PuffinError):
    """This machine lacks something that the call needs: Java, a working Spark, a configured catalog."""


class MissingDependencyError(SetupError):
    """The call needs a library of an optional extra that is not installed."""

    def __init__(self, library: str, extra: str, needed_for: str | None = None) -> None:
        lacks = f"{library} is not installed" if needed_for is None else f"{needed_for} needs {library}"
        # No index of packages has puffin-sidecar, so its extras are installed from a checkout.
        super().__init__(f"{lacks}: run pip install '.[{extra}]' in the checkout of puffin-sidecar")


class PolicyError(SetupError):
    """
    A policy file is not what its schema says.

    Attributes:
        mistakes: Line, from 1, and message of each.
    """

    def __init__(self, file: str, mistakes: Sequence[tuple[int, str]]) -> None:
        lines = [f"{file}:{line}: {message}" for line, message in mistakes]
        more = "" if len(lines) == 1 else f" (and {len(lines) - 1} more)"
        super().__init__(f"{lines[0]}{more}")
        self.mistakes = tuple(mistakes)


class NotFoundError(PuffinError):
    """The caller named something that does not exist."""


class FileNotFound(NotFoundError):
    """No file at the path."""


class TableNotFound(NotFoundError):
    """No table at the path, or no table of that name in the catalog."""


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
        offset: Where the file breaks it, in bytes; None if the rule concerns no single place.

    Args:
        suspicion: What the file seems to be, if it is no Puffin file.
    """

    def __init__(
        self, rule: str, *, offset: int | None, expected: object, found: object, suspicion: str | None = None
    ) -> None:
        where = "" if offset is None else f" at offset {offset}"
        what = "" if suspicion is None else f"; it is {suspicion}"
        super().__init__(f"{rule}{where}: expected {expected}, found {found}{what}")
        self.rule = rule
        self.offset = offset
        self.expected = expected
        self.found = found


class CorruptSketchError(CorruptError):
    """The bytes are not the image of a theta sketch, or of another kind of statistic that is made of hashes."""


class CorruptDeletionVectorError(CorruptError):
    """The bytes are not a ``deletion-vector-v1`` payload."""


class CorruptMetadataError(CorruptError):
    """Table metadata, a manifest list or a manifest is malformed."""


class CorruptDataFileError(CorruptError):
    """A data file or a delete file cannot be read."""


class UnsupportedError(PuffinError):
    """The input is valid, but this version cannot handle it."""


class UnsupportedCodecError(UnsupportedError):
    """This version does not know the compression codec."""


class UnsupportedTypeError(UnsupportedError):
    """The column's type has no single-value bytes to hash."""


class UnsupportedTableError(UnsupportedError):
    """This version does not support a table feature, a file format or a catalog."""


class ConflictError(PuffinError):
    """Another writer committed first; nothing changed, so a retry may succeed."""


class CommitUnknownError(PuffinError):
    """The store failed while committing: the commit may have happened, and no file was deleted."""


class StorageError(PuffinError):
    """The file system, the object store or the catalog failed to read or write."""


class NotWritable(StorageError):
    """A run could not write what it would find, so it has read no data file."""


GONE_OR_BROKEN = (NotFoundError, CorruptError, UnsupportedError)
"""The errors of what no other try can read either; after a StorageError another one may."""


def in_one_line(error: object) -> str:
    """The text of an error without line breaks; the name of its class if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__


def line_about(name: str, error: object) -> str:
    """One line about a table or file: its name and the error; the name is not repeated if the error begins with it."""
    text = in_one_line(error)
    return text if text.startswith(f"{name}:") else f"{name}: {text}"


def said_by(error: Exception) -> str:
    """The text of a Python error raised by a malformed document, for our message."""
    if isinstance(error, KeyError) and error.args:
        return f"expected a key {error.args[0]!r}, found none"
    return in_one_line(error)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known one that was probably meant, or nothing."""
    import difflib  # only those who have made a mistake need it

    # Comparing takes time with the square of the lengths, and a server's callers choose the name.
    candidates = [each for each in itertools.islice(known, _MOST_CANDIDATES) if len(each) <= _LONGEST_NAME]
    if len(name) > _LONGEST_NAME:
        return ""
    same = [each for each in candidates if _folded(each) == _folded(name)]
    found = same or difflib.get_close_matches(name, candidates, 1, _LEAST_LIKENESS)
    return f"; did you mean {found[0]!r}?" if found else ""


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()
