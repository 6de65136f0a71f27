"""The outcome as Markdown."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from benchmarks.estimates import score
from benchmarks.estimates.bench import Outcome
from benchmarks.estimates.headlines import HEADLINE_HEADER, TIME_HEADER, headline_rows, time_rows
from benchmarks.machine import machine, versions
from benchmarks.report import About, markdown_table, record


def to_markdown(outcome: Outcome) -> str:
    """Tables of q-errors, bounds and ratios, and what engines did not answer."""
    scored, engines = outcome.scored, outcome.engines
    several = len({each.suite for each in scored}) > 1
    parts = [
        _table("Figures with bars", HEADLINE_HEADER, headline_rows(scored, engines)),
        _table("Warm answers of ours, to literals never asked before", TIME_HEADER, time_rows(scored)),
        _table("q-errors", score.ERROR_HEADER, score.error_rows(scored, engines)),
        _table("Bounds of ours", score.BOUND_HEADER, score.bound_rows(scored)),
        _table("p90 of the best other engine over ours", score.RATIO_HEADER, score.ratio_rows(scored, engines)),
    ]
    if several:
        parts.append(_table("q-errors by suite", score.ERROR_HEADER, score.error_rows(scored, engines, by_suite=True)))
        parts.append(_table("Bounds by suite", score.BOUND_HEADER, score.bound_rows(scored, by_suite=True)))
    for suite, seconds in outcome.analyzed_seconds.items():
        parts.append(f"The job analyzed {suite} in {seconds:.1f} s.")
    for engine, reasons in outcome.missing.items():
        parts += [f"{engine} did not answer {count} questions: {reason}." for reason, count in reasons.items()]
    return "\n\n".join(parts)


def to_record(outcome: Outcome, seeds: Sequence[int]) -> str:
    """The results of record: the tables, and what they were made on."""
    about: About = {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
        "seed": ",".join(map(str, seeds)),
        "questions": f"{len(outcome.scored)}, all in [ESTIMATES.json](ESTIMATES.json)",
        "machine": machine(),
        "versions": versions(),
    }
    return record(
        "Estimates: results of record", "python -m benchmarks.estimates --record", about, to_markdown(outcome)
    )


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f"## {title}\n\n{markdown_table(header, rows)}"
