"""A few seconds of ``make soak-autopilot``; ``PUFFIN_AUTOPILOT_KILLS=100`` kills more often, and takes longer."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.autopilot_soak import parser, soak

KILLS = int(os.environ.get("PUFFIN_AUTOPILOT_KILLS", "1"))


def test_killed_instances_leave_every_table_fresh_and_nothing_dangling(tmp_path: Path) -> None:
    """A poisoned table is among the others, and the catalog does not answer for a while."""
    seconds = 3 + 2 * KILLS
    options = ["--tables", "6", "--rows", "2000", "--seconds", str(seconds), "--kills", str(KILLS), "--outage"]
    outcome = soak(tmp_path, parser().parse_args(options))
    assert outcome.problems == []
    assert (outcome.kills, outcome.writes > 0, outcome.runs["failed"] > 0) == (KILLS, True, True)
    assert outcome.stop_seconds < 10
