"""What callers of the library pass: names of tables as text or as a path, and lists that must not be one text."""

from __future__ import annotations

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
