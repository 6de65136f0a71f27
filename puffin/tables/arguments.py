"""
What callers of the library pass: names of tables as text or as a path, lists that must not be one text, numbers that
must not be negative, and names that are misspelled.
"""

from __future__ import annotations

import itertools
import numbers
import os
from collections.abc import Iterable
from typing import TypeAlias

from puffin.errors import UsageError

NameOrPath: TypeAlias = "str | os.PathLike[str]"
"""The name, path or URI of a table; ``os.fspath`` makes a text of it."""

_LONGEST_NAME = 64
_MOST_CANDIDATES = 500
_LEAST_LIKENESS = 0.75


def check_list(given: object, of: str) -> None:
    """Raise UsageError for a text or a path in place of a list ``of`` something: Python would take its letters."""
    if isinstance(given, str | os.PathLike):
        what = "text" if isinstance(given, str) else "path"
        raise UsageError(f"expected a list of {of}, found the {what} {os.fspath(given)!r}")


def check_integer(given: object, of: str, least: int) -> None:
    """Raise UsageError for anything but an integer of at least ``least``."""
    if not isinstance(given, numbers.Integral) or given < least:
        raise UsageError(f"{of}: expected an integer from {least}, found {given!r}")


def check_bytes(given: float, of: str) -> None:
    """Raise UsageError for anything but a number of bytes; infinity is one."""
    if not (isinstance(given, numbers.Real) and given >= 0):
        raise UsageError(f"{of}: expected a number of bytes from 0, found {given!r}")


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
