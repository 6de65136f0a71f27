"""
Iceberg tables written file by file, for what no single engine writes: old formats, foreign files, contradictions.

Metadata is plain JSON; Parquet and ORC are pyarrow's, Avro is fastavro's; manifests are Avro files with the schemas of
the spec. What is read back is compared with sketches of the values themselves, which never went through a table.
"""

from __future__ import annotations

import dataclasses
import decimal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from puffin.files.formats import DataFiles
from puffin.files.rows import Wants
from puffin.files.task_reader import TaskReader
from puffin.format import DELETION_VECTOR_V1, Blob, PuffinWriter
from puffin.format.deletion_vector import DeletionVector
from puffin.iceberg.metadata.document import parse_state
from puffin.sketches.row_counts import RowCountsBuilder, row_counts_limit
from puffin.sketches.sizes import DEFAULT_LG_K
from puffin.sketches.theta_sketch import ThetaSketch, ThetaSketchBuilder
from puffin.storage import store_for
from puffin.tables.scan_task import FileScanTask, ScanBatch, ScanContext
from puffin.tables.state import TableState
from puffin.values.column_summary import ColumnSummary
from puffin.values.row_summary import RowSummary
from stats_jobs.plan import split_task
from tests.bound import bound
from tests.counting import count_rows
from tests.sent import sent

ADDED = 1
PATH_FIELD, POS_FIELD = 2147483546, 2147483545
OF_SOURCE_TYPE = ("identity", "truncate")
"""Transforms whose results have the type of the source."""
CONTENT = {"DATA": 0, "POSITION_DELETES": 1, "EQUALITY_DELETES": 2}


@dataclasses.dataclass(frozen=True)
class Answer:
    """
    The result of reading a snapshot: sketches by column name.

    Attributes:
        summaries: By column name, from reads of values alone and of every row.
    """

    sketches: Mapping[str, ThetaSketch]
    rows: int
    bytes_read: int
    pieces: int
    summaries: Mapping[str, tuple[ColumnSummary, ColumnSummary]]


