"""What a rule means for one table, whose owner may have set properties beside it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

from puffin.errors import SetupError
from puffin.policy import quantities
from puffin.policy.model import IGNORED, NARROW, Due, Rule
from puffin.policy.yaml_nodes import WrongValue

_T = TypeVar("_T")
_Names = TypeVar("_Names", bound=tuple[str, ...] | None)

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
        owner_unmatched: The same of the owner, each after the property that has it.
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
    owner_unmatched: tuple[tuple[str, str], ...] = ()

    @property
    def owner_mistakes(self) -> tuple[str, ...]:
        """What the owner of the table asks in vain, a line for each."""
        unmatched = (matches_nothing(key, name) for key, name in self.owner_unmatched)
        return (*unmatched, *(f"unknown property {key}" for key in self.unknown_properties))

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
            "owner-unmatched": [{"property": key, "name": name} for key, name in self.owner_unmatched],
        }


def matches_nothing(key: str, name: str) -> str:
    """What people are told of a name or pattern, after the key or property that has it."""
    return f"{key}: {name} matches no column"


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
    owner = _Owner(ours, may_only_narrow=rule.owners == NARROW)
    named = _Named(
        columns=owner.get("columns", _split),
        index_columns=owner.get("index-columns", _split),
        no_values=owner.get("no-values", _no_values) or (),
        joint=owner.get("joint", _joint),
    )
    no_values = _matching(named.no_values, columns)
    return dataclasses.replace(
        wide,
        columns=owner.names(named.columns, lambda names: _matching(names, columns), wide.columns),
        index_columns=owner.names(named.index_columns, lambda names: _matching(names, indexable), wide.index_columns),
        joint=owner.names(named.joint, lambda sets: _of_columns(sets, columns), wide.joint, by=_members),
        no_values=tuple(name for name in columns if name in {*wide.no_values, *no_values}),  # switched on, never off
        partitions=owner.flag("partitions", wide.partitions),
        due=owner.due("due", wide.due),
        owner_set=tuple(PREFIX + key for key in sorted(ours) if key in owner.known),
        unknown_properties=tuple(PREFIX + key for key in sorted(ours.keys() - owner.known - _ELSEWHERE)),
        owner_unmatched=tuple((PREFIX + key, name) for key, name in _unmatched(named, columns, indexable)),
    )


class _Named(NamedTuple):
    """The columns that an owner names, as `Rule` has those of the policy; None if the owner does not say."""

    columns: Sequence[str] | None
    index_columns: Sequence[str] | None
    no_values: Sequence[str]
    joint: Sequence[str] | None


def _unmatched(named: Rule | _Named, columns: Sequence[str], indexable: Sequence[str]) -> Iterator[tuple[str, str]]:
    for key, patterns, known in (
        ("columns", named.columns, columns),
        ("index-columns", named.index_columns, indexable),
        ("no-values", named.no_values, columns),
    ):
        yield from ((key, pattern) for pattern in patterns or () if not _matching([pattern], known))
    yield from (("joint", each) for each in named.joint or () if not _members(each) <= set(columns))


class _Owner:
    """The properties that the owner of a table has set, instead of what the rule says, or only to narrow it."""

    def __init__(self, properties: Mapping[str, str], *, may_only_narrow: bool) -> None:
        self._properties = properties
        self._may_only_narrow = may_only_narrow
        self.known: set[str] = set()

    def get(self, key: str, parse: Callable[[str], _T]) -> _T | None:
        """The value of a property; None if it is not set."""
        self.known.add(key)
        text = self._properties.get(key)
        try:
            return None if text is None else parse(text.strip())
        except WrongValue as exc:
            raise SetupError(f"table property {PREFIX}{key}: expected {exc}, found {text!r}") from exc

    def names(
        self,
        named: Sequence[str] | None,
        matching: Callable[[Sequence[str]], tuple[str, ...]],
        of_rule: _Names,
        by: Callable[[str], object] = str,
    ) -> tuple[str, ...] | _Names:
        """
        The columns or sets that match what the owner names, which are compared ``by`` something; None of the rule means
        all.
        """
        if named is None:
            return of_rule
        own = matching(named)
        if of_rule is None or not self._may_only_narrow:
            return own
        allowed = [by(name) for name in of_rule]
        return tuple(name for name in own if by(name) in allowed)

    def flag(self, key: str, of_rule: bool) -> bool:
        own = self.get(key, quantities.flag)
        return of_rule if own is None else own and (of_rule or not self._may_only_narrow)

    def due(self, key: str, of_rule: Due) -> Due:
        """The rule with the conditions of the owner; only with those that are met later, if it may only narrow."""
        own = self.get(key, _due_conditions) or {}
        if self._may_only_narrow:
            own = {
                name: max(value, least) for name, value in own.items() if (least := getattr(of_rule, name)) is not None
            }
        return dataclasses.replace(of_rule, **own)


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


def _matching(patterns: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in columns if any(name == p or fnmatchcase(name, p) for p in patterns))


def _of_columns(joint: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """The sets all of whose columns the table has."""
    return tuple(each for each in joint if _members(each) <= set(columns))


def _members(joint: str) -> frozenset[str]:
    return frozenset(joint.split("+"))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _no_values(text: str) -> tuple[str, ...]:
    return quantities.EVERY_OR_NONE[text] if text in quantities.EVERY_OR_NONE else _split(text)


def _joint(text: str) -> tuple[str, ...]:
    return tuple(quantities.joint(each) for each in _split(text))
