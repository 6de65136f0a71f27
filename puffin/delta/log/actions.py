"""
The actions of a Delta log, and one log entry as a value (protocol, "Actions").

A log entry, like a checkpoint in JSON, has one JSON action on each line. Only what planning needs is parsed, so actions
and fields of newer protocols are ignored, and errors elsewhere go unnoticed. A checkpoint in Parquet has the same
fields, and its few actions other than files use the same functions.
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from puffin.errors import CorruptMetadataError, UnsupportedTableError

NUM_RECORDS = r'^\s*\{\s*"numRecords"\s*:\s*(?P<count>[0-9]{1,18})\s*[,}]'
"""Finds the row count at the beginning of statistics, where every known writer puts it."""

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest readable action; the longest real ones are schemas of a few megabytes."""

_PARQUET = "parquet"
_END_OF_LONG = 1 << 63
_COUNT_FIRST = re.compile(NUM_RECORDS, re.ASCII)
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class DeletionVectorDescriptor:
    """
    Where a file's deletion vector is (protocol, "Deletion Vector Descriptor Schema").

    Attributes:
        storage_type: ``"u"`` beside the table's files, ``"p"`` at an absolute path, ``"i"`` in the descriptor itself.
        offset: In bytes, in the file that holds it.
        cardinality: How many rows it deletes.
    """

    storage_type: str
    path_or_inline_dv: str
    offset: int | None
    size_in_bytes: int
    cardinality: int

    @property
    def unique_id(self) -> str:
        """Identifies the deletion vector (protocol, "Derived Fields")."""
        file_id = self.storage_type + self.path_or_inline_dv
        return file_id if self.offset is None else f"{file_id}@{self.offset}"


FileKey = tuple[str, str | None]
"""Identifies a logical file: the path as in the log, and the id of its deletion vector."""


def file_key(path: str, vector: DeletionVectorDescriptor | None) -> FileKey:
    """The key of a file with this deletion vector."""
    return path, None if vector is None else vector.unique_id


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedFile:
    """
    A data file in an action; actions about removed files may omit what it takes to read them.

    Attributes:
        path: As in the log: percent-encoded, and relative to the table or absolute.
        partition_values: Values as text, by physical column name; None if the log does not say.
        size: In bytes; None if the log does not say.
        data_change: False if the table has its rows before and after, in this file or others.
        num_records: The file's rows, also those that its deletion vector deletes; None if unknown.
    """

    path: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    data_change: bool
    num_records: int | None
    deletion_vector: DeletionVectorDescriptor | None

    @property
    def key(self) -> FileKey:
        return file_key(self.path, self.deletion_vector)

    @property
    def deleted_records(self) -> int:
        """The rows that its deletion vector deletes."""
        return 0 if self.deletion_vector is None else self.deletion_vector.cardinality

    @property
    def live_records(self) -> int | None:
        """The rows that its deletion vector leaves; None if unknown."""
        return None if self.num_records is None else max(self.num_records - self.deleted_records, 0)


@dataclasses.dataclass(frozen=True, slots=True)
class AddFile(LoggedFile):
    """A data file that joins the table."""

    partition_values: Mapping[str, str | None]
    size: int


FileWithStatistics = tuple[AddFile, str | None]
"""A file and its statistics in JSON, None if it has none or nobody asked for them."""


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveFile(LoggedFile):
    """A data file that leaves the table."""

    @property
    def may_miss(self) -> bool:
        """Whether bytes beyond ASCII are encoded: deltalake encodes those of Spark's paths, and removes nothing so."""
        return re.search("%[89A-Fa-f]", self.path) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Metadata:
    """What the table is from this version on; ``id`` is its identity, ``schema_string`` its schema in JSON."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Protocol:
    """What readers and writers must support; the features are None for versions that do not list them."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None
    writer_features: frozenset[str] | None


@dataclasses.dataclass(frozen=True, slots=True)
class CommitInfo:
    """Where a log entry came from, reduced to its in-commit timestamp, in milliseconds UTC."""

    in_commit_timestamp_ms: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Sidecar:
    """A file with a part of a checkpoint; ``path`` is percent-encoded."""

    path: str


Action = AddFile | RemoveFile | Metadata | Protocol | CommitInfo | Sidecar


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """
    What one version changed; ``metadata`` and ``protocol`` are None if it left them unchanged.

    ``checksum`` tells its log entry from another one of the same version.
    """

    version: int
    checksum: str
    adds: tuple[AddFile, ...]
    removes: tuple[RemoveFile, ...]
    metadata: Metadata | None
    protocol: Protocol | None
    in_commit_timestamp_ms: int | None

    @property
    def is_note(self) -> bool:
        """Whether it changes neither rows nor schema: at most commitInfo, txn, domainMetadata and the like."""
        return not (self.adds or self.removes or self.metadata or self.protocol)

    @property
    def keeps_rows(self) -> bool:
        """Whether the table has the same rows after it, perhaps in other files."""
        return not (any(file.data_change for file in self.adds) or any(file.data_change for file in self.removes))


