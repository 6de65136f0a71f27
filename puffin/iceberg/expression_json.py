"""
Reads filters in the REST protocol's expression JSON: the form that clients write, and the one that the spec prefers.

A tree of unbound predicates comes out. Each NOT has moved into the operators, where null follows Iceberg's rules, and
literals are as JSON has them, since only the column says what they mean. What cannot be read is an error: read too
strictly, a filter would prune files with matching rows; read too loosely, it would return rows that do not match.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from puffin.errors import UsageError
from puffin.tables.expression import Op

DEEPEST = 200
"""How deep a filter may be nested, in JSON or as text."""

_MOST_TESTS = 2_000  # each costs about a millisecond; a list of values is one test
_MOST_VALUES = 50_000  # in all lists, each about 0.05 ms
_SHOWN = 60

_NEGATED = {
    Op.LT: Op.GT_EQ,
    Op.LT_EQ: Op.GT,
    Op.EQ: Op.NOT_EQ,
    Op.IN: Op.NOT_IN,
    Op.IS_NULL: Op.NOT_NULL,
    Op.IS_NAN: Op.NOT_NAN,
    Op.STARTS_WITH: Op.NOT_STARTS_WITH,
}
_NEGATED |= {negated: op for op, negated in _NEGATED.items()}
_UNARY = {"is-null": Op.IS_NULL, "not-null": Op.NOT_NULL, "is-nan": Op.IS_NAN, "not-nan": Op.NOT_NAN}
_SETS = {"in": Op.IN, "not-in": Op.NOT_IN}
_COMPARISONS = {
    "lt": Op.LT,
    "lt-eq": Op.LT_EQ,
    "gt": Op.GT,
    "gt-eq": Op.GT_EQ,
    "eq": Op.EQ,
    "not-eq": Op.NOT_EQ,
    "starts-with": Op.STARTS_WITH,
    "not-starts-with": Op.NOT_STARTS_WITH,
}
_SWAPPED = {Op.LT: Op.GT, Op.LT_EQ: Op.GT_EQ, Op.GT: Op.LT, Op.GT_EQ: Op.LT_EQ, Op.EQ: Op.EQ, Op.NOT_EQ: Op.NOT_EQ}


@dataclasses.dataclass(frozen=True, slots=True)
class FilterJson:
    """
    A filter in expression JSON, as a caller sent it; equal texts are equal filters.

    Attributes:
        text: The compact JSON.
        case_sensitive: Whether names of columns are to be taken literally.
        any_schema: Whether names that are new to the current schema and to that of the snapshot are those of other
            schemas. Only with the newest metadata is it certain that they mean nothing else by now.
    """

    text: str
    case_sensitive: bool = True
    any_schema: bool = False

    @classmethod
    def of(cls, document: Any, *, case_sensitive: bool = True) -> FilterJson:
        """The filter of a parsed document; UsageError if it is nested too deep."""
        try:
            return cls(json.dumps(document, separators=(",", ":")), case_sensitive)
        except RecursionError as exc:
            raise _too_deep() from exc

    def __str__(self) -> str:
        return self.text


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """A column, by name or by field id, or a partition transform of one."""

    column: str | int
    transform: str | None = None

    def __str__(self) -> str:
        return str(self.column) if self.transform is None else f"{self.transform}({self.column})"


@dataclasses.dataclass(frozen=True, slots=True)
class UnboundPredicate:
    """A test of a term; ``literals`` are bare JSON values, null for an infinite number: pyiceberg cannot write one."""

    op: Op
    term: Term
    literals: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class UnboundCombination:
    """Rows that pass all parts, or at least one."""

    parts: tuple[Unbound, ...]
    is_and: bool


Unbound: TypeAlias = bool | UnboundPredicate | UnboundCombination


def parse_expression(filter_: FilterJson) -> Unbound:
    """The tree of a filter; UsageError if it has another form than the protocol's."""
    try:
        document = json.loads(filter_.text, parse_constant=_no_number)
        return _Reader().expression(document, negated=False, depth=0)
    except ValueError as exc:
        raise UsageError(f"filter: expected JSON: {type(exc).__name__}") from exc
    except RecursionError as exc:
        raise _too_deep() from exc


def columns_of(tree: Unbound) -> Iterator[str | int]:
    """The names and ids of columns in a tree."""
    return (predicate.term.column for predicate in _predicates(tree))


def literals_of(tree: Unbound) -> Iterator[Any]:
    """The literals in a tree."""
    return (literal for predicate in _predicates(tree) for literal in predicate.literals)


def _predicates(tree: Unbound) -> Iterator[UnboundPredicate]:
    if isinstance(tree, UnboundPredicate):
        yield tree
    elif isinstance(tree, UnboundCombination):
        for part in tree.parts:
            yield from _predicates(part)


