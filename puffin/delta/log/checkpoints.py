"""
Reads checkpoints: protocol, metadata and live files (protocol, "Checkpoints").

Classic, multi-part and V2 checkpoints with sidecars differ in the number of files; each file has one row for each
action. A checkpoint has as many rows as the table has files, so it is read in batches, by column, and only the fields
that planning needs.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin.delta.log.actions import (
    NUM_RECORDS,
    Action,
    AddFile,
    DeletionVectorDescriptor,
    FileKey,
    Metadata,
    Protocol,
    Sidecar,
    file_key,
    metadata_action,
    num_records,
    protocol_action,
    read_actions,
    read_file_statistics,
    sidecar_action,
)
from puffin.delta.log.log_files import Checkpoint, CheckpointContent
from puffin.errors import CorruptMetadataError, FileNotFound, StorageError, UnsupportedTableError
from puffin.storage import Store, join

_SIDECARS = "_sidecars"
_BATCH_ROWS = 64 * 1024
_FREE_ROWS = 1024 * 1024  # allowed in a file of any size

# Paths of Parquet columns; a file may lack some. Two of them may have the row count of a file's statistics.
_FILE_FIELDS = ("path", "partitionValues", "size", "dataChange", "deletionVector", "stats", "stats_parsed.numRecords")
_FILE_COLUMNS = tuple(f"add.{field}" for field in _FILE_FIELDS)
_STATISTICS_COLUMNS = ("add.path", "add.deletionVector", "add.stats")
_METADATA_FIELDS = ("id", "format.provider", "schemaString", "partitionColumns", "configuration")
_OTHER_COLUMNS = (*(f"metaData.{field}" for field in _METADATA_FIELDS), "protocol", "sidecar")

_Item = TypeVar("_Item")
_ReadBatch: TypeAlias = Callable[[pa.RecordBatch], Iterable[_Item]]

_NO_VALUES: Mapping[str, str | None] = {}


def read_checkpoint(checkpoint: Checkpoint, directory: str, store: Store, *, with_files: bool) -> CheckpointContent:
    """
    Read a checkpoint; ``with_files`` also reads the live files, which takes the longest and opens the sidecars.

    Raises CorruptMetadataError if a file cannot be parsed, or if protocol or metadata are missing.
    """
    found: list[Action] = []
    for part in checkpoint.parts:
        if part.name.endswith(".json"):
            found += read_actions(store.read(part.uri), part.uri)
        else:
            columns = (*_OTHER_COLUMNS, *_FILE_COLUMNS) if with_files else _OTHER_COLUMNS
            found += _read_parquet(part.uri, store, columns, _actions)
    protocol = next((action for action in found if isinstance(action, Protocol)), None)
    metadata = next((action for action in found if isinstance(action, Metadata)), None)
    where = checkpoint.parts[0].uri
    if protocol is None or metadata is None:
        raise CorruptMetadataError(f"{where}: expected a checkpoint with a protocol and a metaData action, found none")
    if not with_files:
        return CheckpointContent(protocol, metadata, ())
    for sidecar in [action for action in found if isinstance(action, Sidecar)]:
        found += _read_sidecar(sidecar, directory, store, where, _FILE_COLUMNS, _actions)
    return CheckpointContent(protocol, metadata, [action for action in found if isinstance(action, AddFile)])


def read_checkpoint_statistics(checkpoint: Checkpoint, directory: str, store: Store) -> dict[FileKey, str]:
    """The statistics of live files, as JSON strings."""
    found: dict[FileKey, str] = {}
    sidecars: list[tuple[Sidecar, str]] = []
    for part in checkpoint.parts:
        if part.name.endswith(".json"):
            data = store.read(part.uri)
            found.update(read_file_statistics(data, part.uri))
            actions: Iterable[Action] = read_actions(data, part.uri)
        else:
            found.update(_read_parquet(part.uri, store, _STATISTICS_COLUMNS, _file_statistics))
            actions = _read_parquet(part.uri, store, ("sidecar",), _actions)
        sidecars += ((action, part.uri) for action in actions if isinstance(action, Sidecar))
    for sidecar, where in sidecars:
        found.update(_read_sidecar(sidecar, directory, store, where, _STATISTICS_COLUMNS, _file_statistics))
    return found


def _read_sidecar(
    sidecar: Sidecar, directory: str, store: Store, where: str, columns: Sequence[str], read: _ReadBatch[_Item]
) -> list[_Item]:
    # It is always in the log's own directory; the path may date from before the table was moved.
    name = unquote(sidecar.path).rpartition("/")[2]
    try:
        return _read_parquet(join(directory, _SIDECARS, name), store, columns, read)
    except FileNotFound as exc:
        raise FileNotFound(f"{where}: a sidecar of the checkpoint is missing: {exc}") from exc


def _read_parquet(uri: str, store: Store, columns: Sequence[str], read: _ReadBatch[_Item]) -> list[_Item]:
    found: list[_Item] = []
    with store.open_input(uri) as source, _errors_about(uri):
        parquet = pq.ParquetFile(source, pre_buffer=True)
        _check_rows(parquet.metadata.num_rows, source.size())
        _check_structs(parquet.schema_arrow, columns)
        for group in range(parquet.num_row_groups):
            for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns):
                found += read(batch)
    return found


def _actions(batch: pa.RecordBatch) -> Iterator[Action]:
    for name, read in _READERS.items():
        if name in batch.schema.names:
            rows = batch.column(name).drop_null()
            if len(rows):
                yield from read(rows)


def _file_statistics(batch: pa.RecordBatch) -> Iterator[tuple[FileKey, str]]:
    rows = batch.column("add").drop_null() if "add" in batch.schema.names else ()
    if len(rows):
        for path, vector, stats in zip(
            _required(rows, "path", pa.string()),
            _deletion_vectors(rows),
            _optional(rows, "stats", pa.string()),
            strict=True,
        ):
            if stats is not None:
                yield file_key(path, vector), stats


def _check_rows(rows: int, size: int) -> None:
    # Runs of equal rows take no bytes in Parquet, but actions differ, most of them by random names.
    if rows > max(size, _FREE_ROWS):
        raise ValueError(f"expected no more rows than bytes, found {rows} in {size}")


def _check_structs(schema: pa.Schema, columns: Iterable[str]) -> None:
    # A column of another type would match none of the paths, and its actions would be silently missing.
    structs = {column.partition(".")[0] for column in columns}
    for field in schema:
        if field.name in structs and not pa.types.is_struct(field.type):
            raise TypeError(f"expected {field.name} to be a struct, found {field.type}")


def _metadata(rows: pa.StructArray) -> Iterable[Metadata]:
    # Parquet's maps arrive as pairs.
    return (
        metadata_action({**fields, "configuration": dict(fields.get("configuration") or ())})
        for fields in rows.to_pylist()
    )


def _add_files(rows: pa.StructArray) -> Iterable[AddFile]:
    return map(
        AddFile,
        _required(rows, "path", pa.string()),
        _partition_values(rows),
        _required(rows, "size", pa.int64()),
        (changes is not False for changes in _optional(rows, "dataChange", pa.bool_())),
        _record_counts(rows),
        _deletion_vectors(rows),
    )


_READERS: Mapping[str, Callable[[pa.StructArray], Iterable[Action]]] = {
    "protocol": lambda rows: map(protocol_action, rows.to_pylist()),
    "metaData": _metadata,
    "sidecar": lambda rows: map(sidecar_action, rows.to_pylist()),
    "add": _add_files,
}


def _partition_values(rows: pa.StructArray) -> Iterable[Mapping[str, str | None]]:
    maps = _field(rows, "partitionValues")
    if maps is None:
        return [_NO_VALUES] * len(rows)
    if not pa.types.is_map(maps.type):
        raise TypeError(f"expected add.partitionValues to be a map, found {maps.type}")
    keys, values = (entries.cast(pa.string()).to_pylist() for entries in (maps.keys, maps.items))
    ends = maps.offsets.to_pylist()
    return (
        dict(zip(keys[start:end], values[start:end], strict=True)) if end > start else _NO_VALUES
        for start, end in itertools.pairwise(ends)
    )


def _record_counts(rows: pa.StructArray) -> list[int | None]:
    stats = _field(rows, "stats")
    parsed = _field(rows, "stats_parsed")
    counts = None if parsed is None else _field(parsed, "numRecords")
    counts = pa.nulls(len(rows), pa.int64()) if counts is None else counts.cast(pa.int64())
    if stats is None:
        return list(counts.to_pylist())
    found = pc.struct_field(pc.extract_regex(stats.cast(pa.string()), NUM_RECORDS), "count")
    counts = pc.coalesce(counts, found.cast(pa.int64()))
    known: list[int | None] = counts.to_pylist()
    for index in pc.indices_nonzero(pc.and_(pc.is_valid(stats), pc.is_null(counts))).to_pylist():
        known[index] = num_records(stats[index].as_py())
    return known


def _deletion_vectors(rows: pa.StructArray) -> Iterable[DeletionVectorDescriptor | None]:
    vectors = _field(rows, "deletionVector")
    if vectors is None or vectors.null_count == len(vectors):
        return [None] * len(rows)
    there = vectors.drop_null()
    descriptors = map(
        DeletionVectorDescriptor,
        _required(there, "storageType", pa.string()),
        _required(there, "pathOrInlineDv", pa.string()),
        _optional(there, "offset", pa.int64()),
        _required(there, "sizeInBytes", pa.int64()),
        _required(there, "cardinality", pa.int64()),
    )
    return (next(descriptors) if valid else None for valid in vectors.is_valid().to_pylist())


def _required(rows: pa.StructArray, name: str, kind: pa.DataType) -> list[Any]:
    values = _optional(rows, name, kind)
    if None in values:
        raise TypeError(f"expected {name} in every row, found a null")
    if pa.types.is_integer(kind) and min(values) < 0:
        raise ValueError(f"expected {name} not to be negative, found {min(values)}")
    return values


def _optional(rows: pa.StructArray, name: str, kind: pa.DataType) -> list[Any]:
    column = _field(rows, name)
    return [None] * len(rows) if column is None else list(column.cast(kind).to_pylist())


def _field(rows: pa.StructArray, name: str) -> pa.Array | None:
    if not pa.types.is_struct(rows.type):
        raise TypeError(f"expected a struct with {name}, found {rows.type}")
    return pc.struct_field(rows, name) if rows.type.get_field_index(name) >= 0 else None


@contextlib.contextmanager
def _errors_about(uri: str) -> Iterator[None]:
    """Turn errors of pyarrow and of invalid actions into errors about the file."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as exc:
        reason = " ".join(str(exc).split())
        # pyarrow also raises OSError for broken pages, but then without an errno.
        if isinstance(exc, OSError) and exc.errno is not None:
            raise StorageError(f"{uri}: {reason}") from exc
        raise CorruptMetadataError(f"{uri}: expected a readable checkpoint: {reason}") from exc
    except UnsupportedTableError as exc:
        raise UnsupportedTableError(f"{uri}: {exc}") from exc
