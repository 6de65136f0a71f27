"""Values fall into the buckets that Iceberg's own transform gives them."""

from __future__ import annotations

import decimal
import random
import uuid
from typing import Any

import pytest

from puffin.values.bucket_hash import bucket
from tests.planning.transformed import transformed


@pytest.mark.parametrize("type_", ["long", "date", "timestamp", "string", "binary", "uuid", "decimal(38, 2)"])
def test_bucket_is_that_of_pyiceberg(type_: str) -> None:
    source = random.Random(type_)
    for _ in range(200):
        count, number = source.randint(1, 1000), source.randint(-(10**6), 10 ** source.randint(1, 18))
        value: Any = number
        ours: int | bytes = number
        if type_ == "date":
            value = ours = number % 10**6
        elif type_.startswith("decimal"):
            value = decimal.Decimal(number).scaleb(-2)
        elif type_ == "string":
            value = "é" * (number % 7) + str(number)
            ours = value.encode()
        elif type_ == "binary":
            value = ours = source.randbytes(source.randint(0, 20))
        elif type_ == "uuid":
            value = ours = uuid.UUID(int=source.getrandbits(128)).bytes
        assert bucket(type_, ours, count) == transformed(f"bucket[{count}]", type_, value)
