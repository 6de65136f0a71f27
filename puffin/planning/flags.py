"""Flags of files: one truth value for each file of a plan."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Flags: TypeAlias = "npt.NDArray[np.bool_]"


def all_of(flags: Iterable[Flags]) -> Flags:
    """Where all of them are set; there must be at least one."""
    return functools.reduce(np.logical_and, flags)


def any_of(flags: Iterable[Flags]) -> Flags:
    """Where at least one of them is set; there must be at least one."""
    return functools.reduce(np.logical_or, flags)


def none_of(*flags: Flags) -> Flags:
    """Where none of them is set."""
    found: Flags = ~np.logical_or.reduce(flags)
    return found


def count(flags: Flags) -> int:
    return int(np.count_nonzero(flags))
