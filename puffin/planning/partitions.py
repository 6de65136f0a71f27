"""Excludes files by their partitions: what a predicate looks at in a partition tuple is tested once for each value."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from puffin.planning.flags import Flags
from puffin.tables.base import Snapshot
from puffin.tables.expression import PartitionTest, Predicate
from puffin.tables.scan_task import FileScanTask
from puffin.tables.state import TableState
from puffin.values.partition_tuples import value_from_json


def known_specs(
    state: TableState, without: Set[int] = frozenset(), *, at: Snapshot | None = None
) -> dict[int, list[Mapping[str, Any]]]:
    """The fields of each partition spec that data files of a snapshot have in tuples, without those of some columns."""
    of_tuples = state.tuple_types_at(at)
    return {
        spec_id: [f for f in spec if f["field-id"] in of_tuples[spec_id] and f["source-id"] not in without]
        for spec_id, spec in state.partition_specs.items()
    }


def may_pass(test: PartitionTest, partition: Mapping[str, Any], types: Mapping[int, str]) -> bool:
    """Whether a partition may have rows that pass; if it lacks a value that is tested, it may."""
    if any(str(field_id) not in partition for field_id in test.field_ids):
        return True
    return test.holds([value_from_json(types[f], partition[str(f)]) for f in test.field_ids])


class FilePartitions:
    """
    The partitions of a snapshot's files.

    Attributes:
        names: The names of partition fields by field id, as JSON has it.
    """

    def __init__(self, state: TableState, tasks: Sequence[FileScanTask]) -> None:
        self.names = {str(f["field-id"]): str(f["name"]) for spec in state.partition_specs.values() for f in spec}
        self._types = state.tuple_types
        self._tuples: list[tuple[int, Mapping[str, Any]]] = []
        self._of_files = np.empty(len(tasks), np.int64)
        self._known_groups: dict[tuple[int, frozenset[str]], _Grouped] = {}
        numbers: dict[tuple[int, str], int] = {}
        for i, task in enumerate(tasks):
            spec_id, partition = task.data_file.spec_id, task.data_file.partition
            number = numbers.setdefault((spec_id, json.dumps(partition, sort_keys=True)), len(self._tuples))
            if number == len(self._tuples):
                self._tuples.append((spec_id, partition))
            self._of_files[i] = number

    def may_match(self, predicate: Predicate) -> Flags:
        """For each file whether its partition may have rows that pass."""
        passes = np.ones(len(self._tuples), np.bool_)
        for spec_id, test in predicate.partitions.items():
            grouped = self._grouped(spec_id, frozenset(map(str, test.field_ids)))
            of_groups = [may_pass(test, values, self._types[spec_id]) for values in grouped.values]
            passes[grouped.places] = np.array(of_groups, np.bool_)[grouped.groups]
        return passes[self._of_files]

    def _grouped(self, spec_id: int, fields: frozenset[str]) -> _Grouped:
        """The tuples of a spec by the values of some fields, which are all that a test looks at."""
        if (spec_id, fields) not in self._known_groups:
            places, groups = [], []
            of_values: dict[str, tuple[int, Mapping[str, Any]]] = {}
            for place, (spec_of_tuple, partition) in enumerate(self._tuples):
                if spec_of_tuple == spec_id:
                    values = {key: partition[key] for key in sorted(fields) if key in partition}
                    group, _ = of_values.setdefault(json.dumps(values), (len(of_values), values))
                    places.append(place)
                    groups.append(group)
            self._known_groups[spec_id, fields] = _Grouped(
                np.array(places, np.int64), np.array(groups, np.int64), [values for _, values in of_values.values()]
            )
        return self._known_groups[spec_id, fields]


@dataclasses.dataclass(frozen=True, slots=True)
class _Grouped:
    """The tuples of a spec, grouped by the values that a test looks at."""

    places: npt.NDArray[np.int64]  # of the tuples in the list of all
    groups: npt.NDArray[np.int64]  # the number of the group of each tuple
    values: Sequence[Mapping[str, Any]]  # of each group
