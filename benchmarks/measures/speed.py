"""Ours against every other engine in one Spark session, on whole tables and on their dictionary-encoded columns."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from benchmarks.data import EVENTS, LINEITEM, Dataset, as_delta, dataset, rewritten
from benchmarks.engines import (
    COMPUTE_TABLE_STATS,
    CORES,
    DECODE,
    DUCKDB_APPROX,
    OURS,
    OURS_COMMIT,
    OURS_COUNTS,
    OURS_ON_EXECUTORS,
    OURS_SKETCHES,
    OURS_UNCOMMITTED,
    SPARK_APPROX,
    THETA_SKETCH_AGG,
    WarmEngines,
)
from benchmarks.race import race
from benchmarks.results import HIGHER, LOWER, Bar, Results, Row
from benchmarks.run import Run, say
from benchmarks.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL = "all columns"
_ALL_DELTA = "all columns, as a Delta table"
_DICTIONARY, _DICTIONARY_ARROW = "dictionary-encoded columns", "the same columns in Arrow's files"


@dataclasses.dataclass(frozen=True, slots=True)
class _Duel:
    """Two engines on columns of a table, and the bar for their ratio."""

    name: str
    table: str
    columns: str
    ours: str
    other: str
    bar: Bar


_DUELS = (
    _Duel("lineitem-compute-table-stats", LINEITEM, _ALL, OURS_COMMIT, COMPUTE_TABLE_STATS, Bar(HIGHER, 8, 20)),
    _Duel("lineitem-theta-sketch-agg", LINEITEM, _ALL, OURS, THETA_SKETCH_AGG, Bar(HIGHER, 5, 12)),
    _Duel("lineitem-spark-approx", LINEITEM, _ALL, OURS, SPARK_APPROX, Bar(HIGHER)),
    _Duel("lineitem-duckdb", LINEITEM, _ALL, OURS, DUCKDB_APPROX, Bar(LOWER, 1.5, 0.7)),
    _Duel("lineitem-decode", LINEITEM, _ALL, OURS, DECODE, Bar(LOWER)),
    _Duel("events-compute-table-stats", EVENTS, _ALL, OURS_COMMIT, COMPUTE_TABLE_STATS, Bar(HIGHER)),
    _Duel("events-theta-sketch-agg", EVENTS, _ALL, OURS, THETA_SKETCH_AGG, Bar(HIGHER)),
    _Duel("events-spark-approx", EVENTS, _ALL, OURS, SPARK_APPROX, Bar(HIGHER)),
    _Duel("events-duckdb", EVENTS, _ALL, OURS, DUCKDB_APPROX, Bar(LOWER)),
    _Duel("events-decode", EVENTS, _ALL, OURS, DECODE, Bar(LOWER, 1.5, 0.5)),
    _Duel("lineitem-kept", LINEITEM, _ALL, OURS_UNCOMMITTED, OURS_SKETCHES, Bar(LOWER, 1.3, 1.1)),
    _Duel("events-kept", EVENTS, _ALL, OURS_UNCOMMITTED, OURS_SKETCHES, Bar(LOWER, 1.3, 1.1)),
    _Duel("lineitem-distributions", LINEITEM, _ALL, OURS_UNCOMMITTED, OURS_COUNTS, Bar(LOWER, 1.3, 1.1)),
    _Duel("events-distributions", EVENTS, _ALL, OURS_UNCOMMITTED, OURS_COUNTS, Bar(LOWER, 1.3, 1.1)),
    _Duel("lineitem-delta-spark-approx", LINEITEM, _ALL_DELTA, OURS_COMMIT, SPARK_APPROX, Bar(HIGHER)),
    _Duel("lineitem-theta-sketch-agg-on-executors", LINEITEM, _ALL, OURS_ON_EXECUTORS, THETA_SKETCH_AGG, Bar(HIGHER)),
    _Duel("events-decode-on-executors", EVENTS, _ALL, OURS_ON_EXECUTORS, DECODE, Bar(LOWER)),
    _Duel("lineitem-dictionary", LINEITEM, _DICTIONARY, OURS, DECODE, Bar(HIGHER, 10, 50)),
    _Duel("events-dictionary", EVENTS, _DICTIONARY, OURS, DECODE, Bar(HIGHER, 10, 50)),
    _Duel("lineitem-dictionary-on-executors", LINEITEM, _DICTIONARY, OURS_ON_EXECUTORS, DECODE, Bar(HIGHER)),
    _Duel("events-dictionary-on-executors", EVENTS, _DICTIONARY, OURS_ON_EXECUTORS, DECODE, Bar(HIGHER)),
    _Duel("lineitem-dictionary-arrow", LINEITEM, _DICTIONARY_ARROW, OURS, DECODE, Bar(HIGHER)),
    _Duel("events-dictionary-arrow", EVENTS, _DICTIONARY_ARROW, OURS, DECODE, Bar(HIGHER)),
)
NAMES = tuple(duel.name for duel in _DUELS)


def measure(run: Run, results: Results) -> None:
    """Make the tables that are wanted, and time what is wanted of them, table by table."""
    wanted = [duel for duel in _DUELS if run.wants(duel.name)]
    if not wanted:
        return
    say("starting Spark")
    with spark_session(CORES) as spark, WarmEngines(spark) as warm:
        for table, columns in dict.fromkeys((duel.table, duel.columns) for duel in wanted):
            duels = [duel for duel in wanted if (duel.table, duel.columns) == (table, columns)]
            original = dataset(spark, run, table)
            names = tuple(original.exact) if columns in (_ALL, _ALL_DELTA) else original.dictionary_columns
            if columns in (_DICTIONARY, _DICTIONARY_ARROW):
                results.dictionary_columns[original.name] = names
            if not names:
                continue
            chosen = _chosen(spark, original, columns)
            engines = dict.fromkeys(engine for duel in duels for engine in (duel.ours, duel.other))
            seconds = race([warm.engine(name, chosen, names) for name in engines], run.rounds, results)
            for duel in duels:
                results.rows.append(
                    Row(duel.name, _title(duel, chosen), seconds[duel.ours], seconds[duel.other], duel.bar)
                )


def _chosen(spark: SparkSession, original: Dataset, columns: str) -> Dataset:
    if columns == _ALL_DELTA:
        return as_delta(spark, original)
    return rewritten(spark, original) if columns == _DICTIONARY_ARROW else original


def _title(duel: _Duel, chosen: Dataset) -> str:
    ratio = (duel.other, duel.ours) if duel.bar.better == HIGHER else (duel.ours, duel.other)
    columns = _DICTIONARY if duel.columns == _DICTIONARY_ARROW else duel.columns
    return f"{' / '.join(ratio)}; {chosen.name}, {columns}"
