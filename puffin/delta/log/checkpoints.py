"""
Reads checkpoints: protocol, metadata and live files (protocol, "Checkpoints").

Classic, multi-part and V2 checkpoints with sidecars differ in the number of files; each file has one row for each
action. A checkpoint has as many rows as the table has files, so it is read in batches, by column, and only the fields
that planning needs; nothing here holds all files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from puffin.delta.log.actions import (
    NUM_RECORDS,
    Action,
    AddFile,
    DeletionVectorDescriptor,
    FileWithStatistics,
    Metadata,
    Protocol,
    Sidecar,
    metadata_action,
    num_records,
    protocol_action,
    read_actions,
    read_file_statistics,
    sidecar_action,
)
from puffin.delta.log.log_files import Checkpoint, CheckpointContent
from puffin.errors import CorruptMetadataError, FileNotFound, StorageError, UnsupportedTableError, in_one_line
from puffin.storage import Store, is_storage_failure, join

_SIDECARS = "_sidecars"
_BATCH_BYTES = 16 * 1024 * 1024
_LEAST_ROWS, _MOST_ROWS = 256, 64 * 1024  # of a batch
_FREE_ROWS = 1024 * 1024  # allowed in a file of any size

# Paths of Parquet columns; a file may lack some. Two of them may have the row count of a file's statistics.
_FILE_FIELDS = ("path", "partitionValues", "size", "dataChange", "deletionVector", "stats", "stats_parsed.numRecords")
_FILE_COLUMNS = tuple(f"add.{field}" for field in _FILE_FIELDS)
_OUTLINE_COLUMNS = ("add.path", "add.size")
_METADATA_FIELDS = ("id", "format.provider", "schemaString", "partitionColumns", "configuration")
_OTHER_COLUMNS = (*(f"metaData.{field}" for field in _METADATA_FIELDS), "protocol", "sidecar")

_Item = TypeVar("_Item")
_ReadBatch: TypeAlias = Callable[[pa.RecordBatch], Iterable[_Item]]

_NO_VALUES: Mapping[str, str | None] = {}


def read_checkpoint(checkpoint: Checkpoint, directory: str, store: Store) -> CheckpointContent:
    """
    Read what a checkpoint says beside its files.

    Raises CorruptMetadataError if a file cannot be parsed, or if protocol or metadata are missing.
    """
    found: list[Action] = []
    for part in checkpoint.parts:
        if part.name.endswith(".json"):
            found += read_actions(store.read(part.uri), part.uri)
        else:
            found += _read_parquet(part.uri, store, _OTHER_COLUMNS, _actions)
    protocol = next((action for action in found if isinstance(action, Protocol)), None)
    metadata = next((action for action in found if isinstance(action, Metadata)), None)
    if protocol is None or metadata is None:
        where = checkpoint.parts[0].uri
        raise CorruptMetadataError(f"{where}: expected a checkpoint with a protocol and a metaData action, found none")
    sidecars = (_sidecar_uri(action, directory) for action in found if isinstance(action, Sidecar))
    return CheckpointContent(protocol, metadata, tuple(sidecars))


def checkpoint_files(
    checkpoint: Checkpoint, content: CheckpointContent, store: Store, *, with_statistics: bool
) -> Iterator[FileWithStatistics]:
    """The files of a checkpoint, and their statistics on request; never holds more than a batch of them."""
    read = _files_with_statistics if with_statistics else _files
    for part in checkpoint.parts:
        if part.name.endswith(".json"):
            data = store.read(part.uri)
            texts = dict(read_file_statistics(data, part.uri)) if with_statistics else {}
            adds = (action for action in read_actions(data, part.uri) if isinstance(action, AddFile))
            yield from ((file, texts.get(file.key)) for file in adds)
        else:
            yield from _read_parquet(part.uri, store, _FILE_COLUMNS, read)
    for sidecar in content.sidecars:
        try:
            yield from _read_parquet(sidecar, store, _FILE_COLUMNS, read)
        except FileNotFound as exc:
            where = checkpoint.parts[0].uri
            raise FileNotFound(f"{where}: a sidecar of the checkpoint is missing: {exc}") from exc


@dataclasses.dataclass(frozen=True, slots=True)
class CheckpointRows:
    """Some rows of a checkpoint: those of a row group of a Parquet file, from ``start`` to ``stop``."""

    uri: str
    row_group: int
    start: int
    stop: int


@dataclasses.dataclass(frozen=True, slots=True)
class Outline:
    """
    The files of a checkpoint in parts of some rows each, and the bytes that they have.

    Attributes:
        paths: A hash of each path, which differs from process to process.
    """

    rows: tuple[CheckpointRows, ...]
    bytes: int
    paths: npt.NDArray[np.int64]


def outline_of(
    checkpoint: Checkpoint, content: CheckpointContent, store: Store, most_rows: int, least_files: int
) -> Outline | None:
    """
    The outline of a checkpoint, of which only paths and sizes are read.

    Args:
        most_rows: Of a part.

    Returns:
        None if it has fewer than ``least_files`` rows, or JSON with files.
    """
    texts = [part.uri for part in checkpoint.parts if part.name.endswith(".json")]
    if any(isinstance(action, AddFile) for uri in texts for action in read_actions(store.read(uri), uri)):
        return None
    uris = [*(part.uri for part in checkpoint.parts if part.uri not in texts), *content.sidecars]
    groups = [(uri, group, rows) for uri in uris for group, rows in enumerate(_row_groups(uri, store))]
    if sum(rows for _, _, rows in groups) < least_files:
        return None
    parts: list[CheckpointRows] = []
    paths = [np.empty(0, np.int64)]
    size = 0
    for uri, group, rows in groups:
        parts += (CheckpointRows(uri, group, at, min(at + most_rows, rows)) for at in range(0, rows, most_rows))
        for hashes, of_batch in _read_parquet(uri, store, _OUTLINE_COLUMNS, _paths_and_sizes, [group]):
            paths.append(hashes)
            size += of_batch
    return Outline(tuple(parts), size, np.concatenate(paths))


def files_in(rows: CheckpointRows, store: Store) -> Iterator[AddFile]:
    """The files of some rows of a checkpoint."""
    before = 0

    def read(batch: pa.RecordBatch) -> Iterable[FileWithStatistics]:
        nonlocal before
        start, stop = max(rows.start - before, 0), min(rows.stop - before, len(batch))
        before += len(batch)
        return _files(batch.slice(start, stop - start)) if start < stop else ()

    return (file for file, _ in _read_parquet(rows.uri, store, _FILE_COLUMNS, read, [rows.row_group]))


def _sidecar_uri(sidecar: Sidecar, directory: str) -> str:
    # It is always in the log's own directory; the path may date from before the table was moved.
    return join(directory, _SIDECARS, unquote(sidecar.path).rpartition("/")[2])


def _row_groups(uri: str, store: Store) -> list[int]:
    """The number of rows in each."""
    with store.open_input(uri) as source, _errors_about(uri):
        footer = pq.ParquetFile(source).metadata
        _check_rows(footer.num_rows, source.size())
        return [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]


def _read_parquet(
    uri: str,
    store: Store,
    columns: Sequence[str],
    read: _ReadBatch[_Item],
    row_groups: Iterable[int] | None = None,
) -> Iterator[_Item]:
    """What is read of each batch, of these row groups or all."""
    with store.open_input(uri) as source, _errors_about(uri):
        parquet = pq.ParquetFile(source, pre_buffer=True)
        _check_rows(parquet.metadata.num_rows, source.size())
        _check_structs(parquet.schema_arrow, columns)
        for group in range(parquet.num_row_groups) if row_groups is None else row_groups:
            stored = parquet.metadata.row_group(group)
            # Statistics of a file have a few kilobytes if the table has many columns.
            rows = min(max(_BATCH_BYTES * stored.num_rows // max(1, stored.total_byte_size), _LEAST_ROWS), _MOST_ROWS)
            found = 0
            for batch in parquet.iter_batches(rows, row_groups=[group], columns=columns):
                found += batch.num_rows
                yield from read(batch)
            if found != stored.num_rows:  # pyarrow omits rows behind a page without values, without an error
                raise ValueError(f"expected {stored.num_rows} rows in row group {group}, found {found}")


def _actions(batch: pa.RecordBatch) -> Iterator[Action]:
    for name, read in _READERS.items():
        if name in batch.schema.names:
            rows = batch.column(name).drop_null()
            if len(rows):
                yield from read(rows)


def _files(batch: pa.RecordBatch) -> Iterator[FileWithStatistics]:
    rows = _adds(batch)
    return zip(_add_files(rows), itertools.repeat(None)) if len(rows) else iter(())


def _files_with_statistics(batch: pa.RecordBatch) -> Iterator[FileWithStatistics]:
    rows = _adds(batch)
    return zip(_add_files(rows), _optional(rows, "stats", pa.string()), strict=True) if len(rows) else iter(())


def _paths_and_sizes(batch: pa.RecordBatch) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
    rows = _adds(batch)
    if len(rows):
        paths = _required(rows, "path", pa.string())
        yield np.fromiter(map(hash, paths), np.int64, len(paths)), sum(_required(rows, "size", pa.int64()))


def _adds(batch: pa.RecordBatch) -> pa.StructArray | tuple[()]:
    return batch.column("add").drop_null() if "add" in batch.schema.names else ()


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
        reason = in_one_line(exc)
        if is_storage_failure(exc):
            raise StorageError(f"{uri}: {reason}") from exc
        raise CorruptMetadataError(f"{uri}: expected a readable checkpoint: {reason}") from exc
    except UnsupportedTableError as exc:
        raise UnsupportedTableError(f"{uri}: {exc}") from exc
