"""
Everything that is asked of pyiceberg, in one file: catalogs, manifests and file systems with credentials.

pyiceberg's own scan and commit are not used. Its planner refuses tables with equality deletes, its models
drop what they do not know, and a statistics commit through it is neither retried nor possible on format
version 3. What is used is what it does well: finding a catalog by name, reading Avro manifests, and turning
catalog properties into a file system.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from puffin.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptMetadataError,
    MissingDependencyError,
    SetupError,
    StorageError,
    TableNotFound,
    UsageError,
)

if TYPE_CHECKING:
    import pyarrow.fs
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table

try:
    import pyiceberg  # noqa: F401
except ImportError as exc:
    raise MissingDependencyError("pyiceberg", "iceberg") from exc

# The newest manifest schema: a field that an older manifest lacks reads as null.
_MANIFEST_VERSION = 3
# Field ids of data_file in manifests, and of file_path in position delete files (spec, "Reserved Field IDs").
_LOWER_BOUNDS, _UPPER_BOUNDS = 125, 128
_REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE = 143, 144, 145
_DELETE_FILE_PATH = 2147483546
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


def list_tables(catalog: Catalog, namespace: str) -> list[str]:
    """The dotted names of the tables in a namespace, sorted; UsageError if there is no such namespace."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return sorted(".".join(identifier) for identifier in catalog.list_tables(namespace))
    except NoSuchNamespaceError as exc:
        raise UsageError(f"catalog {catalog.name!r}: no namespace {namespace!r}") from exc
    except Exception as exc:
        raise StorageError(f"namespace {namespace}: catalog {catalog.name!r} failed: {one_line(exc)}") from exc


def post_statistics(catalog: Catalog, table: Table, updates: list[dict[str, Any]], schema_id: int | None) -> Any:
    """
    Send statistics updates to a REST catalog, asserting the table's uuid and its current schema.

    Args:
        updates: ``set-statistics`` and ``remove-statistics`` in the JSON form of the REST protocol.

    Returns:
        The metadata document of the catalog's answer.

    Raises:
        ConflictError: The catalog refused: something it was told to assert no longer holds.
        CommitUnknownError: No clear answer came.
    """
    from pydantic import TypeAdapter
    from pyiceberg.exceptions import CommitFailedException, ForbiddenError, UnauthorizedError
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertTableUUID, TableUpdate

    requirements: list[Any] = [AssertTableUUID(uuid=table.metadata.table_uuid)]
    if schema_id is not None:
        requirements.append(AssertCurrentSchemaId.model_validate({"current-schema-id": schema_id}))
    parsed = TypeAdapter(tuple[TableUpdate, ...]).validate_python(updates)
    where = ".".join(table.name())
    try:
        response = catalog.commit_table(table, tuple(requirements), parsed)
    except CommitFailedException as exc:
        raise ConflictError(f"{where}: the catalog refused the commit: {one_line(exc)}") from exc
    except (UnauthorizedError, ForbiddenError) as exc:
        raise StorageError(f"{where}: the catalog refused the commit: {one_line(exc)}") from exc
    except Exception as exc:
        raise CommitUnknownError(f"{where}: no clear answer to the commit: {one_line(exc)}") from exc
    return response.metadata.model_dump(mode="json", by_alias=True)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """
    A data file or delete file that a snapshot's manifests list as live.

    Attributes:
        content: ``"DATA"``, ``"POSITION_DELETES"`` or ``"EQUALITY_DELETES"``.
        sequence_number: The data sequence number, inherited where the manifest leaves it out.
        partition: The partition tuple in the order of the spec's fields, in physical form.
        referenced_data_file: The one data file that a delete file is about, if that is known.
        encrypted: Whether the file has key metadata.
    """

    content: str
    sequence_number: int
    file_path: str
    file_format: str
    spec_id: int
    partition: tuple[Any, ...]
    record_count: int
    file_size_in_bytes: int
    split_offsets: tuple[int, ...]
    referenced_data_file: str | None
    content_offset: int | None
    content_size_in_bytes: int | None
    encrypted: bool


def live_files(manifest_list: str, properties: Mapping[str, str]) -> Iterator[LiveFile]:
    """
    The live files of a snapshot, in manifest order.

    Raises:
        CorruptMetadataError: The manifest list or a manifest cannot be read.
    """
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.io import load_file_io
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
        _inherit_from_manifest,
        read_manifest_list,
    )

    io = load_file_io(dict(properties), manifest_list)
    at = manifest_list
    try:
        for manifest in read_manifest_list(io.new_input(manifest_list)):
            at = manifest.manifest_path
            with AvroFile[ManifestEntry](
                io.new_input(at),
                MANIFEST_ENTRY_SCHEMAS[_MANIFEST_VERSION],
                read_types={-1: ManifestEntry, 2: DataFile},
                read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
            ) as entries:
                for entry in entries:
                    if entry.status != ManifestEntryStatus.DELETED:
                        yield _live_file(_inherit_from_manifest(entry, manifest))
    except Exception as exc:
        raise CorruptMetadataError(f"{at}: expected an Iceberg manifest list or manifest: {one_line(exc)}") from exc


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


def one_line(exc: BaseException) -> str:
    """An error of another library as one line: its first non-empty line, its type where it says nothing."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    return lines[0] if lines else type(exc).__name__


def _live_file(entry: ManifestEntry) -> LiveFile:
    file = entry.data_file
    values = dict(zip(_data_file_ids(), file._data, strict=False))
    return LiveFile(
        content=file.content.name,
        sequence_number=entry.sequence_number or 0,
        file_path=file.file_path,
        file_format=str(file.file_format.value),
        spec_id=file.spec_id,
        partition=tuple(file.partition._data),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        split_offsets=tuple(file.split_offsets or ()),
        referenced_data_file=values.get(_REFERENCED_DATA_FILE) or _only_path(values),
        content_offset=values.get(_CONTENT_OFFSET),
        content_size_in_bytes=values.get(_CONTENT_SIZE),
        encrypted=file.key_metadata is not None,
    )


def _only_path(values: Mapping[int, Any]) -> str | None:
    # A position delete file whose lowest and highest path agree is about that one data file.
    lower, upper = (values.get(bounds) or {} for bounds in (_LOWER_BOUNDS, _UPPER_BOUNDS))
    if _DELETE_FILE_PATH in lower and lower[_DELETE_FILE_PATH] == upper.get(_DELETE_FILE_PATH):
        return str(lower[_DELETE_FILE_PATH], "utf-8")
    return None


@functools.lru_cache(maxsize=1)
def _data_file_ids() -> tuple[int, ...]:
    from pyiceberg.manifest import DATA_FILE_TYPE

    return tuple(field.field_id for field in DATA_FILE_TYPE[_MANIFEST_VERSION].fields)