def parse_commit(data: bytes, version: int, where: str) -> Commit:
    """The log entry of a version, read from the file ``where``; an empty one changes nothing."""
    actions = list(read_actions(data, where))
    if any(isinstance(action, RemoveFile) and action.may_miss for action in actions):  # moved rows may be twice
        actions = [dataclasses.replace(a, data_change=True) if isinstance(a, LoggedFile) else a for a in actions]
    return Commit(
        version=version,
        checksum=f"{len(data)}-{zlib.crc32(data):08x}",
        adds=tuple(action for action in actions if isinstance(action, AddFile)),
        removes=tuple(action for action in actions if isinstance(action, RemoveFile)),
        metadata=next((action for action in actions if isinstance(action, Metadata)), None),
        protocol=next((action for action in actions if isinstance(action, Protocol)), None),
        in_commit_timestamp_ms=next(
            (action.in_commit_timestamp_ms for action in actions if isinstance(action, CommitInfo)), None
        ),
    )


def read_actions(data: bytes, where: str) -> Iterator[Action]:
    """The known actions in lines of JSON, in order; raises what `parse_commit` raises."""
    return _read_lines(data, where, _known_actions)


def read_file_statistics(data: bytes, where: str) -> Iterator[tuple[FileKey, str]]:
    """The statistics of added files, as JSON strings; raises what `parse_commit` raises."""
    return _read_lines(data, where, _statistics)


def metadata_action(fields: Mapping[str, Any]) -> Metadata:
    """Parse a ``metaData`` action; TypeError if it breaks the protocol."""
    file_format = _optional(fields, "metaData", "format", dict) or {}
    provider = _optional(file_format, "metaData.format", "provider", str) or _PARQUET
    if provider != _PARQUET:
        raise UnsupportedTableError(f"metaData.format: expected provider {_PARQUET}, found {provider[:40]!r}")
    configuration = _strings(fields, "metaData", "configuration") or {}
    return Metadata(
        id=_typed(fields, "metaData", "id", str),
        schema_string=_typed(fields, "metaData", "schemaString", str),
        partition_columns=tuple(_list_of_strings(fields, "metaData", "partitionColumns") or ()),
        configuration={name: value for name, value in configuration.items() if value is not None},
    )


def protocol_action(fields: Mapping[str, Any]) -> Protocol:
    """Parse a ``protocol`` action; TypeError if it breaks the protocol."""
    return Protocol(
        min_reader_version=_long(fields, "protocol", "minReaderVersion"),
        min_writer_version=_long(fields, "protocol", "minWriterVersion"),
        reader_features=_features(fields, "readerFeatures"),
        writer_features=_features(fields, "writerFeatures"),
    )


def sidecar_action(fields: Mapping[str, Any]) -> Sidecar:
    """Parse a ``sidecar`` action; TypeError if it breaks the protocol."""
    return Sidecar(_typed(fields, "sidecar", "path", str))


def num_records(stats: Any) -> int | None:
    """The row count in a file's statistics, a JSON string; None if they do not state it."""
    if not isinstance(stats, str):
        return None
    if match := _COUNT_FIRST.match(stats):
        return int(match["count"])
    try:
        count = _json_object(stats.encode("utf-8", "surrogatepass")).get("numRecords")
    except (TypeError, ValueError):  # invalid statistics are allowed
        return None
    return count if type(count) is int and 0 <= count < _END_OF_LONG else None


def _read_lines(data: bytes, where: str, read: Callable[[dict[str, Any]], Iterator[_T]]) -> Iterator[_T]:
    """What ``read`` finds in the JSON object of each line; its errors name the line."""
    for number, line in enumerate(io.BytesIO(data), 1):
        if not line.strip():
            continue
        try:
            yield from read(_json_object(line))
        except (TypeError, ValueError) as exc:
            raise CorruptMetadataError(f"{where}: line {number}: {exc}") from exc
        except UnsupportedTableError as exc:
            raise UnsupportedTableError(f"{where}: line {number}: {exc}") from exc


def _known_actions(line: Mapping[str, Any]) -> Iterator[Action]:
    for name, fields in line.items():
        if name in _READERS and isinstance(fields, dict):
            yield _READERS[name](fields)
        elif name in _READERS and name != _COMMIT_INFO and fields is not None:
            raise TypeError(f"{name}: expected a JSON object, found {type(fields).__name__}")


def _statistics(line: Mapping[str, Any]) -> Iterator[tuple[FileKey, str]]:
    fields = line.get("add")
    if isinstance(fields, dict) and isinstance(fields.get("stats"), str):
        yield _add(fields).key, fields["stats"]


