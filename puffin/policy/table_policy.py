"""What a rule means for one table, whose owner may have set properties beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from puffin.errors import SetupError
from puffin.policy import quantities
from puffin.policy.model import IGNORED, NARROW, Due, Rule
from puffin.policy.yaml_nodes import WrongValue

_T = TypeVar("_T")

PREFIX = "puffin-sidecar."
_ELSEWHERE = {"home", "field-ids", "scan-planning-mode", "scan-planning-reason"}  # other parts of the program read them


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicy:
    """
    What is kept for a table, and when it is due.

    Attributes:
        columns: Names; None for every column.
        no_values: The columns whose values must not stand in statistics.
        owner_set: The properties of the table that count, and ``unknown_properties`` those of ours that nobody reads.
        unmatched: Names and patterns of the rule that match no column of the table, each after the key that has it.
    """

    rule: Rule
    columns: tuple[str, ...] | None
    index_columns: tuple[str, ...]
    partitions: bool
    joint: tuple[str, ...]
    no_values: tuple[str, ...]
    due: Due
    owner_set: tuple[str, ...] = ()
    unknown_properties: tuple[str, ...] = ()
    unmatched: frozenset[tuple[str, str]] = frozenset()

    def to_json(self) -> dict[str, Any]:
        return {
            "rule-line": self.rule.line or None,
            "columns": None if self.columns is None else list(self.columns),
            "partitions": self.partitions,
            "joint": list(self.joint),
            "no-values": list(self.no_values),
            "index-columns": list(self.index_columns),
            "index-fpp": self.rule.index_fpp,
            "keep-entries": self.rule.keep_entries,
            "due": self.due.to_json(),
            "owners": self.rule.owners,
            "owner-set": list(self.owner_set),
            "unknown-properties": list(self.unknown_properties),
        }


def table_policy(rule: Rule, properties: Mapping[str, str], types: Mapping[str, str]) -> TablePolicy:
    """
    The policy of a table with these properties, and columns of these types.

    Raises SetupError if its owner has set a property to what it cannot mean.
    """
    ours = {key.removeprefix(PREFIX): value for key, value in properties.items() if key.startswith(PREFIX)}
    columns = tuple(types)
    indexable = [name for name, type_ in types.items() if type_ != "boolean"]
    wide = TablePolicy(
        rule=rule,
        columns=_matching(rule.columns, columns) if rule.columns else None,
        index_columns=_matching(rule.index_columns, indexable),
        partitions=rule.partitions,
        joint=_of_columns(rule.joint, columns),
        no_values=_matching(rule.no_values, columns),
        due=rule.due,
        unmatched=frozenset(_unmatched(rule, columns, indexable)),
    )
    if rule.owners == IGNORED:
        return wide
    owner = _Owner(ours)
    narrow = rule.owners == NARROW
    kept = owner.columns("columns", columns)
    index_columns = owner.columns("index-columns", indexable)
    joint = owner.get("joint", lambda text: _of_columns(_joint(text), columns))
    no_values = owner.get("no-values", lambda text: _matching(_no_values(text), columns)) or ()
    partitions, due = owner.get("partitions", quantities.flag), owner.get("due", _due_conditions)
    if kept is not None and narrow and wide.columns is not None:
        kept = tuple(name for name in kept if name in wide.columns)
    if index_columns is not None and narrow:
        index_columns = tuple(name for name in index_columns if name in wide.index_columns)
    if joint is not None and narrow:
        joint = tuple(each for each in joint if set(each.split("+")) in [set(known.split("+")) for known in wide.joint])
    if partitions is not None and narrow:
        partitions = partitions and wide.partitions
    return dataclasses.replace(
        wide,
        columns=wide.columns if kept is None else kept,
        index_columns=wide.index_columns if index_columns is None else index_columns,
        joint=wide.joint if joint is None else joint,
        no_values=tuple(name for name in columns if name in {*wide.no_values, *no_values}),  # switched on, never off
        partitions=wide.partitions if partitions is None else partitions,
        due=wide.due if due is None else _due(wide.due, due, narrow=narrow),
        owner_set=tuple(PREFIX + key for key in sorted(ours) if key in owner.known),
        unknown_properties=tuple(PREFIX + key for key in sorted(ours.keys() - owner.known - _ELSEWHERE)),
    )


def _unmatched(rule: Rule, columns: Sequence[str], indexable: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key, patterns, known in (
        ("columns", rule.columns or (), columns),
        ("index-columns", rule.index_columns, indexable),
        ("no-values", rule.no_values, columns),
    ):
        yield from ((key, pattern) for pattern in patterns if not _matching([pattern], known))
    yield from (("joint", each) for each in rule.joint if not set(each.split("+")) <= set(columns))


class _Owner:
    """The properties that the owner of a table has set."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self.known: set[str] = set()

    def get(self, key: str, parse: Callable[[str], _T]) -> _T | None:
        """The value of a property; None if it is not set."""
        self.known.add(key)
        text = self._properties.get(key)
        try:
            return None if text is None else parse(text.strip())
        except WrongValue as exc:
            raise SetupError(f"table property {PREFIX}{key}: expected {exc}, found {text!r}") from exc

    def columns(self, key: str, columns: Sequence[str]) -> tuple[str, ...] | None:
        return self.get(key, lambda text: _matching(_split(text), columns))


def _due_conditions(text: str) -> Mapping[str, Any]:
    """The conditions of a property, by field of `Due`: ``never``, or ``rows-changed=5%, age=1d``."""
    if text == "never":
        return {"never": True}
    found: dict[str, Any] = {"never": False}
    for pair in _split(text):
        key, _, value = (part.strip() for part in pair.partition("="))
        if key not in quantities.DUE:
            raise WrongValue(f"never, or conditions such as rows-changed=5%, of {', '.join(quantities.DUE)}")
        found[key.replace("-", "_")] = quantities.DUE[key](value)
    return found


def _due(wide: Due, owner: Mapping[str, Any], *, narrow: bool) -> Due:
    """The conditions of the owner instead of those of the rule; for ``narrow`` only those that are met later."""
    if not narrow:
        return dataclasses.replace(wide, **owner)
    later = {
        key: max(value, getattr(wide, key))
        for key, value in owner.items()
        if key != "never" and getattr(wide, key) is not None
    }
    return dataclasses.replace(wide, **later, never=wide.never or owner["never"])


def _matching(patterns: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in columns if any(name == p or fnmatchcase(name, p) for p in patterns))


def _of_columns(joint: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The sets all of whose columns the table has."""
    return tuple(each for each in joint if set(each.split("+")) <= set(columns))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _no_values(text: str) -> tuple[str, ...]:
    return quantities.EVERY_OR_NONE[text] if text in quantities.EVERY_OR_NONE else _split(text)


def _joint(text: str) -> tuple[str, ...]:
    return tuple(quantities.joint(each) for each in _split(text))
