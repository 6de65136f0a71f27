"""Recognizes common mistakes in filters by what stands where a filter departs from the grammar."""

from __future__ import annotations

import re

TEXT = r"'(?:[^'\\]|''|\\.)*"
"""A text in single quotes, without the last one."""

TO_END = r"(?:'|\\?\Z)"
"""The end of a text, or of the filter if it is not closed: without that, a search would begin anew at each quote."""

_TEST = "expected tests such as a = 5, b in ('x', 'y'), c.d is not null or e like 'x%', joined by and, or and not"
_EXPONENT = "expected a number such as 1e-5, with an exponent from -399 to 399"
_VALUE = "expected a number, true, false, or a text, date or time in single quotes"
_LINE_BREAK = "expected a text without a line break"
_TEXT = "expected a single quote at each end of a text, and two for one in it"

_QUOTED = re.compile(rf""""[^"]*"|{TEXT}(?:'|(?P<open>{TO_END}))""", re.DOTALL)
_MOST_SEEN = 300  # characters before the place: searching takes time with the square of the length of a name
_NAME = r"""(?P<name>(?:[A-Za-z0-9_$.]|"[^"]*")+)"""
_COMPARED = re.compile(rf"{_NAME}\s*(?:(?P<op>[<>=!]+)|in\s*\([^()]*|like|between)\s*\Z", re.IGNORECASE)
_UNCOMPARED = re.compile(rf"(?:\A|\(|\b(?:and|or|not)\b)\s*(?!not\b){_NAME}\s*\Z", re.IGNORECASE)
_NULL = re.compile(r"null\b", re.IGNORECASE)
_EXPONENT_OF_NUMBER = re.compile(r"e[-+]?[0-9]", re.IGNORECASE)
_LINE_BREAKS = re.compile("[\n\r]")
_WORD = re.compile(r"""[,\s]*["A-Za-z_]""")
_REST_OF_TIME = re.compile("[-/:T][0-9]")
_END_OF_TEST = re.compile(r"\Z|\)|(?:and|or)\b", re.IGNORECASE)


def expected_at(where: str, place: int) -> str:
    """What should stand where a filter departs from the grammar, as the beginning of an error's message."""
    before, rest = where[max(place - _MOST_SEEN, 0) : place], where[place:]
    for quoted in _QUOTED.finditer(where):
        if quoted["open"] is not None:
            return _TEXT
        is_text = quoted[0].startswith("'")
        if is_text and quoted.start() <= place < quoted.end() and _LINE_BREAKS.search(quoted[0]) is not None:
            return _LINE_BREAK
    compared, uncompared = _COMPARED.search(before), _UNCOMPARED.search(before)
    if compared is not None and compared["op"] and _NULL.match(rest):
        negation = "not " if compared["op"] in ("!=", "<>") else ""
        return f"expected {compared['name']} is {negation}null, as no comparison with null is true"
    if before[-1:].isdigit() and _EXPONENT_OF_NUMBER.match(rest):
        return _EXPONENT
    if (compared is not None and _WORD.match(rest)) or (before[-1:].isdigit() and _REST_OF_TIME.match(rest)):
        return _VALUE
    if uncompared is not None and _END_OF_TEST.match(rest):
        return f"expected a comparison such as {uncompared['name']} = true"
    return _TEST
