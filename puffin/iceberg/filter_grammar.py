"""Reads row filters by pyiceberg's grammar, and says where one departs from it."""

from __future__ import annotations

import decimal
import functools
import itertools
import re
from typing import Any, NamedTuple

from puffin.errors import UsageError
from puffin.iceberg.expression_json import DEEPEST
from puffin.iceberg.filter_mistakes import TEXT, TO_END, expected_at
from puffin.values.decimals import decimal_text

_MOST_SHOWN = 40  # characters
_QUOTED = re.compile(
    rf"""  (?P<name>"[^"]*")  |  (?<![A-Za-z0-9_$])(?P<like>like)\s*{TEXT}{TO_END}  |  {TEXT}{TO_END}  """,
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_QUOTED_OR_NUMBERS = re.compile(
    rf"{_QUOTED.pattern}  |  (?P<numbers>\(\s*{_NUMBER}(?:\s*,\s*{_NUMBER})+\s*\))", _QUOTED.flags
)
_DIGITS = re.compile(r"[0-9.]+")
_POWER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)e[+-]?0*(?:[1-3][0-9]{2}|[0-9]{1,2})"  # beyond those of doubles
_QUOTED_OR_POWER = re.compile(
    rf"{_QUOTED.pattern}  |  (?<![A-Za-z0-9_$.])(?P<power>{_POWER})(?![A-Za-z0-9_$.])", _QUOTED.flags
)
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_SPACE, _NO_LETTER, _END = r"[ \t\n\r]*", "(?<![A-Za-z0-9_$])", "(?![A-Za-z0-9_$])"
_OPENING = re.compile(rf"(?:{_SPACE}(?:\(|{_NO_LETTER}not{_END}))*{_SPACE}", re.IGNORECASE)
_CLOSING = re.compile(rf"{_SPACE}\)")
_JOIN = re.compile(rf"{_SPACE}{_NO_LETTER}(?:and|or){_END}", re.IGNORECASE)
_NO_TEST = re.compile(rf"(?:and|or|is|in|like|between|null|nan|true|false){_END}", re.IGNORECASE)
"""Words that the grammar takes for the name of a column where it expects one, or refuses beside other tests."""


def parse_by_grammar(where: str) -> Any:
    """A row filter as pyiceberg has it; UsageError if the grammar refuses it, or if it is nested too deep."""
    # The grammar takes time with the square of the depth.
    steps = ((char == "(") - (char == ")") for char in _QUOTED.sub("", where))
    if max(itertools.accumulate(steps), default=0) > DEEPEST:
        raise UsageError(f"expected parentheses nested at most {DEEPEST} deep")
    grammar = _grammar()
    try:
        return grammar.whole.parse_string(_for_grammar(where, as_long=False), parse_all=True)[0]
    except (grammar.refusal, ValueError) as exc:  # pyparsing lists its grammar, pydantic only counts errors
        fault = _fault(_for_grammar(where, as_long=True))
        found = repr(where[fault : fault + _MOST_SHOWN]) if fault < len(where) else "its end"
        raise UsageError(f"{expected_at(where, fault)}; found {found} at character {fault + 1}") from exc


class _Grammar(NamedTuple):
    """pyiceberg's, of a filter and of a single test, and the class of errors about texts that are none."""

    whole: Any
    test: Any
    refusal: Any


@functools.cache
def _grammar() -> _Grammar:
    from pyiceberg.expressions import parser

    known: Any = parser
    # pyparsing would turn tabs into spaces, in the values too, and rows with a tab would be missed.
    whole, test = (each.copy().parse_with_tabs() for each in (known.boolean_expression, known.predicate))
    return _Grammar(whole, test, known.ParseException)


def _fault(text: str) -> int:
    """Where a filter departs from the grammar; pyparsing tells only where a part begins that is wrong."""
    grammar, place, depth = _grammar(), 0, 0
    while True:
        opening = _OPENING.match(text, place)
        if opening is not None:
            place, depth = opening.end(), depth + opening[0].count("(")
        if _NO_TEST.match(text, place) is not None:
            return place
        try:
            place = grammar.test.try_parse(text, place, do_actions=True)
        except grammar.refusal as exc:
            return _next_word(text, exc.loc)
        while depth and (closing := _CLOSING.match(text, place)) is not None:
            place, depth = closing.end(), depth - 1
        join = _JOIN.match(text, place)
        if join is None:
            return _next_word(text, place)
        place = join.end()


def _next_word(text: str, place: int) -> int:
    return len(text) - len(text[place:].lstrip(" \t\n\r"))


def _for_grammar(where: str, as_long: bool) -> str:
    """
    A filter without what the grammar refuses: exponents, dots in quoted names, integers beside decimals in a list of
    numbers, and escaped underscores in patterns.

    Args:
        as_long: Whether it has to be as long as the filter. Then names and numbers may be others.
    """

    def allowed(part: re.Match[str]) -> str:
        if part["like"] is not None:
            return _ESCAPED.sub(_plain_underscore, part[0]).ljust(len(part[0]))
        if part["name"] is not None:
            return part[0].replace(".", "_" if as_long else '"."')
        if part["numbers"] is None or "." not in part[0]:
            return part[0]
        return part[0].replace(".", "0") if as_long else _DIGITS.sub(_decimal, part[0])

    def in_digits(part: re.Match[str]) -> str:
        if part["power"] is None:
            return part[0]
        if as_long:
            return re.sub("[Ee+-]", "0", part[0])
        # With a point, since no float is made of an integer beyond all floats.
        return _DIGITS.sub(_decimal, decimal_text(decimal.Decimal(part[0])))

    return _QUOTED_OR_NUMBERS.sub(allowed, _QUOTED_OR_POWER.sub(in_digits, where))


def _decimal(digits: re.Match[str]) -> str:
    return digits[0] if "." in digits[0] else f"{digits[0]}.0"


def _plain_underscore(escaped: re.Match[str]) -> str:
    return "_" if escaped[0] == r"\_" else escaped[0]
