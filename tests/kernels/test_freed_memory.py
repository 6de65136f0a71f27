"""Loading the kernels makes glibc keep the memory of freed arrays, so that the next ones cause no page faults."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource
import numpy as np
from puffin.kernels import load_kernels

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        arrays = [np.ones(1 << 17) for _ in range(12)]
        del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

without = faults()
load_kernels()
faults()
print(without, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries of C have other allocators")
def test_freed_arrays_are_used_again() -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, env=environment, check=True)
    without, kept = map(int, done.stdout.split())
    assert kept < without / 10
