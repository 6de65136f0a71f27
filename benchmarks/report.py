"""A run's results for people, as Markdown, and for programs, as one JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from benchmarks.results import HIGHER, Accuracy, Results, Row, Sample
from benchmarks.run import Run

About: TypeAlias = Mapping[str, str | Mapping[str, str]]

_DIGITS = {"s": 3, "ms": 2, "MiB": 0, "B": 0, "B a value": 2, "files": 1, "µs": 2, "reads": 0, "times": 3}


def to_json(run: Run, results: Results, about: About) -> dict[str, Any]:
    """The whole run; ``about`` says what it ran on."""
    return {
        **about,
        "scale": run.sizes.scale,
        "rows": run.sizes.rows,
        "rounds": run.rounds,
        "full-size": run.sizes.full,
        "dictionary-columns": results.dictionary_columns,
        "measures": [row.to_json() for row in results.rows],
        "accuracy": [check.to_json() for check in results.accuracy],
    }


def to_markdown(run: Run, results: Results) -> str:
    """The table of measures and the table of accuracy."""
    parts = []
    if not run.sizes.full:
        parts.append("The data is smaller than the bars are meant for: no row is held against them.")
    parts.append(markdown_table(_MEASURES, (_measure(row, held=run.sizes.full) for row in results.rows)))
    for name, columns in results.dictionary_columns.items():
        parts.append(f"Dictionary-encoded columns of {name}: {', '.join(columns) or 'none'}.")
    if results.accuracy:
        parts.append(markdown_table(_ACCURACY, map(_checked, results.accuracy)))
    return "\n\n".join([*parts, *results.sections])


def to_record(run: Run, results: Results, about: About) -> str:
    """The results of record."""
    return record("Results of record", "--record", about, to_markdown(run, results))


def record(title: str, command: str, about: About, body: str) -> str:
    """A document of record: its body, and all that is needed to make it again."""
    header = "\n".join(f"* {what.capitalize()}: {_listed(value)}" for what, value in about.items())
    return (
        f"# {title}\n\nWritten by `{command}`, never by hand; [README.md](README.md) says how to read it.\n\n"
        f"{header}\n\n{body}\n"
    )


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _listed(value: str | Mapping[str, str]) -> str:
    return value if isinstance(value, str) else ", ".join(f"{name} {part}" for name, part in value.items())


_MEASURES = ("measure", "ours", "other", "ratio", "bar", "moonshot", "")
_ACCURACY = ("table", "engine", "worst column", "off by", "allowed", "")


def _measure(row: Row, *, held: bool) -> Sequence[str]:
    low, high = row.spread
    ratio = "" if row.other is None else f"{_ratio(row.figure)} [{_ratio(low)} .. {_ratio(high)}]"
    sign = "≥" if row.bar.better == HIGHER else "≤"
    bar, moonshot = ("" if bound is None else f"{sign} {bound:g}" for bound in (row.bar.limit, row.bar.moonshot))
    verdict = (row.verdict or "") if held else ""
    return row.title, _sample(row.ours), "" if row.other is None else _sample(row.other), ratio, bar, moonshot, verdict


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _sample(sample: Sample) -> str:
    digits = _DIGITS[sample.unit]
    median, low, high = (f"{value:.{digits}f}" for value in (sample.median, min(sample.values), max(sample.values)))
    return f"{median} {sample.unit}" if low == high else f"{median} {sample.unit} [{low} .. {high}]"


def _checked(check: Accuracy) -> Sequence[str]:
    return (
        check.table,
        check.engine,
        check.column,
        f"{check.error:.2%}",
        f"{check.allowed:.2%}",
        "right" if check.right else "WRONG",
    )
