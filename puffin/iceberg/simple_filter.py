"""
Reads the filters that planners ask most, one value of one column, without a grammar.

pyiceberg's parser takes longer for such a filter than everything else that a warm plan does. What is read here means
what pyiceberg's parser makes of it. The rest is left to that parser.
"""

from __future__ import annotations

import re

_NAME = r"[A-Za-z_][A-Za-z0-9_$]*"
_SPACE = r"[ \n\r]*"
_EQUALITY = re.compile(
    rf"{_SPACE}({_NAME}(?:\.{_NAME})*){_SPACE}==?{_SPACE}(?:([+-]?[0-9]+)|'((?:[^'\n\r\t\\]|'')*)'){_SPACE}"
)
_WORDS = frozenset(("and", "or", "not", "is", "in", "null", "nan", "like", "between", "true", "false"))


def read_equality(where: str) -> tuple[str, int | str] | None:
    """The column and the value of a filter such as ``uid = 17``; None if it is not as simple as that."""
    found = _EQUALITY.fullmatch(where)
    if found is None:
        return None
    column, number, text = found.groups()
    if not _WORDS.isdisjoint(column.lower().split(".")):
        return None
    return column, text.replace("''", "'") if number is None else int(number)
