"""
The file of a step: what a part of a large run has found, as a Puffin file that another run can check.

One blob for each kind of each column has the value in the form in which it is stored elsewhere; a blob property marks
those of deleted rows. The last blob says in JSON what was read, and has the SHA-256 of all blobs::

    {"format-version": 1, "scans": {"<digest>": ["<digest of a task>", …]}, "mapped": [3]}

The digest of a scan covers all that its values depend on beside its files: columns, kinds and their sizes, partition
specs, name mapping and our version. That of a task covers a data file and its delete files. No value is pickled: who
can write to the home of private state must not get code into a job.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from puffin.errors import CorruptError, said_by
from puffin.format import ZSTD, Blob, BlobMetadata, PuffinReader
from puffin.statistics import kinds
from puffin.statistics.aside import PutAside, changed
from puffin.statistics.kinds.kind import Kind, Values
from puffin.storage import FileSource
from puffin.tables.scan_task import FileScanTask, ScanContext
from puffin.tables.statistics_json import typed
from puffin.version import version
from stats_jobs.partial import Partial
from stats_jobs.scan import PackedFiles, Scan, Work

FORMAT_VERSION = 1
"""To be raised whenever a value means something else than before, or the same rows give another one."""

STEP_V1 = "puffin-sidecar-step-v1"
_REMOVED, _SHA256 = "removed", "sha256"
_READ_AT_ONCE = 64  # blobs, of some 100 kB each


@dataclasses.dataclass(frozen=True, slots=True)
class StepHead:
    """What a step has read: the digests of tasks by the digest of their scan; and what it tells of all columns."""

    scans: Mapping[str, Sequence[str]]
    mapped: frozenset[int] = frozenset()


def can_keep(kind: Kind[Any]) -> bool:
    """Whether the values of a kind can be stored in the file of a step."""
    return kind in kinds.KINDS


def scan_digest(scan: Scan, context: ScanContext, table_uuid: str | None) -> str:
    """The digest of all that the values of a scan depend on beside its files."""
    shared = dataclasses.replace(context, io_properties={})
    kept = [[repr(kind) for kind in of if can_keep(kind)] for of in scan.kinds.values()]
    return _digest((FORMAT_VERSION, version(), table_uuid, shared, scan.columns, kept, scan.removed))


def task_digest(task: Work) -> str:
    """The digest of a data file, or of packed ones, and of the delete files that apply to it."""
    return task.digest if isinstance(task, PackedFiles) else _digest(task)


def part_digest(tasks: Iterable[FileScanTask]) -> str:
    """The digest of many data files, and of the delete files that apply to them."""
    return _digest(tuple(map(task_digest, tasks)))


def to_blobs(head: StepHead, partial: Partial, snapshot_id: int) -> Iterator[Blob]:
    """The blobs of a step's file, made one after the other."""
    digest = hashlib.sha256()
    for removed, columns in ((False, partial.added), (True, partial.removed)):
        for field_id, values in columns.items():
            for kind, value in values.items():
                if can_keep(kind):
                    payload = kind.codec.to_bytes(value)
                    properties = {_REMOVED: "true"} if removed else {}
                    blob = _blob(kind.name, (field_id,), snapshot_id, payload, properties)
                    _add(digest, blob, payload)
                    yield blob
    document = {
        "format-version": FORMAT_VERSION,
        "scans": dict(head.scans),
        "mapped": sorted(head.mapped),
    }
    payload = json.dumps(document, separators=(",", ":")).encode()
    _add(digest, None, payload)
    yield _blob(STEP_V1, (), snapshot_id, payload, {_SHA256: digest.hexdigest()})


class StepFile:
    """An open file of a step. Every method raises CorruptError if it is not one, or not of this version."""

    def __init__(self, source: FileSource) -> None:
        self._reader = PuffinReader(source)

    def head(self) -> StepHead:
        """What it has read; whether the file is whole is not checked yet."""
        *_, last = (None, *self._reader.file_metadata.blobs)
        if last is None or last.type != STEP_V1:
            raise CorruptError("expected the file of a step, found another one")
        try:
            document = json.loads(self._reader.read(last))
            if document["format-version"] != FORMAT_VERSION:
                raise ValueError(f"format-version: expected {FORMAT_VERSION}, found {document['format-version']!r}")
            return StepHead(_digests(typed(document, "scans", dict)), frozenset(typed(document, "mapped", list)))
        except (KeyError, TypeError, ValueError, RecursionError) as exc:
            raise CorruptError(f"not the file of a step: {said_by(exc)}") from exc

    def partial(self, wanted: Mapping[tuple[int, str], Kind[Any]], put: PutAside) -> Partial:
        """The values, if the file is whole, of the kinds ``wanted``, by field id and name, each ``put``."""
        head, (*values, last), digest = self.head(), self._reader.file_metadata.blobs, hashlib.sha256()
        added: dict[int, Values] = {}
        removed: dict[int, Values] = {}
        for start in range(0, len(values), _READ_AT_ONCE):
            blobs = values[start : start + _READ_AT_ONCE]
            for blob, payload in zip(blobs, self._reader.read_all(blobs), strict=True):
                _add(digest, blob, payload)
                kind = wanted.get((blob.fields[0], blob.type)) if blob.fields else None
                if kind is None:
                    raise CorruptError(f"expected values that were asked for, found {blob.type} of {blob.fields}")
                value = kind.codec.from_bytes(payload)
                of = removed if _REMOVED in blob.properties else added
                of[blob.fields[0]] = changed(of.get(blob.fields[0], {}), put({kind: value}))
        _add(digest, None, self._reader.read(last))
        if digest.hexdigest() != last.properties.get(_SHA256):
            raise CorruptError("expected the digest of its content, found another one")
        return Partial({**added}, {**removed}, mapped=head.mapped)


def _digests(scans: Mapping[str, Any]) -> dict[str, list[str]]:
    """The digests of tasks by that of their scan; TypeError if they are something else."""
    found = {scan: typed(scans, scan, list) for scan in scans}
    if not all(isinstance(task, str) for tasks in found.values() for task in tasks):
        raise TypeError("scans: expected digests of tasks, found something else")
    return found


def _add(digest: hashlib._Hash, blob: Blob | BlobMetadata | None, payload: bytes) -> None:
    what = None if blob is None else [blob.type, blob.fields, _REMOVED in blob.properties]
    digest.update(json.dumps([what, len(payload)]).encode())
    digest.update(payload)


def _blob(type_: str, fields: Iterable[int], snapshot_id: int, payload: bytes, properties: Mapping[str, str]) -> Blob:
    return Blob(
        type=type_,
        fields=tuple(fields),
        snapshot_id=snapshot_id,
        sequence_number=0,
        payload=payload,
        compression_codec=ZSTD,
        properties=properties,
    )


def _digest(value: object) -> str:
    """The digest of a value whose text says all of it, as that of our frozen values does."""
    return hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()
