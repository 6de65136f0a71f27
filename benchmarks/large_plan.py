"""
What a driver needs to plan a very large snapshot: from the table to the documents of its tasks.

The files do not exist. Their manifests have metrics of each column, as real ones do, and are links to one that is made.
With ``--delta`` it is a Delta table: a checkpoint with statistics of each file. With ``--master``, executors read what
tells of files, as they do in a full run; what Spark's processes took is told beside.
One JSON document goes to standard output; the exit code is 1 if the plan took longer or more memory than the bar.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import struct
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.handmade import HandmadeTable, schema_of, uri
from benchmarks.processes import descendants, in_fresh_process, peak_mib

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from stats_jobs.shipment import Shipment

_SECONDS, _MIB = 60.0, 1024.0  # of a million files with 100 columns
_ENTRIES = 4000  # of a manifest: with metrics of 100 columns, about the 8 MB that Iceberg aims at
_ROWS, _FILE_BYTES = 1_000_000, 100 * 1024 * 1024


def make_table(directory: Path, files: int, columns: int) -> None:
    """Write the metadata of a table of about so many files."""
    ids = range(1, columns + 1)
    schema = schema_of({f"column_{i}": "long" if i % 2 else "string" for i in ids})
    table, draw = HandmadeTable(directory, schema), random.Random(files)
    first = table.manifest(1, [_data_file(table, ids, draw) for _ in range(min(files, _ENTRIES))])
    made, manifests = Path(first.manifest_path.removeprefix("file://")), [first]
    while len(manifests) * _ENTRIES < files:
        link = made.with_name(f"1-link{len(manifests)}.avro")
        os.link(made, link)
        manifests.append(copy.deepcopy(first))
        manifests[-1][0] = uri(link)
    made_files = len(manifests) * min(files, _ENTRIES)
    totals = {"total-data-files": str(made_files), "total-files-size": str(made_files * _FILE_BYTES)}
    table.snapshot(1, manifests, summary=totals)
    table.finish()


def make_delta_table(directory: Path, files: int, columns: int) -> None:
    """Write the log of a table of so many files: a commit, and a checkpoint of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, log, names = random.Random(files), directory / "_delta_log", [f"column_{i}" for i in range(1, columns + 1)]
    log.mkdir()
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    described = {
        "id": str(uuid.UUID(int=draw.getrandbits(128))),
        "format": {"provider": "parquet"},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
    }
    actions = ({"protocol": protocol}, {"metaData": {**described, "partitionColumns": [], "configuration": {}}})
    (log / f"{0:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    add = pa.struct({"path": pa.string(), "size": pa.int64(), "dataChange": pa.bool_(), "stats": pa.string()})
    kinds = {"protocol": pa.struct(dict.fromkeys(protocol, pa.int32())), "metaData": _described(described), "add": add}
    schema = pa.schema(list(kinds.items()))

    def said(of: dict[str, int]) -> dict[str, int]:
        return {name: value + draw.randrange(1000) for name, value in of.items()}

    lows = {name: draw.getrandbits(40) for name in names}
    with pq.ParquetWriter(log / f"{0:020d}.checkpoint.parquet", schema) as writer:
        writer.write_table(pa.Table.from_pylist([{"protocol": protocol}, {"metaData": described}], schema))
        for start in range(0, files, _ENTRIES):
            rows = []
            stats = json.dumps({"numRecords": _ROWS, "minValues": said(lows), "maxValues": said(lows)})
            for _ in range(start, min(start + _ENTRIES, files)):
                path = f"part-{uuid.UUID(int=draw.getrandbits(128))}.parquet"
                size = _FILE_BYTES + draw.randrange(10**6)
                rows.append({"add": {"path": path, "size": size, "dataChange": False, "stats": stats}})
            writer.write_table(pa.Table.from_pylist(rows, schema))


def plan(directory: str, parallelism: int, snapshot_id: int | None = None) -> dict[str, Any]:
    """Plan a snapshot of the table, by default the current one; what that took."""
    from puffin.load import load_table
    from puffin.tables.base import SnapshotSelector
    from stats_jobs.plan import plan_batches
    from stats_jobs.scan import Scan
    from stats_jobs.shipment import Shipment

    started = time.perf_counter(), time.process_time()
    opened = load_table(directory).open(SnapshotSelector(snapshot_id=snapshot_id))
    tasks = opened.tasks
    planned = time.perf_counter()
    batches = plan_batches([Scan(dict.fromkeys(opened.state.columns, ()), tasks)], parallelism=parallelism)
    return _told(len(tasks), started, planned, Shipment.of(batches, opened.scan_context))


def plan_on_executors(directory: str, master: str) -> dict[str, Any]:
    """Have executors plan the table; what that took beside starting them, and what they took."""
    from puffin.load import load_table
    from stats_jobs import SparkStarter
    from stats_jobs.packed import SnapshotFiles
    from stats_jobs.plan import plan_batches
    from stats_jobs.scan import Scan, name_and_count
    from stats_jobs.session import Turns
    from stats_jobs.shipment import Shipment

    with SparkStarter(master=master) as starter:
        starter.start()
        started, before = (time.perf_counter(), time.process_time()), descendants()
        opened = load_table(directory).open()
        files = SnapshotFiles(opened, Turns(starter, 0), 0, opened.state.columns).all()
        planned = time.perf_counter()
        scan = Scan(dict.fromkeys(opened.state.columns, ()), files)
        shipment = Shipment.of(plan_batches([scan], parallelism=starter.cluster.parallelism), opened.scan_context)
        told = _told(sum(name_and_count(work)[1] for work in files), started, planned, shipment)
        after = descendants()
        return {
            **told,
            "spark-processor-seconds": sum(each.seconds for each in after) - sum(each.seconds for each in before),
            "spark-peak-mib": {
                program: max(each.peak_mib for each in after if each.program == program)
                for program in {each.program for each in after}
            },
        }


def _told(files: int, started: tuple[float, float], planned: float, shipment: Shipment) -> dict[str, Any]:
    """What it took since ``started`` by the clock and the processor, of which until ``planned`` to know the files."""
    sizes = [len(document) for _, document in shipment.documents]
    return {
        "files": files,
        "plan-seconds": planned - started[0],
        "seconds": time.perf_counter() - started[0],
        "processor-seconds": time.process_time() - started[1],
        "peak-mib": peak_mib(),
        "documents": len(sizes),
        "document-bytes": {"all": sum(sizes), "most": max(sizes)},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("--master", help="a Spark master, whose executors plan the table; by default the driver does")
    parser.add_argument("--cores", type=int, default=800, help="of the executors, for which batches are made")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="puffin-large-plan-") as directory:
        make = make_delta_table if options.delta else make_table
        make(Path(directory), options.files, options.columns)
        how = (
            (plan, directory, options.cores)
            if options.master is None
            else (plan_on_executors, directory, options.master)
        )
        took = in_fresh_process(*how)
    print(json.dumps({"columns": options.columns, **took, "load": os.getloadavg()[0]}, indent=2))
    share = max(1.0, took["files"] / 1_000_000)
    return 0 if took["plan-seconds"] <= _SECONDS * share and took["peak-mib"] <= _MIB * share else 1


def _described(metadata: dict[str, Any]) -> Any:
    import pyarrow as pa

    texts = {name: pa.string() for name, value in metadata.items() if isinstance(value, str)}
    return pa.struct(
        {**texts, "format": pa.struct({"provider": pa.string()}), "partitionColumns": pa.list_(pa.string())}
    )


def _data_file(table: HandmadeTable, ids: range, draw: random.Random) -> DataFile:
    def bound(field_id: int) -> bytes:
        return struct.pack("<q", draw.getrandbits(40)) if field_id % 2 else draw.randbytes(8).hex().encode()

    return table.content_file(
        uri(table.data / f"{uuid.UUID(int=draw.getrandbits(128))}.parquet"),
        record_count=_ROWS + draw.randrange(1000),
        file_size_in_bytes=_FILE_BYTES + draw.randrange(10**6),
        column_sizes={i: draw.randrange(10**6) for i in ids},
        value_counts=dict.fromkeys(ids, _ROWS),
        null_value_counts={i: draw.randrange(3) for i in ids},
        nan_value_counts={},
        lower_bounds={i: bound(i) for i in ids},
        upper_bounds={i: bound(i) for i in ids},
        split_offsets=[4],
    )


if __name__ == "__main__":
    sys.exit(main())
