"""
The server's metrics in the Prometheus text format.

Everything is counted on the event loop, so an observation takes no lock. Labels name only routes of the server, never
requested paths: labels from outside would grow without limit.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds

_HELP = {
    "puffin_http_requests_total": "Requests answered, by route and status.",
    "puffin_http_request_duration_seconds": "Seconds from a request to the end of its answer, by route.",
    "puffin_http_requests_running": "Requests being worked on.",
    "puffin_storage_threads": "Threads that read storage.",
    "puffin_lookup_hits_total": "Answers that were in memory.",
    "puffin_lookup_misses_total": "Answers that had to be made.",
    "puffin_lookup_revalidations_total": "Times a table was asked whether anything was committed.",
    "puffin_lookup_metadata_reads_total": "Times the metadata of a table was loaded.",
    "puffin_lookup_evictions_total": "Tables that made room in memory for others.",
    "puffin_plans_total": "Plans of scans that were made.",
    "puffin_plan_files_total": "Files of the snapshots of all plans.",
    "puffin_plan_files_pruned_by_partition_total": "Files that plans left out by their partitions.",
    "puffin_plan_files_pruned_by_bounds_total": "Files that plans left out by bounds and counts of columns.",
    "puffin_plan_files_pruned_by_index_total": "Files that plans left out by the index.",
    "puffin_plan_bytes_not_read_total": "Bytes of the files that plans left out.",
}


class Metrics:
    """
    Requests by route and status, and their duration; and how many are ``running``.

    ``more`` gives text of metrics that are counted elsewhere.
    """

    def __init__(self, more: Callable[[], str] | None = None) -> None:
        self._more = more
        self.running = 0
        self._requests: Counter[tuple[str, int]] = Counter()
        self._durations: defaultdict[str, _Histogram] = defaultdict(_Histogram)

    def observe(self, route: str, status: int, seconds: float) -> None:
        self._requests[route, status] += 1
        histogram = self._durations[route]
        histogram.counts[bisect.bisect_left(_BOUNDS, seconds)] += 1
        histogram.total += seconds

    def render(self, values: Mapping[str, int]) -> str:
        """All metrics as text; ``values`` are counted elsewhere, by metric name."""
        text = "".join(f"{line}\n" for line in self._lines(values))
        return text if self._more is None else text + self._more()

    def _lines(self, values: Mapping[str, int]) -> Iterator[str]:
        name = "puffin_http_requests_total"
        yield from _head(name, "counter")
        for (route, status), count in sorted(self._requests.items()):
            yield f'{name}{{route="{route}",status="{status}"}} {count}'
        name = "puffin_http_request_duration_seconds"
        yield from _head(name, "histogram")
        for route, histogram in sorted(self._durations.items()):
            so_far = 0
            for bound, count in zip((*map(str, _BOUNDS), "+Inf"), histogram.counts, strict=True):
                so_far += count
                yield f'{name}_bucket{{route="{route}",le="{bound}"}} {so_far}'
            yield f'{name}_sum{{route="{route}"}} {histogram.total:.9g}'
            yield f'{name}_count{{route="{route}"}} {so_far}'
        for name, value in {"puffin_http_requests_running": self.running, **values}.items():
            yield from _head(name, "counter" if name.endswith("_total") else "gauge")
            yield f"{name} {value}"


def _head(name: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {_HELP[name]}"
    yield f"# TYPE {name} {kind}"


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0
