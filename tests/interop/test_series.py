"""Series of other libraries become sketches as they are."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from puffin import ThetaSketch


@pytest.mark.parametrize("series", [pl.Series([1, 2, 2]), pd.Series([1, 2, 2]), pa.chunked_array([[1], [2, 2]])])
def test_series_is_a_sketch_of_its_values(series: Any) -> None:
    assert ThetaSketch.from_arrow(series, "long") == ThetaSketch.from_arrow(pa.array([1, 2]), "long")
