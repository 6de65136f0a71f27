"""Values of deleted rows leave what we keep, with the next run and `clean`; or they never get there."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from puffin import ndv
from puffin.clean import clean
from puffin.format import DISTRIBUTION_V1, PuffinReader
from puffin.statistics.private_state.blobs import WITH_VALUES
from stats_jobs import Options, analyze
from stats_jobs.decide import is_stale

SECRET = "Rumpelstilzchen"
LATER = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=60)


def people(*names: str | None, first: int = 0) -> pa.Table:
    numbers = pa.array(range(first, first + len(names)), pa.int64())
    return pa.table({"id": numbers, "name": pa.array(names, pa.string()), "city": pa.array(names, pa.string())})


ROWS = people(SECRET, *(f"name {i}" for i in range(200)), SECRET, None)


def of_table(table: Any) -> Path:
    return Path(str(table.state.location).removeprefix("file://"))


def kept_files(table: Any) -> list[Path]:
    """Return the files that we keep, apart from data files of the table, and our entries in its metadata."""
    home = of_table(table)
    found = [path for path in home.rglob("*") if path.is_file() and path.suffix not in (".parquet", ".avro", ".crc")]
    if isinstance(table.load(), DeltaTable):
        return [path for path in found if "_puffin" in str(path)]  # its log has values of removed files
    return [path for path in found if not path.name.endswith(".metadata.json")]


def texts_of(path: Path) -> str:
    """Return the bytes of a file as text, and those of its blobs after decompression."""
    data = path.read_bytes()
    texts = [data]
    if data.startswith(b"PFA1"):
        reader = PuffinReader(data)
        texts += reader.read_all(reader.file_metadata.blobs)
        texts.append(json.dumps([dict(blob.properties) for blob in reader.file_metadata.blobs]).encode())
    return b"\n".join(texts).decode("latin-1")


def holders(table: Any, secret: str = SECRET) -> list[str]:
    """Return the files that we keep in which a value stands, or its beginning, as bounds are cut."""
    return [path.name for path in kept_files(table) if secret[:12] in texts_of(path)]


def forget_the_past(table: Any) -> None:
    """Expire all snapshots but the last, and delete the metadata of earlier ones, as the owner's maintenance does."""
    loaded = table.load()
    if isinstance(loaded, DeltaTable):
        loaded.create_checkpoint()
        for path in (of_table(table) / "_delta_log").glob("*.json"):
            if int(path.stem) < loaded.version():
                path.unlink()
    else:
        current = loaded.metadata.current_snapshot_id
        for snapshot in loaded.metadata.snapshots:
            if snapshot.snapshot_id != current:
                table.load().maintenance.expire_snapshots().by_id(snapshot.snapshot_id).commit()
        now = Path(table.load().metadata_location.removeprefix("file://"))
        for path in now.parent.glob("*.metadata.json"):
            if path != now:
                path.unlink()


@pytest.fixture(params=["iceberg", "delta"])
def table(request, shared, delta):
    return delta(ROWS) if request.param == "delta" else shared("t", ROWS)


def test_erased_value_leaves_everything_that_is_kept(table):
    analyze(table.table, Options(joint=("name+city",), partitions=True))
    assert len(holders(table)) >= 2  # the bounds and the part with the distributions
    table.load().delete(f"name = '{SECRET}'")
    analyze(table.table)
    forget_the_past(table)
    clean(table.table, remove=True, older_than=datetime.timedelta(0), now=LATER)
    assert holders(table) == []
    assert table.state.statistics[table.state.settled(table.table.open().snapshot).snapshot_id]


