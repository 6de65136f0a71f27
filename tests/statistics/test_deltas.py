"""Small appends to large private state are stored beside it, with the files and answers of runs that write it again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from puffin.format import DISTRIBUTION_V1, ROW_COUNTS_V1, PuffinReader
from puffin.statistics import deltas
from puffin.statistics.private_state.reading import read_private_state
from puffin.statistics.stored_blobs import StoredBlobs
from tests.statistics.made_rows import mixed

TYPES = ROW_COUNTS_V1, DISTRIBUTION_V1


@pytest.fixture
def always(monkeypatch):
    """So that small tables have deltas too, whatever these take."""
    monkeypatch.setattr(deltas, "LEAST_BYTES", 0)
    monkeypatch.setattr(deltas, "MOST_SHARE", 1e9)


def private_of(table) -> dict[tuple[str, int], bytes]:
    """Return the private blobs of the current snapshot, as lookups and later runs read them."""
    entry = table.entry
    stored = StoredBlobs(table.table.open(), [blob.fields[0] for blob in entry.blobs])
    return {(type_, blob.fields[0]): stored.find(entry, blob, type_) for type_ in TYPES for blob in entry.blobs}


def layers_of(table) -> list[int]:
    """Return how many layers each private blob of the current snapshot has."""
    return [len(kept.stored.layers) for kept in read_private_state(table.table.open(), table.entry).kept.values()]


def test_rows_beside_their_base_give_the_bytes_of_rows_written_again(shared, monkeypatch):
    """Two tables live the same life: one stores deltas, the other writes everything again."""
    seed = random.Random().randrange(1 << 30)
    one, other = shared("one", mixed(random.Random(seed), 9000)), shared("other", mixed(random.Random(seed), 9000))
    steps = random.Random(seed)
    for step in range(6):
        kind = steps.choice(("append", "append", "delete", "compact"))
        for table, least in ((one, 0), (other, 1 << 60)):
            monkeypatch.setattr(deltas, "LEAST_BYTES", least)
            monkeypatch.setattr(deltas, "MOST_SHARE", 1e9)
            if step and kind == "append":
                table.append(mixed(random.Random(seed + step), 400))
            elif step and kind == "delete":
                table.delete(f"many < {step * 900}")
            elif step:
                table.load().overwrite(table.load().scan().to_arrow())
            table.analyze()
        assert private_of(one) == private_of(other), (seed, step)
        assert [blob.stored for blob in one.stored()] == [blob.stored for blob in other.stored()], (seed, step)
    assert set(layers_of(other)) == {1}


def test_append_reads_and_writes_what_came(always, shared, private_payloads):
    table = shared("t", mixed(random.Random(1), 9000))
    table.analyze()
    before = {path: path.stat().st_size for path in table.private.rglob("*") if path.is_file()}
    for more in (1, 2):
        table.append(mixed(random.Random(more), 20))
        assert {column.basis for column in table.check().columns} == {"added-files"}
        assert set(layers_of(table)) == {1 + more}
    came = sum(path.stat().st_size for path in table.private.rglob("*") if path.is_file() and path not in before)
    assert came < 0.1 * sum(before.values())
    table.delete("few = 1")
    assert {column.basis for column in table.check().columns} == {"changed-files"}
    assert set(layers_of(table)) == {1}


@pytest.mark.parametrize("columns", [True, ("many",)])
def test_run_without_values_writes_row_counts_and_their_deltas_as_one(always, shared, columns):
    """Deltas of row counts may leave their rows to those of the distribution, which is written without values."""
    table = shared("t", mixed(random.Random(1), 3000))
    table.analyze()
    table.append(mixed(random.Random(2), 20))
    table.analyze()
    table.analyze(no_values=columns)
    assert all(isinstance(payload, bytes) for payload in private_of(table).values())
    table.delete("few = 1")
    assert {column.basis for column in table.analyze(no_values=columns).columns} == {"changed-files"}


def test_deltas_are_merged_when_there_are_many_or_they_are_large(always, shared, monkeypatch):
    monkeypatch.setattr(deltas, "MOST_DELTAS", 2)
    table = shared("t", mixed(random.Random(1), 50))
    found = []
    for step in range(4):
        table.analyze()
        found += sorted(set(layers_of(table)))
        table.append(mixed(random.Random(step), 5))
    assert found == [1, 2, 3, 1]
    monkeypatch.setattr(deltas, "MOST_SHARE", 0.25)
    table.analyze()
    table.append(mixed(random.Random(9), 500))
    table.analyze()
    assert set(layers_of(table)) == {1}


def test_lost_delta_is_noticed_and_an_older_base_taken(always, shared):
    table = shared("t", mixed(random.Random(1), 500))
    table.analyze()
    kept = {path for path in table.private.rglob("*") if path.is_file()}
    table.append(mixed(random.Random(2), 5))
    table.analyze()
    came = [path for path in table.private.rglob("version-hint.text") if path not in kept]
    assert len(came) == 2
    came[0].unlink()
    report = table.check()
    assert not report.current
    assert report.files_read == 1
    assert all(isinstance(payload, bytes) for payload in private_of(table).values())


def test_incremental_run_works_without_the_parts_that_it_keeps(always, shared):
    table = shared("t", mixed(random.Random(1), 500))
    table.analyze()
    for part in table.private.rglob("version-hint.text"):
        part.unlink()
    table.append(mixed(random.Random(2), 5))
    assert {column.basis for column in table.analyze(mode="incremental").columns} == {"added-files"}
    assert {column.basis for column in table.check().columns} == {"full"}


def test_broken_delta_is_found_when_rows_are_deleted(always, shared, caplog):
    table = shared("t", mixed(random.Random(1), 500))
    table.analyze()
    kept = {path for path in table.private.rglob("*") if path.is_file()}
    table.append(mixed(random.Random(2), 5))
    table.analyze()
    for path in table.private.rglob("version-hint.text"):
        if path not in kept:
            data = bytearray(path.read_bytes())
            data[10:40] = bytes(30)
            path.write_bytes(data)
    table.delete("few = 1")
    found, full = table.analyze(), table.analyze(mode="full", dry_run=True)
    assert [column.distinct for column in found.columns] == [column.distinct for column in full.columns]
    assert "cannot be built on" in caplog.text


def test_layers_move_to_another_home_together(always, shared, tmp_path):
    table = shared("t", mixed(random.Random(1), 500))
    for step in (1, 2):
        table.analyze()
        table.append(mixed(random.Random(step), 5))
    table.analyze()
    expected, home = private_of(table), str(tmp_path / "elsewhere")
    table.append(mixed(random.Random(3), 0))
    table.analyze(home=home)
    assert private_of(table) == expected
    table.analyze(columns=("many",), home=home, mode="full")
    assert private_of(table) == expected
    assert sorted(layers_of(table)) == [1, 1, 3, 3, 3, 3]
    table.delete("few = 1")
    assert {column.basis for column in table.check().columns} == {"changed-files"}
    assert set(layers_of(table)) == {1}


def test_dropped_columns_values_do_not_stay_in_parts_with_deltas(always, shared):
    """Those of the other columns are copied, layer by layer."""
    table = shared("t", mixed(random.Random(1), 500))
    table.analyze()
    table.append(mixed(random.Random(2), 5))
    table.analyze()
    with table.load().update_schema() as update:
        update.delete_column("text")
    table.append(mixed(random.Random(3), 5).select(["few", "many"]))
    table.analyze()
    assert set(layers_of(table)) == {3}
    kept = read_private_state(table.table.open(), table.entry).kept.values()
    referred = {layer.part.id for blob in kept for layer in blob.stored.layers}
    holders = {path.parent.name for path in table.private.rglob("version-hint.text") if _holds(path, b"text 1")}
    assert holders
    assert not referred & holders
    table.check()


def _holds(path: Path, text: bytes) -> bool:
    return any(text in payload for payload in PuffinReader(path.read_bytes()).read_all())
