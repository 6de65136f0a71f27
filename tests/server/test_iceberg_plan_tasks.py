"""Plans that do not fit one answer, and plans that are not ready at once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.catalog.rest.scan_planning import PlanCompleted, ScanTasks

from puffin.rest_catalog.errors import PlanNotFound
from puffin.rest_catalog.names import TableName
from puffin.server.iceberg.plans import Owner, Plans
from puffin.server.problems import Problem
from puffin.server.settings import Limits
from tests.hand_made_table import HandMadeTable
from tests.server.iceberg_face import JAVA, PYTHON, Face, paths, problem_of, publish, table_of_files, table_path

NO_PLAN = (404, "NoSuchPlanIdException")
NO_TASK = (404, "NoSuchPlanTaskException")
NAMES = "abcdefg"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puffin.rest_catalog.planned_scan.FILES_OF_PART", 3)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name in ("t", "other"):
        table_of_files(tmp_path / "db" / name, *NAMES)
    return tmp_path


@pytest.fixture
def face(tables: Path, face_of: Callable[..., Face]) -> Face:
    return face_of(tables)


@pytest.fixture
def polled_face(tables: Path, face_of: Callable[..., Face], monkeypatch: pytest.MonkeyPatch) -> Face:
    """It soon tells clients to poll, and even a busy machine does not reach its time limit."""
    monkeypatch.setattr("puffin.server.iceberg.routes._PATIENCE", 0.002)
    return face_of(tables, limits=Limits(request_seconds=100))


@pytest.fixture
def hasty_face(tables: Path, face_of: Callable[..., Face]) -> Face:
    """It soon answers that the time is over."""
    return face_of(tables, limits=Limits(request_seconds=0.5))


@pytest.fixture
def slow(tables: Path, hanging: Any) -> Any:
    """The table's manifests hang from now on."""
    hanging(tables / "db" / "t" / "manifest")
    return hanging


def as_caller(token: str) -> dict[str, str]:
    return {**JAVA, "Authorization": f"Bearer {token}"}


def plan_path(plan_id: str, table: str = "t") -> str:
    return f"{table_path('db', table)}/plan/{plan_id}"


@pytest.mark.usefixtures("small_parts")
def test_large_plan_comes_in_parts(face: Face) -> None:
    planned = PlanCompleted.model_validate(face.plan("db", "t").json())
    assert planned.file_scan_tasks == []
    assert len({*planned.plan_tasks}) == 3
    parts = [face.tasks("db", "t", plan_task=each).json() for each in planned.plan_tasks]
    assert [len(paths(part)) for part in parts] == [3, 3, 1]
    assert sorted(path for part in parts for path in paths(part)) == sorted(NAMES)
    assert all(ScanTasks.model_validate(part).plan_tasks == [] for part in parts)


