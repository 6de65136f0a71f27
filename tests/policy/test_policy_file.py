"""A policy file: what it means, and one line for each kind of mistake."""

from __future__ import annotations

import datetime
import sys
import zoneinfo
from pathlib import Path

import pytest

from puffin.errors import FileNotFound, PolicyError
from puffin.policy.document import parse_policy, read_policy
from puffin.policy.model import CatalogPlace, Due, Policy, SparkSize

FULL = """\
version: 1
catalogs:
  - warehouse
  - name: prod
    properties:
      type: sql
      uri: sqlite:///catalog.db
    namespaces: [shop, "sales.*"]
roots: [s3://lake/events, lake]
rules:
  - tables: ["*.tmp_*"]
    due: never
  - tables: [shop.*]
    in: [prod]
    columns: [id, "customer_*"]
    partitions: true
    joint: [country+city]
    index-columns: [id]
    index-fpp: 0.001
    keep-entries: 3
    due:
      rows-changed: 2.5%
      snapshots: 20
      age: 1d
      at-most-every: 1h
    owners: narrow
  - tables: ["*"]
limits:
  bytes-per-day: 500 GiB
  tables-at-once: 2
  hours: 22:00-06:00
  time-zone: Europe/Berlin
  driver-bytes: 64 MiB
spark:
  idle: 2m
  sizes:
    - from: 100 GiB
      master: yarn
      conf: {spark.executor.instances: 20}
    - master: local[2]
    - {from: 1 TiB, remote: "sc://spark:15002"}
clean: {every: 7d, older-than: 14d}
retry: {first: 1m, most: 6h}
look-every: 30s
state: state
events:
  file: /var/log/events.jsonl
  webhook: https://hooks.example/puffin
questions: http://127.0.0.1:8680/v1/plans
"""


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(PolicyError) as raised:
        parse_policy(text, "p.yaml")
    first = f"p.yaml:{raised.value.mistakes[0][0]}: {raised.value.mistakes[0][1]}"
    assert str(raised.value).startswith(first)
    assert "\n" not in str(raised.value)
    return [f"{line}: {message}" for line, message in raised.value.mistakes]


def test_every_key_reaches_the_policy() -> None:
    policy = parse_policy(FULL, "conf/p.yaml")
    assert policy.catalogs == (
        CatalogPlace("warehouse"),
        CatalogPlace("prod", {"type": "sql", "uri": "sqlite:///catalog.db"}, ("shop", "sales.*")),
    )
    assert policy.roots == ("s3://lake/events", "conf/lake")
    never, shop, rest = policy.rules
    assert (never.due.never, never.tables, rest.due) == (True, ("*.tmp_*",), Due())
    assert (shop.line, shop.places, shop.columns, shop.partitions) == (13, ("prod",), ("id", "customer_*"), True)
    assert shop.keep_entries == 3
    assert (shop.joint, shop.index_columns, shop.index_fpp) == (("country+city",), ("id",), 0.001)
    assert (shop.due, shop.owners) == (Due(rows_changed=0.025, snapshots=20, age=86_400, at_most_every=3600), "narrow")
    assert (policy.limits.bytes_per_day, policy.limits.tables_at_once) == (500 * 2**30, 2)
    assert (policy.limits.driver_bytes, policy.limits.time_zone) == (64 * 2**20, "Europe/Berlin")
    assert policy.spark.sizes == (
        SparkSize(master="local[2]"),
        SparkSize(from_bytes=100 * 2**30, master="yarn", conf=(("spark.executor.instances", "20"),)),
        SparkSize(from_bytes=2**40, remote="sc://spark:15002"),
    )
    assert policy.clean is not None
    assert (policy.clean.every, policy.clean.older_than, policy.spark.idle) == (7 * 86_400, 14 * 86_400, 120)
    assert (policy.retry.first, policy.retry.most, policy.look_every) == (60, 6 * 3600, 30)
    assert (policy.state, policy.event_file) == ("conf/state", "/var/log/events.jsonl")
    assert (policy.event_webhook, policy.questions) == (
        "https://hooks.example/puffin",
        "http://127.0.0.1:8680/v1/plans",
    )


