"""A few seconds of what `make soak` does for ten minutes."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
STEADY = 0.1  # of memory, the growth that the long form allows; in a few seconds a server is still getting warm


def test_answers_stay_correct_while_tables_change(tmp_path: Path) -> None:
    """Load of every kind on tables that are analyzed and expired meanwhile: no error, and nothing stale."""
    told = ["--seconds", "3", "--tables", "20", "--rate", "100", "--changes", "10", "--ttl", "0.3"]
    command = [sys.executable, "-m", "benchmarks.soak", *told, "--directory", str(tmp_path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    outcome = json.loads(ran.stdout)
    assert all(kind.endswith((": 200", ": 304")) for kind in outcome["counts"]), ran.stdout
    assert (outcome["untrue"], outcome["stopped"], outcome["logged"]) == ([], 0, ""), ran.stdout
    assert ran.returncode == (outcome["growth"] > STEADY), ran.stdout
    assert outcome["changes"] > 0
    assert outcome["checked"] > 100
    assert {"stats: 200", "stats: 304", "batch: 200", "join: 200", "dump: 200"} <= outcome["counts"].keys()