@pytest.mark.usefixtures("small_parts")
def test_each_part_has_its_own_delete_files(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table = HandMadeTable(tmp_path / "db" / "t", [(1, "a", "long")], version=3)
    files = [table.root / name for name in NAMES]
    vectors = [table.vector(f"{file.name}.puffin", file, [1]) for file in files]
    table.snapshot(*map(table.data, files), *vectors)
    publish(table)
    face = face_of(tmp_path)
    plan_tasks = face.plan("db", "t").json()["plan-tasks"]
    parts = [face.tasks("db", "t", plan_task=plan_task).json() for plan_task in plan_tasks]
    assert sum(len(part["file-scan-tasks"]) for part in parts) == len(NAMES)
    for part in parts:
        assert len(part["delete-files"]) == len(part["file-scan-tasks"])
        for task in part["file-scan-tasks"]:
            (reference,) = task["delete-file-references"]
            assert part["delete-files"][reference]["referenced-data-file"] == task["data-file"]["file-path"]


@pytest.mark.usefixtures("small_parts")
def test_parts_stay_those_of_the_plan_while_the_table_changes(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    table = table_of_files(tmp_path / "db" / "t", *NAMES)
    face = face_of(tmp_path, ttl_seconds=0)
    plan_tasks = face.plan("db", "t").json()["plan-tasks"]
    table.snapshot()
    publish(table)
    assert face.plan("db", "t").json()["file-scan-tasks"] == []
    assert sum(len(paths(face.tasks("db", "t", plan_task=each).json())) for each in plan_tasks) == len(NAMES)


@pytest.mark.usefixtures("small_parts")
def test_plan_task_is_good_for_its_caller_and_table_alone(face: Face) -> None:
    mine, another = as_caller("a"), as_caller("b")
    document = face.plan("db", "t", headers=mine).json()
    plan_task, plan_id = document["plan-tasks"][0], document["plan-id"]
    assert problem_of(face.tasks("db", "t", plan_task=plan_task, headers=another)) == NO_TASK
    assert problem_of(face.tasks("db", "t", plan_task=plan_task)) == NO_TASK
    assert problem_of(face.tasks("db", "other", plan_task=plan_task, headers=mine)) == NO_TASK
    for method in ("GET", "DELETE"):
        assert problem_of(face.send(method, plan_path(plan_id), headers=another)) == NO_PLAN
        assert problem_of(face.send(method, plan_path(plan_id, "other"), headers=mine)) == NO_PLAN
    assert face.tasks("db", "t", plan_task=plan_task, headers=mine).status_code == 200


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(
    "form", ["", "x", "{}.3", "{}.-1", "{}.", "{}", "{}.01x", "{}.99999999999999999999", "{}.\u0663"]
)
def test_plan_task_that_was_never_given_is_none(face: Face, form: str) -> None:
    plan_id = face.plan("db", "t").json()["plan-id"]
    assert problem_of(face.tasks("db", "t", plan_task=form.format(plan_id))) == NO_TASK


@pytest.mark.usefixtures("small_parts")
def test_plan_task_of_another_server_says_so(tmp_path: Path, face_of: Callable[..., Face]) -> None:
    """As a client sends it that a load balancer sends here and there."""
    table_of_files(tmp_path / "db" / "t", *NAMES)
    one, other = face_of(tmp_path), face_of(tmp_path)
    answer = other.tasks("db", "t", plan_task=one.plan("db", "t").json()["plan-tasks"][0])
    assert problem_of(answer) == NO_TASK
    assert "only the server that made a plan has it" in answer.json()["error"]["message"]


@pytest.mark.parametrize("plan_task", [None, 1, ["x"], {"a": 1}])
def test_plan_task_of_another_type_is_refused(face: Face, plan_task: Any) -> None:
    assert problem_of(face.tasks("db", "t", plan_task=plan_task)) == (400, "BadRequestException")


@pytest.mark.usefixtures("small_parts")
def test_cancelled_plan_has_no_parts_any_more(face: Face) -> None:
    document = face.plan("db", "t").json()
    assert face.send("DELETE", plan_path(document["plan-id"])).status_code == 204
    assert problem_of(face.tasks("db", "t", plan_task=document["plan-tasks"][0])) == NO_TASK
    assert problem_of(face.send("DELETE", plan_path(document["plan-id"]))) == NO_PLAN


def test_java_polls_for_a_plan_that_takes_long(polled_face: Face, slow: Any) -> None:
    submitted = polled_face.plan("db", "t", headers=JAVA).json()
    assert set(submitted) == {"status", "plan-id"}
    assert polled_face.get(plan_path(submitted["plan-id"]), headers=JAVA).json() == submitted
    slow.end()
    document = completed(polled_face, submitted["plan-id"])
    assert (document["status"], document["plan-id"]) == ("completed", submitted["plan-id"])
    assert sorted(paths(document)) == sorted(NAMES)


@pytest.mark.usefixtures("small_parts")
def test_large_plan_that_takes_long_comes_in_parts(polled_face: Face, slow: Any) -> None:
    plan_id = polled_face.plan("db", "t", headers=JAVA).json()["plan-id"]
    slow.end()
    plan_tasks = completed(polled_face, plan_id)["plan-tasks"]
    assert sum(len(paths(polled_face.tasks("db", "t", plan_task=each).json())) for each in plan_tasks) == len(NAMES)


@pytest.mark.usefixtures("slow")
def test_python_does_not_poll_and_gets_the_time_limit(hasty_face: Face) -> None:
    for headers in (PYTHON, {}):
        assert problem_of(hasty_face.plan("db", "t", headers=headers)) == (504, "ServiceUnavailableException")


def test_failed_plan_tells_why(polled_face: Face, tmp_path: Path, slow: Any) -> None:
    plan_id = polled_face.plan("db", "t", headers=JAVA).json()["plan-id"]
    for manifest in (tmp_path / "db" / "t").glob("manifest*"):
        manifest.write_bytes(b"")
    slow.end()
    document = completed(polled_face, plan_id)
    assert document["status"] == "failed"
    assert document["error"]["code"] == 422
    assert "manifest" in document["error"]["message"]


def test_submitted_plan_is_known_to_its_caller_alone(polled_face: Face, slow: Any) -> None:
    plan_id = polled_face.plan("db", "t", headers=as_caller("a")).json()["plan-id"]
    for method in ("GET", "DELETE"):
        assert problem_of(polled_face.send(method, plan_path(plan_id), headers=as_caller("b"))) == NO_PLAN
    slow.end()
    assert completed(polled_face, plan_id, as_caller("a"))["status"] == "completed"


@pytest.mark.usefixtures("slow")
def test_cancelled_plans_make_room_for_others(polled_face: Face) -> None:
    """Those that wait for a slow table; a thread that hangs cannot be stopped."""
    for _ in range(2):
        ids: list[str] = []
        until = time.monotonic() + 30
        while len(ids) < 60 and time.monotonic() < until:  # a cancelled plan leaves a moment after the answer
            answers = polled_face.client.together(*(sending(polled_face) for _ in range(60 - len(ids))))
            ids += [answer.json()["plan-id"] for answer in answers if answer.status_code == 200]
        assert len(ids) == 60
        assert {polled_face.send("DELETE", plan_path(id_), headers=JAVA).status_code for id_ in ids} == {204}
        assert problem_of(polled_face.get(plan_path(ids[0]), headers=JAVA)) == NO_PLAN


@pytest.mark.usefixtures("slow")
def test_abandoned_plans_make_room_for_others(hasty_face: Face) -> None:
    for _ in range(2):
        answers = hasty_face.client.together(*(sending(hasty_face, PYTHON) for _ in range(60)))
        assert {answer.status_code for answer in answers} == {504}


@pytest.mark.usefixtures("slow")
def test_too_many_plans_under_way_are_429(polled_face: Face) -> None:
    answers = polled_face.client.together(*(sending(polled_face) for _ in range(70)))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) - len(refused) == 64
    assert problem_of(refused[0]) == (429, "TooManyRequestsException")
    assert refused[0].headers["retry-after"] == "1"


def sending(face: Face, headers: dict[str, str] = JAVA) -> Any:
    return face.sending("POST", f"{table_path('db', 't')}/plan", json={}, headers=headers)


def completed(face: Face, plan_id: str, headers: dict[str, str] = JAVA) -> Any:
    """The plan when it is no longer being made."""
    while (document := face.get(plan_path(plan_id), headers=headers).json())["status"] == "submitted":
        pass
    return document


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def on_a_loop(story: Callable[[Callable[[], Any]], None]) -> None:
    """Run a story that makes futures."""

    async def told() -> None:
        story(asyncio.get_running_loop().create_future)

    asyncio.run(told())


OWNER = Owner(b"caller", TableName(("db",), "t"))


def test_plans_are_forgotten_after_ten_minutes() -> None:
    def story(future: Callable[[], Any]) -> None:
        clock = Clock()
        plans = Plans(clock)
        id_ = plans.keep(OWNER, future())
        clock.now = 599
        plans.find(OWNER, id_)
        clock.now = 601
        with pytest.raises(PlanNotFound):
            plans.find(OWNER, id_)

    on_a_loop(story)


def test_plans_of_many_snapshots_make_room_for_newer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a snapshot count once, and those of the newest plan not at all."""
    monkeypatch.setattr("puffin.server.iceberg.plans._MOST_FILES", 15)

    def story(future: Callable[[], Any]) -> None:
        plans = Plans()

        def keep(files: list[int]) -> str:
            making = future()
            making.set_result(SimpleNamespace(size=0, plan=SimpleNamespace(all_files=files)))
            return plans.keep(OWNER, making)

        def known(*ids: str) -> list[bool]:
            def is_known(id_: str) -> bool:
                with contextlib.suppress(PlanNotFound):
                    plans.find(OWNER, id_)
                    return True
                return False

            return [is_known(id_) for id_ in ids]

        first, second, third, large = ([0] * count for count in (10, 10, 10, 100))
        running = plans.keep(OWNER, future())
        of_first = [keep(first) for _ in range(9)]
        ids = [*of_first, keep(second)]
        assert all(known(running, *ids))
        ids.append(keep(third))
        assert known(running, *ids) == [True] + [False] * 9 + [True, True]
        ids += [keep(large), keep(large)]
        assert known(running, *ids) == [True] + [False] * 10 + [True, True, True]

    on_a_loop(story)


def test_plan_that_took_long_takes_the_room_of_those_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("puffin.server.iceberg.plans._MOST_FILES", 15)

    def story(future: Callable[[], Any]) -> None:
        plans, slow, fast = Plans(), future(), future()
        id_ = plans.keep(OWNER, slow)
        fast.set_result(SimpleNamespace(size=0, plan=SimpleNamespace(all_files=[0] * 20)))
        plans.keep(OWNER, fast)
        slow.set_result(SimpleNamespace(size=0, plan=SimpleNamespace(all_files=[0] * 20)))
        for _ in range(2):
            assert plans.find(OWNER, id_) is slow

    on_a_loop(story)


def test_ids_are_random_and_long() -> None:
    def story(future: Callable[[], Any]) -> None:
        plans = Plans()
        ids = {plans.keep(OWNER, future()) for _ in range(50)}
        assert len(ids) == 50
        assert min(map(len, ids)) >= 32

    on_a_loop(story)


def test_forgotten_plan_that_is_being_made_is_cancelled() -> None:
    def story(future: Callable[[], Any]) -> None:
        clock, making, refused = Clock(), [future() for _ in range(64)], future()
        plans = Plans(clock)
        dropped, *_ = [plans.keep(OWNER, each) for each in making]
        with pytest.raises(Problem):
            plans.keep(OWNER, refused)
        assert refused.cancelled()
        plans.drop(OWNER, dropped)
        assert [each.cancelled() for each in making] == [True] + [False] * 63
        clock.now = 601
        plans.keep(OWNER, future())
        assert all(each.cancelled() for each in making)

    on_a_loop(story)
