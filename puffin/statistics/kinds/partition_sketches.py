"""
Sketches by partition: a small theta sketch for each partition of the table.

They can forget whole partitions only: if a partition lost rows, the job reads all of its files again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from puffin.format import PARTITION_SKETCHES_V1
from puffin.sketches.hash_arrays import Hashes
from puffin.sketches.partition_sketches import PartitionSketches, PartitionSketchesBuilder
from puffin.sketches.partition_sketches_image import MAX_LG_K
from puffin.sketches.smallest import SmallestHashes
from puffin.statistics.blob_properties import PARTITIONS_PROPERTY
from puffin.statistics.kinds.kind import Builder, Kind, Need, Values
from puffin.tables.scan_task import FileScanTask
from puffin.values.partition_tuples import PartitionKey, partition_key


class PartitionSketchesKind(Kind[PartitionSketches]):
    """Sketches of a column by partition, announced by a property of the column's sketch."""

    name = PARTITION_SKETCHES_V1
    title = "partition sketches"
    needs = frozenset((Need.HASHES, Need.FILES))
    codec = PartitionSketches
    is_default = False

    def start(self) -> Builder[PartitionSketches]:
        return _Builder(self.lg_k)

    def merge(self, left: PartitionSketches, right: PartitionSketches) -> PartitionSketches:
        return dataclasses.replace(self, lg_k=min(left.lg_k, right.lg_k)).joined((left, right))

    def joined(
        self, parts: Collection[PartitionSketches], *, without: Collection[PartitionKey] = ()
    ) -> PartitionSketches:
        """Merge sketches of this size or larger; leave out some partitions of the first."""
        builder = PartitionSketchesBuilder(self.lg_k)
        for part in parts:
            builder.merge(part, without=without)
            without = ()
        return builder.compact()

    def properties(self, values: Values, type_: str) -> dict[str, str]:
        return {PARTITIONS_PROPERTY: str(len(values[self].keys))}


class _Builder:
    def __init__(self, lg_k: int) -> None:
        self._partitions = PartitionSketchesBuilder(lg_k)
        self._of_file = SmallestHashes(self._partitions.k)

    def begin_file(self, task: FileScanTask) -> None:
        self._of_file = SmallestHashes(self._partitions.k)

    def update_hashes(self, hashes: Hashes) -> None:
        self._of_file.add(hashes)

    def end_file(self, task: FileScanTask, live_rows: int) -> None:
        if live_rows:
            key = partition_key(task.data_file.spec_id, task.data_file.partition)
            self._partitions.add(key, *self._of_file.state())

    def compact(self) -> PartitionSketches:
        return self._partitions.compact()


PARTITION_SKETCHES = PartitionSketchesKind(MAX_LG_K)
