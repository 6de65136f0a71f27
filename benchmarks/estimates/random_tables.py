"""
Random tables, to judge bounds by: pairs of them with columns of many sorts, analyzed at once or as rows come and go.

A column has a domain of its own, so that its sample is independent of that of any other; the columns ``k*`` have the
same domain in both tables, to join them.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from benchmarks.estimates.iceberg_table import write_table
from benchmarks.estimates.suite import BenchTable, Edge, Suite
from benchmarks.estimates.zipf import drawn, zipf_law
from stats_jobs import Options, analyze

_ROWS = 20_000, 250_000
_FEW, _MANY = (10, 7_000), (7_000, 400_000)  # values of a domain; most have more than a sample
_SINGLE, _KEYS = 6, 3
_JOINT = ("c0+c1", "c2+c3")
_NULLS = 0, 0, 0.05, 0.5
_IN_PARTS = 0.3  # of the tables are analyzed again after rows came and went
_LONG = "warehouse/customers/europe/region-with-a-long-name/part-of-it/"

Random = np.random.Generator
Numbers = np.ndarray[Any, Any]


def random_suite(directory: Path, seed: int) -> tuple[Suite, dict[str, pa.Table]]:
    """Write and analyze two tables; returns them with their rows."""
    random = np.random.default_rng(seed)
    domains = [_domain(random, int(random.integers(6))) for _ in range(_KEYS)]
    tables, rows = {}, {}
    for name in ("one", "two"):
        made = _rows(random, domains)
        tables[name] = BenchTable(directory / name, _JOINT)
        rows[name] = _written(random, directory / name, made)
    edges = tuple(Edge("one", f"k{i}", "two", f"k{i}") for i in range(_KEYS))
    return Suite(directory.name, tables, edges), rows


def _written(random: Random, directory: Path, rows: pa.Table) -> pa.Table:
    """Write a table and analyze it; returns the rows that it has in the end."""
    options = Options(joint=_JOINT, driver_bytes=1 << 40)
    if random.random() >= _IN_PARTS:
        write_table(directory, rows)
        analyze(str(directory), options)
        return rows
    parts = [rows.slice(i * rows.num_rows // 4, rows.num_rows // 4) for i in range(4)]
    write_deltalake(directory, pa.concat_tables(parts[:2]))
    analyze(str(directory), options)
    for part, gone in zip(parts[2:], random.choice(10, 2, replace=False).tolist(), strict=True):
        write_deltalake(directory, part, mode="append")
        DeltaTable(directory).delete(f"n >= {gone * 100} and n < {gone * 100 + 60}")
        analyze(str(directory), options)
    return DeltaTable(directory).to_pyarrow_table()


def _rows(random: Random, domains: list[pa.Array]) -> pa.Table:
    count = int(np.exp(random.uniform(*np.log(_ROWS))))
    columns: dict[str, pa.Array] = {"n": pa.array(random.integers(0, 1000, count))}
    for number in range(_SINGLE):
        domain = _domain(random, (number + int(random.integers(6))) % 6)
        chosen = _chosen(random, len(domain), count)
        columns[f"c{number}"] = _some_null(random, domain.take(pa.array(chosen)))
        if number % 2 == 0:
            before = chosen
        elif random.random() < 0.7:  # depends on the column before
            noise = random.random(count) < random.choice((0, 0.05, 0.3))
            depends = np.where(noise, chosen, before // random.integers(1, 50)) % len(domain)
            columns[f"c{number}"] = _some_null(random, domain.take(pa.array(depends)))
    for number, domain in enumerate(domains):
        kept = np.flatnonzero(random.random(len(domain)) < random.choice((0.5, 0.9, 1)))
        kept = kept if len(kept) else np.arange(len(domain))
        # Frequent values are the same in both tables, half of the times.
        law = _law(random, len(kept)) if random.random() < 0.5 else zipf_law(len(kept), random.uniform(0.4, 1.3))
        columns[f"k{number}"] = _some_null(random, domain.take(pa.array(kept[drawn(random, law, count)])))
    return pa.table(columns)


def _chosen(random: Random, distinct: int, count: int) -> Numbers:
    return drawn(random, _law(random, distinct), count)


def _law(random: Random, distinct: int) -> Numbers:
    """How likely each value of a domain is, in the order of the values or in any other."""
    laws: list[Callable[[], Numbers]] = [
        lambda: np.ones(distinct),
        lambda: zipf_law(distinct, random.uniform(0.4, 1.5)),
        lambda: np.exp(random.normal(0, random.uniform(0.3, 2.5), distinct)),
        lambda: np.where(random.random(distinct) < 0.01, 50.0, 1.0),  # few values with many rows
        lambda: np.where(random.random(distinct) < 0.3, random.integers(2, 8), 0.2),
        lambda: np.exp(-(((np.arange(distinct) / distinct - random.random()) / 0.15) ** 2)) + 0.01,  # a cluster
        lambda: np.repeat(random.pareto(1.2, -(-distinct // 64)) + 0.1, 64)[:distinct],  # many clusters
    ]
    law = laws[random.integers(len(laws))]()
    return random.permutation(law) if random.random() < 0.5 else law


def _domain(random: Random, sort: int) -> pa.Array:
    """Distinct values of a type, in ascending order."""
    distinct = int(np.exp(random.uniform(*np.log(_FEW if random.random() < 0.2 else _MANY))))
    if sort == 0:
        start = random.integers(1 << 40)
        return pa.array(np.arange(start, start + distinct))
    wide = np.unique(np.exp(random.normal(20, 2, distinct)).astype(np.int64))
    if sort in (1, 2):
        texts = pc.cast(pa.array(wide), pa.string())
        return pc.binary_join_element_wise(_LONG if random.random() < 0.3 else "", texts, "").sort()
    if sort == 3:
        return pa.array(np.unique(np.round(random.normal(0, 1e4, distinct), 3)))
    if sort == 4:
        first = datetime.datetime(1990, 1, 1)
        days = np.sort(random.choice(15_000, min(distinct, 15_000), replace=False))
        return pa.array(np.datetime64(first, "D") + days)
    cents = np.unique(random.integers(0, 1 << 31, distinct))
    return pc.cast(pa.array([decimal.Decimal(each).scaleb(-2) for each in cents.tolist()]), pa.decimal128(14, 2))


def _some_null(random: Random, values: pa.Array) -> pa.Array:
    share = random.choice(_NULLS)
    return values if share == 0 else pc.if_else(pa.array(random.random(len(values)) < share), None, values)
