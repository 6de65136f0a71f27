"""A batch as it arrives on an executor."""

from __future__ import annotations

from puffin.tables.scan_documents import BatchPacker, unpack_batch
from puffin.tables.scan_task import ScanBatch


def sent(batch: ScanBatch) -> ScanBatch:
    packer = BatchPacker(batch.context, [batch.columns], batch.tasks)
    (document,) = packer.documents(batch.tasks)
    return unpack_batch(packer.shared, 0, document)
