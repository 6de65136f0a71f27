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
from typing import TYPE_CHECKING, Any, cast

from puffin.errors import (
    ColumnNotFound,
    MissingDependencyError,
    SetupError,
    StorageError,
    UsageError,
)

if TYPE_CHECKING:
    import pyarrow.fs
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.hive import _HiveClient
    from pyiceberg.schema import Schema

try:
    import pyiceberg  # noqa: F401 - only to learn whether it is there
except ImportError as exc:
    raise MissingDependencyError("pyiceberg", "iceberg") from exc

_CATALOG_CLASSES = ("RestCatalog", "SqlCatalog", "GlueCatalog", "HiveCatalog")
METASTORE_ANSWER_SECONDS = 600.0
"""How long a Hive metastore may take to say something, as long as Hive's own clients wait by default."""

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
        catalog = load_catalog(name, **properties)
        if catalog_kind(catalog) == "HiveCatalog":
            bound_waits(cast("Any", catalog)._client)
        return catalog
    except Exception as exc:  # every catalog library has errors of its own
        raise SetupError(f"catalog {name!r} cannot be used: {one_line(exc)}") from exc


def catalog_kind(catalog: Catalog) -> str:
    """The name of the class of pyiceberg's that the catalog is of, or is derived from; else of its own class."""
    # By name: to import a class takes a library that catalogs of another kind do without.
    names = [c.__name__ for c in type(catalog).__mro__]
    return next((name for name in names if name in _CATALOG_CLASSES), names[0])


def bound_waits(client: _HiveClient) -> _HiveClient:
    """The same client of a Hive metastore, which fails where its sockets would wait for an answer for ever."""
    make = client._init_thrift_transport

    def transport() -> Any:
        made = make()
        for part in vars(made).values():  # what a transport calls its socket depends on its class
            if hasattr(part, "setTimeout"):
                part.setTimeout(METASTORE_ANSWER_SECONDS * 1000)
        return made

    client._init_thrift_transport = transport  # type: ignore[method-assign]
    client._transport = transport()
    return client


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
    What a row filter asks of the partitions of one spec: whether rows may pass, from the values of some fields.

    The values are in the order of the fields, as `partition_tuples.value_from_json` has them.
    """

    field_ids: tuple[int, ...]
    holds: Callable[[Sequence[Any]], bool]


def partition_tests(
    where: str, schema: Mapping[str, Any], specs: Mapping[int, Iterable[Mapping[str, Any]]]
) -> dict[int, PartitionTest]:
    """
    A row filter projected on each partition spec, so that no partition fails that has a row which passes.

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


def one_line(exc: BaseException) -> str:
    """An error of another library as one line: its first non-empty line, its type where it says nothing."""
    said = getattr(exc, "message", None) or exc  # a field of Thrift's errors, which print as code
    lines = [line.strip() for line in str(said).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__
