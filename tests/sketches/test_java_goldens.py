"""Sketches equal those of datasketches-java byte for byte; see fixtures/theta-java/README.md."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from puffin.sketches.hashing import hash_array
from puffin.sketches.theta_sketch import ThetaSketch, merge
from tests.sketches.conftest import JAVA, counted

Column = Callable[[str, int], pa.Array]


def test_sketch_equals_javas_byte_for_byte_and_has_its_estimate(golden: dict[str, Any], column: Column) -> None:
    """Both families up to k values, QuickSelect after a rebuild above; the floor of the estimate is the ndv."""
    sketch = ThetaSketch.from_arrow(column(golden["type"], golden["n"]), golden["type"])
    image = sketch.to_bytes()
    if "image" in golden:
        assert image.hex() == golden["image"]
    else:
        assert hashlib.sha256(image).hexdigest() == golden["sha256"]
    assert (sketch.retained, sketch.theta) == (golden["retained"], golden["theta"])
    assert sketch.estimate == golden["estimate"]
    assert sketch.ndv == int(golden["estimate"])
    assert sketch.lower_bound() == pytest.approx(golden["lower"], rel=1e-12)
    assert sketch.upper_bound() == pytest.approx(golden["upper"], rel=1e-12)


def test_hash_equals_javas(golden_hash: dict[str, int]) -> None:
    """For tails of every length, and values of many blocks."""
    length = golden_hash["length"]
    (hashes,) = hash_array(pa.array([counted(length, length)], pa.binary()), "binary")
    assert hashes.tolist() == [golden_hash["hash"]]


@pytest.mark.parametrize(
    ("name", "n"), [("empty", 0), ("single-item", 1), ("unordered-1000", 1000), ("compressed-1000", 1000)]
)
def test_every_form_that_java_writes_is_read(name: str, n: int, column: Column) -> None:
    """Empty, single item, unordered and compressed images."""
    read = ThetaSketch.from_bytes((JAVA / "images" / f"{name}.bin").read_bytes())
    assert read == ThetaSketch.from_arrow(column("long", n), "long")


@pytest.mark.parametrize("name", ["empty", "single-item", "alpha-5000", "quickselect-5000", "no-entries"])
def test_ordered_java_image_survives_a_round_trip(name: str) -> None:
    """Also with more than k hashes, and with none."""
    image = (JAVA / "images" / f"{name}.bin").read_bytes()
    assert ThetaSketch.from_bytes(image).to_bytes() == image


def test_sketch_without_entries_is_not_empty() -> None:
    """Java's intersection of large disjoint sketches holds nothing but has seen values."""
    sketch = ThetaSketch.from_bytes((JAVA / "images" / "no-entries.bin").read_bytes())
    assert (sketch.retained, sketch.empty, sketch.estimating, sketch.ndv) == (0, False, True, 0)
    assert sketch.upper_bound() > 0


def test_union_equals_javas_byte_for_byte(column: Column) -> None:
    whole = column("long", 30_000)
    parts = [ThetaSketch.from_arrow(part, "long") for part in (whole[:20_000], whole[10_000:])]
    image = (JAVA / "images" / "union-0-30000.bin").read_bytes()
    assert merge(parts).to_bytes() == image
    assert ThetaSketch.from_arrow(whole, "long").to_bytes() == image


def test_java_alpha_sketch_can_be_merged(column: Column) -> None:
    """Iceberg and Trino write Alpha sketches; the union is canonical below both thetas."""
    alpha = ThetaSketch.from_bytes((JAVA / "images" / "alpha-5000.bin").read_bytes())
    ours = ThetaSketch.from_arrow(column("long", 6000), "long")
    united = alpha.union(ours)
    assert united.theta == min(alpha.theta, ours.theta)
    assert set(united.hashes.tolist()) == {h for h in ours.hashes.tolist() if h < united.theta}
