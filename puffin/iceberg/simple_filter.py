"""
Reads the filters that planners ask most without a grammar: tests of columns, joined by and, or and parentheses.

pyiceberg's parser takes longer for such a filter than everything else that a warm plan or estimate does. What is read
here means what pyiceberg's parser makes of it. The rest is left to that parser.
"""

from __future__ import annotations

import decimal
import functools
import re
from typing import Any, NamedTuple, TypeAlias

from puffin.tables.expression import NAME, WORDS, Op


class SimpleTest(NamedTuple):
    """
    A test of a column.

    Attributes:
        values: One literal for comparisons, two or more of one type for ``in``, none for tests of null and NaN; each is
            a bool, an int, a Decimal or a string.
    """

    op: Op
    name: str
    values: tuple[Any, ...]


class SimpleTests(NamedTuple):
    """Tests joined by and (``is_and``), or by or."""

    parts: tuple[Simple, ...]
    is_and: bool


Simple: TypeAlias = SimpleTest | SimpleTests

_FLAGS = re.IGNORECASE | re.ASCII
_DEEPEST = 50  # parentheses; what is nested deeper is left to the grammar
_SPACE, _GAP = r"[ \n\r]*", r"[ \n\r]+"
_TEXT = r"'(?:[^'\n\r\t\\]|'')*'"
_END = r"(?![A-Za-z0-9_$.])"
_LITERAL = rf"(?:{_TEXT}|[+-]?[0-9]{{1,30}}(?:\.[0-9]{{1,30}})?{_END}|(?:true|false){_END})"
_TEST = re.compile(
    rf"{_SPACE}(?P<name>{NAME}(?:\.{NAME})*)(?:"
    rf"{_SPACE}(?P<op><=|>=|<>|!=|==|<|>|=){_SPACE}(?P<value>{_LITERAL})"
    rf"|{_GAP}is{_GAP}(?P<unless>not{_GAP})?(?P<null>null|nan){_END}"
    rf"|{_GAP}(?P<notin>not{_GAP})?in{_SPACE}\({_SPACE}(?P<list>{_LITERAL}(?:{_SPACE},{_SPACE}{_LITERAL})*){_SPACE}\)"
    rf"|{_GAP}(?P<unlike>not{_GAP})?like{_SPACE}(?P<pattern>{_TEXT})"
    rf"|{_GAP}between{_SPACE}(?P<low>{_LITERAL}){_SPACE}and{_SPACE}(?P<high>{_LITERAL})"
    rf"){_SPACE}",
    _FLAGS,
)
_ITEM = re.compile(_LITERAL, _FLAGS)
_OPEN = re.compile(rf"{_SPACE}\(")
_CLOSE = re.compile(rf"{_SPACE}\){_SPACE}")
_WORD = re.compile(rf"(and|or){_END}", _FLAGS)
_COMPARISONS = {
    "<": Op.LT,
    "<=": Op.LT_EQ,
    ">": Op.GT,
    ">=": Op.GT_EQ,
    "=": Op.EQ,
    "==": Op.EQ,
    "!=": Op.NOT_EQ,
    "<>": Op.NOT_EQ,
}
_NULL_TESTS = {
    ("null", True): Op.IS_NULL,
    ("null", False): Op.NOT_NULL,
    ("nan", True): Op.IS_NAN,
    ("nan", False): Op.NOT_NAN,
}


def read_filter(where: str) -> Simple | None:
    """The tests of a filter such as ``uid = 17 and city in ('Oslo', 'Rome')``; None if it is not as simple as that."""
    try:
        found, end = _any_of(where, 0, 0)
    except _NotSimple:
        return None
    return found if end == len(where) else None


class _NotSimple(Exception):
    """The filter is left to the grammar."""


def _any_of(where: str, start: int, depth: int) -> tuple[Simple, int]:
    """Parts joined by or, from a position on, and where they end; each is parts joined by and."""
    choices: list[Simple] = []
    parts: list[Simple] = []
    while True:
        part, start = _part(where, start, depth)
        parts.append(part)
        word = _WORD.match(where, start) if start < len(where) else None
        if word is None or word[1].lower() == "or":
            choices.append(_joined(parts, is_and=True))
            parts = []
        if word is None:
            return _joined(choices, is_and=False), start
        start = word.end()


def _part(where: str, start: int, depth: int) -> tuple[Simple, int]:
    """A test, or parts in parentheses."""
    found = _TEST.match(where, start)
    if found is not None:
        return _test(found), found.end()
    opening = _OPEN.match(where, start)
    if opening is None or depth == _DEEPEST:
        raise _NotSimple
    inner, end = _any_of(where, opening.end(), depth + 1)
    closing = _CLOSE.match(where, end)
    if closing is None:
        raise _NotSimple
    return inner, closing.end()


def _test(found: re.Match[str]) -> Simple:
    name = found["name"]
    if not _is_name(name):
        raise _NotSimple
    kind = found.lastgroup
    if kind == "value":
        return SimpleTest(_COMPARISONS[found["op"]], name, (_literal(found["value"]),))
    if kind == "high":
        low, high = _literal(found["low"]), _literal(found["high"])
        return SimpleTests((SimpleTest(Op.GT_EQ, name, (low,)), SimpleTest(Op.LT_EQ, name, (high,))), True)
    if kind == "null":
        return SimpleTest(_NULL_TESTS[found["null"].lower(), found["unless"] is None], name, ())
    if kind == "list":
        return _in(name, found["list"], found["notin"] is None)
    return _like(name, _literal(found["pattern"]), found["unlike"] is None)


@functools.lru_cache(1024)
def _is_name(name: str) -> bool:
    return WORDS.isdisjoint(name.lower().split("."))


def _in(name: str, listed: str, is_in: bool) -> SimpleTest:
    found = [_literal(each) for each in _ITEM.findall(listed)]
    if len({type(value) for value in found}) > 1:
        raise _NotSimple
    values = tuple(dict.fromkeys(found))
    if len(values) == 1:
        return SimpleTest(Op.EQ if is_in else Op.NOT_EQ, name, values)
    return SimpleTest(Op.IN if is_in else Op.NOT_IN, name, values)


def _like(name: str, pattern: str, is_like: bool) -> SimpleTest:
    prefix = pattern.removesuffix("%")
    if "%" in prefix:
        raise _NotSimple
    if prefix == pattern:
        return SimpleTest(Op.EQ if is_like else Op.NOT_EQ, name, (pattern,))
    return SimpleTest(Op.STARTS_WITH if is_like else Op.NOT_STARTS_WITH, name, (prefix,))


def _literal(text: str) -> Any:
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    if text[0] in "tTfF":
        return text[0] in "tT"
    return decimal.Decimal(text) if "." in text else int(text)


def _joined(parts: list[Simple], *, is_and: bool) -> Simple:
    return parts[0] if len(parts) == 1 else SimpleTests(tuple(parts), is_and)
