"""A table at one version of its metadata. What follows from the document alone is worked out once, when first read."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

from puffin.cached import cached_property
from puffin.errors import (
    ColumnNotFound,
    CorruptMetadataError,
    SnapshotNotFound,
    UnsupportedTypeError,
    did_you_mean,
    said_by,
)
from puffin.storage import FileInfo
from puffin.tables.base import Column, Snapshot, SnapshotSelector, StatisticsEntry, natural_number
from puffin.tables.document import (
    NAME_MAPPING,
    all_schemas,
    current_schema,
    mapping_digest,
    name_mapping,
    partition_specs,
)
from puffin.tables.schema import field_ids, primitive_columns, required_leaves, reused_names
from puffin.values.value_type import is_hashable, is_promoted

_WITHOUT_HISTORY = (
    *("format-version", "location", "schemas", "schema", "current-schema-id"),
    *("partition-specs", "partition-spec", "default-spec-id", "refs"),
)
_NULLS = "nulls"

_State = TypeVar("_State", bound="TableState")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableState:
    """
    A table at one version of its metadata.

    Attributes:
        format: ``"iceberg"`` or ``"delta"``.
        uuid: The table's identity; None where the format version has none.
        document: The metadata document, unknown fields included, or a Delta table's description in the same terms
            (`puffin.tables.document`). Nothing changes it in place.
        columns: The primitive leaves of the current schema, in schema order.
        field_ids: The ids of all fields of the current schema, also inside lists and maps.
        snapshots: Every snapshot the table still has, by id.
        refs: Snapshot ids by branch and tag name.
        history: Each change of the current snapshot, in order: milliseconds since the epoch and snapshot id.
        statistics: Entries by snapshot id.
        partition_statistics: The paths of partition statistics files by snapshot id; None where an entry lacks it.
        metadata_file: The file at ``metadata_location`` as it was read, if a recreated table may reuse its name; else
            None.
        name: What errors call the table: what the user does, if that is known here.
    """

    format: str
    uuid: str | None
    metadata_location: str
    document: Mapping[str, Any]
    location: str
    properties: Mapping[str, str]
    columns: tuple[Column, ...]
    field_ids: frozenset[int]
    snapshots: Mapping[int, Snapshot]
    current_snapshot_id: int | None
    refs: Mapping[str, int]
    history: tuple[tuple[int, int], ...]
    statistics: Mapping[int, StatisticsEntry]
    partition_statistics: Mapping[int, str | None] = dataclasses.field(default_factory=dict)
    metadata_file: FileInfo | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.location)

    def called(self: _State, name: str) -> _State:
        """The same state of a table that the user calls so."""
        return self if name == self.name else dataclasses.replace(self, name=name)

    def select_snapshot(self, selector: SnapshotSelector) -> Snapshot | None:
        """
        The selected snapshot; None if the selector means the current one and the table has none yet.

        Raises SnapshotNotFound if the table has no such snapshot, branch or tag, or had none at that time.
        """
        if selector.snapshot_id is not None:
            return self.snapshot(selector.snapshot_id)
        if selector.ref is not None:
            if selector.ref not in self.refs:
                known = ", ".join(sorted(self.refs)) or "none"
                raise SnapshotNotFound(f"{self.name}: no branch or tag {selector.ref!r}; it has {known}")
            return self.snapshot(self.refs[selector.ref])
        if selector.as_of_ms is not None:
            past = [snapshot_id for at, snapshot_id in self.history if at <= selector.as_of_ms]
            if not past:
                raise SnapshotNotFound(f"{self.name}: no snapshot as old as {_iso(selector.as_of_ms)}")
            return self.snapshot(past[-1])
        return None if self.current_snapshot_id is None else self.snapshot(self.current_snapshot_id)

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with this id; SnapshotNotFound if the table does not have it, or no longer."""
        try:
            return self.snapshots[snapshot_id]
        except KeyError:
            raise SnapshotNotFound(
                f"{self.name}: no snapshot {snapshot_id} (it never existed, or has expired)"
            ) from None

    def settled(self, snapshot: Snapshot) -> Snapshot:
        """The newest version up to this one that has statistics or is not a mere note; usually the snapshot itself."""
        older = self.ancestors(snapshot.snapshot_id)
        return next((each for each in older if not each.is_note or each.snapshot_id in self.statistics), snapshot)

    def number_property(self, name: str, default: int) -> int:
        """
        A natural number from the table's properties; the default if the property is missing or not a natural number.
        """
        number = natural_number(self.properties.get(name))
        return default if number is None else number

    def keeps_column(self, column: Column) -> bool:
        """Whether a column of an earlier state is left; ConflictError if another job gave it another id meanwhile."""
        return column.field_id in self.field_ids

    def specs_with(self, column: Column, transform: str) -> dict[int, list[str]]:
        """The partition specs that have this transform of a column, with the ids of the fields, as JSON has them."""
        found: dict[int, list[str]] = {}
        for spec_id, spec in self.partition_specs.items():
            for field in spec:
                is_transform = str(field["transform"]).partition("[")[0] == transform
                if field.get("source-id") == column.field_id and is_transform:
                    found.setdefault(spec_id, []).append(str(field["field-id"]))
        return found

    def key_of(self, column: Column) -> str:
        """What files of ours outside the metadata call a column: the same for as long as the table has it."""
        return str(column.field_id)

    def ancestors(self, snapshot_id: int) -> Iterator[Snapshot]:
        """The snapshot and its parents, nearest first, down to the oldest one the table still has."""
        seen: set[int] = set()
        at: int | None = snapshot_id
        while at is not None and at in self.snapshots and at not in seen:
            seen.add(at)
            yield self.snapshots[at]
            at = self.snapshots[at].parent_id

    def select_columns(self, names: Sequence[str] | None) -> tuple[Column, ...]:
        """
        The columns of these names, in this order; None selects every column that can be hashed.

        Raises ColumnNotFound if the schema has no such primitive column, UnsupportedTypeError if one has no
        single-value bytes.
        """
        if names is None:
            return tuple(c for c in self.columns if is_hashable(c.type))
        chosen = tuple({column.field_id: column for column in map(self._column, names)}.values())
        for column in chosen:
            if not is_hashable(column.type):
                what = f"{self.name}: column {column.name}"
                raise UnsupportedTypeError(f"{what}: type {column.type} has no single-value bytes")
        return chosen

    @cached_property
    def columns_ever(self) -> Mapping[int, Column]:
        """The columns of all schemas by field id; a column of the current schema as it is now."""
        every = (column for schema in all_schemas(self.document) for column in primitive_columns(schema))
        return {column.field_id: column for column in (*every, *self.columns)}

    @cached_property
    def reused_names(self) -> Mapping[bool, Mapping[str, set[int]]]:
        """What `puffin.tables.schema.reused_names` finds in all schemas, by whether case matters."""
        schemas = [current_schema(self.document), *reversed(all_schemas(self.document))]
        return {is_exact: reused_names(schemas, case_sensitive=is_exact) for is_exact in (True, False)}

    @cached_property
    def source_types(self) -> Mapping[int, str]:
        """The types of `columns_ever` by field id: those of the source columns of all partition specs."""
        return {field_id: column.type for field_id, column in self.columns_ever.items()}

    @cached_property
    def partition_specs(self) -> dict[int, list[dict[str, Any]]]:
        """The fields of every partition spec by spec id; see `puffin.tables.document.partition_specs`."""
        return partition_specs(self.document)

    @property
    def vague_partition_ids(self) -> Set[int]:
        """The field ids of partition columns whose values depend on who reads them."""
        return frozenset()

    @cached_property
    def tuple_types(self) -> Mapping[int, Mapping[int, str]]:
        """The fields of partition tuples with the types of their values, by spec id."""
        from puffin.values.partition_tuples import tuple_types  # needs pyarrow, which a lookup does without

        return {spec_id: tuple_types(spec, self.source_types) for spec_id, spec in self.partition_specs.items()}

    def source_types_at(self, snapshot: Snapshot | None) -> Mapping[int, str]:
        """`source_types`, with the type that each of `unreadable_at` had at a snapshot; of now for None."""
        before = frozenset() if snapshot is None else self.unreadable_at(snapshot)
        return {**self.source_types, **{id_: str(self.column_type_at(snapshot, id_)) for id_ in before}}

    def tuple_types_at(self, snapshot: Snapshot | None) -> Mapping[int, Mapping[int, str]]:
        """`tuple_types` of the files of a snapshot; of now for None."""
        if snapshot is None or not self.unreadable_at(snapshot):
            return self.tuple_types
        from puffin.values.partition_tuples import tuple_types

        types = self.source_types_at(snapshot)
        return {spec_id: tuple_types(spec, types) for spec_id, spec in self.partition_specs.items()}

    @cached_property
    def name_mapping(self) -> list[dict[str, Any]] | None:
        """Field ids by name for files without ids (property ``schema.name-mapping.default``), or None."""
        text = self.properties.get(NAME_MAPPING)
        try:
            return None if text is None else name_mapping(text)
        except (ValueError, TypeError, RecursionError) as exc:
            raise CorruptMetadataError(f"{self.name}: property {NAME_MAPPING}: not a name mapping: {exc}") from exc

    def mapping_digest(self, column: Column) -> str | None:
        """
        A short digest of what the table's name mapping says of a column; None if there is no mapping.

        A word in its place stands for a column that a snapshot lacks.
        """
        if column.is_absent:
            return _NULLS
        return None if self.name_mapping is None else mapping_digest(self.name_mapping, column.path)

    def other_reading(self, noted: str | None, column: Column) -> str | None:
        """
        Why files have other values for a column than when `mapping_digest` was ``noted``, or None.

        None was noted if the digest did not matter, since all files had field ids.
        """
        if (noted is None and not column.is_absent) or noted == self.mapping_digest(column):
            return None
        if column.is_absent:
            return f"its statistics count values of column {column.name}, which the snapshot lacks"
        if noted == _NULLS:
            return f"column {column.name} was null when it was counted, since the snapshot lacked it"
        return f"the table's name mapping of column {column.name} has changed since it was made"

    def promotes_values(self, before: str, column: Column) -> bool:
        """Whether the values that a column had as one of an earlier type are those that it has now."""
        return is_promoted(before, column.type)

    @property
    def padded_ids(self) -> frozenset[int]:
        """The columns of which an engine may read a value with more blanks at its end than the file has."""
        return frozenset()

    def retyped_at(self, snapshot: Snapshot) -> frozenset[int]:
        """
        The columns whose type in the snapshot's schema is not promoted to that in `columns_ever`: of CREATE OR REPLACE.

        What partitions, bounds, delete files and an index say of them is in the other type.
        """
        return frozenset(
            field_id
            for types in self._types_in_schemas_of(snapshot)
            for field_id, before in types.items()
            if not is_promoted(before, self.source_types[field_id])
        )

    def unreadable_at(self, snapshot: Snapshot) -> frozenset[int]:
        """The columns of `retyped_at`, if it is known which schema the snapshot has."""
        return frozenset() if snapshot.schema_id is None else self.retyped_at(snapshot)

    def columns_at(self, snapshot: Snapshot) -> Mapping[int, Column]:
        """
        The columns of the current schema by field id, as the rows of a snapshot have them.

        Engines read the current snapshot, and those at the ends of branches, under the current schema, and any other
        under its own. A column that this lacks is then null, even if it has a default, or data files have it: by name,
        or since an earlier schema.
        """
        if snapshot.schema_id is None or snapshot.snapshot_id in self._heads:
            return self.columns_by_id
        schemas = {id_: each for each in all_schemas(self.document) if isinstance(id_ := each.get("schema-id"), int)}
        schema = schemas.get(snapshot.schema_id)
        lacking = set() if schema is None else self.columns_by_id.keys() - self._ids(field_ids, schema)
        if not lacking:
            return self.columns_by_id
        before = {each.schema_id for each in self.ancestors(snapshot.snapshot_id)}
        may_be_in_files = set[int]().union(*(self._ids(field_ids, schemas[id_]) for id_ in schemas.keys() & before))
        if NAME_MAPPING in self.properties:
            may_be_in_files = lacking
        null = {
            field_id: dataclasses.replace(column, path=(), defaults=())
            for field_id, column in self.columns_by_id.items()
            if field_id in lacking
            if field_id in may_be_in_files or any(default is not None for default in column.defaults)
        }
        return {**self.columns_by_id, **null}

    @cached_property
    def _heads(self) -> frozenset[int | None]:
        refs = (self.document.get("refs") or {}).values()
        return frozenset({self.current_snapshot_id, *(r["snapshot-id"] for r in refs if r.get("type") == "branch")})

    def column_type_at(self, snapshot: Snapshot | None, field_id: int) -> str | None:
        """
        A column's type when a snapshot was made; None if unknown or if the column did not exist.

        ``snapshot`` is None if the table no longer has the snapshot.
        """
        types = {types[field_id] for types in self._types_in_schemas_of(snapshot) if field_id in types}
        return types.pop() if len(types) == 1 else None

    def _types_in_schemas_of(self, snapshot: Snapshot | None) -> Iterator[Mapping[int, str]]:
        """The types of columns by field id in the schema of a snapshot; of every schema if it is not known which."""
        own = None if snapshot is None else snapshot.schema_id  # optional in version 1
        return (types for schema_id, types in self._types_in_schemas if own is None or schema_id == own)

    @cached_property
    def _types_in_schemas(self) -> Sequence[tuple[int | None, Mapping[int, str]]]:
        return [
            (schema.get("schema-id"), {column.field_id: column.type for column in primitive_columns(schema)})
            for schema in all_schemas(self.document)
        ]

    def without_history(self) -> TableState:
        """The same state, with only schemas, partition specs and refs in its document, which takes far less memory."""
        kept = {key: self.document[key] for key in _WITHOUT_HISTORY if key in self.document}
        return dataclasses.replace(self, document=kept)

    @cached_property
    def columns_by_id(self) -> Mapping[int, Column]:
        """The columns of the current schema by field id."""
        return {column.field_id: column for column in self.columns}

    @cached_property
    def required_columns(self) -> frozenset[int]:
        """
        The field ids of the columns of the current schema that are never null.

        Engines can be told to require a column that had nulls, so no schema may have had it without.
        """
        schemas = [current_schema(self.document), *all_schemas(self.document)]
        required = [self._ids(required_leaves, each) for each in schemas]
        optional = (self._ids(field_ids, each) - of_it for each, of_it in zip(schemas, required, strict=True))
        return required[0].difference(*optional)

    def _ids(self, find: Callable[[Mapping[str, Any]], frozenset[int]], schema: Mapping[str, Any]) -> frozenset[int]:
        """The ids that a function finds in a schema, which may be an older one that nobody has checked."""
        try:
            return find(schema)
        except (KeyError, TypeError, AttributeError) as exc:
            about = f"{self.name}: schema {schema.get('schema-id')}"
            raise CorruptMetadataError(f"{about}: expected fields with ids and types: {said_by(exc)}") from exc

    def has_column(self, name: str) -> bool:
        """Whether the schema has such a primitive column."""
        return name in self._columns_by_name

    def _column(self, name: str) -> Column:
        try:
            return self._columns_by_name[name]
        except KeyError:
            within = (known for known in self._columns_by_name if known.startswith(f"{name}."))  # name is a struct
            hint = did_you_mean(next(within, name), self._columns_by_name)
            if not hint and all(part.strip() in self._columns_by_name for part in name.split(",")):
                hint = "; name each column by itself"
            elif not hint and "*" in name:
                hint = "; expected a name, not a pattern"
            raise ColumnNotFound(f"{self.name}: no primitive column {name!r} outside lists and maps{hint}") from None

    @cached_property
    def _columns_by_name(self) -> dict[str, Column]:
        # A whole name takes precedence over a dotted path, so the shorter path wins.
        return {c.name: c for c in sorted(self.columns, key=lambda c: -len(c.path))}


def _iso(ms: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat()
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since the epoch"
