"""
Random predicates return the same rows from both catalogs, whatever kind of table it is.

``PUFFIN_FACE_PREDICATES=40``, as in ``make test-engines``, asks that many of every kind of table; without it there are
a few, and of some kinds alone. ``PUFFIN_FACE_SEED`` asks others.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Any

import pytest

from tests.interop.face.conftest import FAST, OWN, PLANNED_BY_CLIENT, PLANNED_BY_SERVER
from tests.interop.face.filter_sql import RandomPredicates, in_sql
from tests.interop.face.kinds_of_tables import BY_CLIENT, BY_SERVER
from tests.planning.random_filters import FLOATS, leaf_tests

FEW = 5
PREDICATES = int(os.environ.get("PUFFIN_FACE_PREDICATES", FEW))
SEED = os.environ.get("PUFFIN_FACE_SEED", "0")
AT_ONCE = 5
"""Predicates of one query: one job for all of them."""
ALL_KINDS = BY_SERVER | BY_CLIENT
KINDS = ALL_KINDS if PREDICATES > FEW else {kind: ALL_KINDS[kind] for kind in ("equality_deletes", "specs", "schemas")}


@pytest.mark.parametrize("kind", KINDS)
def test_random_predicates_return_the_rows_of_the_own_catalog(face: Any, make_table: Any, kind: str) -> None:
    name = make_table(f"face.{kind}", *KINDS[kind])
    assert face.planner(name) == (PLANNED_BY_SERVER if kind in BY_SERVER else PLANNED_BY_CLIENT)
    rows = face.rows("SELECT xxhash64(*) AS hash, * FROM {t} ORDER BY row, hash", name)
    filters = RandomPredicates(random.Random(f"{kind} {SEED}"), face.table(name, OWN), rows)
    for _ in range(0, PREDICATES, AT_ONCE):
        asked = [filters.draw(2) for _ in range(AT_ONCE)]
        scans = [f"SELECT {i} AS i, row, xxhash64(*) FROM {{t}} WHERE {in_sql(each)}" for i, each in enumerate(asked)]
        own, fast = (
            Counter(map(tuple, face.sql(" UNION ALL ".join(scans), name, catalog).collect())) for catalog in (OWN, FAST)
        )
        # The client's own planning forgets that NaN is the largest number, and misses rows for that.
        missed = (
            Counter(
                (i, row.row, row.hash)
                for i, each in enumerate(asked)
                if any(test.leaf.type in FLOATS for test in leaf_tests(each))
                for row in filters.matching(each)
            )
            - own
        )
        wrong = [in_sql(asked[i]) for i, *_ in (own - fast) | (fast - own - missed)]
        assert not wrong, wrong
