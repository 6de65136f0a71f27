"""``puffin policy check`` and ``puffin status --policy``."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from stats_jobs import Options, analyze

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A catalog and a root with tables, and a policy for them."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/wh"}
    catalog = load_catalog("prod", **properties)
    for namespace in ("shop", "tmp"):
        catalog.create_namespace(namespace)
        catalog.create_table(f"{namespace}.orders", ROWS.schema).append(ROWS)
    catalog.create_table("shop.carts", ROWS.schema, properties={"puffin-sidecar.columns": "id"}).append(ROWS)
    write_deltalake(str(tmp_path / "lake/db/events"), ROWS)
    write_deltalake(str(tmp_path / "lake/other"), ROWS)
    file = tmp_path / "policy.yaml"
    file.write_text(f"""\
catalogs:
  - name: prod
    namespaces: [shop]
    properties:
      type: sql
      uri: {properties["uri"]}
      warehouse: {properties["warehouse"]}
roots: [lake]
rules:
  - tables: [db.*]
    due: never
  - tables: ["shop.*"]
    index-columns: [id]
    no-values: [na*]
    due: {{rows-changed: 5%, at-most-every: 0s}}
limits: {{bytes-per-day: 10 GiB, hours: 22:00-06:00}}
""")
    return file


def test_check_names_columns_that_no_table_of_a_rule_has(puffin: Callable[..., Any], policy: Path) -> None:
    text = policy.read_text().replace(
        "index-columns: [id]", "index-columns: [id, nope, 'x*']\n    joint: [id+name, id+nope]"
    )
    policy.write_text(text.replace("[na*]", "[na*, nema]"))
    run = puffin("policy", "check", policy, "--json")
    names = [("index-columns", "nope"), ("index-columns", "x*"), ("joint", "id+nope"), ("no-values", "nema")]
    assert run.document["unmatched"] == [{"rule-line": 12, "key": key, "name": name} for key, name in names]
    lines = puffin("policy", "check", policy).stdout.decode().splitlines()
    assert lines[-1] == f"{policy}:12: no-values: nema matches no column of the tables of this rule"


def test_check_names_patterns_and_places_without_tables_and_tables_without_a_rule(
    puffin: Callable[..., Any], policy: Path
) -> None:
    """A typo in a rule that keeps values out of statistics would otherwise be silent."""
    (policy.parent / "empty").mkdir()
    text = policy.read_text().replace("roots: [lake]", "roots: [lake, empty]").replace("[db.*]", "[db.*, evnts]")
    policy.write_text(text)
    lines = puffin("policy", "check", policy).text.splitlines()
    assert lines[-3:] == [
        f"{policy}: {policy.parent}/empty: no table below it",
        f"{policy}:10: tables: evnts matches no table",
        f"1 table without a rule, which nothing is done for: {policy.parent}/lake/other",
    ]
    policy.write_text(text.replace("namespaces: [shop]", "namespaces: [sohp]"))
    run = puffin("policy", "check", policy)
    assert f"{policy}: prod: no table in the namespaces sohp\n" in run.text
    assert f"{policy}:12: tables: shop.* matches no table\n" in run.text
    policy.write_text(text.replace("empty]", "nowhere]"))
    assert "evnts" not in puffin("policy", "check", policy).text
    assert "evnts" not in puffin("policy", "check", policy, "--catalog", "prod").text


@pytest.mark.parametrize("command", [("policy", "check"), ("autopilot", "--dry-run", "--policy")])
def test_policy_is_narrowed_to_one_of_its_catalogs(
    puffin: Callable[..., Any], policy: Path, command: tuple[str, ...]
) -> None:
    text = policy.read_text()
    policy.write_text(text.replace("warehouse: file:", "warehouse: nowhere:").replace(".db\n", ".none\n"))
    uri = f"uri=sqlite:///{policy.parent}/catalog.db"
    run = puffin(*command, policy, "--json", "--catalog", "prod", "--catalog-property", uri)
    assert (run.code, sorted(each["table"] for each in run.document["tables"])) == (0, ["shop.carts", "shop.orders"])
    run = puffin(*command, policy, "--catalog", "none")
    assert (run.code, run.stderr.splitlines()[0].split(": ")[-1]) == (
        2,
        "expected a catalog of the policy (prod), found 'none'",
    )


def test_check_says_what_the_policy_means_for_each_table(puffin: Callable[..., Any], policy: Path) -> None:
    run = puffin("policy", "check", policy, "--json")
    assert (run.code, run.stderr, run.document["valid"]) == (0, "", True)
    assert run.document["limits"]["bytes-per-day"] == 10 * 2**30
    found = {each["table"]: each["policy"] for each in run.document["tables"]}
    assert list(found) == ["shop.carts", "shop.orders", str(policy.parent / "lake/db/events")]
    assert found["shop.carts"] == {
        "rule-line": 12,
        "columns": ["id"],
        "partitions": False,
        "joint": [],
        "no-values": ["name"],
        "index-columns": ["id"],
        "index-fpp": None,
        "keep-entries": None,
        "due": {
            "never": False,
            "rows-changed": 0.05,
            "snapshots": None,
            "age": None,
            "index-files": 1,
            "at-most-every": 0,
        },
        "owners": "win",
        "owner-set": ["puffin-sidecar.columns"],
        "unknown-properties": [],
        "owner-unmatched": [],
    }
    assert found["shop.orders"]["columns"] is None
    assert found[str(policy.parent / "lake/db/events")]["due"]["never"] is True


def test_people_read_a_line_for_each_table(puffin: Callable[..., Any], policy: Path) -> None:
    head, _, carts, orders, events, _ = puffin("policy", "check", policy).text.splitlines()
    assert head == f"{policy}: valid; 10.0 GiB a day, 4 tables at once, from 22:00 to 06:00 UTC"
    assert carts.split()[:6] == ["prod:", "shop.carts", "line", "12", "id", "id"]
    assert carts.endswith("without values: name; set by the owner: puffin-sidecar.columns")
    assert "5 % of the rows in changed files or the index lacks a file, at most every 0s" in orders
    assert events.split()[-1] == "never"
    assert puffin("policy", "check", policy, "--file-only").text == f"{head}\n"


def test_check_shows_what_the_owner_asks_in_vain(puffin: Callable[..., Any], policy: Path) -> None:
    DeltaTable(str(policy.parent / "lake/db/events")).alter.set_table_properties(
        {"puffin-sidecar.joint": "id+nmae", "puffin-sidecar.colums": "id"}, raise_if_not_exists=False
    )
    (events,) = (line for line in puffin("policy", "check", policy).text.splitlines() if "events" in line)
    assert events.endswith("; puffin-sidecar.joint: id+nmae matches no column; unknown property puffin-sidecar.colums")
    (events,) = (
        each for each in puffin("policy", "check", policy, "--json").document["tables"] if "events" in each["table"]
    )
    assert events["policy"]["owner-unmatched"] == [{"property": "puffin-sidecar.joint", "name": "id+nmae"}]


def test_mistakes_are_lines_and_the_first_is_the_failure(puffin: Callable[..., Any], policy: Path) -> None:
    policy.write_text("roots: [lake]\nlook-every: soon\n")
    run = puffin("policy", "check", policy)
    said = "look-every: expected a duration such as 90s, 5m, 2h or 7d, of 36500d at most, found 'soon'"
    assert (run.code, run.stdout, run.stderr) == (1, b"", f"puffin: {policy}:2: {said}\n")
    policy.write_text("roots: [lake]\nlook-every: soon\nnope: 1\n")
    run = puffin("policy", "check", policy)
    assert (run.code, len(run.stderr.splitlines())) == (1, 1)
    assert [line.partition(" ")[0] for line in run.text.splitlines()] == [f"{policy}:2:", f"{policy}:3:"]
    run = puffin("policy", "check", policy, "--json")
    assert (run.code, run.document["valid"]) == (1, False)
    assert run.document["mistakes"][0] == {"line": 2, "message": said}
    for command in ("status", "autopilot"):
        run = puffin(command, "--policy", policy)
        assert (run.code, run.stdout, run.stderr) == (1, b"", f"puffin: {policy}:2: {said} (and 1 more)\n")


def test_check_shows_what_cannot_be_read_and_fails(puffin: Callable[..., Any], policy: Path) -> None:
    DeltaTable(str(policy.parent / "lake/db/events")).alter.set_table_properties(
        {"puffin-sidecar.due": "often"}, raise_if_not_exists=False
    )
    policy.write_text(policy.read_text().replace("roots: [lake]", "roots: [lake, absent]"))
    run = puffin("policy", "check", policy, "--json")
    errors = [each["error"] for each in run.document["tables"] if each["error"]]
    assert errors[0].startswith("table property puffin-sidecar.due: expected never, or conditions")
    assert errors[1] == f"{policy.parent}/absent: no such directory"
    said = f"puffin: 2 of 4 tables failed: {policy.parent}/lake/db/events: {errors[0]}; {errors[1]}\n"
    assert (run.code, run.stderr) == (1, said)


@pytest.mark.parametrize("command", [("policy", "check"), ("status", "--policy")])
def test_line_about_a_table_of_a_catalog_names_it_once(
    puffin: Callable[..., Any], policy: Path, command: tuple[str, ...]
) -> None:
    with contextlib.closing(sqlite3.connect(policy.parent / "catalog.db")) as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = NULL WHERE table_name = 'orders'")
        database.commit()
    said = "puffin: 1 of 3 tables failed: prod: shop.orders: no such table in catalog 'prod'; "
    assert puffin(*command, policy).stderr.startswith(said)


def test_status_follows_the_columns_of_the_policy(puffin: Callable[..., Any], policy: Path) -> None:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{policy.parent}/catalog.db",
        "warehouse": f"file://{policy.parent}/wh",
    }
    analyze("shop.carts", Options(no_values=("name",)), catalog="prod", catalog_properties=catalog)
    run = puffin("status", "--policy", policy, "--json")
    assert (run.code, run.stderr) == (0, "")
    found = {each["table"].rpartition("/")[2]: each for each in run.document["tables"]}
    assert [(each["catalog"], each["state"], each["state-reason"]) for each in found.values()] == [
        ("prod", "due", "there are no statistics"),
        ("prod", "due", "column id has no index"),
        (None, "never", "the policy says never"),  # which comes last, whatever its health
    ]
    assert found["shop.carts"]["columns-missing"] == []
    assert found["shop.orders"]["columns-missing"] == ["id", "name"]
    lines = puffin("status", "--policy", policy).text.splitlines()
    assert lines[1].endswith("due: there are no statistics")
    (unindexed,) = [line for line in lines if line.endswith("due: column id has no index")]
    assert unindexed.split()[-9] == "1"  # file that the index lacks


def test_status_takes_a_policy_or_places(puffin: Callable[..., Any], policy: Path) -> None:
    run = puffin("status", "--policy", policy, "--root", "/")
    assert (run.code, run.stdout) == (2, b"")
    assert "--policy excludes" in run.stderr
