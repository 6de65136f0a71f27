"""What a rule means for a table, and what the properties of its owner change."""

from __future__ import annotations

import pytest

from puffin.errors import SetupError
from puffin.policy.model import Due, Rule
from puffin.policy.table_policy import TablePolicy, table_policy

COLUMNS = {"id": "long", "customer_id": "long", "customer_name": "string", "a.b": "int", "c": "string", "f": "boolean"}


def of(rule: Rule, **properties: str) -> TablePolicy:
    return table_policy(rule, {f"puffin-sidecar.{k.replace('_', '-')}": v for k, v in properties.items()}, COLUMNS)


def test_patterns_choose_columns_that_the_table_has() -> None:
    rule = Rule(columns=("customer_*", "a.b", "absent"), index_columns=("id",), joint=("id+c", "id+absent"))
    policy = of(rule)
    assert policy.columns == ("customer_id", "customer_name", "a.b")
    assert (policy.index_columns, policy.joint, policy.partitions) == (("id",), ("id+c",), False)
    assert of(Rule()).columns is None
    assert of(Rule(index_columns=("c", "f"))).index_columns == ("c",)  # two values exclude no file


def test_properties_of_the_owner_win() -> None:
    rule = Rule(columns=("id",), due=Due(rows_changed=0.1, age=None))
    policy = of(
        rule, columns="c, customer_*", partitions="true", index_columns="c", joint="id+c", due="rows-changed=1%, age=1h"
    )
    assert (policy.columns, policy.index_columns) == (("customer_id", "customer_name", "c"), ("c",))
    assert (policy.partitions, policy.joint) == (True, ("id+c",))
    assert policy.due == Due(rows_changed=0.01, age=3600)
    assert policy.owner_set == tuple(
        f"puffin-sidecar.{key}" for key in ("columns", "due", "index-columns", "joint", "partitions")
    )
    assert of(Rule(due=Due(never=True)), due="snapshots=3").due == Due(snapshots=3)


def test_set_of_the_owner_with_a_column_that_the_table_lacks_is_left_out() -> None:
    """As one of the rule is: a column that is dropped must not end the statistics of the others."""
    assert of(Rule(joint=("id+a.b",)), joint="id+c, id+absent").joint == ("id+c",)


def test_names_of_the_owner_that_match_no_column_are_kept_for_the_check() -> None:
    policy = of(Rule(), columns="id, idd", index_columns="f, c", joint="id+c, id+absent", no_values="x*")
    assert policy.owner_unmatched == (
        ("puffin-sidecar.columns", "idd"),
        ("puffin-sidecar.index-columns", "f"),
        ("puffin-sidecar.no-values", "x*"),
        ("puffin-sidecar.joint", "id+absent"),
    )
    assert policy.unmatched == frozenset()
    assert of(Rule(owners="ignored"), columns="idd").owner_unmatched == ()


def test_owner_may_only_narrow_where_the_file_says_so() -> None:
    due = Due(rows_changed=0.1, age=None, at_most_every=60)
    rule = Rule(columns=("id", "c"), index_columns=("id",), joint=("id+c",), partitions=False, due=due, owners="narrow")
    policy = of(
        rule,
        columns="c,a.b",
        partitions="true",
        index_columns="id,c",
        joint="c+id,id+a.b",
        due="rows-changed=1%,age=1h,at-most-every=1h",
    )
    assert (policy.columns, policy.index_columns, policy.joint) == (("c",), ("id",), ("c+id",))
    assert (policy.partitions, policy.due) == (False, Due(rows_changed=0.1, age=None, at_most_every=3600))
    assert of(rule, due="rows-changed=50%").due.rows_changed == 0.5
    assert of(rule, due="never").due.never
    assert of(Rule(due=Due(never=True), owners="narrow"), due="age=1h").due.never
    assert of(Rule(owners="narrow"), columns="c").columns == ("c",)


@pytest.mark.parametrize("owners", ["win", "narrow"])
def test_owner_can_switch_values_off_and_never_on(owners: str) -> None:
    rule = Rule(no_values=("customer_*",), owners=owners)
    named = ("customer_id", "customer_name")
    assert of(rule).no_values == named
    assert of(rule, no_values="false").no_values == named
    assert of(rule, no_values="c, id").no_values == ("id", *named, "c")
    assert of(rule, no_values="true").no_values == tuple(COLUMNS)
    assert of(Rule(no_values=("*",)), no_values="false").no_values == tuple(COLUMNS)
    assert of(Rule(no_values=("c",), owners="ignored"), no_values="true").no_values == ("c",)


def test_properties_are_ignored_where_the_file_says_so() -> None:
    rule = Rule(owners="ignored")
    assert of(rule, due="nonsense", columns="c") == of(rule)


def test_properties_that_nobody_reads_are_told() -> None:
    assert of(Rule(), home="s3://b/x", colums="a").unknown_properties == ("puffin-sidecar.colums",)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("partitions", "maybe", "table property puffin-sidecar.partitions: expected true or false, found 'maybe'"),
        ("due", "rows=5%", "table property puffin-sidecar.due: expected never, or conditions such as rows-changed=5%"),
        ("due", "age=long", "table property puffin-sidecar.due: expected a duration such as 90s"),
        ("joint", "a", "table property puffin-sidecar.joint: expected names of two to four columns"),
    ],
)
def test_property_that_means_nothing_is_an_error(key: str, value: str, said: str) -> None:
    with pytest.raises(SetupError, match=said):
        of(Rule(), **{key: value})
