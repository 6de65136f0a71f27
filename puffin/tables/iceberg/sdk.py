"""
Everything that is asked of pyiceberg, in one file: catalogs, and file systems with their credentials.

pyiceberg's own scan and commit are not used. Its planner refuses tables with equality deletes, its reader takes a
manifest that is cut short for one that ends, its models drop what they do not know, and a statistics commit through
it is neither retried nor possible on format version 3. What is used is what it does well: finding a catalog by name,
turning catalog properties into a file system, and reading a row filter and projecting it on partitions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from puffin.errors import (
    ColumnNotFound,
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    MissingDependencyError,
    PuffinError,
    SetupError,
    StorageError,
    TableNotFound,
    UnsupportedTableError,
    UsageError,
)

if TYPE_CHECKING:
    import pyarrow.fs
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

try:
    import pyiceberg  # noqa: F401 - only to learn whether it is there
except ImportError as exc:
    raise MissingDependencyError("pyiceberg", "iceberg") from exc

_IO_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "hf.", "py-io-impl")

logging.getLogger("pyiceberg").addHandler(logging.NullHandler())


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """
    The catalog of pyiceberg's configuration (``.pyiceberg.yaml``, environment) under this name.

    Raises:
        SetupError: There is no such catalog, or its properties do not make one.
    """
    from pyiceberg.catalog import load_catalog

    try:
        return load_catalog(name, **properties)
    except Exception as exc:  # every catalog library has errors of its own
        raise SetupError(f"catalog {name!r} cannot be used: {one_line(exc)}") from exc


def catalog_kind(catalog: Catalog) -> str:
    """``"sql"``, ``"rest"``, or the class's name for a catalog of any other kind."""
    from pyiceberg.catalog.rest import RestCatalog

    if isinstance(catalog, RestCatalog):
        return "rest"
    # By name: the SQL catalog's module needs sqlalchemy, which the others do not.
    return "sql" if "SqlCatalog" in {c.__name__ for c in type(catalog).__mro__} else type(catalog).__name__


def load_catalog_table(catalog: Catalog, identifier: str) -> Table:
    """
    The table as the catalog has it now.

    Raises:
        TableNotFound: The catalog has no such table.
        CorruptMetadataError: pyiceberg does not understand its metadata.
        StorageError: The catalog does not answer.
    """
    from pydantic import ValidationError
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(identifier)
    except (NoSuchTableError, NoSuchNamespaceError) as exc:
        raise TableNotFound(f"{identifier}: no such table in catalog {catalog.name!r}") from exc
    except ValidationError as exc:
        raise CorruptMetadataError(f"{identifier}: pyiceberg cannot read its metadata: {one_line(exc)}") from exc
    except Exception as exc:
        raise StorageError(f"{identifier}: catalog {catalog.name!r} failed: {one_line(exc)}") from exc


def list_namespaces(catalog: Catalog) -> list[str]:
    """The dotted names of the catalog's namespaces, those inside of others included, sorted."""
    found: list[tuple[str, ...]] = []
    try:
        waiting = list(catalog.list_namespaces())
        while waiting:
            namespace = waiting.pop()
            if namespace not in found:
                found.append(namespace)
                waiting += catalog.list_namespaces(namespace)
    except Exception as exc:
        raise StorageError(f"catalog {catalog.name!r} failed: {one_line(exc)}") from exc
    return sorted(".".join(namespace) for namespace in found)


def list_tables(catalog: Catalog, namespace: str) -> list[str]:
    """The dotted names of the tables in a namespace, sorted; UsageError if there is no such namespace."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return sorted(".".join(identifier) for identifier in catalog.list_tables(namespace))
    except NoSuchNamespaceError as exc:
        raise UsageError(f"catalog {catalog.name!r}: no namespace {namespace!r}") from exc
    except Exception as exc:
        raise StorageError(f"namespace {namespace}: catalog {catalog.name!r} failed: {one_line(exc)}") from exc


def has_all_snapshots(catalog: Catalog) -> bool:
    """Whether tables of a REST catalog come with every snapshot they have, or with those of branches and tags alone."""
    return str(catalog.properties.get("snapshot-loading-mode", "all")).lower() == "all"


def post_statistics(catalog: Catalog, table: Table, updates: list[dict[str, Any]], schema_id: int | None) -> Any:
    """
    Send statistics updates to a REST catalog, asserting the table's uuid and its current schema.

    Args:
        updates: ``set-statistics`` and ``remove-statistics`` in the JSON form of the REST protocol.

    Returns:
        The metadata document of the catalog's answer.

    Raises:
        ConflictError: The catalog refused: something it was told to assert no longer holds.
        TableNotFound: The catalog has no such table any more.
        UnsupportedTableError: The catalog takes no commits.
        StorageError: The catalog refused for another reason; nothing was changed.
        CommitUnknownError: No clear answer came.
    """
    from pydantic import TypeAdapter
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertTableUUID, TableUpdate

    requirements: list[Any] = [AssertTableUUID(uuid=table.metadata.table_uuid)]
    if schema_id is not None:
        requirements.append(AssertCurrentSchemaId.model_validate({"current-schema-id": schema_id}))
    parsed = TypeAdapter(tuple[TableUpdate, ...]).validate_python(updates)
    where = ".".join(table.name())
    try:
        response = catalog.commit_table(table, tuple(requirements), parsed)
    except NotImplementedError as exc:  # not among the endpoints of the catalog, or answered with 501
        raise UnsupportedTableError(f"{where}: the catalog takes no commits: {one_line(exc)}") from exc
    except Exception as exc:
        error, what = _refusal(_http_status(exc))
        raise error(f"{where}: {what}: {one_line(exc)}") from exc
    return response.metadata.model_dump(mode="json", by_alias=True)


def io_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Of a catalog's properties, those that open files; the rest, a database's password say, stays on the driver."""
    return {key: value for key, value in properties.items() if key.startswith(_IO_PREFIXES)}


