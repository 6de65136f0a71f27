"""
The skewed suite, made from a seed: three tables whose keys are Zipf-distributed, with correlated columns.

Columns ``k*`` are keys whose values have the same order of frequency in every table, ``p*`` those that each table
orders by a permutation of its own. A table lacks a tenth of a key's values, each another tenth.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.estimates.suite import BenchTable, Edge, Suite, found_table, made_table

_ROWS = {"big": 1_000_000, "middle": 600_000, "small": 400_000}
_KEYS = 8  # of each sort
_ALPHAS = 0.5, 1.2
_DISTINCT = 3e3, 3e5  # values of a key's domain
_CITIES, _COUNTRIES = 3_000, 60
_NAMES = 40_000
_MISSING = 0, 0.005, 0.05, 0.5  # shares of nulls of keys
_EPOCH = datetime.date(1992, 1, 1)
_JOINT = ("city+country", "x+flag", "k1+country", "day+kind", "kind+country", "k0+k2")


def zipf_suite(seed: int) -> Suite:
    """The suite of this seed, made or found."""
    name = f"zipf_{seed}"
    tables: dict[str, BenchTable] = {}
    draw = _Shared(np.random.default_rng(seed))
    for number, (table, rows) in enumerate(_ROWS.items()):
        found = found_table(name, table, _JOINT)
        if found is None:
            found = made_table(name, table, draw.table(np.random.default_rng([seed, number]), rows), _JOINT)
        tables[table] = found
    return Suite(name, tables, tuple(_edges()))


def _edges() -> list[Edge]:
    names = list(_ROWS)
    pairs = [(left, right) for position, left in enumerate(names) for right in names[position + 1 :]]
    sorts = [("k", "k", "same"), ("p", "p", "independent"), ("k", "p", "independent"), ("p", "k", "independent")]
    return [
        Edge(left, f"{one}{number}", right, f"{other}{number}", kind)
        for left, right in pairs
        for number in range(_KEYS)
        for one, other, kind in sorts
    ]


class _Shared:
    """What the tables of a seed have in common: the domains of keys, and how skewed each is."""

    def __init__(self, random: np.random.Generator) -> None:
        steps = np.linspace(*_ALPHAS, _KEYS)
        self._alphas = np.clip(steps + random.uniform(-0.07, 0.07, _KEYS), *_ALPHAS)
        self._domains = [
            random.choice(1 << 40, int(np.exp(random.uniform(*np.log(_DISTINCT)))), replace=False) for _ in range(_KEYS)
        ]
        self._countries = np.array(_words(random, _COUNTRIES, 3))
        self._country_of = np.minimum(_ranks(random, 1.0, _COUNTRIES, _CITIES), _COUNTRIES - 1)
        self._cities = np.array(_words(random, _CITIES, 4))
        stems = _words(random, 400, 2)
        chosen = _ranks(random, 0.9, len(stems), _NAMES)
        named = zip(chosen, _words(random, _NAMES, 2), strict=True)
        self._names = np.array([f"{stems[stem]} {word}" for stem, word in named])

    def table(self, random: np.random.Generator, rows: int) -> pa.Table:
        """The rows of one table."""
        columns: dict[str, Any] = {"id": random.permutation(rows).astype(np.int64)}
        for number, (alpha, domain) in enumerate(zip(self._alphas, self._domains, strict=True)):
            kept = domain[random.random(len(domain)) > 0.1]
            for sort, ordered in (("k", kept), ("p", random.permutation(kept))):
                missing = random.choice(_MISSING)
                columns[f"{sort}{number}"] = _some_null(
                    random, ordered[_ranks(random, alpha, len(kept), rows)], missing
                )
        city = _ranks(random, 1.05, _CITIES, rows)
        columns["city"] = _some_null(random, self._cities[city], 0.02)
        columns["country"] = self._countries[self._country_of[city]]
        columns["name"] = _some_null(random, self._names[_ranks(random, 0.8, _NAMES, rows)], 0.1)
        x = np.exp(random.normal(3, 1.2, rows))
        columns["x"] = np.round(x, 2)
        columns["y"] = _some_null(random, np.round(2 * x + random.normal(0, 5, rows), 1), 0.3)
        columns["tag"] = _some_null(random, _ranks(random, 1.1, 500, rows).astype(np.int32), 0.4)
        day = np.minimum(random.exponential(700, rows).astype(np.int64), 3_600)
        columns["day"] = np.datetime64(_EPOCH + datetime.timedelta(3_600)) - day.astype("timedelta64[D]")
        columns["kind"] = np.array([f"kind {i}" for i in range(40)])[_ranks(random, 0.7, 40, rows)]
        columns["flag"] = (x > 60).astype(np.int32)
        return pa.table({name: pa.array(column) for name, column in columns.items()})


def _ranks(random: np.random.Generator, alpha: float, distinct: int, size: int) -> np.ndarray[Any, Any]:
    """Numbers below ``distinct``, the smaller the more frequent: r with probability about 1 / (r + 1) ** alpha."""
    return drawn(random, zipf_law(distinct, alpha), size)


def zipf_law(distinct: int, alpha: float) -> np.ndarray[Any, Any]:
    """How likely each of so many numbers is, relative to the others."""
    return np.arange(1, distinct + 1, dtype=np.float64) ** -alpha


def drawn(random: np.random.Generator, law: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Numbers that are as likely as the law says."""
    cumulative = np.cumsum(law)
    numbers: np.ndarray[Any, Any] = np.searchsorted(cumulative, random.random(size) * cumulative[-1], side="right")
    return numbers


def _some_null(random: np.random.Generator, values: np.ndarray[Any, Any], share: float) -> pa.Array:
    return pa.array(values, mask=random.random(len(values)) < share)


def _words(random: np.random.Generator, count: int, syllables: int) -> Sequence[str]:
    """Words of few syllables, so that many share a prefix; a number keeps them apart where need be."""
    parts = [a + b for a in "bdfgklmnprstv" for b in "aeiou"]
    weights = 1 / np.arange(1, len(parts) + 1)
    drawn = random.choice(parts, (count, syllables), p=weights / weights.sum())
    seen: dict[str, int] = {}
    words = []
    for row in drawn:
        word = "".join(row)
        seen[word] = seen.get(word, 0) + 1
        words.append(word if seen[word] == 1 else f"{word}{seen[word]}")
    return words
