"""
All uses of pyiceberg, in one file: catalogs, file systems with their credentials, and row filters.

pyiceberg's scan and commit are not used. Its planner refuses tables with equality deletes, its reader does not notice a
truncated manifest, its models drop unknown fields, and it neither retries a statistics commit nor supports one on
format version 3. It does well what is used here: find a catalog by name, turn catalog properties into a file system,
and parse a row filter and project it onto partitions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from puffin.errors import ColumnNotFound, MissingDependencyError, SetupError, StorageError, UsageError

if TYPE_CHECKING:
    import pyarrow.fs
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.hive import _HiveClient
    from pyiceberg.schema import Schema

try:
    import pyiceberg  # noqa: F401 - only to check that it is installed
except ImportError as exc:
    raise MissingDependencyError("pyiceberg", "iceberg") from exc

_CATALOG_CLASSES = ("RestCatalog", "SqlCatalog", "GlueCatalog", "HiveCatalog")
METASTORE_ANSWER_SECONDS = 600.0
"""How long to wait for a Hive metastore's answer; the default of Hive's own clients."""

_IO_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "client.", "hf.", "py-io-impl")

logging.getLogger("pyiceberg").addHandler(logging.NullHandler())


def open_catalog(name: str, properties: Mapping[str, str]) -> Catalog:
    """
    The catalog with this name in pyiceberg's configuration (``.pyiceberg.yaml``, environment).

    Raises SetupError if it does not exist or its properties are invalid.
    """
    from pyiceberg.catalog import load_catalog

    try:
        catalog = load_catalog(name, **properties)
        if catalog_kind(catalog) == "HiveCatalog":
            bound_waits(cast("Any", catalog)._client)
        return catalog
    except Exception as exc:  # every catalog library has its own errors
        raise SetupError(f"catalog {name!r} cannot be used: {one_line(exc)}") from exc


def catalog_kind(catalog: Catalog) -> str:
    """The name of the known pyiceberg class of the catalog, perhaps a base class; else of the catalog's own class."""
    # By name, since importing a class may need a library that other catalogs do without.
    names = [c.__name__ for c in type(catalog).__mro__]
    return next((name for name in names if name in _CATALOG_CLASSES), names[0])


def bound_waits(client: _HiveClient) -> _HiveClient:
    """The same Hive metastore client, with a timeout on its sockets."""
    make = client._init_thrift_transport

    def transport() -> Any:
        made = make()
        for part in vars(made).values():  # each transport class has another name for its socket
            if hasattr(part, "setTimeout"):
                part.setTimeout(METASTORE_ANSWER_SECONDS * 1000)
        return made

    client._init_thrift_transport = transport  # type: ignore[method-assign]
    client._transport = transport()
    return client


def list_namespaces(catalog: Catalog) -> list[str]:
    """The dotted names of the catalog's namespaces, also nested ones, sorted."""
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
    """The dotted names of the tables in a namespace, sorted; UsageError if the namespace does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return sorted(".".join(identifier) for identifier in catalog.list_tables(namespace))
    except NoSuchNamespaceError as exc:
        raise UsageError(f"catalog {catalog.name!r}: no namespace {namespace!r}") from exc
    except Exception as exc:
        raise StorageError(f"namespace {namespace}: catalog {catalog.name!r} failed: {one_line(exc)}") from exc


def has_all_snapshots(catalog: Catalog) -> bool:
    """Whether a REST catalog sends all snapshots of a table, rather than only those of branches and tags."""
    return str(catalog.properties.get("snapshot-loading-mode", "all")).lower() == "all"


def io_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The catalog properties that open files; the rest, such as a database's password, stays on the driver."""
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
    What a row filter requires of partitions of one spec, given the values of some fields in this order.

    The values are those of `partition_tuples.value_from_json`. A partition fails only if none of its rows pass.
    """

    field_ids: tuple[int, ...]
    holds: Callable[[Sequence[Any]], bool]


def partition_tests(
    where: str, schema: Mapping[str, Any], specs: Mapping[int, Iterable[Mapping[str, Any]]]
) -> dict[int, PartitionTest]:
    """
    Project a row filter onto each partition spec; no partition with a matching row fails.

    Raises ColumnNotFound if the schema lacks a column, UsageError if the filter cannot be parsed or its types do not
    match.
    """
    from pyiceberg.expressions.parser import parse
    from pyiceberg.expressions.visitors import bind
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    fields = []
    for field in schema["fields"]:
        with contextlib.suppress(Exception):  # a type that pyiceberg does not know, so filters cannot use it
            fields.append(NestedField.model_validate(_optional(field)))
    try:
        expression, bound_to = parse(where), Schema(*fields)
        bind(bound_to, expression, case_sensitive=True)
        return {spec_id: _partition_test(expression, bound_to, spec) for spec_id, spec in specs.items()}
    except Exception as exc:  # of pyparsing, or any error about a literal's type
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
    """A field of a schema, and all fields in it, as nullable: required fields of an optional struct may be null too."""
    type_ = field["type"]
    if isinstance(type_, Mapping) and type_.get("type") == "struct":
        type_ = {**type_, "fields": [_optional(inner) for inner in type_["fields"]]}
    return {**field, "required": False, "type": type_}


def one_line(exc: BaseException) -> str:
    """Another library's error as its first non-empty line; its type if it has no text."""
    said = getattr(exc, "message", None) or exc  # Thrift's errors have this field, and print as code
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__
