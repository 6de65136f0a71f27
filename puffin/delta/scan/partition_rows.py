"""The live rows of each partition of a Delta table, as its log counts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from puffin.delta.log.actions import AddFile
from puffin.delta.scan.partition_values import partition_json
from puffin.delta.state import SPEC_ID, DeltaState
from puffin.tables.partition_rows import PartitionRows


def partition_rows(state: DeltaState) -> list[PartitionRows] | None:
    """The rows of each partition of the state's version; None if the log does not tell those of every file."""
    names = [each.name for each in state.logged_partitions]
    counts = state.segment.fold_files(lambda files: _counted((file for file, _ in files), names))
    if counts is None:
        return None
    return [
        PartitionRows(
            SPEC_ID,
            {
                each.field_id: partition_json(each.type, text, state.location)
                for each, text in zip(state.logged_partitions, texts, strict=True)
            },
            rows,
            rows,
        )
        for texts, rows in counts.items()
    ]


def _counted(files: Iterable[AddFile], names: Sequence[str]) -> dict[tuple[str | None, ...], int] | None:
    """The rows of each partition, by its values as text; None if those of a file are not known."""
    counts: dict[tuple[str | None, ...], int] = {}
    for file in files:
        rows = file.live_records
        if rows is None:
            return None
        texts = tuple(map(file.partition_values.get, names))
        counts[texts] = counts.get(texts, 0) + rows
    return counts
