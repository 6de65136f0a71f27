"""
Random Iceberg tables whose rows are known: schemas and specs evolve, and what manifests say of columns varies.

Partition values and column metrics are pyiceberg's, so that our code does not judge itself.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.hand_made_table import CONTENT, HandMadeTable
from tests.planning.random_filters import FLOATS, Leaf, RandomFilters, Row, rounded
from tests.planning.transformed import late, transformed

FIELDS = {
    1: ("i", "int"),
    2: ("l", "long"),
    3: ("f", "float"),
    4: ("d", "double"),
    5: ("s", "string"),
    6: ("b", "binary"),
    7: ("dt", "date"),
    8: ("ts", "timestamp"),
    9: ("tz", "timestamptz"),
    10: ("tm", "time"),
    11: ("de", "decimal(9, 2)"),
    12: ("dl", "decimal(30, 5)"),
    13: ("bo", "boolean"),
    14: ("u", "uuid"),
    15: ("x", "fixed[4]"),
    16: ("tn", "timestamp_ns"),
    17: ("dm", "decimal(15, 3)"),
}
STRUCT_ID, STRUCT = 30, {31: ("n", "int"), 32: ("t", "string")}
SECOND_TEXT = 41
ADDED = {40: ("new", "long", 7), SECOND_TEXT: ("s", "string", None)}
"""Columns that come later, with the value that rows of older files have; one takes the name of a dropped column."""

PROMOTIONS = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(18, 2)", "decimal(15, 3)": "decimal(38, 3)"}
ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "uuid": pa.binary(16),
    "fixed[4]": pa.binary(4),
}
TIMES = ("year", "month", "day", "hour")
TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "é",
    "\U0001f600x",
    "a" * 15,
    "a" * 16,
    "a" * 17,
    "a" * 15 + "\U0010ffff" * 3,
    "\U0010ffff" * 18,
)
BYTES = (b"", b"a", b"a\0", b"\xff" * 20, b"abc" * 8, b"\x7f\x80")
MAPPED_NAMES = {field_id: f"old_{name}" for field_id, (name, _) in FIELDS.items()}
NAN = {"float": struct.pack("<f", math.nan), "double": struct.pack("<d", math.nan)}
DAY = 86_400_000_000


@dataclasses.dataclass(frozen=True)
class KnownFile:
    entry: dict[str, Any]
    rows: tuple[Row, ...]


class RandomTable:
    """
    A table that grows by files and changes its schema and specs.

    Args:
        is_late: Whether its partitions before 1970 are those of `late`.

    Attributes:
        files: The data files with all rows that they were written with.
        snapshots: The same of each snapshot.
        columns_of: The columns as they were at each snapshot.
    """

    def __init__(self, root: Path, seed: int, *, is_late: bool = False) -> None:
        self.source = random.Random(seed)
        self.columns: dict[int, tuple[str, str]] = dict(FIELDS)
        self.table = HandMadeTable(root, self._fields(), version=3, properties=self._properties())
        self.files: list[KnownFile] = []
        self._deletes: list[dict[str, Any]] = []
        self.snapshots: dict[int, list[KnownFile]] = {}
        self.columns_of: dict[int, list[Leaf]] = {}
        self._written = 0
        self._version = 0
        self._is_late = is_late
        if self.source.random() < 0.7:
            self.table.document["partition-specs"].clear()
            self.change_spec()

    def grow(self, index: Callable[[], object], *, with_deletes: bool = True) -> None:
        """Write files, delete rows, evolve, write more, and call ``index`` between, each as chance has it."""
        for files in (4, 3, 3):
            for _ in range(files):
                self.append()
            if with_deletes and self.source.random() < 0.3:
                self.delete()
            self.commit()
            if self.source.random() < 0.6:
                index()
            if self.source.random() < 0.6:
                self.change_spec()
            if self.source.random() < 0.6:
                self.evolve()
        self.append()
        self.commit()

    def filters(self, without: Collection[str] = (), *, in_json: bool = False) -> RandomFilters:
        """Filters over the columns as they are now but those of some types, most often over sources of partitions."""
        sources = self._sources_of_specs()
        leaves = [leaf for leaf in self.leaves if leaf.type not in without]
        often = [leaf for leaf in leaves if leaf.field_id in sources]
        transform = self.transform_of if in_json else None
        return RandomFilters(self.source, [*leaves, *often * 6], self.present, self.made_up, transform)

    @property
    def leaves(self) -> list[Leaf]:
        """The columns as they are now."""
        nested = {field_id: (f"st.{name}", type_) for field_id, (name, type_) in STRUCT.items()}
        return [Leaf(field_id, *column) for field_id, column in (self.columns | nested).items()]

    def evolve(self) -> None:
        """Promote, rename, drop and add columns."""
        taken = self._sources_of_specs()
        for field_id, (name, type_) in list(self.columns.items()):
            promoted = PROMOTIONS.get(type_, type_)
            self.columns[field_id] = (name, promoted if self.source.random() < 0.7 else type_)
        if self.source.random() < 0.5:
            self.columns[7] = ("renamed", self.columns[7][1])
        if 5 in self.columns and 5 not in taken and self.source.random() < 0.5:
            del self.columns[5]
            self.columns[SECOND_TEXT] = ADDED[SECOND_TEXT][:2]
        if self.source.random() < 0.5:
            self.columns[40] = ADDED[40][:2]
        self.table.evolve(self._fields())

    def change_spec(self) -> None:
        """Make a new spec the default one."""
        spec: dict[str, dict[str, Any]] = {}
        specs = self.table.document["partition-specs"]
        for _ in range(self.source.choice((1, 1, 1, 2))):
            field_id = self.source.choice(sorted(set(self.columns) & set(FIELDS)))
            transform = self._transform(self.columns[field_id][1])
            name = f"{FIELDS[field_id][0]}_{transform.partition('[')[0]}"
            place = 1000 + 10 * len(specs) + len(spec)
            spec[name] = {"source-id": field_id, "field-id": place, "name": name, "transform": transform}
        specs.append({"spec-id": len(specs), "fields": list(spec.values())})

    def append(self) -> None:
        """Write some rows to a data file, or two if the first partition of the rows is not all of them."""
        self._append([self._row() for _ in range(self.source.randint(1, 8))], most_files=2)

    def compact(self) -> None:
        """Write the rows of two files anew, under the schema and a spec of today."""
        rows = [row for _ in range(2) for row in self.remove_file().rows]
        self._append([{**dict.fromkeys(self.columns), **row} for row in rows], most_files=len(rows))

    def _append(self, rows: Sequence[Row], most_files: int) -> None:
        spec_id = self.source.randrange(len(self.table.document["partition-specs"]))
        partitions: dict[str, tuple[tuple[Any, ...], list[Row]]] = {}
        for row in rows:
            partition = self._partition_of(row, spec_id)
            partitions.setdefault(repr(partition), (partition, []))[1].append(row)  # -0.0 and 0.0 are two
        for partition, of_file in list(partitions.values())[:most_files]:
            self.files.append(self._write(of_file, spec_id, partition))

    def delete(self) -> None:
        """Delete a row of a file by its position, and rows with some value in all files of its partition."""
        known = self.source.choice(self.files)
        shared = {name: known.entry[name] for name in ("spec_id", "partition", "schema_id")}
        self._written += 1
        row = Path(known.entry["file_path"]), 0
        positions = self.table.position_deletes(f"deletes-{self._written}.parquet", [row], **shared)
        values = pa.table({"l": pa.array([self.made_up("long")], pa.int64())})
        path = self.table.write(f"equality-{self._written}.parquet", values, {"l": 2})
        of_values = {"content": CONTENT["EQUALITY_DELETES"], "equality_ids": [2], "sequence_number": 2}
        self._deletes += [positions, self.table.data(path, **of_values, **shared)]

    def remove_file(self) -> KnownFile:
        """Take a file out of the table, as a delete of all of its rows does."""
        return self.files.pop(self.source.randrange(len(self.files)))

    def commit(self) -> Path:
        """Make a snapshot of all files; return the path of the metadata."""
        snapshot_id = self.table.snapshot(*(known.entry for known in self.files), *self._deletes)
        self.table.document["snapshots"][-1]["schema-id"] = self.table.document["current-schema-id"]
        self.snapshots[snapshot_id] = list(self.files)
        self.columns_of[snapshot_id] = self.leaves
        return self.write_metadata()

    def roll_back(self) -> None:
        """Make a snapshot current that is in the metadata."""
        now = self.source.choice(sorted(self.snapshots))
        self.table.document["current-snapshot-id"] = now
        self.files = list(self.snapshots[now])
        self.write_metadata()

    def branch(self) -> None:
        """Point the branch ``b`` to some snapshot."""
        head = self.source.choice(sorted(self.snapshots))
        self.table.document["refs"] = {"b": {"snapshot-id": head, "type": "branch"}}
        self.write_metadata()

    def expire(self) -> None:
        """Drop all snapshots but the current one and that of the branch."""
        document = self.table.document
        heads = {document["current-snapshot-id"], *(ref["snapshot-id"] for ref in document.get("refs", {}).values())}
        self.snapshots = {head: self.snapshots[head] for head in heads}
        for name in ("snapshots", "snapshot-log"):
            document[name] = [each for each in document[name] if each["snapshot-id"] in heads]
        self.write_metadata()

    def write_metadata(self) -> Path:
        """Write the next version of the metadata where a directory table has it."""
        self._version += 1
        folder = self.table.root / "metadata"
        folder.mkdir(exist_ok=True)
        path = folder / f"v{self._version}.metadata.json"
        path.write_text(json.dumps(self.document()))
        (folder / "version-hint.text").write_text(str(self._version))
        return path

    def document(self) -> dict[str, Any]:
        """The table's metadata, with what only other readers need."""
        document = self.table.document
        now = document["snapshots"][-1]["snapshot-id"]
        needed = {"last-sequence-number": now, "last-column-id": 100, "default-spec-id": 0, "last-partition-id": 9999}
        orders = {"default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "next-row-id": 0}
        return {**document, **needed, **orders}

    def present(self, leaf: Leaf) -> Any:
        """A value that a random row has in a column."""
        return self.source.choice(self.source.choice(self.files).rows)[leaf.field_id]

    def made_up(self, type_: str) -> Any:
        """A random value or null; many rows have the same ones, and many lie at an edge."""
        return None if self.source.random() < 0.1 else self._value(type_)

    def _value(self, type_: str) -> Any:
        pick, random_ = self.source.choice, self.source
        if type_ in ("int", "long"):
            most = 2 ** (31 if type_ == "int" else 63)
            return pick((random_.randint(-5, 5), random_.randint(-most, most - 1), most - 1, -most))
        if type_ in FLOATS:
            return pick((0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 0.7, random_.uniform(-10, 10)))
        if type_ == "string":
            return pick((*TEXTS, f"key-{random_.randint(0, 40)}", "a" * 16 + pick("bcd")))
        if type_ == "binary":
            return pick((*BYTES, bytes([random_.randint(0, 255)])))
        if type_.startswith("decimal"):
            precision, scale = map(int, type_[8:-1].split(","))
            most = 10 ** pick((2, min(precision, 9), precision)) - 1
            return Decimal(f"{random_.randint(-most, most)}e-{scale}")
        if type_ == "boolean":
            return random_.random() < 0.5
        if type_ == "date":
            return pick((random_.randint(-400, 800), -1, 0, -719_162, 2_932_896))
        if type_ == "time":
            return pick((0, DAY - 1, random_.randrange(DAY)))
        if type_.startswith("timestamp"):
            return pick((-1, 0, 1, random_.randint(-(10**15), 10**16), random_.randint(-400, 800) * DAY))
        width = 16 if type_ == "uuid" else 4
        return pick((random_.randbytes(width), *(bytes([byte] * width) for byte in (0, 9, 255))))

    def transform_of(self, leaf: Leaf) -> str:
        """A transform of a column, most often one that a spec has."""
        specs = self.table.document["partition-specs"]
        known = [each["transform"] for spec in specs for each in spec["fields"] if each["source-id"] == leaf.field_id]
        return self.source.choice(known) if known and self.source.random() < 0.8 else self._transform(leaf.type)

    def _fields(self) -> list[tuple[Any, ...]]:
        top = [(field_id, *column, *self._default(field_id)) for field_id, column in self.columns.items()]
        return [*top, (STRUCT_ID, "st", [(field_id, *column) for field_id, column in STRUCT.items()])]

    @staticmethod
    def _default(field_id: int) -> tuple[Any, ...]:
        return ADDED[field_id][2:] if field_id in ADDED else ()

    def _properties(self) -> dict[str, str]:
        mapping = [{"field-id": field_id, "names": [name]} for field_id, name in MAPPED_NAMES.items()]
        return {"schema.name-mapping.default": json.dumps(mapping)}

    def _sources_of_specs(self) -> set[int]:
        specs = self.table.document["partition-specs"]
        return {field["source-id"] for spec in specs for field in spec["fields"]}

    def _transform(self, type_: str) -> str:
        kinds = ["identity", "void"]
        if type_ not in ("boolean", "float", "double"):
            kinds.append(f"bucket[{self.source.randint(2, 9)}]")
        if type_ in ("int", "long", "string", "binary") or type_.startswith("decimal"):
            kinds.append(f"truncate[{self.source.randint(1, 20)}]")
        if type_ == "date" or type_.startswith("timestamp"):
            kinds += TIMES[: 3 if type_ == "date" else 4]
        return self.source.choice(kinds)

    def _row(self) -> Row:
        has_struct = self.source.random() < 0.8
        nested = {field_id: self._stored(type_) if has_struct else None for field_id, (_, type_) in STRUCT.items()}
        return {field_id: self._stored(type_) for field_id, (_, type_) in self.columns.items()} | nested

    def _stored(self, type_: str) -> Any:
        value = self.made_up(type_)
        return rounded(value) if type_ == "float" and value is not None else value

    def _partition_of(self, row: Row, spec_id: int) -> tuple[Any, ...]:
        fields = self.table.document["partition-specs"][spec_id]["fields"]
        sources = [field["source-id"] for field in fields]
        transforms = [field["transform"] for field in fields]
        transform_of = late if self._is_late else transformed
        return tuple(
            transform_of(transform, self._type_of(source), row[source])
            for transform, source in zip(transforms, sources, strict=True)
        )

    def _write(self, rows: list[Row], spec_id: int, partition: tuple[Any, ...]) -> KnownFile:
        """A file in some format, perhaps without field ids, and without some columns that no partition comes from."""
        self._written += 1
        kind = self.source.choice(("parquet", "parquet", "parquet", "avro", "mapped"))
        optional = sorted(set(self.columns) - self._sources_of_specs())
        lacking = {field_id for field_id in optional if self.source.random() < 0.1}
        if kind == "mapped":
            lacking |= set(self.columns) - set(MAPPED_NAMES)
        written = {
            f: (MAPPED_NAMES[f] if kind == "mapped" else self.columns[f][0]) for f in self.columns if f not in lacking
        }
        missing = {f: ADDED[f][2] if f in ADDED else None for f in (*FIELDS, *ADDED, *STRUCT) if f not in written}
        if kind != "mapped":
            missing = {f: value for f, value in missing.items() if f not in STRUCT}
        known = tuple({**row, **missing} for row in rows)
        arrays = {name: _array([row[f] for row in known], self.columns[f][1]) for f, name in written.items()}
        ids: dict[str, Any] = {name: f for f, name in written.items()}
        if kind != "mapped":
            nested = [_array([row[f] for row in known], type_) for f, (_, type_) in STRUCT.items()]
            is_null = pa.array([all(row[f] is None for f in STRUCT) for row in known])
            names = [name for name, _ in STRUCT.values()]
            arrays["st"] = pa.StructArray.from_arrays(nested, names=names, mask=is_null)
            ids["st"] = (STRUCT_ID, {name: f for f, (name, _) in STRUCT.items()})
        suffix = "avro" if kind == "avro" else "parquet"
        path = self.table.write(f"data-{self._written}.{suffix}", pa.table(arrays), None if kind == "mapped" else ids)
        said = {} if kind == "avro" else self._metrics(path, known, ids)
        schema_id = len(self.table.document["schemas"]) - 1
        entry = self.table.data(path, spec_id=spec_id, partition=partition, schema_id=schema_id, **said)
        return KnownFile(entry, known)

    def _metrics(self, path: Path, rows: Sequence[Row], ids: Mapping[str, Any]) -> dict[str, Any]:
        """Counts and bounds as pyiceberg makes them of the footer, in a random mode; NaN counts, which it lacks."""
        from pyiceberg.io.pyarrow import compute_statistics_plan, data_file_statistics_from_parquet_metadata
        from pyiceberg.schema import Schema

        mode = self.source.choice(("truncate(16)", "truncate(16)", "truncate(2)", "full", "counts", "none"))
        schema = Schema.model_validate(self.table.document["schemas"][-1])
        columns = compute_statistics_plan(schema, {"write.metadata.metrics.default": mode})
        paths = {name: field_id for name, field_id in ids.items() if name != "st"}
        paths |= {f"st.{name}": field_id for field_id, (name, _) in STRUCT.items()}
        said = data_file_statistics_from_parquet_metadata(pq.read_metadata(path), columns, paths).to_serialized_dict()
        floats = [f for f in (3, 4) if f in paths.values() and mode != "none" and self.source.random() < 0.5]
        nans = {f: sum(isinstance(row[f], float) and math.isnan(row[f]) for row in rows) for f in floats}
        for field_id in [f for f in (3, 4) if self.source.random() < 0.1]:
            # Earlier writers stored NaN as a bound, which says nothing.
            said["upper_bounds"] = {**said["upper_bounds"], field_id: NAN[self._type_of(field_id)]}
        for name, most in (("lower_bounds", min), ("upper_bounds", max)):
            if 16 in said[name]:  # pyiceberg cuts nanoseconds off
                bound = struct.pack("<q", most(row[16] for row in rows if row[16] is not None))
                said[name] = {**said[name], 16: bound}
        names = ("value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
        return {**{name: said[name] for name in names}, "nan_value_counts": nans}

    def _type_of(self, field_id: int) -> str:
        return self.columns[field_id][1]


def _array(values: Sequence[Any], type_: str) -> pa.Array:
    return pa.array(values, ARROW.get(type_) or pa.decimal128(*map(int, type_[8:-1].split(","))))