def test_erased_value_does_not_stay_for_another_column(table, private_payloads):
    """The part of the first run also has blobs of a column that the second run does not analyze."""
    analyze(table.table)
    table.load().delete(f"name = '{SECRET}'")
    table.append(people("name 7", first=900))
    report = analyze(table.table, Options(columns=("name", "city")))
    forget_the_past(table)
    clean(table.table, remove=True, older_than=datetime.timedelta(0), now=LATER)
    assert holders(table) == []
    manifest = json.loads((of_table(table) / "_puffin_sidecar" / newest(table)).read_text())
    kept = {(blob["type"], field) for part in manifest["parts"] for blob in part["blobs"] for field in blob["fields"]}
    assert (DISTRIBUTION_V1, 1) in kept
    assert private_payloads(table.table, report.entry, DISTRIBUTION_V1).keys() == {1, 2, 3}


def newest(table: Any) -> str:
    state = table.state
    settled = state.settled(table.table.open().snapshot)
    return str(Path(state.statistics[settled.snapshot_id].statistics_path).name)


def test_blobs_with_values_have_a_part_of_their_own(delta):
    table = delta(ROWS)
    analyze(table.table, Options(joint=("name+city",)))
    manifest = json.loads((of_table(table) / "_puffin_sidecar" / newest(table)).read_text())
    types = [{blob["type"] for blob in part["blobs"]} for part in manifest["parts"]]
    assert len(types) == 2
    assert all(each <= WITH_VALUES or each.isdisjoint(WITH_VALUES) for each in types)


def test_run_without_values_keeps_no_value_of_the_table(table):
    analyze(table.table, Options(no_values=True, joint=("name+city",)))
    assert holders(table) == holders(table, "name 1") == []
    metadata = json.dumps([dict(blob.properties) for e in table.state.statistics.values() for blob in e.blobs])
    assert SECRET[:12] not in metadata
    assert "name 1" not in metadata
    assert not is_stale(table.table, Options(no_values=True))
    assert not is_stale(table.table, Options())


def test_values_do_not_come_back_before_a_full_run(delta):
    table = delta(ROWS)
    analyze(table.table, Options(no_values=True))
    table.append(people(SECRET, first=300))
    report = analyze(table.table)
    assert {column.basis for column in report.columns} == {"added-files"}
    assert holders(table) == []
    table.load().delete("id = 5")
    assert {column.basis for column in analyze(table.table).columns} == {"changed-files"}
    assert holders(table) == []
    for path in (of_table(table) / "_puffin_sidecar").glob("*.stats"):
        path.unlink()  # so that every row is read again
    assert {column.basis for column in analyze(table.table).columns} == {"full"}
    assert holders(table) == []
    analyze(table.table, Options(mode="full"))
    assert holders(table)


def test_values_go_from_current_statistics_on_request(table):
    analyze(table.table)
    assert holders(table)
    assert is_stale(table.table, Options(no_values=True))
    report = analyze(table.table, Options(no_values=True))
    assert {column.basis for column in report.columns} == {"carried"}
    assert report.rows_read == 0
    assert analyze(table.table, Options(no_values=True)).current
    forget_the_past(table)
    clean(table.table, remove=True, older_than=datetime.timedelta(0), now=LATER)
    assert holders(table) == []


def test_run_without_values_reports_the_counts_that_a_lookup_finds(delta):
    table = delta(ROWS)
    analyze(table.table)
    of_run = analyze(table.table, Options(no_values=True)).columns
    found = ndv(table.name).columns
    assert [each.summary for each in of_run] == [each.summary for each in found]
    assert [each.distinct for each in of_run] == [each.distinct for each in found]
    assert {each.summary.row_count for each in of_run} == {ROWS.num_rows}


def test_values_of_one_column_only_are_left_out(delta):
    table = delta(ROWS)
    analyze(table.table, Options(columns=("name",), no_values=True))
    analyze(table.table, Options(columns=("city",)))
    by_field = {blob.fields[0]: dict(blob.properties) for e in table.state.statistics.values() for blob in e.blobs}
    assert by_field[2]["puffin-sidecar.values"] == "none"
    assert "puffin-sidecar.values" not in by_field[3]
    assert analyze(table.table, Options(columns=("name", "city"))).current
