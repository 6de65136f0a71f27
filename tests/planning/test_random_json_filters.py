"""
Plans of filters in expression JSON, as engines send them, judged row by row over random tables.

No file with a matching row is left out. A filter that selects whole partitions leaves no other file, since Spark does
not look at such a filter again. A filter that can be written as text has the same plan as its text.
``PUFFIN_RANDOM_FILTERS=100000`` tries more filters than the default, ``PUFFIN_RANDOM_FILTERS_SEED`` other tables.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from puffin.load import load_table
from puffin.planning.plan import NO_INDEX, Planner
from puffin.rest_catalog.scan_request import ScanRequest
from puffin.tables.base import SnapshotSelector
from tests.planning.filter_json import by_java, by_pyiceberg, by_pyiceberg_of_text, by_spec, with_not_null
from tests.planning.random_filters import (
    Both,
    Filter,
    Leaf,
    Not,
    RandomFilters,
    Reading,
    Test,
    leaf_tests,
    matches,
)
from tests.planning.random_tables import SECOND_TEXT, KnownFile, RandomTable
from tests.planning.test_random_filters import FILTERS, FILTERS_OF_A_TABLE, FIRST_SEED, grown, planned
from tests.planning.whole_partitions import conjuncts, selects_partitions


def requests(filter_: Filter, source: random.Random) -> Iterator[dict[str, Any]]:
    """The requests of clients for a filter, and in the form that the spec prefers."""
    tests = list(leaf_tests(filter_))
    if all(test.transform is None and not test.type.endswith("_ns") for test in tests):
        yield {"filter": by_pyiceberg(filter_)}
    if filter_.is_writable:
        yield {"filter": by_pyiceberg_of_text(filter_)}
    any_case = source.random() < 0.5
    yield {"filter": by_java(filter_, source, any_case=any_case), "case-sensitive": not any_case}
    yield {"filter": by_spec(filter_, source)}


def paths(files: Sequence[KnownFile], filter_: Filter) -> set[str]:
    return {str(known.entry["file_path"]) for known in files if matches(filter_, known.rows)}


def is_pruned_less_in_json(test: Test) -> bool:
    """A name with another meaning before, nanoseconds, whose partitions Spark cannot read, a number that is rounded."""
    return test.leaf.field_id == SECOND_TEXT or test.type == "float" or test.type.endswith("_ns")


def excluded_by_partition(made: RandomTable, filter_: Filter) -> set[str]:
    """The files whose partition decides a part of the filter, and in which not all rows pass it."""
    specs, types = made.table.document["partition-specs"], {leaf.field_id: leaf.type for leaf in made.leaves}
    parts = {spec["spec-id"]: [p for p in conjuncts(filter_) if selects_partitions(p, spec, types)] for spec in specs}
    return {
        str(known.entry["file_path"])
        for known in made.files
        for part in parts[known.entry["spec_id"]]
        if any(part.holds(row, Reading.ICEBERG) is False for row in known.rows)
    }


def test_plan_of_json_leaves_out_no_match_and_is_exact_by_partition(tmp_path: Path) -> None:
    files = kept = excluded = 0
    for seed in range(FIRST_SEED, FIRST_SEED + FILTERS // FILTERS_OF_A_TABLE):
        made = grown(tmp_path / str(seed), seed)
        planner, filters = Planner(load_table(str(made.table.root)).open()), made.filters(in_json=True)
        for _ in range(FILTERS_OF_A_TABLE):
            filter_ = filters.draw(made.source.randint(0, 3))
            if made.source.random() < 0.5:
                filter_ = with_not_null(filter_)
            index = None if made.source.random() < 0.7 else NO_INDEX
            plans = [
                planned(planner.plan(ScanRequest.of(body).filter, index=index))
                for body in made.source.sample(list(requests(filter_, made.source)), 2)
            ]
            must = paths(made.files, filter_)
            must_not = excluded_by_partition(made, filter_)
            is_reused = any(test.leaf.field_id == SECOND_TEXT for test in leaf_tests(filter_))
            for found in plans:
                assert must <= found, f"seed {seed}: {filter_}"
                assert not found & must_not, f"seed {seed}: {filter_}"
                assert is_reused or found == plans[-1], f"seed {seed}: {filter_}"  # an id has one meaning
            if filter_.is_writable and not any(map(is_pruned_less_in_json, leaf_tests(filter_))):
                of_text = planned(planner.plan(str(filter_), index=index))
                assert of_text == plans[-1], f"seed {seed}: {filter_}"
            files, kept = files + len(made.files), kept + len(plans[-1])
            excluded += len(must_not)
    assert kept < 0.8 * files
    assert excluded > files // 50


def test_plan_of_an_old_snapshot_takes_names_of_both_schemas(tmp_path: Path) -> None:
    """Clients pin a snapshot and do not say which schema their names are of; some mean two columns."""
    files = kept = 0
    for seed in range(FIRST_SEED, FIRST_SEED + max(2, FILTERS // 600)):
        made = grown(tmp_path / str(seed), seed)
        for snapshot_id, known in made.snapshots.items():
            opened = load_table(str(made.table.root)).open(SnapshotSelector(snapshot_id=snapshot_id))
            planner, leaves = Planner(opened), [*made.columns_of[snapshot_id], *made.leaves]
            present = {leaf: [row[leaf.field_id] for each in known for row in each.rows] for leaf in leaves}
            draw = functools.partial(present_value, made.source, present)
            filters = RandomFilters(made.source, leaves, draw, made.made_up, made.transform_of)
            meanings = {leaf.name: [each for each in leaves if each.name == leaf.name] for leaf in leaves}
            for _ in range(FILTERS_OF_A_TABLE // 4):
                filter_ = filters.draw(made.source.randint(0, 2))
                must = set().union(*(paths(known, each) for each in read_as(filter_, meanings)))
                for body in list(requests(filter_, made.source))[:-1]:  # the last has ids
                    found = planned(planner.plan(ScanRequest.of(body).filter))
                    assert must <= found, f"seed {seed}, snapshot {snapshot_id}: {filter_}"
                    files, kept = files + len(known), kept + len(found)
    assert kept < 0.8 * files


def present_value(source: random.Random, present: Mapping[Leaf, Sequence[Any]], leaf: Leaf) -> Any:
    return source.choice(present[leaf])


def read_as(filter_: Filter, meanings: dict[str, list[Leaf]]) -> Iterator[Filter]:
    """The filter with every meaning of its names."""
    for place in (0, -1):
        yield with_leaves(filter_, {name: leaves[place] for name, leaves in meanings.items()})


def with_leaves(filter_: Filter, leaves: dict[str, Leaf]) -> Filter:
    if isinstance(filter_, Not):
        return Not(with_leaves(filter_.part, leaves))
    if isinstance(filter_, Both):
        return Both(with_leaves(filter_.left, leaves), with_leaves(filter_.right, leaves), filter_.is_and)
    return dataclasses.replace(filter_, leaf=leaves[filter_.leaf.name])
