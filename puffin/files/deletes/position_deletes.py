"""
Read position delete files: the data file and position of each deleted row (spec, "Position Delete Files").

Callers turn errors of the file into ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from puffin.files.data_file import DataFile
from puffin.files.file_columns import field_id_of
from puffin.format.deletion_vector import DeletionVector
from puffin.tables.scan_task import DELETE_FILE_PATH, DELETE_FILE_POS

# The columns by id and name.
_FILE_PATH, _POS = (DELETE_FILE_PATH, "file_path"), (DELETE_FILE_POS, "pos")


def read_positions(file: DataFile, data_files: Iterable[str]) -> dict[str, DeletionVector]:
    """The deleted positions by data file, for those of these data files that have any."""
    wanted = pa.array(data_files, pa.string())
    found: dict[str, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}
    for paths, positions in _columns(file, _FILE_PATH, _POS):
        for data_path in pc.unique(paths.filter(pc.is_in(paths, wanted))):
            of_one = positions.filter(pc.equal(paths, data_path)).to_numpy(zero_copy_only=False)
            found.setdefault(data_path.as_py(), []).append(of_one)
    return {data_path: DeletionVector.from_positions(np.concatenate(parts)) for data_path, parts in found.items()}


def read_data_files(file: DataFile) -> frozenset[str]:
    """The data files that the delete file names; they are not opened."""
    return frozenset(path for (paths,) in _columns(file, _FILE_PATH) for path in pc.unique(paths).to_pylist() if path)


def _columns(file: DataFile, *columns: tuple[int, str]) -> Iterator[list[pa.Array]]:
    """The values of these columns, batch by batch; ``file_path`` comes first."""
    names = [_name_of(file.schema, field_id, name) for field_id, name in columns]
    for batch in file.batches([(name,) for name in names]):
        paths, *others = (batch.column(name) for name in names)
        yield [paths.cast(pa.binary()).cast(pa.string()), *others]  # rejects numbers


def _name_of(schema: pa.Schema, field_id: int, name: str) -> str:
    # By name if the writer omitted the reserved ids.
    return next((field.name for field in schema if field_id_of(field) == field_id), name)
