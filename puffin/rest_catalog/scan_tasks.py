"""
Scan tasks as the REST protocol has them (FileScanTask, ContentFile), as bytes.

Each answer lists the delete files of its tasks once. A partition tuple is a list in the order of its spec's fields; a
field that says nothing about rows is null. Statistics are those of the columns asked for, bounds in the binary form of
appendix D as hexadecimal text, as clients read them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.iceberg.scan.manifests import ColumnMetrics
from puffin.tables.scan_task import DATA, EQUALITY_DELETES, POSITION_DELETES, ContentFile, FileScanTask
from puffin.values.json_values import has_no_word, in_words
from puffin.values.partition_tuples import value_from_json

Metrics: TypeAlias = Mapping[int, ColumnMetrics]
"""Of one file, by field id."""

_CONTENTS = {DATA: "data", POSITION_DELETES: "position-deletes", EQUALITY_DELETES: "equality-deletes"}
_OPTIONAL = ("sort_order_id", "first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes")
_BYTES, _TEMPORAL = ("binary", "fixed"), ("date", "time")
_TEXTS = ("string", "uuid", *_BYTES)  # which a client would make of any text
_COUNTS = {
    "value-counts": "value_count",
    "null-value-counts": "null_value_count",
    "nan-value-counts": "nan_value_count",
}
_BOUNDS = {"lower-bounds": "lower_bound", "upper-bounds": "upper_bound"}


@dataclasses.dataclass(frozen=True, slots=True)
class TaskEncoder:
    """
    Encodes the tasks of one plan.

    Attributes:
        specs: The fields of each partition spec.
        types: Of the values in partition tuples by field id, by spec id.
        residual: The filter that the client applies to rows, encoded.
        of_pyiceberg: Whether pyiceberg asks. It takes no null in a partition tuple, and does not read values by their
            types. So it gets dates and times as numbers, and a value of another type instead of null and bytes: it uses
            a value only for a partition column that is missing in the file, and then fails.
    """

    specs: Mapping[int, Sequence[Mapping[str, Any]]]
    types: Mapping[int, Mapping[int, str]]
    residual: bytes
    of_pyiceberg: bool

    def encode(self, tasks: Iterable[FileScanTask], metrics: Iterable[Metrics]) -> bytes:
        """The keys ``delete-files`` and ``file-scan-tasks`` of an answer, with their values."""
        deletes: dict[tuple[str, int | None], int] = {}
        delete_files: list[bytes] = []
        encoded: list[bytes] = []
        last: tuple[ContentFile, ...] = ()
        listed = b""
        for task, of_file in zip(tasks, metrics, strict=True):
            if task.delete_files != last:  # files that were written together mostly have the same
                last, references = task.delete_files, []
                for file in last:
                    place = file.file_path, file.content_offset
                    if place not in deletes:
                        deletes[place] = len(delete_files)
                        delete_files.append(_dump(self._content_file(file)))
                    references.append(deletes[place])
                listed = b',"delete-file-references":' + _dump(references) if references else b""
            data_file = _dump({**self._content_file(task.data_file), **_statistics(of_file)})
            encoded.append(b'{"data-file":%b%b,"residual-filter":%b}' % (data_file, listed, self.residual))
        return b'"delete-files":[%b],"file-scan-tasks":[%b]' % (b",".join(delete_files), b",".join(encoded))

    def _content_file(self, file: ContentFile) -> dict[str, Any]:
        found: dict[str, Any] = {
            "content": _CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.lower(),
            "spec-id": file.spec_id,
            "partition": self._tuple(file),
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
        }
        if file.split_offsets:
            found["split-offsets"] = file.split_offsets
        if file.equality_columns:
            found["equality-ids"] = [column.field_id for column in file.equality_columns]
        for name in _OPTIONAL:
            value = getattr(file, name)
            if value is not None:
                found[name.replace("_", "-")] = value
        return found

    def _tuple(self, file: ContentFile) -> list[Any]:
        spec = self.specs.get(file.spec_id, ())
        values = [file.partition.get(str(field["field-id"])) for field in spec]
        if not self.of_pyiceberg:
            return [in_words(value) for value in values]
        types = self.types.get(file.spec_id, {})
        return [_plain(types.get(field["field-id"]), value) for field, value in zip(spec, values, strict=True)]


def _plain(type_: str | None, value: Any) -> Any:
    """A partition value for a client that does not read it by its type; one of another type if it takes none."""
    if type_ is None or value is None or has_no_word(value) or type_.startswith(_BYTES):
        return 0 if type_ is not None and type_.startswith(_TEXTS) else ""
    return value_from_json(type_, value) if type_.startswith(_TEMPORAL) else value


def _statistics(metrics: Metrics) -> dict[str, Any]:
    found = {key: _by_column(metrics, name) for key, name in _COUNTS.items()}
    for key, name in _BOUNDS.items():
        bounds = _by_column(metrics, name)
        found[key] = {**bounds, "values": [bound.hex().upper() for bound in bounds["values"]]}
    return {key: each for key, each in found.items() if each["keys"]}


def _by_column(metrics: Metrics, name: str) -> dict[str, list[Any]]:
    known = {field_id: value for field_id, of in metrics.items() if (value := getattr(of, name)) is not None}
    return {"keys": list(known), "values": list(known.values())}


def _dump(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
