"""What goes to executors: once what the scans of a run share, and a document for each task."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

from puffin.statistics.kinds.kind import Kind
from puffin.tables.scan_documents import BatchPacker, SharedParts
from puffin.tables.scan_task import ScanContext
from stats_jobs.plan import Scan

Kinds: TypeAlias = Sequence[Kind[Any]]
Document: TypeAlias = "tuple[int, bytes]"
"""The number of a scan, and the files to read for it, as `puffin.tables.scan_documents` has them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shared:
    """
    What all documents need.

    Attributes:
        scans: By number, the kinds of each of the scan's columns, and whether its rows were deleted; ``parts`` has the
            columns.
    """

    parts: SharedParts
    scans: tuple[tuple[tuple[Kinds, ...], bool], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Shipment:
    """The batches of a run as they are sent."""

    shared: Shared
    documents: tuple[Document, ...]

    @classmethod
    def of(cls, batches: Sequence[Scan], context: ScanContext) -> Shipment:
        """Batches that were cut from the same scan have its kinds in common."""
        of_scans: dict[tuple[int, bool], Scan] = {}
        for batch in batches:
            of_scans.setdefault(_key(batch), batch)
        numbers = {key: number for number, key in enumerate(of_scans)}
        scans = of_scans.values()
        packer = BatchPacker(context, [scan.columns for scan in scans], (t for batch in batches for t in batch.tasks))
        shared = Shared(packer.shared, tuple((tuple(scan.kinds.values()), scan.removed) for scan in scans))
        documents = ((numbers[_key(b)], document) for b in batches for document in packer.documents(b.tasks))
        return cls(shared, tuple(documents))


def _key(batch: Scan) -> tuple[int, bool]:
    return id(batch.kinds), batch.removed
