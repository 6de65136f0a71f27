"""What one run is asked for, which every part of it is given: how much data, how many rounds, which measures."""

from __future__ import annotations

import dataclasses
import fnmatch
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"

_GIB = 1024**3

RANDOM_SEEDS = tuple(range(1, 21))  # those of record
HEAVY = "memory", "incremental", "million", "random"
"""What the names of measures begin with that need gigabytes of disk or many minutes; there is a flag for each."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    """
    How much data is made.

    Attributes:
        scale: TPC-H's scale factor.
        rows: Of the table ``events``. Fewer than its full 20 million make all that is not TPC-H smaller with it.
    """

    FULL_ROWS = 20_000_000

    scale: float = 1
    rows: int = FULL_ROWS

    @property
    def full(self) -> bool:
        """Whether the bars apply: they are meant for data of full size."""
        return self.scale >= 1 and self.rows >= self.FULL_ROWS

    @property
    def large_file_bytes(self) -> int:
        """The size of the one large Parquet file."""
        return self._share(4 * _GIB, at_least=16 * 1024**2)

    @property
    def long_strings(self) -> int:
        """The number of strings of 1 MB each."""
        return self._share(2_000, at_least=40)

    @property
    def small_tables(self) -> int:
        """The number of tables of a few thousand rows."""
        return self._share(50, at_least=5)

    @property
    def current_tables(self) -> int:
        """The number of tables whose statistics are current."""
        return self._share(10_000, at_least=40)

    @property
    def wide_columns(self) -> int:
        """The number of columns of the wide table."""
        return self._share(2_000, at_least=200)

    @property
    def random_bytes(self) -> int:
        """About how many bytes of Parquet a random table has."""
        return self._share(100 * 1024**2, at_least=1024**2)

    @property
    def manifest_entries(self) -> int:
        """The number of data files that one manifest of the planned snapshots lists."""
        return self._share(10_000, at_least=100)

    @property
    def keyed_files(self) -> int:
        """The number of files of the indexed table with a random key."""
        return self._share(658, at_least=50)

    @property
    def million_manifests(self) -> int:
        """The number of such manifests that make a million files."""
        return self._share(100, at_least=3)

    def _share(self, whole: int, *, at_least: int) -> int:
        return max(at_least, whole * min(self.rows, self.FULL_ROWS) // self.FULL_ROWS)


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """
    A run of the benchmarks.

    Attributes:
        rounds: How often every engine is timed, after one round that is not.
        only: Patterns of the measures wanted; empty for all but the heavy ones.
        heavy: Which of the heavy ones are wanted too.
        seeds: Of the random tables.
    """

    sizes: Sizes
    rounds: int
    only: tuple[str, ...] = ()
    heavy: tuple[str, ...] = ()
    seeds: tuple[int, ...] = RANDOM_SEEDS

    def wants(self, name: str) -> bool:
        """Whether this measure is to be taken."""
        if self.only:
            return any(fnmatch.fnmatch(name, pattern) for pattern in self.only)
        kind = name.partition("-")[0]
        return kind not in HEAVY or kind in self.heavy


def seeds(text: str) -> tuple[int, ...]:
    """Seeds with commas between them, as an option's type."""
    return tuple(map(int, text.split(",")))


def say(text: str) -> None:
    """Tell a person how far it is; standard output belongs to the results."""
    print(f"bench: {text}", file=sys.stderr, flush=True)
