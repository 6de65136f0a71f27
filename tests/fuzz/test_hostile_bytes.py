"""
Bytes that are wrong, for every reader: the kept corpus, and mutations that are the same in every run.

``FUZZ_MUTATIONS`` says how many of each target; ``make fuzz`` goes on from there with coverage to guide it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.seeds import CORPUS, corpus, seeds
from fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
MUTATIONS = int(os.environ.get("FUZZ_MUTATIONS", "300"))
CPU_SECONDS_PER_INPUT = 1.0


@pytest.fixture(scope="module")
def outcomes():
    """Return the outcome of every target, run in a process with bounded memory."""
    # The memory pool of Arrow's own sets aside address space by the gigabyte.
    environment = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    command = [sys.executable, "-m", "fuzz.bounded", str(MUTATIONS)]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout)


@pytest.mark.parametrize("target", TARGETS)
def test_targets_keep_their_promises_for_any_bytes(outcomes, target):
    """No other exception, no contradiction, and no more memory or time than the input justifies."""
    outcome = outcomes[target]
    assert outcome["wrong"] == []
    assert outcome["slowest-seconds"] < CPU_SECONDS_PER_INPUT
    assert outcome["tried"] == len(seeds(target)) + MUTATIONS


@pytest.mark.parametrize("target", TARGETS)
def test_some_seeds_pass_the_first_check(target):
    """Otherwise the target would only see noise."""
    assert any(map(TARGETS[target], seeds(target)))


def test_every_corpus_has_a_target():
    assert {path.stem for path in CORPUS.glob("*.zip")} <= TARGETS.keys()
    assert sum(len(corpus(target)) for target in TARGETS) > 0
