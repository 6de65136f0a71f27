"""What goes to executors: once what the scans of a run share, and a document for each task."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from puffin.statistics.kinds.kind import Kind
from puffin.tables.scan_documents import BatchPacker, SharedParts
from puffin.tables.scan_task import ScanContext
from stats_jobs.scan import Scan

Kinds: TypeAlias = Sequence[Kind[Any]]
Document: TypeAlias = "tuple[int, bytes]"
"""The number of a scan, and the files to read for it, as `puffin.tables.scan_documents` has them."""


@dataclasses.dataclass(frozen=True, slots=True)
class SharedScan:
    """What the documents of a scan share: the kinds of each of its columns, and what `Scan` says of its rows."""

    kinds: tuple[Kinds, ...]
    removed: bool
    counts: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """What all documents need; ``scans`` are in the order of their numbers, and ``parts`` has their columns."""

    parts: SharedParts
    scans: tuple[SharedScan, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Shipment:
    """The batches of a run as they are sent."""

    shared: Shared
    documents: tuple[Document, ...]

    @property
    def results(self) -> int:
        """How many column results the tasks return: each document's columns, summed."""
        return sum(len(self.shared.scans[number].kinds) for number, _ in self.documents)

    @classmethod
    def of(cls, batches: Sequence[Scan], context: ScanContext) -> Shipment:
        """Batches that were cut from the same scan have its kinds in common. Packed files bring their documents."""
        of_scans: dict[tuple[int, bool], Scan] = {}
        for batch in batches:
            of_scans.setdefault(_key(batch), batch)
        numbers = {key: number for number, key in enumerate(of_scans)}
        scans = of_scans.values()
        packer = BatchPacker(
            context,
            [scan.columns for scan in scans],
            (task for batch in batches for task in batch.file_tasks),
            next((files.delete_files for batch in batches for files in batch.packed), ()),
        )
        of_documents = (SharedScan(tuple(scan.kinds.values()), scan.removed, scan.counts) for scan in scans)
        shared = Shared(packer.shared, tuple(of_documents))
        documents = ((numbers[_key(b)], document) for b in batches for document in _documents(b, packer))
        return cls(shared, tuple(documents))


def _documents(batch: Scan, packer: BatchPacker) -> Iterator[bytes]:
    for files in batch.packed:
        yield from files.documents
    if tasks := batch.file_tasks:
        yield from packer.documents(tasks)


def _key(batch: Scan) -> tuple[int, bool]:
    return id(batch.kinds), batch.removed
