"""The true counts, by DuckDB from the data files; kept beside the tables, since they do not change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import duckdb

from benchmarks.estimates.questions import Question
from benchmarks.estimates.suite import Suite
from benchmarks.run import say


def loaded(suite: Suite) -> duckdb.DuckDBPyConnection:
    """A connection to a database that has the tables of the suite, loaded and analyzed once."""
    path = suite.directory / "tables.duckdb"
    is_new = not path.exists()
    connection = duckdb.connect(str(path), config={"threads": 2})
    if is_new:
        say(f"loading {suite.name} into DuckDB")
        for name, table in suite.tables.items():
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * FROM read_parquet(?)", [[str(file) for file in table.files]]
            )
        connection.execute("ANALYZE")
        connection.execute("CHECKPOINT")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def true_counts(suite: Suite, connection: duckdb.DuckDBPyConnection, questions: Sequence[Question]) -> list[int]:
    """The count of each question."""
    path = suite.directory / "truth.json"
    known: dict[str, int] = json.loads(path.read_text()) if path.exists() else {}
    counts = []
    for number, question in enumerate(questions):
        sql = question.to_count(str)
        key = hashlib.sha256(sql.encode()).hexdigest()[:20]
        if key not in known:
            (known[key],) = connection.execute(sql).fetchall()[0]
            if number % 500 == 499:
                say(f"{suite.name}: {number + 1} of {len(questions)} questions counted")
        counts.append(int(known[key]))
    path.write_text(json.dumps(known))
    return counts
