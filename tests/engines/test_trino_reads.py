"""What Trino does with our statistics, and what happens to them while it writes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from trino.exceptions import TrinoExternalError

ROWS = 20_000
FEW, MANY = 40, 9_000  # below what a sketch keeps, and above
INSERTERS, INSERTS, ROWS_OF_AN_INSERT = 2, 8, 10


@pytest.fixture
def unknown(share):
    """A table without statistics, as pyiceberg leaves it."""
    table = share("unknown", in_trino="CREATE TABLE {t} (few int, many bigint, text varchar) WITH (location = '{at}')")
    rows = {
        "few": pa.array([i % FEW for i in range(ROWS)], pa.int32()),
        "many": pa.array([i % MANY for i in range(ROWS)], pa.int64()),
        "text": pa.array([f"t{i % FEW}" for i in range(ROWS)], pa.string()),
    }
    table.in_pyiceberg().append(pa.table(rows))
    return table


def test_trino_uses_our_statistics_to_estimate_join_rows(unknown):
    columns = ("few", "many", "text")
    before = unknown.show_stats()
    assert [before[column] for column in columns] == [None, None, None]
    assert unknown.estimated_join_rows("few") is None
    assert unknown.estimated_join_rows("text") is None
    report = unknown.analyze(mode="full")
    after = unknown.show_stats()
    assert after[None] == ROWS
    assert [after[c.column.name] for c in report.columns] == [c.ndv for c in report.columns]
    for column in ("few", "text"):
        assert unknown.estimated_join_rows(column) == pytest.approx(ROWS * ROWS / FEW, rel=0.001)
    many = dict(zip(columns, report.columns, strict=True))["many"].ndv
    assert unknown.estimated_join_rows("many") == pytest.approx(ROWS * ROWS / many, rel=0.001)


@pytest.mark.parametrize("lg_k", [8, 12, 14])
def test_bounds_hold_for_sketches_that_trino_extends_and_recomputes(share, lg_k):
    """Trino keeps at most 4096 hashes; extending a sketch adds no precision about earlier values."""
    table = share(f"extended_{lg_k}", in_trino="CREATE TABLE {t} (many bigint) WITH (location = '{at}')")
    insert = "INSERT INTO {{t}} SELECT x FROM UNNEST(sequence({first}, {last})) AS numbers(x)"
    table.trino(insert.format(first=1, last=MANY))
    table.analyze(mode="full", lg_k=lg_k)
    for what, statement, distinct in (
        ("INSERT", insert.format(first=MANY + 1, last=MANY + 3000), MANY + 3000),
        ("DELETE", "DELETE FROM {t} WHERE many <= 1000", MANY + 2000),
        ("ANALYZE", "ANALYZE {t}", MANY + 2000),
    ):
        table.does(what, lambda statement=statement: table.trino(statement))
        (column,) = table.analyze().columns
        table.look(f"{what}, auto")
        ((ndv, lower, upper),) = table.distinct().values()
        if not lower <= distinct <= upper:
            table.problems.append(f"{what}: {distinct} values, reported {ndv} ({lower} to {upper})")
        if (what, lg_k) == ("INSERT", 8) and upper - lower < ndv / 20 and column.basis != "full":
            table.problems.append(f"{what}: {ndv} ({lower} to {upper}) is more than a sketch of 256 values can tell")
    table.had_no_problems()


def test_trino_inserts_that_race_our_runs_lose_no_row(share):
    table = share("raced", in_trino="CREATE TABLE {t} (id bigint, k int) WITH (location = '{at}')")
    table.trino("INSERT INTO {t} SELECT x, CAST(x % 10 AS int) FROM UNNEST(sequence(-99, 0)) AS numbers(x)")
    inserted, refused, done = [], [], threading.Event()

    def insert(first: int) -> None:
        """Insert rows; if Trino refuses because it lost a race, none of them may be there."""
        cursor = table.engines.connect_to_trino().cursor()
        for i in range(INSERTS):
            low = (first * INSERTS + i) * ROWS_OF_AN_INSERT + 1
            rows = f"UNNEST(sequence({low}, {low + ROWS_OF_AN_INSERT - 1})) AS numbers(x)"
            while True:
                try:
                    cursor.execute(f"INSERT INTO {table.name} SELECT x, CAST(x % 10 AS int) FROM {rows}")
                    inserted.extend(cursor.fetchall())
                    break
                except TrinoExternalError as error:
                    if error.error_name != "ICEBERG_COMMIT_ERROR":
                        raise
                    refused.append(error)

    def analyze() -> int:
        runs = 0
        while not done.is_set() or runs < 4:
            table.analyze(mode="full")
            runs += 1
        return runs

    with ThreadPoolExecutor(INSERTERS + 1) as pool:
        analyzing = pool.submit(analyze)
        inserting = [pool.submit(insert, i) for i in range(INSERTERS)]
        try:
            for one in inserting:
                one.result()
        finally:
            done.set()
        assert analyzing.result() >= 4
    assert len(inserted) == INSERTERS * INSERTS
    rows = 100 + INSERTERS * INSERTS * ROWS_OF_AN_INSERT
    assert table.trino("SELECT count(*), count(DISTINCT id) FROM {t}") == [[rows, rows]], f"{len(refused)} refused"
    table.look("the race")
    table.bring_up_to_date("the race")
    table.had_no_problems()


UNSEEN = {
    "deleted by Trino": lambda table: table.trino("DELETE FROM {t} WHERE id <= 500"),
    "updated by Trino": lambda table: table.trino("UPDATE {t} SET id = id + 5000 WHERE id > 900"),
    "merged by Trino": lambda table: table.trino(
        "MERGE INTO {t} t USING (VALUES 7000, 7001) s(id) ON t.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (s.id, 2)"
    ),
    "appended by Spark": lambda table: table.sql("INSERT INTO {t} SELECT id + 5000, 7 FROM range(500)"),
    "appended by pyiceberg": lambda table: table.in_pyiceberg().append(
        pa.table({"id": pa.array(range(5000, 5500), pa.int64()), "k": pa.array([7] * 500, pa.int32())})
    ),
}
THEN = {
    "nothing": None,
    "OPTIMIZE": "ALTER TABLE {t} EXECUTE optimize",
    "ANALYZE of another column": "ANALYZE {t} WITH (columns = ARRAY['k'])",
}


@pytest.mark.parametrize("then", THEN)
@pytest.mark.parametrize("unseen", UNSEEN)
def test_statistics_that_trino_extended_past_unseen_changes_are_not_trusted(share, unseen, then):
    """
    An INSERT of Trino's adds its rows to the nearest earlier statistics, and calls that those of its snapshot.

    What changed in between without statistics is not in them; OPTIMIZE, and ANALYZE of other columns, copy them.
    """
    name = f"unseen_{unseen}_{then}".replace(" ", "_").lower()
    table = share(name, in_trino="CREATE TABLE {t} (id bigint, k int) WITH (location = '{at}')")
    table.trino("INSERT INTO {t} SELECT x, 1 FROM UNNEST(sequence(1, 1000)) AS numbers(x)")
    UNSEEN[unseen](table)
    table.trino("INSERT INTO {t} SELECT x, 3 FROM UNNEST(sequence(2001, 2010)) AS numbers(x)")
    if THEN[then] is not None:
        table.trino(THEN[then])
    table.bring_up_to_date(then)
    table.had_no_problems()
