"""The columns of a table: every primitive leaf outside lists and maps, by name or dotted path."""

import re

import pytest

from puffin.errors import ColumnNotFound, CorruptMetadataError, UnsupportedTypeError
from puffin.tables.base import Column
from puffin.tables.schema import primitive_columns

POINT = [(3, "x", "int"), (4, "deep", [(5, "z", "decimal(9, 2)", "1.00")])]
UNHASHABLE = {"v": "variant", "u": "unknown", "g": "geometry(OGC:CRS84)", "e": "geography"}
FIELDS = [(1, "id", "long"), (2, "st", POINT), *((i, *column) for i, column in enumerate(UNHASHABLE.items(), 10))]
NESTED = {
    "list": {"type": "list", "element-id": 21, "element": "string", "element-required": True},
    "map": {"type": "map", "key-id": 22, "key": "string", "value-id": 23, "value": "int", "value-required": False},
}


@pytest.fixture
def state(make_table):
    return make_table(FIELDS, version=3).state()


def test_every_primitive_leaf_is_a_column_in_schema_order(state):
    assert [c.name for c in state.columns] == ["id", "st.x", "st.deep.z", "v", "u", "g", "e"]
    assert state.columns[2] == Column(5, "st.deep.z", "decimal(9, 2)", (2, 4, 5), (None, None, "1.00"))


def test_lists_maps_and_their_elements_are_no_columns():
    fields = [{"id": i, "name": name, "type": type_} for i, (name, type_) in enumerate(NESTED.items())]
    struct = {"type": "struct", "fields": [*fields, {"id": 9, "name": "x", "type": "int"}]}
    outer = {"fields": [{"id": 30, "name": "o", "type": struct}]}
    assert [c.name for c in primitive_columns(outer)] == ["o.x"]


def test_unhashable_types_are_skipped_by_default(state):
    assert [c.name for c in state.select_columns(None)] == ["id", "st.x", "st.deep.z"]


@pytest.mark.parametrize(("name", "type_string"), UNHASHABLE.items())
def test_unhashable_types_are_refused_by_name(state, name, type_string):
    about = f"{state.name}: column {name}: type {type_string} has no single-value bytes"
    with pytest.raises(UnsupportedTypeError, match=re.escape(about)):
        state.select_columns(("id", name))


def test_requested_columns_keep_their_order_without_repetition(state):
    assert [c.name for c in state.select_columns(("st.deep.z", "id", "st.deep.z"))] == ["st.deep.z", "id"]


@pytest.mark.parametrize("name", ["nope", "st", "st.deep", "st.", ".id", "", "ID", "st.x.y", "z"])
def test_unknown_column_is_not_found(state, name):
    with pytest.raises(ColumnNotFound, match="no primitive column"):
        state.select_columns((name,))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ID", "id"),
        (" id", "id"),
        ("ST.deep.z", "st.deep.z"),
        ("st.dep.z", "st.deep.z"),
        ("st.deep", "st.deep.z"),
        ("zzz", None),
        ("i" * 70, None),
    ],
)
def test_error_about_an_unknown_column_names_one_that_is_alike(state, name, meant):
    with pytest.raises(ColumnNotFound) as caught:
        state.select_columns((name,))
    hint = "" if meant is None else f"; did you mean {meant!r}?"
    assert str(caught.value).partition("outside lists and maps")[2] == hint


def test_fields_inside_lists_and_maps_are_not_found(make_table):
    state = make_table([(1, "id", "long"), *((i, n, t) for i, (n, t) in enumerate(NESTED.items(), 30))]).state()
    for name in ("list", "list.element", "map.key", "map.value"):
        with pytest.raises(ColumnNotFound):
            state.select_columns((name,))


def test_whole_name_is_matched_before_a_dotted_path(make_table):
    nested_first = make_table([(2, "a", [(3, "b", "int")]), (1, "a.b", "int")]).state()
    assert [c.field_id for c in nested_first.select_columns(("a.b",))] == [1]
    top_first = make_table([(1, "a.b", "int"), (2, "a", [(3, "b", "int")])]).state()
    assert [c.field_id for c in top_first.select_columns(("a.b",))] == [1]
    assert [c.field_id for c in top_first.select_columns(None)] == [1, 3]


def test_columns_below_a_struct_with_a_default_can_be_requested(make_table):
    state = make_table([(2, "st", [(3, "x", "int")], {})], version=3).state()
    assert [c.defaults for c in state.select_columns(("st.x",))] == [({}, None)]
    assert len(set(state.columns)) == len(state.columns)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"fields": None},
        {"fields": {}},
        {"fields": [7]},
        {"fields": [{"id": 1, "name": "a"}]},
        {"fields": [{"name": "a", "type": "int"}]},
        {"fields": [{"id": 1, "name": "a", "type": {"type": "struct"}}]},
        {"fields": [{"id": "1", "name": "a", "type": "int"}]},
        {"fields": [{"id": 1, "name": 5, "type": "int"}]},
    ],
    ids=str,
)
def test_schema_of_another_form_is_corrupt(schema):
    with pytest.raises(CorruptMetadataError, match="schema: "):
        primitive_columns(schema)


@pytest.mark.parametrize(
    "broken",
    [
        *({}, {"fields": None}, {"fields": [{"name": "id"}]}, {"fields": [{"id": [1], "required": True}]}),
        *({"fields": [{"id": 1, "required": True}]}, {"fields": [1]}),
    ],
)
def test_broken_schema_of_an_older_snapshot_is_told_with_its_table(make_table, broken):
    table = make_table(FIELDS, version=3)
    table.document["schemas"].append({"schema-id": 7, **broken})
    state = table.state()
    with pytest.raises(CorruptMetadataError, match=f"^{re.escape(state.name)}: schema 7: expected fields with ids and"):
        _ = state.required_columns