def filesystem_for(properties: Mapping[str, str]) -> Callable[[str], pyarrow.fs.FileSystem]:
    """A function from a URI to its file system, made with these catalog properties."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    io = PyArrowFileIO(dict(properties))

    def resolve(uri: str) -> pyarrow.fs.FileSystem:
        scheme, netloc, _ = io.parse_location(uri, dict(properties))
        return io.fs_by_scheme(scheme, netloc)

    return resolve


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionTest:
    """
    What a row filter asks of the partitions of one spec.

    Attributes:
        field_ids: The partition fields that it looks at.
        holds: Whether a partition may have rows that pass the filter, from the values of these fields in this order, as
            `partition_tuples.value_from_json` has them.
    """

    field_ids: tuple[int, ...]
    holds: Callable[[Sequence[Any]], bool]


def partition_tests(
    where: str, schema: Mapping[str, Any], specs: Mapping[int, Iterable[Mapping[str, Any]]]
) -> dict[int, PartitionTest]:
    """
    A row filter projected on each partition spec, so that no partition fails that has a row which passes.

    Args:
        where: A filter in pyiceberg's grammar, over the columns of a schema.
        schema: In the JSON form of appendix C.
        specs: The fields of each spec by its id; those whose source column the schema lacks are not looked at.

    Raises:
        ColumnNotFound: The schema has no such column.
        UsageError: The filter is none, or compares a column with what is not of its type.
    """
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields = []
    for field in schema["fields"]:
        with contextlib.suppress(Exception):  # of a type that pyiceberg does not know, and has no literals of
            fields.append(NestedField.model_validate(_optional(field)))
    try:
        expression, bound_to = parse(where), Schema(*fields)
        bind(bound_to, expression, case_sensitive=True)
        return {spec_id: _partition_test(expression, bound_to, spec) for spec_id, spec in specs.items()}
    except Exception as exc:  # of pyparsing, or whatever it is that a literal is no value of its column
        error = ColumnNotFound if str(exc).startswith("Could not find field") else UsageError
        raise error(f"filter {where!r}: {one_line(exc)}") from exc


def _partition_test(expression: Any, schema: Schema, spec: Iterable[Mapping[str, Any]]) -> PartitionTest:
    from pyiceberg.expressions.visitors import bind, expression_evaluator, extract_field_ids, inclusive_projection
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record
    from pyiceberg.types import NestedField

    of_one_column = (field for field in spec if len(field.get("source-ids", ())) <= 1)
    partition_spec = PartitionSpec(*(PartitionField(**f) for f in of_one_column if f["source-id"] in schema.field_ids))
    projected = inclusive_projection(schema, partition_spec)(expression)
    fields = [
        NestedField(f.field_id, f.name, f.transform.result_type(schema.find_type(f.source_id)), required=False)
        for f in partition_spec.fields
    ]
    wanted = extract_field_ids(bind(Schema(*fields), projected, case_sensitive=True))
    looked_at = [field for field in fields if field.field_id in wanted]
    evaluate = expression_evaluator(Schema(*looked_at), projected, case_sensitive=True)
    return PartitionTest(tuple(field.field_id for field in looked_at), lambda values: evaluate(Record(*values)))


def _optional(field: Mapping[str, Any]) -> dict[str, Any]:
    """A field of a schema, and all in it, as one that may be null: as a required one in an optional struct may be."""
    type_ = field["type"]
    if isinstance(type_, Mapping) and type_.get("type") == "struct":
        type_ = {**type_, "fields": [_optional(inner) for inner in type_["fields"]]}
    return {**field, "required": False, "type": type_}


def _http_status(exc: BaseException) -> int | None:
    # pyiceberg has one class for several codes; the answer itself is kept as the cause.
    return getattr(getattr(exc.__cause__, "response", None), "status_code", None)


def _refusal(status: int | None) -> tuple[type[PuffinError], str]:
    """What the HTTP status of a failed commit means; only 4xx is a clear answer, as Iceberg's own client has it."""
    if status == HTTPStatus.NOT_FOUND:
        return TableNotFound, "the catalog has no such table any more"
    if status == HTTPStatus.CONFLICT:
        return ConflictError, "the catalog refused the commit"
    if status is not None and status // 100 == HTTPStatus.BAD_REQUEST // 100:
        return StorageError, "the catalog refused the commit"
    return CommitUnknownError, "no clear answer to the commit"


def one_line(exc: BaseException) -> str:
    """An error of another library as one line: its first non-empty line, its type where it says nothing."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__
