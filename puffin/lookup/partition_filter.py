"""
Select partitions by name, by a row filter, or by both.

A name is compared with partition tuples. A filter is projected onto each partition spec and drops only partitions
without a matching row, so the selection covers at least the rows that match.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

from puffin.errors import NotFoundError, UnsupportedTypeError, UsageError
from puffin.planning.partitions import known_specs, may_pass
from puffin.tables.document import current_schema
from puffin.tables.expression import Combination, Constant, Expression, PartitionTest
from puffin.tables.snapshot import TableSnapshot
from puffin.values.partition_tuples import PartitionKey, plain_key, value_to_json
from puffin.values.transforms import result_type, to_partition_value

_Spec: TypeAlias = Sequence[Mapping[str, Any]]
_Wanted: TypeAlias = Mapping[int, Mapping[str, str]]  # JSON values by field id, by spec id


class PartitionFilter:
    """
    Tells which partitions are selected.

    Args:
        opened: The table; its columns may have had other types at the snapshot.
        partitions: Names such as ``"day=2024-01-02"`` or ``"a=1/b=2"``, with fields of any partition spec of the table,
            and values that may be percent-encoded (``%2F`` for a slash). A plus is a plus; paths of Iceberg files also
            have it for a blank. A name selects the partitions that have its value in each of its fields; no names
            select all partitions.
        where: A row filter in pyiceberg's grammar; it selects the partitions that may hold a matching row.

    Raises:
        NotFoundError: No partition spec has the fields of a name, or the current schema lacks a column of the filter.
        UsageError: A name or the filter cannot be parsed.
        UnsupportedTypeError: Values of a field of a name, or of a column of the filter, cannot be compared.
        MissingDependencyError: The filter needs pyiceberg, which is not installed.
    """

    def __init__(self, opened: TableSnapshot, partitions: Sequence[str] = (), where: str | None = None) -> None:
        state, snapshot = opened.state, None if opened.is_empty else opened.snapshot
        self._types, specs = state.tuple_types_at(snapshot), known_specs(state, at=snapshot)
        self._named = [_named(text, specs, state.source_types_at(snapshot)) for text in partitions]
        self._where: Expression = Constant(True)
        if where is not None:
            from puffin.iceberg.filters import FilterParser

            specs = known_specs(state, opened.unreadable.keys(), at=snapshot)  # a filter's values have the types of now
            self._where = FilterParser(current_schema(state.document), specs)(where)
        self._tested: dict[tuple[PartitionTest, str], bool] = {}
        self._known: dict[PartitionKey, bool] = {}

    def __call__(self, key: PartitionKey) -> bool:
        """Whether a partition is selected; CorruptMetadataError if a value does not fit its field."""
        if key not in self._known:
            spec_id, text = plain_key(key, self._types)
            partition = json.loads(text)
            self._known[key] = self._is_named(spec_id, partition) and self._passes(self._where, spec_id, partition)
        return self._known[key]

    def _is_named(self, spec_id: int, partition: Mapping[str, Any]) -> bool:
        return not self._named or any(
            spec_id in named
            and all(f in partition and json.dumps(partition[f]) == value for f, value in named[spec_id].items())
            for named in self._named
        )

    def _passes(self, where: Expression, spec_id: int, partition: Mapping[str, Any]) -> bool:
        if isinstance(where, Constant):
            return where.value
        if isinstance(where, Combination):
            join = all if where.is_and else any
            return join(self._passes(part, spec_id, partition) for part in where.parts)
        test = where.partitions.get(spec_id)
        if test is None:
            return True
        values = {key: partition[key] for key in map(str, test.field_ids) if key in partition}
        key = test, json.dumps(values)
        if key not in self._tested:
            self._tested[key] = may_pass(test, values, self._types[spec_id])
        return self._tested[key]


def _named(name: str, specs: Mapping[int, _Spec], types: Mapping[int, str]) -> _Wanted:
    """The field values that a name selects, for each spec that has all its fields."""
    asked = dict(_assignments(name))
    found: dict[int, dict[str, str]] = {}
    wrong: UsageError | None = None
    for spec_id, spec in specs.items():
        fields = {field["name"]: field for field in spec}
        if asked.keys() <= fields.keys():
            try:
                found[spec_id] = {
                    str(fields[field]["field-id"]): _json_value(fields[field], types, text)
                    for field, text in asked.items()
                }
            except UsageError as exc:
                wrong = exc  # a field of this name may have another type in another spec
            except UnsupportedTypeError as exc:
                raise UnsupportedTypeError(f"partition {name!r}: {exc}") from exc
    if found:
        return found
    if wrong is not None:
        raise UsageError(f"partition {name!r}: {wrong}") from wrong
    known = sorted({field["name"] for spec in specs.values() for field in spec})
    together = " together" if set(known) >= asked.keys() else ""
    raise NotFoundError(
        f"partition {name!r}: no partition spec has {', '.join(asked)}{together}; "
        f"the partition fields are {', '.join(known) or 'none'}"
    )


def _assignments(name: str) -> list[tuple[str, str]]:
    assignments = []
    for part in name.split("/"):
        field, equals, text = part.partition("=")
        if not field or not equals:
            raise UsageError(f"partition {name!r}: expected FIELD=VALUE, or several with / between, found {part!r}")
        assignments.append((unquote(field), unquote(text)))
    if len({field for field, _ in assignments}) < len(assignments):
        raise UsageError(f"partition {name!r}: expected each field once")
    return assignments


def _json_value(field: Mapping[str, Any], types: Mapping[int, str], text: str) -> str:
    transform, source_type = field["transform"], types[field["source-id"]]
    value = to_partition_value(transform, source_type, text)
    return json.dumps(value_to_json(result_type(transform, source_type), value))
