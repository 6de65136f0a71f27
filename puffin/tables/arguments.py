"""
What callers of the library pass: names of tables as text or as a path, lists that must not be one text, and numbers
that must not be negative.
"""

from __future__ import annotations

import numbers
import os
from typing import TypeAlias

from puffin.errors import UsageError

NameOrPath: TypeAlias = "str | os.PathLike[str]"
"""The name, path or URI of a table; ``os.fspath`` makes a text of it."""


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
