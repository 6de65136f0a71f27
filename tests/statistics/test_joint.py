"""Joint sketches count the tuples of a set of columns, and stay current while rows come and go."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from puffin.errors import ColumnNotFound, UnsupportedError, UsageError
from puffin.format import JOINT_V1, PARTITION_SKETCHES_V1
from puffin.statistics.joint import FoundJoint, joint_of
from stats_jobs import Options, analyze
from stats_jobs.decide import is_stale

SET = ("city+country",)


def rows(chance: random.Random, count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([chance.randrange(1000) for _ in range(count)], pa.int64()),
            "country": pa.array([chance.choice(["de", "fr", "", None]) for _ in range(count)], pa.string()),
            "city": pa.array([chance.choice([None, *range(9)]) for _ in range(count)], pa.int32()),
            "open": pa.array([chance.choice([None, True, False]) for _ in range(count)], pa.bool_()),
        }
    )


@pytest.fixture(params=["iceberg", "delta"])
def table(request, shared, delta):
    create = delta if request.param == "delta" else (lambda of: shared("t", of))
    return create(rows(random.Random(0), 300))


def delete(table: Any, where: str) -> None:
    loaded = table.load()
    loaded.delete(where)


def all_rows(table: Any) -> pa.Table:
    loaded = table.load()
    return loaded.to_pyarrow_table() if isinstance(loaded, DeltaTable) else loaded.scan().to_arrow()


def joint(table: Any) -> dict[tuple[str, ...], FoundJoint]:
    """Return the joint sketches by the names of their columns."""
    opened = table.table.open()
    names = {column.field_id: column.name for column in opened.state.columns}
    return {tuple(names[i] for i in ids): found for ids, found in joint_of(opened, names.keys())[0].items()}


def tuples(table: Any, *names: str) -> dict[tuple[Any, ...], int]:
    found: dict[tuple[Any, ...], int] = {}
    for values in zip(*(all_rows(table)[name].to_pylist() for name in names), strict=True):
        found[values] = found.get(values, 0) + 1
    return found


def spread(found: FoundJoint) -> list[Any]:
    distribution = found.distribution.with_exact(found.counts)
    return [distribution.rows, *(each.tolist() for each in (distribution.hashes, distribution.low, distribution.high))]


def test_tuples_are_counted_with_their_rows_whatever_the_order_of_columns(table):
    analyze(table.table, Options(joint=SET))
    ((names, found),) = joint(table).items()
    assert names == ("country", "city")
    expected = tuples(table, *names)
    assert sorted(found.counts.rows.tolist()) == sorted(expected.values())
    assert found.distribution.rows == sum(expected.values()) == 300
    assert found.distribution.values is None
    assert found.known.freshness.snapshots_behind == 0
    assert analyze(table.table, Options(joint=("country+city",))).current


def test_joint_sketches_of_a_random_history_equal_those_of_a_full_run(table):
    chance, first = random.Random(17), Options(joint=(*SET, "id+open+country", "open+id"), lg_k=9)
    analyze(table.table, first)
    for _ in range(3):
        for _ in range(2):
            if chance.random() < 0.5:
                delete(table, f"id < {chance.randrange(300)} and city = {chance.randrange(9)}")
            else:
                table.append(rows(chance, chance.randint(0, 120)))
        report = analyze(table.table, Options(lg_k=9))  # sets that were asked for once are kept
        incremental = joint(table)
        assert len(incremental) == 3
        assert not {"full"} & {column.basis for column in report.columns}
        analyze(table.table, Options(lg_k=9, mode="full"))
        full = joint(table)
        assert full.keys() == incremental.keys()
        for names, found in full.items():
            assert found.known.freshness.snapshots_behind == 0
            assert found.counts == incremental[names].counts
            assert spread(found) == spread(incremental[names])
            assert len(found.counts.hashes) == len(tuples(table, *names))


def test_set_that_is_asked_for_later_is_read_alone(table):
    analyze(table.table)
    assert not is_stale(table.table, Options())
    assert is_stale(table.table, Options(joint=SET))
    report = analyze(table.table, Options(joint=SET))
    assert {column.basis for column in report.columns} == {"carried"}
    assert report.rows_read == 300
    assert set(joint(table)) == {("country", "city")}
    assert not is_stale(table.table, Options(joint=SET))
    analyze(table.table, Options(joint=("id+city",)))
    analyze(table.table, Options(joint=("id+country", "country+open")))
    assert set(joint(table)) == {("country", "city"), ("id", "city"), ("id", "country"), ("country", "open")}


def test_set_that_is_asked_for_beside_one_that_changed_has_all_rows(table):
    """The files that came are read for the one, all files for the other; both begin with the same column."""
    analyze(table.table, Options(joint=("id+city",)))
    table.append(rows(random.Random(1), 50))
    analyze(table.table, Options(joint=("id+city", "id+country")))
    assert len(joint(table)) == 2
    for names, found in joint(table).items():
        assert sorted(found.counts.rows.tolist()) == sorted(tuples(table, *names).values())


def test_run_for_other_columns_keeps_the_set(table):
    analyze(table.table, Options(joint=SET))
    table.append(rows(random.Random(1), 50))
    analyze(table.table, Options(columns=("id",)))
    assert joint(table)["country", "city"].known.freshness.snapshots_behind == 1
    analyze(table.table, Options(columns=("country",)))
    found = joint(table)["country", "city"]
    assert found.known.freshness.snapshots_behind == 0
    assert int(found.counts.rows.sum()) == 350


def test_columns_of_a_set_get_statistics_too(delta):
    table = delta(rows(random.Random(0), 300))
    report = analyze(table.table, Options(columns=("id",), joint=SET))
    assert {column.column.name for column in report.columns} == {"id", "country", "city"}


def test_set_is_dropped_on_request(table):
    analyze(table.table, Options(joint=(*SET, "id+open")))
    assert analyze(table.table, Options(joint=("open+id",), no_joint=True)).committed
    assert set(joint(table)) == {("id", "open")}
    assert analyze(table.table, Options(joint=("open+id",), no_joint=True)).current
    analyze(table.table, Options(no_joint=True))
    assert joint(table) == {}


def test_unchanged_set_is_not_written_again(shared):
    table = shared("t", rows(random.Random(0), 40))
    analyze(table.table, Options(joint=SET))
    parts = set(table.private.glob("parts/*"))
    table.append(rows(random.Random(2), 0))
    report = analyze(table.table)
    assert (report.committed, {column.basis for column in report.columns}) == (True, {"carried"})
    assert set(table.private.glob("parts/*")) == parts
    assert joint(table)["country", "city"].known.age == 0


def test_set_of_a_dropped_column_goes(shared):
    table = shared("t", rows(random.Random(0), 40))
    analyze(table.table, Options(joint=(*SET, "country+open")))
    with table.load().update_schema() as update:
        update.delete_column("city")
    assert set(joint(table)) == {("country", "open")}
    table.append(rows(random.Random(1), 10).drop_columns(["city"]))
    assert analyze(table.table).columns[1].basis == "added-files"
    found = joint(table)
    assert set(found) == {("country", "open")}
    assert found["country", "open"].known.freshness.snapshots_behind == 0


def test_set_of_a_column_that_can_have_no_statistics_goes(delta_table):
    """As after CREATE OR REPLACE with another type of that name."""
    table = delta_table(types={"a": "long", "b": "string"})
    one, two = table.add({"a": [1, 2], "b": ["x", "y"]}), table.add({"a": [7, 8, 9]})
    table.commit(one)
    analyze(str(table.path), Options(joint=("a+b",)))
    table.commit(table.metadata(types={"a": "long", "b": "void"}), table.remove(one), two)
    report = analyze(str(table.path), Options(mode="full"))
    assert [(column.column.name, column.distinct.ndv) for column in report.columns] == [("a", 3)]


def test_set_of_a_column_with_another_type_is_left_behind_or_read_again(shared):
    from pyiceberg.types import LongType

    table = shared("t", rows(random.Random(0), 40))
    analyze(table.table, Options(joint=SET))
    with table.load().update_schema() as update:
        update.update_column("city", LongType())
    assert joint(table) == {}  # the tuples hashed an int
    table.append(rows(random.Random(1), 10).cast(table.load().schema().as_arrow()))
    report = analyze(table.table)
    (left,) = report.joint
    assert left.columns == ("country", "city")
    assert "of type int" in left.reason
    assert joint(table) == {}
    analyze(table.table, Options(joint=SET))
    assert int(joint(table)["country", "city"].counts.rows.sum()) == 50


def test_broken_joint_blob_is_no_error_for_a_lookup(delta, caplog):
    table = delta(rows(random.Random(0), 300))
    report = analyze(table.table, Options(joint=SET))
    home = Path(str(table.state.location).removeprefix("file://"), "_puffin_sidecar")
    manifest = json.loads((home / Path(report.entry.statistics_path).name).read_text())
    (part,) = [p["id"] for p in manifest["parts"] if any(b["type"] == JOINT_V1 for b in p["blobs"])]
    (home / "parts" / part / "version-hint.text").write_bytes(b"PFA1")
    assert joint(table) == {}
    assert "joint sketches cannot be read" in caplog.text
    analyze(table.table)
    assert int(joint(table)["country", "city"].counts.rows.sum()) == 300


def test_too_many_deleted_rows_make_the_set_be_read_again(shared):
    chance = random.Random(0)
    table = shared("t", rows(chance, 2000))
    analyze(table.table, Options(joint=("id+city",), lg_k=5))
    table.delete("id >= 20")
    analyze(table.table, Options(lg_k=5))
    found = joint(table)["id", "city"]
    assert found.known.freshness.snapshots_behind == 0
    assert int(found.counts.rows.sum()) == len(all_rows(table))


@pytest.mark.parametrize("names", ["country", "a+b+c+d+e", "country+", "country+country"])
def test_set_that_is_none_is_refused(delta, names):
    table = delta(rows(random.Random(0), 300))
    with pytest.raises(UsageError, match="joint: expected"):
        analyze(table.table, Options(joint=(names,)))


def test_unknown_column_of_a_set_is_refused(delta):
    table = delta(rows(random.Random(0), 300))
    with pytest.raises(ColumnNotFound):
        analyze(table.table, Options(joint=("country+nobody",)))


def test_incremental_run_refuses_a_new_set(delta):
    table = delta(rows(random.Random(0), 300))
    analyze(table.table)
    with pytest.raises(UnsupportedError, match="joint sketch of country"):
        analyze(table.table, Options(joint=SET, mode="incremental"))


def test_dry_run_writes_no_set(delta):
    table = delta(rows(random.Random(0), 300))
    assert analyze(table.table, Options(joint=SET, dry_run=True)).rows_read >= 300
    assert joint(table) == {}


def test_set_beside_partitions_and_an_index_is_read_with_them(shared):
    """Each file is opened once, whatever is computed from it."""
    from stats_jobs.index import index
    from stats_jobs.options import IndexOptions

    table = shared("t", rows(random.Random(0), 400))
    with table.load().update_spec() as update:
        update.add_identity("open")
    index(table.table, IndexOptions(columns=("city", "id")))
    table.append(rows(random.Random(1), 300))
    first = table.analyze(joint=(*SET, "open+id"), partitions=True)
    assert first.rows_read == 700
    table.append(rows(random.Random(2), 200))
    table.delete("id < 100")
    report = table.analyze(partitions=True)
    assert report.index.files_indexed == report.index.files_total
    for names, found in joint(table).items():
        assert sorted(found.counts.rows.tolist()) == sorted(tuples(table, *names).values())
    assert len(joint(table)) == 2


def test_sets_and_partitions_survive_what_is_added_to_current_statistics(shared, private_payloads):
    """The sketch of a column is written again, with all that is announced there."""
    table = shared("t", rows(random.Random(0), 100))
    with table.load().update_spec() as update:
        update.add_identity("open")
    table.append(rows(random.Random(1), 100))
    analyze(table.table, Options(joint=("id+open",)))
    for options in (
        {"partitions": True},
        {"no_values": True, "joint": SET},
        {"partitions": True, "joint": ("id+city",)},
    ):
        report = analyze(table.table, Options(**options))
        assert {column.basis for column in report.columns} == {"carried"}
        assert ("id", "open") in joint(table)
        assert private_payloads(table.table, report.entry, PARTITION_SKETCHES_V1).keys() == {1, 2, 3, 4}
    assert set(joint(table)) == {("id", "open"), ("country", "city"), ("id", "city")}
    assert {int(found.counts.rows.sum()) for found in joint(table).values()} == {200}
