"""Rows of the tables that tests here write."""

from __future__ import annotations

import random

import pyarrow as pa


def numbers(*values: int) -> pa.Table:
    """Rows with a key of these values, and their remainders by 3."""
    return pa.table({"k": pa.array(values, pa.int64()), "n": pa.array([v % 3 for v in values], pa.int64())})


def mixed(draw: random.Random, count: int) -> pa.Table:
    """Rows of few values, of more than a sketch or a sample holds, of texts and of nulls."""
    few = pa.array([draw.choice((None, 1, 2, 3)) for _ in range(count)], pa.int64())
    many = pa.array([draw.randrange(60000) for _ in range(count)], pa.int64())
    text = pa.array([f"text {draw.randrange(500)}" for _ in range(count)], pa.string())
    return pa.table({"few": few, "many": many, "text": text})