def test_system_without_time_zones_knows_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small image has none; the error says what to install."""
    noon = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.timezone.utc)
    monkeypatch.setitem(sys.modules, "tzdata", None)  # another place of the database
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    try:
        limits = parse_policy("roots: [a]\nlimits: {time-zone: UTC, hours: 11:00-13:00}\n", "p.yaml").limits
        assert (limits.day(noon), limits.may_start(noon)) == ("2026-01-05", True)
        (mistake,) = mistakes_of("roots: [a]\nlimits: {time-zone: Europe/Berlin}\n")
    finally:
        zoneinfo.reset_tzpath()
    assert mistake == (
        "2: limits.time-zone: expected UTC, since this system has no database of time zones (run pip install tzdata), "
        "found 'Europe/Berlin'"
    )


def test_dots_in_a_root_are_resolved_unless_a_link_stands_before_them(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "inside").mkdir(parents=True)
    (tmp_path / "policies").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "inside")
    text = "roots: [../lake]\n"
    assert parse_policy(text, str(tmp_path / "policies" / "p.yaml")).roots == (str(tmp_path / "lake"),)
    assert parse_policy(text, str(tmp_path / "link" / "p.yaml")).roots == (str(tmp_path / "link" / ".." / "lake"),)


def test_root_alone_is_a_policy_for_all_of_its_tables() -> None:
    policy = parse_policy("roots: [/lake]\n", "p.yaml")
    assert policy == Policy(file="p.yaml", roots=("/lake",))
    assert policy.rule_for([("/lake", "any.table")]) == policy.rules[0]


def test_first_rule_that_matches_counts() -> None:
    policy = parse_policy(FULL, "p.yaml")
    lines = {
        name: rule.line if (rule := policy.rule_for([(place, name)])) else None
        for place, name in (("prod", "shop.tmp_1"), ("prod", "shop.orders"), ("warehouse", "shop.carts"))
    }
    assert lines == {"shop.tmp_1": 11, "shop.orders": 13, "shop.carts": 27}
    limited = parse_policy("roots: [/a]\nrules: [{tables: [x.*]}]\n", "p.yaml")
    assert limited.rule_for([("/a", "y.t")]) is None


def test_hours_pass_midnight_in_their_time_zone() -> None:
    limits = parse_policy(FULL, "p.yaml").limits
    utc = datetime.timezone.utc
    for hour, may in (
        (20, False),
        (21, True),
        (3, True),
        (4, True),
        (5, False),
        (12, False),
    ):
        assert limits.may_start(datetime.datetime(2026, 1, 5, hour, 30, tzinfo=utc)) is may, hour
    assert limits.day(datetime.datetime(2026, 1, 5, 23, 30, tzinfo=utc)) == "2026-01-06"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: expected catalogs or roots, found an empty file"),
        ("# nothing\n", "1: expected catalogs or roots, found an empty file"),
        ("- a\n", "1: the file: expected a mapping with catalogs or roots, found a list"),
        ("roots: [/a]\nrules: [\n", "3: expected YAML: expected the node content, but found '<stream end>'"),
        ("roots: [/a]\n\tstate: x\n", "2: expected YAML: found character '\\t' that cannot start any token"),
        ("roots: [/a]\nstate: \x07\n", "2: expected YAML: special characters are not allowed"),
        ("look-every: 5m\n", "1: expected catalogs or roots, found neither"),
        ("roots: []\n", "1: roots: expected a list of directories, found a list that is empty"),
        ("roots: /a\n", "1: roots: expected a list of directories, found '/a'"),
        ("roots: [[/a]]\n", "1: roots[0]: expected a directory, as a path or URI, found a list"),
        ("roots: [/a, /a]\n", "1: expected each catalog and root once, found '/a' twice"),
        ("roots: [/a]\nversion: 2\n", "2: version: expected version 1 of the schema, found '2'"),
        ("catalogs:\n  - properties: {a: b}\n", "2: catalogs[0]: expected the key name, found none"),
        ("catalogs:\n  - name:\n", "2: catalogs[0].name: expected a name or a pattern, found nothing"),
        (
            "catalogs:\n  - name: p\n    properties: [a]\n",
            "3: catalogs[0].properties: expected a mapping of names to values, found a list",
        ),
        (
            "catalogs:\n  - name: p\n    properties: {a: [b]}\n",
            "3: catalogs[0].properties.a: expected a value, found a list",
        ),
        (
            "catalogs:\n  - name: p\n    uri: x\n",
            "3: catalogs[0].uri: expected one of name, properties, namespaces, found an unknown key",
        ),
    ],
)
def test_mistake_in_the_file_is_one_line(text: str, said: str) -> None:
    assert mistakes_of(text) == [said]


@pytest.mark.parametrize(
    ("text", "patterns"), [("true", ("*",)), ("false", ()), ("[a, 'b.*']", ("a", "b.*")), ("[true]", ("true",))]
)
def test_columns_without_values_are_all_none_or_those_of_a_list(text: str, patterns: tuple[str, ...]) -> None:
    (rule,) = parse_policy(f"roots: [/a]\nrules: [{{no-values: {text}}}]\n", "p").rules
    assert rule.no_values == patterns


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("tables: shop", "rules[0].tables: expected a list of patterns such as [shop.*], found 'shop'"),
        ("columns: []", "rules[0].columns: expected a list of columns or patterns, found a list that is empty"),
        ("in: [nope]", "rules[0].in[0]: expected a catalog or root of this file (/a), found 'nope'"),
        ("partitions: yes", "rules[0].partitions: expected true or false, found 'yes'"),
        ("no-values: yes", "rules[0].no-values: expected true, false, or a list of columns or patterns, found 'yes'"),
        ("no-values: {a: b}", "rules[0].no-values: expected true, false, or a list of columns or patterns, found a mapping"),
        ("no-values: []", "rules[0].no-values: expected true, false, or a list of columns or patterns, found a list that is empty"),
        ("no-values: [[a]]", "rules[0].no-values[0]: expected a name or a pattern, found a list"),
        ("joint: [a]", "rules[0].joint[0]: expected names of two to four columns, such as a+b, found 'a'"),
        ("joint: [a+b+c+d+e]", "rules[0].joint[0]: expected names of two to four columns, such as a+b, found 'a+b+c+d+e'"),
        ("keep-entries: 0", "rules[0].keep-entries: expected a whole number from 1, found '0'"),
        ("index-fpp: 0.9", "rules[0].index-fpp: expected a rate from 0.000001 to 0.5, found '0.9'"),
        ("owners: lose", "rules[0].owners: expected one of win, narrow, ignored, found 'lose'"),
        ("due: nevr", "rules[0].due: expected never, or a mapping of conditions such as rows-changed: 5%, found 'nevr'"),
        ("due: {rows-changed: 5}", "rules[0].due.rows-changed: expected a percentage from 0% to 100%, such as 5%, found '5'"),
        ("due: {rows-changed: 500%}", "rules[0].due.rows-changed: expected a percentage from 0% to 100%, such as 5%, found '500%'"),
        ("due: {snapshots: 0}", "rules[0].due.snapshots: expected a whole number from 1, found '0'"),
        ("due: {age: 1 day}", "rules[0].due.age: expected a duration such as 90s, 5m, 2h or 7d, of 36500d at most, found '1 day'"),
        (
            "due: {rows: 5%}",
            "rules[0].due.rows: expected one of rows-changed, snapshots, age, index-files, at-most-every, "
            "found an unknown key",
        ),
        (
            "due: {row-changed: 5%}",
            "rules[0].due.row-changed: expected one of rows-changed, snapshots, age, index-files, at-most-every, "
            "found an unknown key; did you mean 'rows-changed'?",
        ),
    ],
)  # fmt: skip
def test_mistake_in_a_rule_is_one_line(rule: str, said: str) -> None:
    assert mistakes_of(f"roots: [/a]\nrules:\n  - {rule}\n") == [f"3: {said}"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("limits: {bytes-per-day: 5}", "limits.bytes-per-day: expected a size such as 500 GiB or 20 MB, found '5'"),
        ("limits: {hours: 22-6}", "limits.hours: expected hours of the day such as 22:00-06:00, found '22-6'"),
        ("limits: {hours: '06:00-06:00'}", "limits.hours: expected hours of the day such as 22:00-06:00, found '06:00-06:00'"),
        ("limits: {time-zone: Mars}", "limits.time-zone: expected a time zone such as UTC or Europe/Berlin, found 'Mars'"),
        ("limits: 5", "limits: expected a mapping, found '5'"),
        ("spark: {sizes: [{from: x}]}", "spark.sizes[0].from: expected a size such as 500 GiB or 20 MB, found 'x'"),
        ("spark: {sizes: [{remote: 'spark:15002'}]}", "spark.sizes[0].remote: expected the URL of a Spark Connect server, sc://HOST:PORT, found 'spark:15002'"),
        ("spark: {sizes: [{remote: 'https://me:secret@a:1/;token=secret'}]}", "spark.sizes[0].remote: expected the URL of a Spark Connect server, sc://HOST:PORT, found 'https://a:1…'"),
        ("spark: {sizes: [{remote: 'sc://a', master: yarn}]}", "spark.sizes[0]: expected either master or remote, found a mapping"),
        ("clean: 7d", "clean: expected a mapping, found '7d'"),
        ("look-every: 0s", "look-every: expected a duration of 1s or more, such as 5m, found '0s'"),
        ("clean: {every: 0s}", "clean.every: expected a duration of 1s or more, such as 5m, found '0s'"),
        ("clean: {older-than: 7d}", "clean: expected the key every, found none"),
        ("clean: {every: 1d, older-than: 5m}", "clean.older-than: expected a duration of 1h or more, such as 7d, found '5m'"),
        ("state: s3://bucket/state", "state: expected a local path, found 's3://bucket/state'"),
        ('events: {file: "a\\0b"}', "events.file: expected a local path, found 'a\\x00b'"),
        ("events: {webhook: hooks.example}", "events.webhook: expected a URL that begins with http:// or https://, found 'hooks.example'"),
        ("questions: 'http://[a'", "questions: expected a URL that begins with http:// or https://, found 'http://[a'"),
        ("roots: [/b]", "roots: expected the key once, found it twice"),
        ("look-every: soon", "look-every: expected a duration such as 90s, 5m, 2h or 7d, of 36500d at most, found 'soon'"),
    ],
)  # fmt: skip
def test_mistake_in_the_settings_is_one_line(line: str, said: str) -> None:
    assert mistakes_of(f"roots: [/a]\n{line}\n") == [f"2: {said}"]


def test_all_mistakes_are_found_in_the_order_of_their_lines() -> None:
    text = "roots: [/a]\nrules:\n  - due: {age: x}\n    colums: [a]\nlimits: {hours: x}\n"
    assert [each.partition(":")[0] for each in mistakes_of(text)] == ["3", "4", "5"]
    with pytest.raises(PolicyError, match=r"p\.yaml:3: .* \(and 2 more\)$"):
        parse_policy(text, "p.yaml")


def test_hostile_yaml_is_a_mistake() -> None:
    assert mistakes_of("[" * 10_000) == ["1: expected YAML: RecursionError"]
    bomb = "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *a]\n" for n in range(40))
    assert len(mistakes_of(bomb)) == 42


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FileNotFound, match=r"absent: expected a policy file: No such file or directory"):
        read_policy(str(tmp_path / "absent"))
    (tmp_path / "p").write_bytes(b"roots:\n  - \xff\n")
    with pytest.raises(PolicyError, match=r"p:2: expected UTF-8, found byte 0xff"):
        read_policy(str(tmp_path / "p"))
    (tmp_path / "p").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(PolicyError, match="expected at most 1,048,576 bytes, found more"):
        read_policy(str(tmp_path / "p"))
