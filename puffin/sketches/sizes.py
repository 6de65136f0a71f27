"""How many hashes a sketch may retain, as the base-2 logarithm of its nominal entries."""

from __future__ import annotations

from puffin.errors import UsageError

DEFAULT_LG_K = 12
"""What all engines use."""
MIN_LG_K = 5
MAX_LG_K = 26


def check_lg_k(lg_k: int) -> None:
    """Raise UsageError unless ``lg_k`` is an integer from 5 to 26, as in other implementations."""
    if not isinstance(lg_k, int) or not MIN_LG_K <= lg_k <= MAX_LG_K:
        raise UsageError(f"lg_k: expected an integer from {MIN_LG_K} to {MAX_LG_K}, found {lg_k!r}")
