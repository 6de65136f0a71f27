"""Heavy measures are taken with their flag, or when they are named."""

from benchmarks.__main__ import _NAMES as NAMES
from benchmarks.run import HEAVY, Run, Sizes


def test_a_flag_for_each_kind_adds_the_heavy_measures():
    run = Run(Sizes(), 1)
    light = {name for name in NAMES if run.wants(name)}
    assert "serve-latency" in light
    assert not any(name.startswith(HEAVY) for name in light)
    assert all(Run(Sizes(), 1, heavy=HEAVY).wants(name) for name in NAMES)


def test_only_what_is_named_is_taken_however_heavy_it_is():
    run = Run(Sizes(), 1, only=("incremental-current*",), heavy=HEAVY)
    assert [name for name in NAMES if run.wants(name)] == ["incremental-current", "incremental-current-memory"]
