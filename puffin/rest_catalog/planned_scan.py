"""A plan as the answers that a client gets: one if it is small, else parts that the client asks for one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from puffin.planning.file_plan import FilePlan
from puffin.rest_catalog.scan_tasks import Metrics, TaskEncoder
from puffin.tables.scan_task import FileScanTask

FILES_OF_PART = 5_000
_REFERENCES_OF_PART = 500_000  # to delete files, which many data files may share: half a second of work at most
_BYTES_OF_FILTERS = 16 * 1024 * 1024  # in a part, since each file has the filter beside it
_BYTES_OF_METRICS = 1_000  # of a file, with some columns
_NO_METRICS: Metrics = {}


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PlannedScan:
    """
    The files of a plan, ready to be sent.

    Attributes:
        plan: Without the texts of the filter.
        cuts: Where each part begins among the positions, and where the last one ends.
        metrics: The statistics that the client asked for, for each file of the snapshot; empty if for none.
    """

    plan: FilePlan
    positions: npt.NDArray[np.int64]
    cuts: Sequence[int]
    encoder: TaskEncoder
    metrics: Sequence[Metrics] = ()

    @classmethod
    def of(cls, plan: FilePlan, encoder: TaskEncoder, metrics: Sequence[Metrics] = ()) -> PlannedScan:
        """A plan in parts, each of a bounded number of files and of references to delete files."""
        files = max(1, min(FILES_OF_PART, _BYTES_OF_FILTERS // len(encoder.residual)))
        # The texts of a filter may be large, and the residual has it.
        plan, positions = dataclasses.replace(plan, where=None, predicates=()), np.flatnonzero(plan.kept)
        cuts, references = [0], 0
        for place, position in enumerate(positions.tolist()):
            of_file = len(plan.all_files[position].delete_files)
            references += of_file
            if place > cuts[-1] and (place - cuts[-1] == files or references > _REFERENCES_OF_PART):
                cuts.append(place)
                references = of_file
        return cls(plan, positions, [*cuts, len(positions)], encoder, metrics)

    @property
    def size(self) -> int:
        """About how many bytes of memory this takes, without the files, which all plans of a snapshot share."""
        arrays = self.plan.kept.nbytes + self.positions.nbytes
        return arrays + len(self.encoder.residual) + _BYTES_OF_METRICS * len(self.metrics)

    @property
    def parts(self) -> int:
        """How many parts there are; 1 if all files fit an answer."""
        return len(self.cuts) - 1

    def part(self, number: int) -> bytes:
        """The tasks of a part, from 0, as the keys of an answer."""
        positions = self.positions[self.cuts[number] : self.cuts[number + 1]].tolist()
        metrics = (self.metrics[i] if self.metrics else _NO_METRICS for i in positions)
        return self.encoder.encode(self._tasks(positions), metrics)

    def _tasks(self, positions: Sequence[int]) -> Iterator[FileScanTask]:
        return (self.plan.all_files[i] for i in positions)
