"""
Deltas: rows that came after a private blob was written, in a small blob beside it.

An append of a few rows to a table of thousands of columns changes each of its private blobs a little. To write them
again would take as many bytes as the whole private state. So the values of the new rows are stored alone, and added
when somebody reads: by the same steps as if each run had read and written everything, so with the same result. Row
counts and distributions have deltas, both or none of a column, since the latter are made beside the former.

Reading adds all layers up, so there are only a few, and small ones. Otherwise, or if rows were deleted, a run reads and
writes the whole blobs. Values that were erased therefore leave with the base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from puffin.errors import CorruptError
from puffin.sketches.distribution import Distribution
from puffin.sketches.row_counts import RowCounts
from puffin.sketches.theta_image import MAX_THETA
from puffin.statistics.kinds import DISTRIBUTION, ROW_COUNTS, sized_kinds
from puffin.statistics.kinds.kind import Kind, Parts, Values
from puffin.statistics.private_state.blobs import KeptBlob
from puffin.statistics.private_state.manifest import Part

LEAST_BYTES = 16 * 1024 * 1024
"""Less private state is written again: it is quickly done, and lookups have nothing to add up."""

MOST_DELTAS = 16
MOST_SHARE = 0.25
"""When another delta is added, all together take at most this share of the bytes of what they belong to."""

_ROW_BYTES = 16  # of one row in a delta: a hash and a value
WITH_DELTAS: tuple[Kind[Any], ...] = (ROW_COUNTS, DISTRIBUTION)


def takes_delta(kept: Iterable[KeptBlob], rows: int) -> bool:
    """Whether deltas of ``rows`` rows pay, beside all of these blobs of one manifest."""
    parts = {part.id: (part.file_size, is_delta) for blob in kept for part, is_delta in _parts(blob)}
    columns = {blob.key.field_id for blob in kept}
    base = sum(size for size, is_delta in parts.values() if not is_delta)
    deltas = sum(size for size, is_delta in parts.values() if is_delta)
    expected = deltas + rows * _ROW_BYTES * len(columns)
    return base >= LEAST_BYTES and expected <= MOST_SHARE * base


def can_have_delta(kept: Mapping[Kind[Any], KeptBlob], snapshot_id: int) -> bool:
    """Whether the blobs of one column can have one more delta, that of a snapshot."""
    if not all(kind in kept for kind in WITH_DELTAS):
        return False
    counts, distribution = ([layer.snapshot_id for layer in kept[kind].stored.layers] for kind in WITH_DELTAS)
    return counts[1:] == distribution[1:] and len(counts) <= MOST_DELTAS and snapshot_id not in {*counts, *distribution}


def payload_of(kind: Kind[Any], deltas: Values) -> bytes | None:
    """The payload of a delta, None without one; for row counts empty if the distribution's delta has the same rows."""
    if deltas.get(kind) is None:
        return None
    if kind == ROW_COUNTS and _counts_of(deltas[DISTRIBUTION]) == deltas[ROW_COUNTS]:
        return b""
    payload: bytes = kind.codec.to_bytes(deltas[kind])
    return payload


def added_up(type_: str, layers: Mapping[str, Sequence[bytes]], lg_k: int) -> bytes:
    """
    The payload of a type with all of its deltas.

    Args:
        layers: The payloads of row counts and of distributions, each with its deltas.

    Raises:
        CorruptError: A payload is broken, or one has a delta that the other lacks.
    """
    kinds = {kind.name: kind for kind in sized_kinds(lg_k)}
    wanted = [kinds[kind.name] for kind in WITH_DELTAS if kind == ROW_COUNTS or kind.name == type_]
    if len({len(layers.get(kind.name, ())) for kind in WITH_DELTAS}) != 1:
        raise CorruptError(f"expected as many deltas of each kind, found {[len(of) for of in layers.values()]}")
    found = {kind: kind.codec.from_bytes(layers[kind.name][0]) for kind in wanted}
    for place in range(1, len(layers[type_])):
        base, found = found, {}
        for kind in wanted:
            added = _read_delta(kind, {name: of[place] for name, of in layers.items()})
            found[kind] = kind.combined(Parts(base, {kind: added}, {}), found)
    payload: bytes = kinds[type_].codec.to_bytes(found[kinds[type_]])
    return payload


def _read_delta(kind: Kind[Any], payloads: Mapping[str, bytes]) -> Any:
    if payloads[kind.name] or kind != ROW_COUNTS:
        return kind.codec.from_bytes(payloads[kind.name])
    counts = _counts_of(DISTRIBUTION.codec.from_bytes(payloads[DISTRIBUTION.name]))
    if counts is None:
        raise CorruptError("expected a delta of a distribution that has every row, found another one")
    return counts


def _counts_of(distribution: Distribution) -> RowCounts | None:
    """The row counts of rows that a distribution has all of, exactly; otherwise None."""
    is_whole = distribution.theta == MAX_THETA and distribution.missed == 0
    if not is_whole or not np.array_equal(distribution.low, distribution.high):
        return None
    rows = distribution.low.astype(np.int64)
    rows.setflags(write=False)
    hashes = distribution.hashes.copy()
    hashes.setflags(write=False)
    return RowCounts(MAX_THETA, hashes, rows)


def _parts(blob: KeptBlob) -> list[tuple[Part, bool]]:
    return [(layer.part, place > 0) for place, layer in enumerate(blob.stored.layers)]
