"""Plans of the REST face, in the words of the protocol and as clients read them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest.scan_planning import PlanCompleted

from puffin.server.settings import Limits
from tests.hand_made_table import CONTENT, HandMadeTable
from tests.server.iceberg_face import JAVA, PYTHON, Face, bounds_of, paths, problem_of, publish, table_of_files

FIELDS = [(1, "a", "long"), (2, "p", "string"), (3, "f", "double")]
EQ = {"type": "eq", "term": "a", "value": 13}


@pytest.fixture
def table(tmp_path: Path) -> HandMadeTable:
    """
    A table of version 3 with partitions by ``p`` and formerly by ``f``.

    A deletion vector applies to ``x.parquet``, a position delete file to ``null.parquet``, an equality delete file to
    both files of the partition ``x``.
    """
    table = HandMadeTable(tmp_path / "db" / "t", FIELDS, version=3, spec=[(2, "identity"), (3, "void")])
    rows = pa.table({"a": range(10), "p": ["x"] * 10, "f": [0.5] * 10})
    x, y, null = (table.write(f"{name}.parquet", rows) for name in ("x", "y", "null"))
    of_x: dict[str, Any] = {"partition": ("x", None)}
    removed = table.write("eq.parquet", pa.table({"a": [5]}), {"a": 1})
    equal = {"content": CONTENT["EQUALITY_DELETES"], "equality_ids": [1], "sequence_number": 2}
    table.snapshot(
        table.data(x, first_row_id=100, sort_order_id=1, split_offsets=[4, 90], **of_x, **counts(10, 0)),
        table.data(y, first_row_id=110, **of_x, **counts(10, 3)),
        table.data(null, partition=(None, None), **counts(10, 0)),
        table.vector("x.puffin", x, [3], **of_x),
        table.position_deletes("null-deletes.parquet", [(null, 2)], partition=(None, None)),
        table.data(removed, **of_x, **equal),
    )
    publish(table)
    return table


@pytest.fixture
def face(table: HandMadeTable, tmp_path: Path, face_of: Callable[..., Face]) -> Face:
    return face_of(tmp_path)


def counts(values: int, nulls: int) -> dict[str, dict[int, Any]]:
    return {"value_counts": {1: values}, "null_value_counts": {1: nulls}, **bounds_of(10)}


def tasks_by_file(document: Any) -> dict[str, Any]:
    return dict(zip(paths(document), document["file-scan-tasks"], strict=True))


def test_answer_is_complete_at_once(face: Face) -> None:
    document = face.plan("db", "t").json()
    assert set(document) == {"status", "delete-files", "file-scan-tasks"}
    assert document["status"] == "completed"
    assert sorted(paths(document)) == ["null.parquet", "x.parquet", "y.parquet"]


def test_data_file_is_as_the_manifest_has_it(table: HandMadeTable, face: Face) -> None:
    task = tasks_by_file(face.plan("db", "t").json())["x.parquet"]
    path = table.root / "x.parquet"
    assert task["data-file"] == {
        "content": "data",
        "file-path": str(path),
        "file-format": "parquet",
        "spec-id": 0,
        "partition": ["x", None],
        "file-size-in-bytes": path.stat().st_size,
        "record-count": 10,
        "split-offsets": [4, 90],
        "sort-order-id": 1,
        "first-row-id": 100,
    }


def test_delete_files_stand_once_and_tasks_refer_to_them(table: HandMadeTable, face: Face) -> None:
    document = face.plan("db", "t").json()
    tasks = tasks_by_file(document)
    found = {
        name: sorted(
            document["delete-files"][place]["file-path"].rpartition("/")[2]
            for place in task.get("delete-file-references", [])
        )
        for name, task in tasks.items()
    }
    assert found == {
        "x.parquet": ["eq.parquet", "x.puffin"],
        "y.parquet": ["eq.parquet"],
        "null.parquet": ["null-deletes.parquet"],
    }
    by_name = {each["file-path"].rpartition("/")[2]: each for each in document["delete-files"]}
    assert len(by_name) == len(document["delete-files"]) == 3
    assert by_name["eq.parquet"]["content"] == "equality-deletes"
    assert by_name["eq.parquet"]["equality-ids"] == [1]
    assert by_name["null-deletes.parquet"]["content"] == "position-deletes"


def test_deletion_vector_has_its_place_and_its_data_file(table: HandMadeTable, face: Face) -> None:
    (vector,) = (each for each in face.plan("db", "t").json()["delete-files"] if each["file-format"] == "puffin")
    stored = (table.root / "x.puffin").read_bytes()
    assert vector["content"] == "position-deletes"
    assert vector["referenced-data-file"] == str(table.root / "x.parquet")
    assert vector["record-count"] == 1
    blob = stored[vector["content-offset"] :][: vector["content-size-in-bytes"]]
    assert blob[4:8] == bytes.fromhex("d1d33964")  # the magic of a deletion vector, after its length


def test_delete_files_of_files_that_are_left_out_are_left_out(face: Face) -> None:
    document = face.plan("db", "t", filter={"type": "is-null", "term": "p"}).json()
    assert paths(document) == ["null.parquet"]
    assert [each["content"] for each in document["delete-files"]] == ["position-deletes"]
    nothing = face.plan("db", "t", filter=False).json()
    assert (nothing["file-scan-tasks"], nothing["delete-files"]) == ([], [])


def test_pyiceberg_takes_the_answer_where_partitions_have_null(face: Face) -> None:
    """It refuses null in a partition tuple."""
    taken = PlanCompleted.model_validate(face.plan("db", "t", headers=PYTHON, filter=EQ).json())
    assert {repr(task.data_file.partition) for task in taken.file_scan_tasks} == {"['x', '']", "[0, '']"}
    assert {str(task.residual_filter) for task in taken.file_scan_tasks} == {
        "EqualTo(term=Reference(name='a'), literal=LongLiteral(13))"
    }
    java = face.plan("db", "t", headers=JAVA, filter=EQ).json()
    assert {json.dumps(task["data-file"]["partition"]) for task in java["file-scan-tasks"]} == {
        '["x", null]',
        "[null, null]",
    }


def test_pyiceberg_gets_partitions_without_null(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table = HandMadeTable(tmp_path / "db" / "whole", FIELDS, spec=[(2, "identity"), (1, "bucket[4]")])
    table.snapshot(table.data(table.root / "f", partition=("x", 3)))
    publish(table)
    document = face_of(tmp_path).plan("db", "whole", headers=PYTHON).json()
    assert PlanCompleted.model_validate(document).file_scan_tasks[0].data_file.partition == ["x", 3]


@pytest.mark.parametrize(("number", "word"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_partition_that_json_has_no_word_for_is_text(
    tmp_path: Path, face_of: Callable[..., Face], number: float, word: str
) -> None:
    table = HandMadeTable(tmp_path / "db" / "odd", FIELDS, spec=[(3, "identity")])
    table.snapshot(table.data(table.root / "f", partition=(number,)))
    publish(table)
    face = face_of(tmp_path)
    text = face.plan("db", "odd", headers=JAVA).text
    (task,) = json.loads(text, parse_constant=pytest.fail)["file-scan-tasks"]
    assert task["data-file"]["partition"] == [word]
    (task,) = face.plan("db", "odd", headers=PYTHON).json()["file-scan-tasks"]
    assert task["data-file"]["partition"] == [""]


@pytest.mark.parametrize(
    "filter_", [True, EQ, {"type": "and", "left": True, "right": EQ}, {"type": "not", "child": EQ}]
)
def test_residual_repeats_the_filter(face: Face, filter_: Any) -> None:
    """Some clients drop rows by it alone, and others count rows where it is true."""
    tasks = face.plan("db", "t", filter=filter_).json()["file-scan-tasks"]
    assert tasks
    assert [task["residual-filter"] for task in tasks] == [filter_] * len(tasks)


def test_statistics_are_sent_only_when_asked_for(face: Face) -> None:
    keys = {"value-counts", "null-value-counts", "nan-value-counts", "lower-bounds", "upper-bounds"}
    for body in ({}, {"stats_fields": []}, {"stats_fields": None}):
        tasks = tasks_by_file(face.plan("db", "t", **body).json())
        assert not keys & set(tasks["x.parquet"]["data-file"])
    file = tasks_by_file(face.plan("db", "t", stats_fields=["a", "f"]).json())["y.parquet"]["data-file"]
    assert {key: file[key] for key in keys & set(file)} == {
        "value-counts": {"keys": [1], "values": [10]},
        "null-value-counts": {"keys": [1], "values": [3]},
        "lower-bounds": {"keys": [1], "values": ["0A00000000000000"]},
        "upper-bounds": {"keys": [1], "values": ["1300000000000000"]},
    }


def test_statistics_of_a_pruned_plan_are_those_of_its_files(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table_of_files(tmp_path / "db" / "t", *"abcdef")
    document = face_of(tmp_path).plan(
        "db", "t", filter={"type": "in", "term": "a", "values": [31, 55]}, stats_fields=["a"]
    )
    found = {name: task["data-file"]["lower-bounds"]["values"] for name, task in tasks_by_file(document.json()).items()}
    assert found == {"d": ["1E00000000000000"], "f": ["3200000000000000"]}


def test_bounds_partitions_and_snapshots_decide_which_files_are_read(
    tmp_path: Path, face_of: Callable[..., Face]
) -> None:
    table = table_of_files(tmp_path / "db" / "t", *"abc")
    table.snapshot(table.data(table.root / "d", **bounds_of(10)))
    publish(table)
    face = face_of(tmp_path)
    assert paths(face.plan("db", "t", filter=EQ).json()) == ["d"]
    assert paths(face.plan("db", "t", filter=EQ, snapshot_id=1).json()) == ["b"]
    assert paths(face.plan("db", "t", snapshot_id=1, use_snapshot_schema=True).json()) == ["a", "b", "c"]


def test_snapshot_is_planned_under_its_own_names_and_the_current_ones(
    tmp_path: Path, face_of: Callable[..., Face]
) -> None:
    """Spark sends the current names, and says that they are those of the snapshot."""
    table = table_of_files(tmp_path / "db" / "t", *"abc")
    table.document["snapshots"][0]["schema-id"] = 0
    table.evolve([(1, "renamed", "long")])
    publish(table)
    face = face_of(tmp_path)
    for name in ("a", "renamed"):
        for body in ({"snapshot_id": 1, "use_snapshot_schema": True}, {"snapshot_id": 1}):
            assert paths(face.plan("db", "t", filter={**EQ, "term": name}, **body).json()) == ["b"]


def test_names_in_another_case_are_found_if_the_client_asks_so(face: Face) -> None:
    other = {**EQ, "term": "A"}
    assert len(face.plan("db", "t", filter=other, case_sensitive=False).json()["file-scan-tasks"]) == 3
    assert problem_of(face.plan("db", "t", filter=other)) == (400, "BadRequestException")


def test_list_of_20_000_values_is_answered_exactly(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    """By partitions, as clients leave that to the server, and by bounds."""
    table = HandMadeTable(tmp_path / "db" / "t", FIELDS, spec=[(2, "identity")])
    table.snapshot(
        *(
            table.data(table.root / f"{p}{i}", partition=(p,), **bounds_of(10 * i))
            for p in ("x", "y0", "y1")
            for i in range(5)
        )
    )
    publish(table)
    face = face_of(tmp_path, limits=Limits(request_seconds=60))
    many = {"type": "in", "term": "p", "values": [f"y{i}" for i in range(1, 20_001)]}
    few = {"type": "in", "term": "a", "values": [*range(-1_000, 1), *range(30, 40)]}
    asked = {"type": "and", "left": many, "right": few}
    assert sorted(paths(face.plan("db", "t", filter=asked).json())) == ["y10", "y13"]


def test_empty_table_has_an_empty_plan(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    publish(HandMadeTable(tmp_path / "db" / "none", FIELDS))
    document = face_of(tmp_path).plan("db", "none", filter=EQ, stats_fields=["a"]).json()
    assert document == {"status": "completed", "delete-files": [], "file-scan-tasks": []}
