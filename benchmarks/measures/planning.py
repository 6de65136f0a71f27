"""
Planning a snapshot of very many files, without any of the files: only the metadata is made.

Three snapshots of one table list one, five and ten manifests, each with the column statistics that real manifests
are full of. Each is planned in a process that has done nothing before.
"""

from __future__ import annotations

from benchmarks.large_plan import plan
from benchmarks.measures.manifests import found_or_made
from benchmarks.processes import in_fresh_process
from benchmarks.results import LOWER, Bar, Results, Row, Sample
from benchmarks.run import HOME, Run, say

NAMES = _TIME, _MEMORY = "plan-time", "plan-memory"

_MANIFESTS = (1, 5, 10)  # in each of the snapshots, whose ids these are
_UNIT = 10_000  # files that the seconds are said for
_TIME_BAR = Bar(LOWER, 1.1, 1.0)  # "grows not at all", as far as a clock can tell
_MEMORY_BAR = Bar(LOWER, 2048)


def measure(run: Run, results: Results) -> None:
    """Plan the three snapshots in turn."""
    if not any(run.wants(name) for name in NAMES):
        return
    entries = run.sizes.manifest_entries
    directory = found_or_made(HOME / "data" / f"plan-{entries}", entries, _MANIFESTS)
    seconds: dict[int, list[float]] = {manifests: [] for manifests in _MANIFESTS}
    peaks: list[float] = []
    for number in range(run.rounds):
        for manifests in _MANIFESTS:
            took = in_fresh_process(plan, str(directory), 2, manifests)
            taken, files, peak = took["seconds"], took["files"], took["peak-mib"]
            if files != manifests * entries:
                raise SystemExit(f"{directory}: expected {manifests * entries} files, planned {files}")
            seconds[manifests].append(taken * _UNIT / files)
            say(f"plan of {files} files: {taken:.2f} s, {peak:.0f} MiB (round {number + 1} of {run.rounds})")
        peaks.append(peak)  # of the last snapshot, which is the largest
    samples = [
        Sample(f"{manifests * entries:,} files, each {_UNIT:,}", "s", tuple(values))
        for manifests, values in seconds.items()
    ]
    least, *larger = samples
    if run.wants(_TIME):
        for sample in larger:
            results.rows.append(Row(_TIME, f"plan: {sample.what} / {least.what}", sample, least, _TIME_BAR))
    if run.wants(_MEMORY):
        title = f"peak memory of the driver's Python; plan of {_MANIFESTS[-1] * entries:,} files"
        results.rows.append(Row(_MEMORY, title, Sample("the plan", "MiB", tuple(peaks)), None, _MEMORY_BAR))
