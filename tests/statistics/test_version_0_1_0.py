"""What version 0.1.0 wrote is read and built on; see the README of ``fixtures/puffin-sidecar-0.1.0``."""

from __future__ import annotations

import json
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import puffin
from puffin.delta.snapshot import DeltaSnapshot
from puffin.format import PuffinReader
from puffin.statistics.answer import Distinct
from puffin.storage import LocalStore
from puffin.tables.base import StatisticsEntry
from stats_jobs import Options, analyze

FIXTURE = Path(__file__).parents[2] / "fixtures" / "puffin-sidecar-0.1.0" / "people.tar.gz"
KNOWN = {"ndv", *(f"puffin-sidecar.{name}" for name in ("bounds", "type", "partitions", "summary", "reading"))}


@pytest.fixture
def people(tmp_path: Path) -> str:
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    return str(tmp_path / "people")


def append(people: str, *ids: int) -> None:
    rows = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array(["m7"] * len(ids)),
        "price": pa.array([0.5] * len(ids)),
        "rate": pa.array([Decimal(0)] * len(ids), pa.decimal128(12, 10)),
        "country": pa.array(["de"] * len(ids)),
    }
    write_deltalake(people, pa.table(rows), mode="append")


def sketches(entry: StatisticsEntry) -> dict[Any, Any]:
    """Return the sketches of a statistics file with those of their properties that version 0.1.0 wrote."""
    with LocalStore().open_source(entry.statistics_path) as source:
        reader = PuffinReader(source)
        return {
            (b.fields, b.snapshot_id): (reader.read(b), {k: v for k, v in b.properties.items() if k in KNOWN})
            for b in reader.file_metadata.blobs
        }


def equals_full(people: str, report: Any) -> bool:
    full = analyze(people, Options(mode="full", commit=False, partitions=True))
    return sketches(report.entry) == sketches(full.entry)


def test_lookup_answers_from_statistics_of_version_0_1_0(people: str) -> None:
    answers = puffin.ndv(people).columns
    exact = {"id": 299, "name": 51, "price": 62, "rate": 7, "country": 2}
    assert {each.column.name: each.distinct for each in answers} == {
        name: Distinct(ndv, ndv, ndv, exact=True) for name, ndv in exact.items()
    }
    assert {each.source for each in answers} == {"snapshot"}
    assert [answer.ndv for answer in puffin.ndv(people, ["id"], where="country = 'de'").columns] == [100]


def test_statistics_of_version_0_1_0_are_current(people: str) -> None:
    report = analyze(people, Options(partitions=True))
    assert (report.current, report.files_read) == (True, 0)


def test_rows_added_since_version_0_1_0_are_all_that_is_read(people: str) -> None:
    """But its min and max may be of deleted rows, and nothing tells so."""
    append(people, 1000, 1001)
    report = analyze(people, Options(partitions=True))
    assert ({column.basis for column in report.columns}, report.rows_read) == ({"added-files"}, 2)
    assert [column.summary.min for column in puffin.ndv(people, ["name"]).columns] == ["m0"]
    assert equals_full(people, report)


def test_bounds_that_version_0_1_0_did_not_know_stay_unknown(people: str) -> None:
    """It knew none if it went on with the statistics of a run with ``--no-values``."""
    entry = Path(people, "_delta_log", "_puffin_sidecar", "3-0.json")
    document = json.loads(entry.read_text())
    (of_name,) = [blob for blob in document["statistics"]["blob-metadata"] if blob["fields"] == [2]]
    counts = json.loads(of_name["properties"]["puffin-sidecar.summary"])[:4]
    of_name["properties"]["puffin-sidecar.summary"] = json.dumps([*counts, None, None])
    entry.write_text(json.dumps(document))
    append(people, 1000)
    analyze(people)
    assert [column.summary.min for column in puffin.ndv(people, ["id", "name"]).columns] == [0, None]


def test_row_counts_of_version_0_1_0_forget_deleted_rows(people: str) -> None:
    DeltaTable(people).delete("name = 'zoe' or id < 40")
    report = analyze(people, Options(partitions=True))
    assert {column.basis for column in report.columns} == {"changed-files"}
    assert equals_full(people, report)


@pytest.mark.parametrize("mode", ["auto", "full"])
def test_run_of_one_column_leaves_others_of_version_0_1_0_to_build_on(people: str, mode: str) -> None:
    """Beside the new statistics of that column, theirs lack what that version did not know."""
    append(people, 1000)
    analyze(people, Options(mode=mode, columns=("id",)))
    report = analyze(people)
    bases = {column.column.name: column.basis for column in report.columns}
    assert bases == dict.fromkeys(bases, "added-files") | {"id": "carried"}
    assert report.rows_read == 1
    assert [column.summary.min for column in puffin.ndv(people, ["name"]).columns] == ["m0"]


def test_bounds_of_version_0_1_0_are_searched_once(people: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search reads the metadata of all files."""
    searched: list[int] = []
    search = DeltaSnapshot.closer_bounds

    def counted(self: DeltaSnapshot, known: Any) -> Any:
        searched.append(len(known))
        return search(self, known)

    monkeypatch.setattr(DeltaSnapshot, "closer_bounds", counted)
    for row in (1000, 1001, 1002):
        append(people, row)
        analyze(people, Options(mode="incremental"))
    assert [count for count in searched if count] == [5]
