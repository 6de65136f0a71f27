"""
A table of many files, and what may happen to a hundredth of it: each a branch of its own on the same first snapshot.

Most data files are hard links to two files of ``events``: such a table is scanned like any other, and takes no room.
The files that change hold rows that no other has, so that the distinct values change with them and an answer that
overlooks the change is wrong. No engine could write such a table, so its metadata is made by hand.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import Dataset
from benchmarks.handmade import MAIN, HandmadeTable, uri
from puffin.format import DELETION_VECTOR_V1, Blob, PuffinWriter
from puffin.format.deletion_vector import DeletionVector
from puffin.load import load_table
from puffin.tables.document import current_schema

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile

APPEND, COMPACTION, REMOVED_FILES = "append", "compaction", "removed-files"
POSITION_DELETES, DELETION_VECTORS = "position-deletes", "deletion-vectors"
FILES = 200  # of the first snapshot
CHANGED = FILES // 100  # files that come or go
DELETED_FROM = 2 * CHANGED  # files that lose half of their rows

_BASE = 1  # the first snapshot; the others are its children
_REPEATED = 2  # files of events that the others of the first snapshot repeat
_PATH_FIELD, _POS_FIELD = 2_147_483_546, 2_147_483_545  # the spec's reserved field ids
_DELETES_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(_PATH_FIELD)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(_POS_FIELD)}),
    ]
)
_SEED = 20_260_102

_Positions: TypeAlias = npt.NDArray[np.int64]


def write_history(directory: Path, events: Dataset) -> Dataset:
    """Write the table anew; its branches have the names above, and ``main``, told here, is the first snapshot."""
    shutil.rmtree(directory, ignore_errors=True)
    schema = current_schema(load_table(events.directory).open().state.document)
    table = HandmadeTable(directory, schema, version=3)  # since its first deletion vector

    repeated, unique = events.files[:_REPEATED], events.files[_REPEATED:]
    changing, new = unique[:DELETED_FROM], unique[DELETED_FROM : DELETED_FROM + CHANGED]
    sources = [*changing, *(repeated[number % _REPEATED] for number in range(FILES - DELETED_FROM))]
    files = _linked(table, MAIN, sources)
    deleted = {file.file_path: _half_of_rows(file) for file in files[:DELETED_FROM]}

    first = table.manifest(_BASE, files)
    table.snapshot(_BASE, [first])
    children: dict[str, tuple[str, Callable[[int], list[ManifestFile]]]] = {
        APPEND: ("append", lambda id_: [first, table.manifest(id_, _linked(table, APPEND, new))]),
        COMPACTION: (
            "replace",
            lambda id_: [table.manifest(id_, _linked(table, COMPACTION, sources), deleted=files, since=_BASE)],
        ),
        POSITION_DELETES: (
            "overwrite",
            lambda id_: [first, table.manifest(id_, _position_deletes(table, deleted), of_deletes=True)],
        ),
        DELETION_VECTORS: (
            "overwrite",
            lambda id_: [first, table.manifest(id_, _deletion_vectors(table, deleted), of_deletes=True)],
        ),
        REMOVED_FILES: (
            "delete",
            lambda id_: [table.manifest(id_, existing=files[CHANGED:], deleted=files[:CHANGED], since=_BASE)],
        ),
    }
    for snapshot_id, (branch, (operation, manifests)) in enumerate(children.items(), _BASE + 1):
        table.snapshot(snapshot_id, manifests(snapshot_id), parent_id=_BASE, operation=operation, branch=branch)
    table.finish()
    paths = tuple(file.file_path.removeprefix("file://") for file in files)
    return Dataset("history", str(directory), paths, sum(file.record_count for file in files), {}, ())


def _linked(table: HandmadeTable, name: str, sources: Sequence[str]) -> list[DataFile]:
    """Data files of the table under names of its own, with the bytes of these."""
    files = []
    for number, source in enumerate(sources):
        path = table.data / f"{name}-{number:03}.parquet"
        try:
            path.hardlink_to(source)
        except OSError:  # a file system without hard links
            shutil.copyfile(source, path)
        files.append(table.parquet_file(path))
    return files


def _half_of_rows(file: DataFile) -> _Positions:
    """Each row or not, as it falls: what a deletion vector can compress least."""
    return np.flatnonzero(np.random.default_rng([_SEED, file.record_count]).integers(0, 2, file.record_count))


def _position_deletes(table: HandmadeTable, deleted: Mapping[str, _Positions]) -> list[DataFile]:
    """A delete file for each data file, which its bounds name."""
    files = []
    for number, (data_file, positions) in enumerate(deleted.items()):
        path = table.data / f"deletes-{number}.parquet"
        names = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [data_file]).cast(pa.string())
        pq.write_table(pa.table([names, pa.array(positions)], schema=_DELETES_SCHEMA), path, compression="zstd")
        bounds = {_PATH_FIELD: data_file.encode()}
        files.append(table.parquet_file(path, of_deletes=True, lower_bounds=bounds, upper_bounds=bounds))
    return files


def _deletion_vectors(table: HandmadeTable, deleted: Mapping[str, _Positions]) -> list[DataFile]:
    """All of the vectors in one Puffin file."""
    path = table.data / "deletes.puffin"
    with path.open("wb") as sink:
        writer = PuffinWriter(sink)
        blobs = [writer.add(_vector_blob(data_file, positions)) for data_file, positions in deleted.items()]
        size = writer.finish().file_size
    return [
        table.content_file(
            uri(path),
            "PUFFIN",
            of_deletes=True,
            record_count=len(positions),
            file_size_in_bytes=size,
            referenced_data_file=data_file,
            content_offset=blob.offset,
            content_size_in_bytes=blob.length,
        )
        for (data_file, positions), blob in zip(deleted.items(), blobs, strict=True)
    ]


def _vector_blob(data_file: str, positions: _Positions) -> Blob:
    return Blob(
        type=DELETION_VECTOR_V1,
        fields=(_POS_FIELD,),
        snapshot_id=-1,
        sequence_number=-1,
        payload=DeletionVector.from_positions(positions).to_bytes(),
        properties={"referenced-data-file": data_file, "cardinality": str(len(positions))},
    )
