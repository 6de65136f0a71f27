"""
Scan batches as JSON, in the words of appendix C, so that a task can be read, logged and replayed.

What the batches of a run share travels once: context, lists of columns, and the delete files that apply to many data
files. A document has the tasks of a batch and names what they share by number, so it stays small however wide the table
is and however many deletes apply. A batch of very many files becomes several documents.

The JSON adds keys of our own to those of the spec: ``start`` and ``length`` (the byte range of a split, as Iceberg's
Java writes them), ``deleted-by``, the three fields that place a deletion vector, and beside the tasks the requested
columns, the columns of equality deletes (a delete file holds only their ids), the name mapping and the file system's
properties. Where the spec has a delete file, a pair of numbers stands for a run of shared ones.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from puffin.tables.base import Column
from puffin.tables.scan_task import POSITION_DELETES, ContentFile, FileScanTask, ScanBatch, ScanContext

MOST_BYTES = 100_000
"""The size of a document, unless it has a single task."""

_CHUNK = 1000  # delete files that are unpacked together
_FEW = 8  # delete files of a task that can stand in its document
_LEVEL = 1  # of compression: JSON repeats its keys, so it shrinks to a fraction at any level

_text = json.JSONEncoder(separators=(",", ":")).encode
_KEYS = {
    kind: [(field.name, field.name.replace("_", "-")) for field in dataclasses.fields(kind)]
    for kind in (Column, ContentFile)
}
_NO_COLUMNS: Mapping[int, Column] = {}

_Files: TypeAlias = Callable[[int, int], Iterable[ContentFile]]


@dataclasses.dataclass(frozen=True, slots=True)
class SharedParts:
    """
    What the documents of a run share, as compressed JSON.

    Attributes:
        context: The scan context, with the columns of equality deletes.
        columns: Lists of columns to read.
        delete_files: Shared delete files in chunks, so that a reader unpacks those that its tasks name.
    """

    context: bytes
    columns: tuple[bytes, ...]
    delete_files: tuple[bytes, ...]


class TaskPacker:
    """Puts tasks into documents, which name these delete files by number."""

    def __init__(self, files: Sequence[ContentFile]) -> None:
        self._numbers = {id(file): number for number, file in enumerate(files)}
        self._files = files  # kept alive, so that no other object gets the same id()

    def documents(self, tasks: Iterable[FileScanTask]) -> Iterator[bytes]:
        """The tasks of a batch in documents of at most `MOST_BYTES`, most often one."""
        return _documents([_text(self._task_to_json(task)) for task in tasks])

    def _task_to_json(self, task: FileScanTask) -> dict[str, Any]:
        return {
            "data-file": _file_to_json(task.data_file),
            "delete-files": self._deletes_to_json(task.delete_files),
            "start": task.start,
            "length": task.length,
            **({} if task.deleted_by is None else {"deleted-by": self._deletes_to_json(task.deleted_by)}),
        }

    def _deletes_to_json(self, files: Iterable[ContentFile]) -> list[Any]:
        written: list[Any] = []
        end = -1  # of the run that may go on
        for file in files:
            number = self._numbers.get(id(file))
            if number is None:
                written.append(_file_to_json(file))
                end = -1
            elif number == end:
                end += 1
                written[-1][1] = end
            else:
                end = number + 1
                written.append([number, end])
        return written


class BatchPacker(TaskPacker):
    """
    Puts the batches of a run into documents.

    Args:
        columns: Lists of columns, of which each batch reads one.
        tasks: All tasks of the batches.
        numbered: Delete files that have the first numbers, in documents that others made.
    """

    def __init__(
        self,
        context: ScanContext,
        columns: Iterable[Sequence[Column]],
        tasks: Iterable[FileScanTask],
        numbered: Sequence[ContentFile] = (),
    ) -> None:
        files = [*numbered, *_shared_files(tasks)]
        super().__init__(files)
        delete_columns = {column.field_id: column for file in files for column in file.equality_columns}
        self.shared = SharedParts(
            context=_packed(_context_to_json(context, delete_columns.values())),
            columns=tuple(_packed([_to_json(column) for column in of]) for of in columns),
            delete_files=tuple(
                _packed([_file_to_json(file) for file in files[start : start + _CHUNK]])
                for start in range(0, len(files), _CHUNK)
            ),
        )


def unpack_batch(shared: SharedParts, columns: int, document: bytes) -> ScanBatch:
    """The batch of a document, which reads the list of columns with this number."""
    context = _unpacked(shared.context)
    delete_columns = {column["field-id"]: _column_from_json(column) for column in context.get("delete-columns", ())}

    @functools.cache
    def chunk(number: int) -> list[ContentFile]:
        return [_file_from_json(file, delete_columns) for file in _unpacked(shared.delete_files[number])]

    def files(first: int, end: int) -> Iterator[ContentFile]:
        return (chunk(number // _CHUNK)[number % _CHUNK] for number in range(first, end))

    return ScanBatch(
        columns=tuple(map(_column_from_json, _unpacked(shared.columns[columns]))),
        tasks=tuple(_task_from_json(task, files) for task in _unpacked(document)),
        context=ScanContext(
            specs={spec["spec-id"]: spec["fields"] for spec in context["specs"]},
            name_mapping=context["name-mapping"],
            io_properties=context["io-properties"],
            by_name=context.get("by-name", False),
            rebases_dates=context.get("rebases-dates", False),
        ),
    )


def _shared_files(tasks: Iterable[FileScanTask]) -> list[ContentFile]:
    """
    The delete files that documents name by number.

    The files of the largest set come first: the sets of younger data files are most often the end of it, one run.
    """
    sets = {id(of): of for task in tasks for of in (task.delete_files, task.deleted_by or ())}
    shared: dict[int, ContentFile] = {}
    for of in sorted(sets.values(), key=len, reverse=True):
        is_large = len(of) > _FEW
        for file in of:
            if id(file) not in shared and (is_large or not _names_its_data_file(file)):
                shared[id(file)] = file
    return list(shared.values())


def _names_its_data_file(file: ContentFile) -> bool:
    names_one = file.referenced_data_file is not None or file.content_offset is not None
    return names_one and file.content == POSITION_DELETES


def _documents(tasks: Sequence[str]) -> Iterator[bytes]:
    document = zlib.compress(f"[{','.join(tasks)}]".encode(), _LEVEL)
    if len(document) <= MOST_BYTES or len(tasks) <= 1:
        yield document
        return
    size = max(1, len(tasks) * MOST_BYTES * 3 // (len(document) * 4))
    for start in range(0, len(tasks), size):
        yield from _documents(tasks[start : start + size])


def _packed(value: Any) -> bytes:
    return zlib.compress(_text(value).encode(), _LEVEL)


def _unpacked(document: bytes) -> Any:
    return json.loads(zlib.decompress(document))


def _context_to_json(context: ScanContext, delete_columns: Iterable[Column]) -> dict[str, Any]:
    columns = [_to_json(column) for column in delete_columns]
    return {
        **({"delete-columns": columns} if columns else {}),
        "specs": [{"spec-id": spec_id, "fields": fields} for spec_id, fields in context.specs.items()],
        "name-mapping": context.name_mapping,
        **({"by-name": True} if context.by_name else {}),
        **({"rebases-dates": True} if context.rebases_dates else {}),
        "io-properties": dict(context.io_properties),
    }


def _column_from_json(column: dict[str, Any]) -> Column:
    fields = _from_json(column)
    return Column(**{**fields, "path": tuple(fields["path"]), "defaults": tuple(fields["defaults"])})


def _task_from_json(task: Mapping[str, Any], files: _Files) -> FileScanTask:
    return FileScanTask(
        data_file=_file_from_json(task["data-file"]),
        delete_files=_deletes_from_json(task["delete-files"], files),
        start=task["start"],
        length=task["length"],
        deleted_by=_deletes_from_json(task["deleted-by"], files) if "deleted-by" in task else None,
    )


def _deletes_from_json(written: Iterable[Any], files: _Files) -> tuple[ContentFile, ...]:
    found: list[ContentFile] = []
    for each in written:
        found += files(*each) if isinstance(each, list) else (_file_from_json(each),)
    return tuple(found)


def _file_to_json(file: ContentFile) -> dict[str, Any]:
    fields = {key: value for key, value in _to_json(file).items() if value is not None and value != ()}
    if columns := fields.pop("equality-columns", ()):
        fields["equality-ids"] = [column.field_id for column in columns]
    return fields


def _file_from_json(file: Mapping[str, Any], delete_columns: Mapping[int, Column] = _NO_COLUMNS) -> ContentFile:
    fields = _from_json(file)
    columns = tuple(delete_columns[field_id] for field_id in fields.pop("equality_ids", ()))
    return ContentFile(
        **{**fields, "split_offsets": tuple(fields.get("split_offsets", ())), "equality_columns": columns}
    )


def _to_json(value: Column | ContentFile) -> dict[str, Any]:
    return {key: getattr(value, name) for name, key in _KEYS[type(value)]}


def _from_json(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): field for key, field in document.items()}