def _add(fields: Mapping[str, Any]) -> AddFile:
    return AddFile(
        path=_typed(fields, "add", "path", str),
        partition_values=_strings(fields, "add", "partitionValues") or {},
        size=_long(fields, "add", "size"),
        data_change=_data_change(fields, "add"),
        num_records=num_records(fields.get("stats")),
        deletion_vector=_deletion_vector(fields, "add"),
    )


def _remove(fields: Mapping[str, Any]) -> RemoveFile:
    return RemoveFile(
        path=_typed(fields, "remove", "path", str),
        partition_values=_strings(fields, "remove", "partitionValues"),
        size=_optional_long(fields, "remove", "size"),
        data_change=_data_change(fields, "remove"),
        num_records=num_records(fields.get("stats")),
        deletion_vector=_deletion_vector(fields, "remove"),
    )


def _commit_info(fields: Mapping[str, Any]) -> CommitInfo:
    at = fields.get("inCommitTimestamp")
    return CommitInfo(at if type(at) is int and 0 <= at < _END_OF_LONG else None)


_COMMIT_INFO = "commitInfo"  # the only action that may be any JSON
_READERS: Mapping[str, Callable[[Mapping[str, Any]], Action]] = {
    "add": _add,
    "remove": _remove,
    "metaData": metadata_action,
    "protocol": protocol_action,
    _COMMIT_INFO: _commit_info,
    "sidecar": sidecar_action,
}


def _features(fields: Mapping[str, Any], key: str) -> frozenset[str] | None:
    features = _list_of_strings(fields, "protocol", key)
    return None if features is None else frozenset(features)


def _data_change(fields: Mapping[str, Any], action: str) -> bool:
    # Without it, rows may have changed.
    return _optional(fields, action, "dataChange", bool) is not False


def _deletion_vector(fields: Mapping[str, Any], action: str) -> DeletionVectorDescriptor | None:
    vector = _optional(fields, action, "deletionVector", dict)
    if vector is None:
        return None
    where = f"{action}.deletionVector"
    return DeletionVectorDescriptor(
        storage_type=_typed(vector, where, "storageType", str),
        path_or_inline_dv=_typed(vector, where, "pathOrInlineDv", str),
        offset=_optional_long(vector, where, "offset"),
        size_in_bytes=_long(vector, where, "sizeInBytes"),
        cardinality=_long(vector, where, "cardinality"),
    )


def _json_object(line: bytes) -> dict[str, Any]:
    if len(line) > MAX_LINE_BYTES:  # parsed, it may take 24 times as much memory
        raise ValueError(f"expected at most {MAX_LINE_BYTES} bytes, found {len(line)}")
    try:
        value = json.loads(line.decode())
    except json.JSONDecodeError as exc:
        raise ValueError(f"expected a JSON object: {exc.msg} (column {exc.colno})") from exc
    except RecursionError as exc:
        raise ValueError("expected a JSON object, found one that is nested too deeply") from exc
    except ValueError as exc:  # not UTF-8, or a number of thousands of digits
        raise ValueError(f"expected a JSON object: {exc}") from exc
    if not isinstance(value, dict):
        raise TypeError(f"expected a JSON object, found {type(value).__name__}")
    return value


def _strings(fields: Mapping[str, Any], action: str, key: str) -> dict[str, str | None] | None:
    values: dict[str, Any] | None = _optional(fields, action, key, dict)
    for value in (values or {}).values():
        if not isinstance(value, str | None):
            raise TypeError(f"{action}.{key}: expected strings, found {type(value).__name__}")
    return values


def _list_of_strings(fields: Mapping[str, Any], action: str, key: str) -> list[str] | None:
    values: list[Any] | None = _optional(fields, action, key, list)
    for value in values or ():
        if not isinstance(value, str):
            raise TypeError(f"{action}.{key}: expected strings, found {type(value).__name__}")
    return values


def _optional_long(fields: Mapping[str, Any], action: str, key: str) -> int | None:
    return None if fields.get(key) is None else _long(fields, action, key)


def _long(fields: Mapping[str, Any], action: str, key: str) -> int:
    value: int = _typed(fields, action, key, int)
    if isinstance(value, bool) or not 0 <= value < _END_OF_LONG:
        raise TypeError(f"{action}.{key}: expected a number from 0 to 2^63 - 1")
    return value


def _optional(fields: Mapping[str, Any], action: str, key: str, kind: type[Any]) -> Any:
    return None if fields.get(key) is None else _typed(fields, action, key, kind)


def _typed(fields: Mapping[str, Any], action: str, key: str, kind: type[Any]) -> Any:
    value = fields.get(key)
    if not isinstance(value, kind):
        found = "nothing" if value is None else type(value).__name__
        raise TypeError(f"{action}.{key}: expected {kind.__name__}, found {found}")
    return value
