"""
Reads the live files of a snapshot from its manifests (spec, "Manifests").

pyiceberg 0.12 is unsuitable: it does not notice a truncated manifest, narrows partition values of type ``double`` to
floats, and cannot read partition values in nanoseconds.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from typing import Any, TypeVar

from puffin.errors import CorruptMetadataError, UnsupportedTableError, said_by
from puffin.files.avro.avro_schema import WantedIds
from puffin.files.avro.records import read_records
from puffin.files.avro.texts import SoughtTexts
from puffin.iceberg.scan.manifest_lists import ManifestFile
from puffin.storage import Store
from puffin.tables.scan_task import DATA, DELETE_FILE_PATH, EQUALITY_DELETES, POSITION_DELETES

# Field ids of data_file, and of manifest_entry around it, in manifests.
CONTENT, _FILE_PATH, FILE_FORMAT, PARTITION, RECORD_COUNT, FILE_SIZE = 134, 100, 101, 102, 103, 104
_KEY_METADATA, _SPLIT_OFFSETS, _EQUALITY_IDS = 131, 132, 135
_REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE = 143, 144, 145
_SORT_ORDER_ID, _FIRST_ROW_ID = 140, 142
STATUS, SNAPSHOT_ID, DATA_FILE, _SEQUENCE_NUMBER = 0, 1, 2, 3
# Maps by column, each with the ids of its keys and values.
_METRICS = _VALUE_COUNTS, _NULL_VALUE_COUNTS, _LOWER_BOUNDS, _UPPER_BOUNDS = 109, 110, 125, 128
_NAN_VALUE_COUNTS = 137
_KEY_AND_VALUE = {
    _VALUE_COUNTS: (119, 120),
    _NULL_VALUE_COUNTS: (121, 122),
    _LOWER_BOUNDS: (126, 127),
    _UPPER_BOUNDS: (129, 130),
    _NAN_VALUE_COUNTS: (138, 139),
}
_BASIC = (
    *(CONTENT, _FILE_PATH, FILE_FORMAT, PARTITION, RECORD_COUNT, FILE_SIZE),
    *(_KEY_METADATA, _SPLIT_OFFSETS, _SORT_ORDER_ID, _FIRST_ROW_ID),
)
_OF_DELETES = (_EQUALITY_IDS, _REFERENCED_DATA_FILE, _CONTENT_OFFSET, _CONTENT_SIZE)
_ENTRY = {STATUS: None, _SEQUENCE_NUMBER: None}
_DATA_ENTRY = {**_ENTRY, DATA_FILE: dict.fromkeys(_BASIC)}
_DATA_ENTRY_WITH_METRICS = {**_ENTRY, DATA_FILE: dict.fromkeys((*_BASIC, *_METRICS))}
_DATA_ENTRY_WITH_NAN_COUNTS = {**_ENTRY, DATA_FILE: dict.fromkeys((*_BASIC, *_METRICS, _NAN_VALUE_COUNTS))}
_DELETE_ENTRY = {**_ENTRY, DATA_FILE: dict.fromkeys((*_BASIC, *_METRICS, *_OF_DELETES))}

_ADDED, DELETED = 1, 2  # statuses
_CONTENTS = (DATA, POSITION_DELETES, EQUALITY_DELETES)

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class ColumnMetrics:
    """
    What a manifest says of one column of a file; None if unknown.

    Attributes:
        value_count: All values, nulls included.
        lower_bound: In the binary form of appendix D, of the column's type at that time; so is the upper bound.
        nan_value_count: Read only on request.
    """

    value_count: int | None
    null_value_count: int | None
    lower_bound: bytes | None
    upper_bound: bytes | None
    nan_value_count: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveFile:
    """
    A data file or delete file that a snapshot's manifests list as live.

    Attributes:
        sequence_number: The data sequence number, inherited where the manifest omits it.
        partition: Values by partition field id, in Avro's physical form: a decimal is its bytes.
        referenced_data_file: The only data file that a delete file applies to, if known.
        first_row_id: The id of a data file's first row, inherited where the manifest omits it; None without row
            lineage.
        equality_ids: The columns by which an equality delete file compares rows.
        metrics: By field id: of an equality delete file, those columns; of a data file, the requested columns.
    """

    content: str
    sequence_number: int
    file_path: str
    file_format: str
    spec_id: int
    partition: Mapping[int, Any]
    record_count: int
    file_size_in_bytes: int
    split_offsets: tuple[int, ...]
    referenced_data_file: str | None
    content_offset: int | None
    content_size_in_bytes: int | None
    encrypted: bool
    equality_ids: tuple[int, ...]
    metrics: Mapping[int, ColumnMetrics]
    sort_order_id: int | None = None
    first_row_id: int | None = None


def live_files_of(
    manifest: ManifestFile,
    store_for: Callable[[str], Store],
    metrics_of: Collection[int] = (),
    *,
    nan_counts: bool = False,
) -> Iterator[LiveFile]:
    """
    The live files of one manifest, in order.

    Args:
        metrics_of: The columns for which data files get metrics, by field id.
        nan_counts: Whether metrics include the number of NaN values.
    """
    # Metrics cost more than the rest of a manifest, so they are read only on request.
    with_metrics = _DATA_ENTRY_WITH_NAN_COUNTS if nan_counts else _DATA_ENTRY_WITH_METRICS
    of_data = with_metrics if metrics_of else _DATA_ENTRY
    entries = read_entries(
        manifest,
        _DELETE_ENTRY if manifest.of_deletes else of_data,
        store_for,
        lambda entry: None if entry[STATUS] == DELETED else _live_file(entry, manifest, metrics_of),
    )
    return _with_row_ids((file for file in entries if file is not None), manifest)


class NamedFiles:
    """Looks for the files with these paths in manifests, most of which list none of them."""

    def __init__(self, paths: Set[str]) -> None:
        self.paths = paths
        self._sought = SoughtTexts(paths)

    def among(self, manifest: ManifestFile, store_for: Callable[[str], Store]) -> Iterator[LiveFile]:
        """
        Yield the live files of a manifest with these paths, as often as it lists them.

        It decodes only entries near one of the paths.
        """
        fields = _DELETE_ENTRY if manifest.of_deletes else _DATA_ENTRY
        entries = read_entries(manifest, fields, store_for, lambda entry: self._found(entry, manifest), self._sought)
        return (file for file in entries if file is not None)

    def _found(self, entry: Mapping[int, Any], manifest: ManifestFile) -> LiveFile | None:
        if not entry or entry[STATUS] == DELETED or entry[DATA_FILE][_FILE_PATH] not in self.paths:
            return None
        return _live_file(entry, manifest, ())


def read_entries(
    manifest: ManifestFile,
    fields: WantedIds,
    store_for: Callable[[str], Store],
    understand: Callable[[Mapping[int, Any]], _T],
    sought: SoughtTexts | None = None,
) -> Iterator[_T]:
    """
    Apply ``understand`` to each entry of a manifest, deleted ones too, in order.

    Args:
        fields: The fields to read, by field id, as for `puffin.files.avro.records.read_records`.
        understand: May fail on an invalid entry with KeyError, TypeError and the like.
        sought: If given, entries that cannot contain any of these texts may be empty.

    Raises:
        CorruptMetadataError: The manifest or an entry is invalid, or the number of entries is not the declared one.
    """
    path = manifest.manifest_path
    if manifest.encrypted:
        raise UnsupportedTableError(f"{path}: expected an unencrypted manifest, found key metadata")
    count = 0
    for entry in read_records(store_for(path).read(path), fields, path, sought):
        count += 1
        try:
            understood = understand(entry)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, CorruptMetadataError) as exc:
            raise CorruptMetadataError(f"{path}: not an Iceberg manifest: entry {count}: {said_by(exc)}") from exc
        yield understood
    if manifest.entries not in (None, count):
        raise CorruptMetadataError(f"{path}: expected {manifest.entries} entries, found {count}")


def _with_row_ids(files: Iterator[LiveFile], manifest: ManifestFile) -> Iterator[LiveFile]:
    """The files with the row ids that they inherit (spec, "First Row ID Inheritance")."""
    next_id = manifest.first_row_id
    if next_id is None or manifest.of_deletes:
        yield from files
        return
    for file in files:
        if file.first_row_id is None:
            yield dataclasses.replace(file, first_row_id=next_id)
            next_id += file.record_count
        else:
            yield file


def _live_file(entry: Mapping[int, Any], manifest: ManifestFile, metrics_of: Collection[int]) -> LiveFile:
    file = entry[DATA_FILE]
    content = _CONTENTS[file.get(CONTENT, 0)]
    if (content != DATA) != manifest.of_deletes:
        raise ValueError(f"{content} in a manifest of {'delete' if manifest.of_deletes else 'data'} files")
    sequence_number = _optional(entry, _SEQUENCE_NUMBER, int)
    if sequence_number is None:  # added files inherit it; version 1 has none
        sequence_number = manifest.sequence_number if entry[STATUS] == _ADDED else 0
    equality_ids = _integers(file, _EQUALITY_IDS)
    return LiveFile(
        content=content,
        sequence_number=sequence_number,
        file_path=_typed(file, _FILE_PATH, str),
        file_format=_typed(file, FILE_FORMAT, str).upper(),
        spec_id=manifest.partition_spec_id,
        partition=_typed(file, PARTITION, dict),
        record_count=_typed(file, RECORD_COUNT, int),
        file_size_in_bytes=_typed(file, FILE_SIZE, int),
        split_offsets=_integers(file, _SPLIT_OFFSETS),
        referenced_data_file=_referenced(file) if manifest.of_deletes else None,
        content_offset=_optional(file, _CONTENT_OFFSET, int),
        content_size_in_bytes=_optional(file, _CONTENT_SIZE, int),
        encrypted=file.get(_KEY_METADATA) is not None,
        equality_ids=equality_ids,
        metrics=_metrics(file, equality_ids or metrics_of),
        sort_order_id=_optional(file, _SORT_ORDER_ID, int),
        first_row_id=_optional(file, _FIRST_ROW_ID, int),
    )


def _metrics(file: Mapping[int, Any], field_ids: Collection[int]) -> dict[int, ColumnMetrics]:
    columns = [_by_column(file, metric) for metric in (*_METRICS, _NAN_VALUE_COUNTS)] if field_ids else []
    rows = _typed(file, RECORD_COUNT, int)
    return {field_id: _of_rows(rows, *(values.get(field_id) for values in columns)) for field_id in field_ids}


def _of_rows(rows: int, values: int | None, nulls: int | None, *others: Any) -> ColumnMetrics:
    """The metrics of a column outside lists and maps, which has a value or a null in each row."""
    if values is not None and values < rows:
        # Of an ORC file, Iceberg's Java counts no nulls where the struct around the column is null.
        values, nulls = rows, None if nulls is None else nulls + rows - values
    return ColumnMetrics(values, nulls, *others)


def _referenced(file: Mapping[int, Any]) -> str | None:
    named: str | None = _optional(file, _REFERENCED_DATA_FILE, str)
    if named:
        return named
    # If the lowest and highest path are equal, the position delete file applies to that data file only.
    lower, upper = (_by_column(file, bounds).get(DELETE_FILE_PATH) for bounds in (_LOWER_BOUNDS, _UPPER_BOUNDS))
    return str(lower, "utf-8") if lower is not None and lower == upper else None


def _by_column(file: Mapping[int, Any], metric: int) -> dict[int, Any]:
    key, value = _KEY_AND_VALUE[metric]
    return {entry[key]: entry[value] for entry in file.get(metric) or ()}


def _integers(record: Mapping[int, Any], field_id: int) -> tuple[int, ...]:
    return tuple(map(operator.index, record.get(field_id) or ()))


def _optional(record: Mapping[int, Any], field_id: int, kind: type[Any]) -> Any:
    return None if record.get(field_id) is None else _typed(record, field_id, kind)


def _typed(record: Mapping[int, Any], field_id: int, kind: type[Any]) -> Any:
    value = record[field_id]
    if not isinstance(value, kind):
        raise TypeError(f"field {field_id}: expected {kind.__name__}, found {type(value).__name__}")
    return value
