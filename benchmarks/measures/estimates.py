"""
How far estimates of rows and groups are off, beside those of other planners: the benchmark in ``benchmarks/estimates``.

Rows are the figures that there are bars for; the p90 of ours beside that of the best other engine is for each kind of
question.
"""

from __future__ import annotations

import statistics

from benchmarks.estimates import bench
from benchmarks.estimates.engine import OURS
from benchmarks.estimates.headlines import HEADLINES, WARM
from benchmarks.estimates.report import to_markdown
from benchmarks.estimates.score import best_ratio, by_kind, percentile, times_of
from benchmarks.estimates.suite import WAREHOUSE
from benchmarks.results import HIGHER, LOWER, Bar, Results, Row, Sample
from benchmarks.run import Run, say

NAMES = (_ESTIMATES,) = ("estimates",)

_SEED = 17
_AGAINST_OTHERS = Bar(HIGHER, 2, 5)


def measure(run: Run, results: Results) -> None:
    """Ask all engines everything; every question goes to a file in ``.bench``."""
    if not run.wants(_ESTIMATES, heavy=True):
        return
    outcome = bench.run(tuple(bench.SUITES), tuple(bench.ENGINES), [_SEED])
    for headline in HEADLINES:
        errors = headline.errors(outcome.scored)
        for share, bars in headline.bars.items():
            if errors:
                sample = Sample("ours", "times", (percentile(errors, share),))
                title = f"q-error, {headline.title}: p{share * 100:g}"
                results.rows.append(Row(_ESTIMATES, title, sample, None, Bar(LOWER, *bars)))
    for kind, scored in by_kind(outcome.scored):
        times, warm = times_of(scored), WARM.get(kind)
        if warm is not None and times:
            sample = Sample("ours", "µs", (statistics.median(times),))
            title = f"warm estimate, never asked before, {kind}"
            results.rows.append(Row(_ESTIMATES, title, sample, None, Bar(LOWER, *warm)))
        best = best_ratio(scored, outcome.engines)
        if best is not None:
            _, engine, *errors_of_both = best
            other, ours = (
                Sample(name, "times", (p90,)) for name, p90 in zip((engine, OURS), errors_of_both, strict=True)
            )
            results.rows.append(Row(_ESTIMATES, f"q-error, {kind}: p90, {engine} / ours", ours, other, _AGAINST_OTHERS))
    results.sections.append(to_markdown(outcome))
    outcome.write(WAREHOUSE / "questions.json")
    say(f"every question and q-error is in {WAREHOUSE / 'questions.json'}")