class _Reader:
    def __init__(self) -> None:
        self._tests = self._values = 0

    def expression(self, document: Any, *, negated: bool, depth: int) -> Unbound:
        if depth > DEEPEST:
            raise _too_deep()
        if isinstance(document, bool):
            return document is not negated
        type_ = _type_of(document, "an expression")
        if type_ in ("true", "false"):
            return (type_ == "true") is not negated
        if type_ == "literal":
            return _required(document, "value", bool) is not negated
        if type_ == "not":
            return self.expression(_required(document, "child", object), negated=not negated, depth=depth + 1)
        if type_ in ("and", "or"):
            return self._combination(document, type_, negated=negated, depth=depth)
        self._tests += 1
        if self._tests > _MOST_TESTS:
            raise UsageError(f"filter: expected at most {_MOST_TESTS:,} tests; many values of a column fit one `in`")
        predicate = _predicate(document, type_)
        self._values += len(predicate.literals)
        if self._values > _MOST_VALUES:
            raise UsageError(f"filter: expected at most {_MOST_VALUES:,} values")
        if not negated:
            return predicate
        return dataclasses.replace(predicate, op=_NEGATED[predicate.op])

    def _combination(self, document: Any, type_: str, *, negated: bool, depth: int) -> Unbound:
        parts = []
        # Clients write a long chain as a tree that grows on one side, so a step here is not a call.
        waiting = [document]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Mapping) and str(part.get("type")).lower() == type_:
                waiting += [_required(part, "right", object), _required(part, "left", object)]
            else:
                parts.append(self.expression(part, negated=negated, depth=depth + 1))
        return UnboundCombination(tuple(parts), is_and=(type_ == "and") is not negated)


def _predicate(document: Mapping[str, Any], type_: str) -> UnboundPredicate:
    if type_ in _UNARY:
        return UnboundPredicate(_UNARY[type_], _term(_either(document, "term", "child")))
    if type_ in _SETS:
        values = _required(document, "values", object)
        if isinstance(values, Mapping):
            values = _required(values, "values", list)
        if not isinstance(values, list):
            raise UsageError(f"filter: values of {type_}: expected a list, found {type(values).__name__}")
        return UnboundPredicate(_SETS[type_], _term(_either(document, "term", "child")), tuple(map(_literal, values)))
    if type_ not in _COMPARISONS:
        raise UsageError(f"filter: expected an expression of a known type, found {_shown(type_)}")
    op = _COMPARISONS[type_]
    left, right = _either(document, "term", "left"), _either(document, "value", "right")
    if not _is_term(left) and _is_term(right) and op in _SWAPPED:
        op, left, right = _SWAPPED[op], right, left
    return UnboundPredicate(op, _term(left), (_literal(right),))


def _is_term(document: Any) -> bool:
    return isinstance(document, Mapping) and str(document.get("type")).lower() in ("reference", "transform", "apply")


def _term(document: Any) -> Term:
    if isinstance(document, str):
        return Term(document)
    type_ = _type_of(document, "a term")
    if type_ == "reference":
        column = document.get("id", document.get("name", document.get("term")))
        if isinstance(column, bool) or not isinstance(column, str | int):
            raise UsageError(f"filter: reference: expected a name or an id, found {_shown(column)}")
        return Term(column)
    if type_ == "transform":
        return _transformed(_required(document, "transform", str), _term(_required(document, "term", object)))
    if type_ == "apply":
        return _applied(document)
    raise UsageError(f"filter: expected a reference or a transform, found {_shown(type_)}")


def _applied(document: Mapping[str, Any]) -> Term:
    """A function of the spec's newer form: its name, and arguments among which is one term."""
    name = _required(document, "function", object)
    if isinstance(name, Mapping):
        name = name.get("name")
    arguments = _required(document, "arguments", list)
    terms = [each for each in arguments if _is_term(each)]
    numbers = [_literal(each) for each in arguments if not _is_term(each)]
    if not isinstance(name, str) or len(terms) != 1 or any(type(each) is not int for each in numbers):
        raise UsageError(f"filter: expected a transform of one column, found {_shown(document)}")
    width = f"[{numbers[0]}]" if numbers and "[" not in name else ""
    return _transformed(f"{name}{width}", _term(terms[0]))


def _transformed(transform: str, inner: Term) -> Term:
    if inner.transform is not None:
        raise UsageError(f"filter: expected a transform of a column, found {_shown(str(inner))} in {transform}")
    transform = transform.lower()
    return inner if transform == "identity" else Term(inner.column, transform)


def _literal(document: Any) -> Any:
    if isinstance(document, Mapping):
        if str(document.get("type")).lower() != "literal":
            raise UsageError(f"filter: expected a literal, found {_shown(document)}")
        document = _required(document, "value", object)
    if isinstance(document, list | Mapping):
        raise UsageError(f"filter: expected a literal, found {_shown(document)}")
    return document


def _type_of(document: Any, expected: str) -> str:
    if not isinstance(document, Mapping) or not isinstance(document.get("type"), str):
        raise UsageError(f"filter: expected {expected}, found {_shown(document)}")
    return str(document["type"]).lower().replace("_", "-")


def _required(document: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    if key not in document or not isinstance(document[key], kind):
        raise UsageError(f"filter: expected {key!r} in {_shown(document)}")
    return document[key]


def _either(document: Mapping[str, Any], usual: str, newer: str) -> Any:
    key = newer if newer in document and usual not in document else usual
    return _required(document, key, object)


def _shown(value: Any) -> str:
    """What an error quotes: names of types and columns, keys, and no values of a filter, which belong in no log."""
    if isinstance(value, Mapping):
        return f"an object with {', '.join(sorted(map(str, value)))}"[:_SHOWN]
    return repr(value)[:_SHOWN] if isinstance(value, str | None) else type(value).__name__


def _too_deep() -> UsageError:
    return UsageError(f"filter: expected AND, OR and NOT nested at most {DEEPEST} deep")


def _no_number(text: str) -> Any:
    raise ValueError(text)