class HandMadeTable:
    """
    A table whose files are all written to order.

    Args:
        fields: ``(id, name, type)`` or ``(id, name, type, initial default)``; a struct's type is a list of those.
        spec: ``(source id, transform)`` for each partition field.
    """

    def __init__(
        self,
        root: Path,
        fields: Sequence[tuple[Any, ...]],
        *,
        version: int = 2,
        spec: Sequence[tuple[int, str]] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.version = version
        self.manifest_key_metadata: bytes | None = None
        self.omit_counts = False
        self.document: dict[str, Any] = {
            "format-version": version,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "location": str(root),
            "last-updated-ms": 0,
            "properties": dict(properties or {}),
            "current-schema-id": 0,
            "schemas": [schema(fields)],
            "partition-specs": [{"spec-id": 0, "fields": partition_fields(spec)}],
            "snapshots": [],
            "snapshot-log": [],
        }
        root.mkdir(parents=True, exist_ok=True)

    def evolve(self, fields: Sequence[tuple[Any, ...]]) -> None:
        """Make these the columns; earlier schemas stay in the metadata."""
        schema_id = len(self.document["schemas"])
        self.document["schemas"].append(schema(fields) | {"schema-id": schema_id})
        self.document["current-schema-id"] = schema_id

    def write(self, name: str, table: pa.Table, ids: Mapping[str, Any] | None = None, **options: Any) -> Path:
        """
        Write a file in the format of its suffix: Parquet, ORC or Avro.

        Args:
            ids: Field ids by name, a struct's as ``(its id, those of its fields)``.
        """
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".avro":
            write_avro(path, table, ids or {}, **options)
        elif path.suffix == ".orc":
            orc.write_table(
                table if ids is None else table.cast(with_ids(table.schema, ids, "iceberg.id")), path, **options
            )
        else:
            pq.write_table(table if ids is None else table.cast(with_ids(table.schema, ids)), path, **options)
        return path

    def data(self, path: Path, **fields: Any) -> dict[str, Any]:
        """Return the manifest entry of a data file, by default with sequence number 1."""
        file_format = path.suffix[1:].upper() if path.suffix in COUNT_ROWS else "PARQUET"
        count_rows = COUNT_ROWS.get(path.suffix, COUNT_ROWS[".parquet"])
        return {
            "content": CONTENT["DATA"],
            "file_path": str(path),
            "file_format": file_format,
            "record_count": count_rows(path) if path.exists() and "record_count" not in fields else 0,
            "file_size_in_bytes": path.stat().st_size if path.exists() else 0,
            "sequence_number": 1,
            "spec_id": 0,
            "partition": (),
            **({"block_size_in_bytes": 0} if self.version == 1 else {}),
            **fields,
        }

    def position_deletes(
        self, name: str, rows: Iterable[tuple[Path, int]], *, of_one_file: bool = True, **fields: Any
    ) -> dict[str, Any]:
        """Return the manifest entry of a position delete file for these rows, by default with sequence number 2."""
        rows = list(rows)
        table = pa.table(
            {"file_path": [str(path) for path, _ in rows], "pos": pa.array([p for _, p in rows], pa.int64())}
        )
        path = self.write(name, table, {"file_path": PATH_FIELD, "pos": POS_FIELD})
        bounds = {PATH_FIELD: str(rows[0][0]).encode()} if of_one_file and rows else None
        deletes = {"content": CONTENT["POSITION_DELETES"], "lower_bounds": bounds, "upper_bounds": bounds}
        return self.data(path) | {"sequence_number": 2} | deletes | fields

    def vector(self, name: str, data_path: Path, positions: Iterable[int], **fields: Any) -> dict[str, Any]:
        """Return the manifest entry of a deletion vector in its own Puffin file, by default with sequence number 3."""
        deleted = DeletionVector.from_positions(list(positions))
        path = self.root / name
        with path.open("wb") as file:
            writer = PuffinWriter(file)
            blob = writer.add(
                Blob(
                    type=DELETION_VECTOR_V1,
                    fields=(),
                    snapshot_id=-1,
                    sequence_number=-1,
                    payload=deleted.to_bytes(),
                    properties={"referenced-data-file": str(data_path), "cardinality": str(deleted.cardinality)},
                )
            )
            writer.finish()
        return {
            "content": CONTENT["POSITION_DELETES"],
            "file_path": str(path),
            "file_format": "PUFFIN",
            "record_count": deleted.cardinality,
            "file_size_in_bytes": path.stat().st_size,
            "referenced_data_file": str(data_path),
            "content_offset": blob.offset,
            "content_size_in_bytes": blob.length,
            "sequence_number": 3,
            "spec_id": 0,
            "partition": (),
            **fields,
        }

    def snapshot(self, *entries: Mapping[str, Any]) -> int:
        """
        Make a snapshot of exactly these files current, with one manifest for each spec, schema and kind of file.

        An entry may name the schema under which it was written as ``schema_id``; the first one is the default.
        """
        snapshot_id = max((snapshot["snapshot-id"] for snapshot in self.document["snapshots"]), default=0) + 1
        groups: dict[tuple[int, bool, int], list[Mapping[str, Any]]] = {}
        for entry in entries:
            kind = (entry["spec_id"], entry["content"] != 0, entry.get("schema_id", 0))
            groups.setdefault(kind, []).append(entry)
        manifests = [self._manifest(snapshot_id, *kind[:2], group) for kind, group in groups.items()]
        self.document["snapshots"].append(
            {
                "snapshot-id": snapshot_id,
                "sequence-number": snapshot_id,
                "timestamp-ms": 1000 * snapshot_id,
                "manifest-list": self._manifest_list(snapshot_id, manifests),
                "summary": {"operation": "append"},
            }
        )
        self.document["snapshot-log"].append({"snapshot-id": snapshot_id, "timestamp-ms": 1000 * snapshot_id})
        self.document["current-snapshot-id"] = snapshot_id
        return snapshot_id

    def state(self) -> TableState:
        return parse_state(self.document, f"{self.root}/metadata.json")

    def plan(self, snapshot_id: int | None = None) -> tuple[FileScanTask, ...]:
        state = self.state()
        return bound(state, snapshot_id or self.document["current-snapshot-id"]).tasks

    def read(self, *columns: str, snapshot_id: int | None = None, target_bytes: int = 2**40) -> Answer:
        """Plan, split, pass through JSON and read, as the job does; by default all hashable columns."""
        return sketches_of(self.batch(*columns, snapshot_id=snapshot_id, target_bytes=target_bytes))

    def batch(self, *columns: str, snapshot_id: int | None = None, target_bytes: int = 2**40) -> ScanBatch:
        """What `read` reads."""
        state = self.state()
        chosen = state.select_columns(columns or None)
        batch = ScanBatch(
            columns=chosen,
            tasks=tuple(piece for task in self.plan(snapshot_id) for piece in split_task(task, target_bytes)),
            context=ScanContext(state.partition_specs, state.name_mapping, {}),
        )
        return sent(batch)

    def _manifest(self, snapshot_id: int, spec_id: int, of_deletes: bool, entries: list[Mapping[str, Any]]) -> Any:
        from pyiceberg.manifest import (
            DataFile,
            ManifestEntry,
            ManifestFile,
            data_file_with_partition,
            manifest_entry_schema_with_data_file,
        )

        schema_id = entries[0].get("schema_id", 0) if entries else 0
        partition_type = self._partition_type(spec_id, schema_id)
        data_file_type = data_file_with_partition(partition_type, self.version)
        of_schema = f"-{schema_id}" if schema_id else ""
        path = self.root / f"manifest-{snapshot_id}-{spec_id}-{of_deletes}{of_schema}.avro"
        records = [
            ManifestEntry.from_args(
                self.version,
                status=entry.get("status", ADDED),
                snapshot_id=snapshot_id,
                sequence_number=entry["sequence_number"],
                data_file=DataFile.from_args(
                    self.version,
                    **{k: v for k, v in entry.items() if k != "partition"},
                    partition=_record(entry["partition"]),
                ),
            )
            for entry in entries
        ]
        self._avro(
            path,
            manifest_entry_schema_with_data_file(self.version, data_file_type),
            "manifest_entry",
            records,
            {"partition-spec-id": str(spec_id), "content": "deletes" if of_deletes else "data"},
        )
        statuses = [entry.get("status", ADDED) for entry in entries]
        counts = {kind: statuses.count(status) for status, kind in enumerate(("existing", "added", "deleted"))}
        return ManifestFile.from_args(
            self.version,
            manifest_path=str(path),
            manifest_length=path.stat().st_size,
            partition_spec_id=spec_id,
            content=int(of_deletes),
            sequence_number=snapshot_id,
            min_sequence_number=1,
            added_snapshot_id=snapshot_id,
            key_metadata=self.manifest_key_metadata,
            **({} if self.omit_counts else {f"{kind}_files_count": count for kind, count in counts.items()}),
            **{f"{kind}_rows_count": 0 for kind in counts},
        )

    def _manifest_list(self, snapshot_id: int, manifests: list[Any]) -> str:
        from pyiceberg.manifest import MANIFEST_LIST_FILE_SCHEMAS

        path = self.root / f"snap-{snapshot_id}.avro"
        self._avro(path, MANIFEST_LIST_FILE_SCHEMAS[self.version], "manifest_file", manifests)
        return str(path)

    def _avro(
        self, path: Path, avro_schema: Any, name: str, records: list[Any], metadata: Mapping[str, str] | None = None
    ) -> None:
        from pyiceberg.avro.file import AvroOutputFile
        from pyiceberg.io.pyarrow import PyArrowFileIO

        with AvroOutputFile(
            PyArrowFileIO().new_output(str(path)), avro_schema, name, metadata=metadata or {}
        ) as output:
            if records:
                output.write_block(records)

    def _partition_type(self, spec_id: int, schema_id: int) -> Any:
        from pyiceberg.types import NestedField, StructType

        types = {field["id"]: field["type"] for field in self.document["schemas"][schema_id]["fields"]}
        spec = next(s for s in self.document["partition-specs"] if s["spec-id"] == spec_id)
        fields = [
            {
                "id": field["field-id"],
                "name": field["name"],
                "type": types[field["source-id"]] if field["transform"].startswith(OF_SOURCE_TYPE) else "int",
                "required": False,
            }
            for field in spec["fields"]
        ]
        return StructType(*map(NestedField.model_validate, fields))


def sketches_of(batch: ScanBatch, is_sound: bool = True) -> Answer:
    """
    Return the batch's sketches, read with and without counting rows, and check that they are equal.

    In damaged files different ways of reading may find different values.
    """
    builders = {column.field_id: ThetaSketchBuilder() for column in batch.columns}
    counts = {column.field_id: RowCountsBuilder(row_counts_limit(DEFAULT_LG_K)) for column in batch.columns}
    types = {column.field_id: column.type for column in batch.columns}
    summaries = {(each_row, field_id): RowSummary() for each_row in (False, True) for field_id in types}
    rows = {False: 0, True: 0}
    bytes_read = 0
    for each_row in (False, True):
        reader = TaskReader(batch, DataFiles(store_for), Wants(each_row=each_row, summaries=True))
        for live in (live for task in batch.tasks for live in reader.read(task)):
            rows[each_row] += live.count
            bytes_read += 0 if each_row else live.bytes_read
            for field_id, summary in live.summaries.items():
                summaries[each_row, field_id] = summaries[each_row, field_id].plus(summary)
            for field_id, values in live.columns.items():
                if not each_row:
                    builders[field_id].update(values.array, types[field_id])
                else:
                    count_rows(counts[field_id], values.array, types[field_id], values.rows)
    assert rows[True] == rows[False]
    sketches = {column.name: builders[column.field_id].compact() for column in batch.columns}
    for column in batch.columns:
        assert counts[column.field_id].compact().sketch(DEFAULT_LG_K) == sketches[column.name] or not is_sound
    of_columns = {
        c.name: (summaries[False, c.field_id].to_column(c.type), summaries[True, c.field_id].to_column(c.type))
        for c in batch.columns
    }
    return Answer(sketches, rows[False], bytes_read, len(batch.tasks), of_columns)


def schema(fields: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    return {"type": "struct", "schema-id": 0, "fields": [_field(*field) for field in fields]}


def _field(field_id: int, name: str, type_: Any, default: Any = None) -> dict[str, Any]:
    json_type = schema(type_) if isinstance(type_, list) else type_
    field = {"id": field_id, "name": name, "required": False, "type": json_type}
    return field if default is None else field | {"initial-default": default}


def partition_fields(spec: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    return [
        {"source-id": source, "field-id": 1000 + i, "name": f"p{i}", "transform": transform}
        for i, (source, transform) in enumerate(spec)
    ]


def with_ids(fields: Iterable[pa.Field], ids: Mapping[str, Any], key: str = "PARQUET:field_id") -> pa.Schema:
    return pa.schema([_with_id(field, ids[field.name], key) for field in fields])


def _with_id(field: pa.Field, ids: Any, key: str) -> pa.Field:
    field_id, nested = ids if isinstance(ids, tuple) else (ids, {})
    if nested:
        field = field.with_type(pa.struct(list(with_ids(field.type, nested, key))))
    return field if field_id is None else field.with_metadata({**(field.metadata or {}), key: str(field_id)})


# --- Avro, as Iceberg writes it -----------------------------------------------------------------------------------

COUNT_ROWS: dict[str, Callable[[Path], int]] = {
    ".parquet": lambda path: pq.read_metadata(path).num_rows,
    ".orc": lambda path: orc.ORCFile(path).nrows,
    ".avro": lambda path: sum(block.num_records for block in _fastavro().block_reader(path.open("rb"))),
}


def _fastavro() -> Any:
    # This module is loaded for every test, and make test-matrix installs no tools of other tests.
    import fastavro

    return fastavro


def write_avro(path: Path, table: pa.Table, ids: Mapping[str, Any], **options: Any) -> None:
    schema = avro_record("table", table.schema, ids)
    columns = [stored_values(column.combine_chunks()) for column in table.columns]
    records = [dict(zip(table.column_names, values, strict=True)) for values in zip(*columns, strict=True)]
    with path.open("wb") as file:
        _fastavro().writer(file, schema, records, **options)


def avro_record(name: str, fields: Iterable[pa.Field], ids: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [_avro_field(field, ids.get(field.name)) for field in fields]}


def _avro_field(field: pa.Field, ids: Any) -> dict[str, Any]:
    field_id, nested = ids if isinstance(ids, tuple) else (ids, {})
    is_struct = pa.types.is_struct(field.type)
    type_ = avro_record(f"r_{field.name}", field.type, nested) if is_struct else _avro_type(field.type, field.name)
    avro = {"name": field.name, "type": ["null", type_], "default": None}
    return avro if field_id is None else avro | {"field-id": field_id}


def _avro_type(type_: pa.DataType, name: str) -> Any:
    if pa.types.is_decimal(type_):
        digits = {"logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
        return {"type": "fixed", "name": f"d_{name}", "size": decimal_size(type_.precision)} | digits
    if pa.types.is_fixed_size_binary(type_):
        return {"type": "fixed", "name": f"f_{name}", "size": type_.byte_width}
    if pa.types.is_timestamp(type_):
        kind = {"us": "timestamp-micros", "ns": "timestamp-nanos"}[type_.unit]
        return {"type": "long", "logicalType": kind, "adjust-to-utc": type_.tz is not None}
    return AVRO_TYPES[type_]


AVRO_TYPES: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}


def decimal_size(precision: int) -> int:
    """The fewest bytes that hold every decimal of so many digits."""
    return ((10**precision - 1).bit_length() + 8) // 8


def stored_values(array: pa.Array) -> list[Any]:
    """What Avro stores: counts of dates and times, the bytes of decimals."""
    type_ = array.type
    if pa.types.is_struct(type_):
        inner = [stored_values(array.field(i)) for i in range(type_.num_fields)]
        names = [field.name for field in type_]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*inner, strict=True)]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    if pa.types.is_decimal(type_):
        size = decimal_size(type_.precision)
        exact = decimal.Context(prec=40)
        unscaled = (None if d is None else int(d.scaleb(type_.scale, exact)) for d in array.to_pylist())
        return [None if value is None else value.to_bytes(size, "big", signed=True) for value in unscaled]
    if pa.types.is_date(type_):
        return array.cast(pa.int32()).to_pylist()
    return (array.cast(pa.int64()) if pa.types.is_temporal(type_) else array).to_pylist()


def _record(values: Sequence[Any]) -> Any:
    from pyiceberg.typedef import Record

    return Record(*values)


@pytest.fixture(scope="module")
def hand_made_table(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., HandMadeTable]:
    """Makes a `HandMadeTable` that several tests read."""
    return lambda fields, **options: HandMadeTable(tmp_path_factory.mktemp("tables") / "table", fields, **options)


@pytest.fixture
def make_table(tmp_path: Path) -> Callable[..., HandMadeTable]:
    """Makes a `HandMadeTable`; a test may make several."""
    made = 0

    def make(fields: Sequence[tuple[Any, ...]], **options: Any) -> HandMadeTable:
        nonlocal made
        made += 1
        return HandMadeTable(tmp_path / f"table-{made}", fields, **options)

    return make
