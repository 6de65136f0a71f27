"""Delta's schema in Iceberg's terms: types, field ids, and where columns are found in files."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from puffin.delta.schema import MAX_DEPTH, iceberg_type, table_schema
from puffin.errors import CorruptDataFileError, CorruptMetadataError, UnsupportedTableError
from puffin.sketches.theta_sketch import ThetaSketch
from puffin.tables.schema import field_ids, primitive_columns
from puffin.values.value_type import is_hashable

NAME, ID = {"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "id"}


def field(name, type_, nullable=True, **metadata):
    return {"name": name, "type": type_, "nullable": nullable, "metadata": metadata}


def mapped(name, type_, field_id, physical, **metadata):
    given_ = {"delta.columnMapping.id": field_id, "delta.columnMapping.physicalName": physical}
    return field(name, type_, **given_, **metadata)


def struct(*fields):
    return {"type": "struct", "fields": list(fields)}


def array(element, contains_null=True):
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def map_(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def read(*fields, configuration=None, known=None):
    return table_schema(json.dumps(struct(*fields)), configuration or {}, known or {}, "t")


def sketch(values, type_):
    return ThetaSketch.from_arrow(pa.array(values), type_)


# --- types --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "iceberg"),
    [
        ("byte", "int"),
        ("short", "int"),
        ("integer", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("decimal(10,2)", "decimal(10, 2)"),
        ("decimal( 38 , 0 )", "decimal(38, 0)"),
        ("decimal", "decimal(10, 0)"),
        ("string", "string"),
        ("char(3)", "string"),
        ("varchar(255)", "string"),
        ("binary", "binary"),
        ("boolean", "boolean"),
        ("date", "date"),
        ("timestamp", "timestamptz"),
        ("timestamp_ntz", "timestamp"),
    ],
)
def test_shared_type_has_icebergs_name(delta, iceberg):
    assert iceberg_type(delta) == iceberg
    assert is_hashable(iceberg)


@pytest.mark.parametrize(
    "name",
    [
        "void",
        "variant",
        "interval year to month",
        "geometry(OGC:CRS84)",
        "string collate UNICODE",
        "time(6)",
        "",
        "x y",
    ],
)
def test_delta_only_type_keeps_its_name_and_is_not_hashable(name):
    assert iceberg_type(name) == name
    assert not is_hashable(name)
    assert [column.type for column in primitive_columns(read(field("c", name)).schema)] == [name]


@pytest.mark.parametrize(
    ("collations", "type_"),
    [
        ({"c": "spark.UTF8_LCASE"}, "string collate UTF8_LCASE"),
        ({"renamed": "icu.UNICODE_CI"}, "string collate UNICODE_CI"),
        ({"c": "spark.UTF8_BINARY"}, "string"),
        ({}, "string"),
        ("text", "string"),
    ],
)
def test_string_with_a_collation_is_of_another_type(collations, type_):
    """Spark writes it as metadata of a string, since readers of files need not know it."""
    (column,) = primitive_columns(read(field("c", "string", __COLLATIONS=collations)).schema)
    assert column.type == type_
    (inside,) = primitive_columns(read(field("s", struct(field("c", "string", __COLLATIONS=collations)))).schema)
    assert inside.type == type_


@pytest.mark.parametrize("name", ["int", "uuid", "time", "fixed[4]", "timestamptz", "timestamp_ns"])
def test_unknown_type_is_not_confused_with_icebergs_of_the_same_name(name):
    assert not is_hashable(iceberg_type(name))


def test_type_object_of_an_unknown_kind_is_not_hashable():
    udt = {"type": "udt", "class": "org.apache.spark.ml.linalg.VectorUDT", "sqlType": struct(field("x", "long"))}
    (column,) = primitive_columns(read(field("c", udt)).schema)
    assert (column.name, column.type) == ("c", "udt")


def test_structs_lists_and_maps_follow_appendix_c():
    schema = read(
        field("st", struct(field("x", "byte", nullable=False))),
        field("li", array("string", contains_null=False)),
        field("mp", map_("integer", struct(field("y", "double"))), nullable=False),
    ).schema
    assert schema == {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "st", "required": False, "type": {
                "type": "struct", "fields": [{"id": 4, "name": "x", "required": True, "type": "int"}]}},
            {"id": 2, "name": "li", "required": False, "type": {
                "type": "list", "element-id": 5, "element-required": True, "element": "string"}},
            {"id": 3, "name": "mp", "required": True, "type": {
                "type": "map", "key-id": 6, "key": "int", "value-id": 7, "value-required": False, "value": {
                    "type": "struct", "fields": [{"id": 8, "name": "y", "required": False, "type": "double"}]}}},
        ],
    }  # fmt: skip


# --- field ids without column mapping -----------------------------------------------------------------------------


def test_new_ids_equal_those_of_a_new_iceberg_table():
    from pyiceberg.schema import Schema, assign_fresh_schema_ids

    delta = read(
        field("a", struct(field("b", "long"), field("c", struct(field("d", "string"), field("e", "date"))))),
        field("f", array(struct(field("g", "long"), field("h", array("long"))))),
        field("i", map_(struct(field("j", "long")), map_("string", struct(field("k", "long"))))),
        field("l", "boolean"),
    )
    scrambled = json.loads(json.dumps(delta.schema), object_hook=lambda node: {**node, **_other_ids(node)})
    fresh = assign_fresh_schema_ids(Schema.model_validate(scrambled))
    assert Schema.model_validate(delta.schema).as_struct() == fresh.as_struct()
    assert sorted(delta.field_ids.values()) == list(range(1, len(delta.field_ids) + 1))
    assert delta.assigned == delta.field_ids


def _other_ids(node):
    return {key: 1000 - value for key, value in node.items() if key.endswith("id") and key != "schema-id"}


def test_known_ids_stay_and_new_ones_follow_all_earlier_ones():
    known = {("b",): 2, ("gone",): 7, ("st",): 3, ("st", "x"): 5, ("li",): 4, ("li", "element"): 6}
    schema = read(
        field("a", "long"),
        field("b", "long"),
        field("st", struct(field("new", "long"), field("x", "long"))),
        field("li", array("long")),
        known=known,
    )
    assert schema.field_ids == {
        ("a",): 8, ("b",): 2, ("st",): 3, ("li",): 4, ("st", "new"): 9, ("st", "x"): 5, ("li", "element"): 6,
    }  # fmt: skip
    assert schema.assigned == {("a",): 8, ("st", "new"): 9}
    assert schema.paths[9] == ("st", "new")
    assert schema.is_same_column(5, ("st", "x"))
    assert not schema.is_same_column(5, ("b",))


def test_same_schema_needs_no_new_ids():
    fields = field("a", struct(field("b", array("long")))), field("m", map_("string", "long"))
    first = read(*fields)
    again = read(*fields, known=first.assigned)
    assert (again.field_ids, again.assigned) == (first.field_ids, {})


def test_name_with_a_dot_is_not_a_field_in_a_struct():
    schema = read(field("a.b", "long"), field("a", struct(field("b", "long"))))
    assert schema.field_ids == {("a.b",): 1, ("a",): 2, ("a", "b"): 3}


def test_names_that_differ_only_in_case_are_two_columns():
    assert read(field("a", "long"), field("A", "long")).field_ids == {("a",): 1, ("A",): 2}


def test_known_ids_that_two_columns_share_are_refused():
    with pytest.raises(
        CorruptMetadataError, match=r"^t: schemaString: b: expected a field id of its own, found 1, tha"
    ):
        read(field("a", "long"), field("b", "long"), known={("a",): 1, ("b",): 1})


# --- field ids and names with column mapping ----------------------------------------------------------------------


def test_column_mapping_gives_ids_and_physical_names():
    fields = (
        mapped("a now", "long", 7, "col-a"),
        mapped("st", struct(mapped("x", "long", 9, "col-x")), 8, "col-st"),
    )
    schema = read(*fields, configuration=NAME, known={("a now",): 1})
    assert schema.field_ids == {("col-a",): 7, ("col-st",): 8, ("col-st", "col-x"): 9}
    assert schema.assigned == {}
    assert [column.name for column in primitive_columns(schema.schema)] == ["a now", "st.x"]
    assert schema.name_mapping == [
        {"field-id": 7, "names": ["col-a"]},
        {"field-id": 8, "names": ["col-st"], "fields": [{"field-id": 9, "names": ["col-x"]}]},
    ]
    assert schema.by_name
    by_id = read(*fields, configuration=ID)
    assert (by_id.field_ids, by_id.name_mapping, by_id.by_name) == (schema.field_ids, None, False)


@pytest.mark.parametrize("key", ["delta.columnMapping.nested.ids", "parquet.field.nested.ids"])
def test_lists_and_maps_have_the_nested_ids_of_their_column(key):
    ids = {"p.key": 10, "p.value": 11, "p.value.element": 12}
    column = mapped("m", map_("long", array(struct(mapped("x", "long", 3, "px")))), 1, "p", **{key: ids})
    assert read(column, configuration=NAME).field_ids == {
        ("p",): 1, ("p", "key"): 10, ("p", "value"): 11, ("p", "value", "element"): 12,
        ("p", "value", "element", "px"): 3,
    }  # fmt: skip


def test_lists_and_maps_without_nested_ids_get_unused_ids():
    column = mapped("m", map_("long", array("long")), 1, "p")
    schema = read(column, configuration={**ID, "delta.columnMapping.maxColumnId": "5"})
    assert len(field_ids(schema.schema)) == len(schema.field_ids) == 4
    assert min(schema.field_ids.values()) == 1
    assert sorted(schema.field_ids.values())[1] >= 2**30
    assert schema.assigned == {}


def test_physical_names_and_ids_are_ignored_without_column_mapping():
    schema = read(mapped("a", "long", 7, "col-a"), configuration={"delta.columnMapping.mode": "none"})
    assert schema.field_ids == {("a",): 1}
    assert schema.name_mapping == [{"field-id": 1, "names": ["a"]}]


def test_unknown_column_mapping_mode_is_refused():
    with pytest.raises(
        UnsupportedTableError, match=r"^t: delta\.columnMapping\.mode: expected none, name or id, found 'p"
    ):
        read(field("a", "long"), configuration={"delta.columnMapping.mode": "path"})


# --- what is no schema --------------------------------------------------------------------------------------------


def nested(type_, depth):
    return type_ if depth == 0 else {"type": "array", "elementType": nested(type_, depth - 1), "containsNull": True}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("1", "the root: expected a struct, found 1"),
        ('"long"', "the root: expected a struct, found long"),
        (json.dumps(array("long")), "the root: expected a struct"),
        ('{"type": "struct"}', "the root: expected a list of fields, found null"),
        ('{"type": "struct", "fields": [3]}', "the root: expected a field with a name, found 3"),
        ('{"type": "struct", "fields": [{"name": null, "type": "long"}]}', "the root: expected a field with a name"),
        ('{"type": "struct", "fields": [{"name": "a"}]}', "a: expected a type, found null"),
        ('{"type": "struct", "fields": [{"name": "a", "type": {"type": []}}]}', "a: expected a type"),
        (json.dumps(struct(field("a", {"type": "array"}))), "a.element: expected a type"),
        (json.dumps(struct(field("a", {"type": "map", "keyType": "long"}))), "a.value: expected a type"),
        (json.dumps(struct(field("a", "long"), field("a", "long"))), "a: expected one field of this name, found se"),
        (json.dumps(struct(field("a", nested("long", MAX_DEPTH + 1)))), "expected at most 100 nested types"),
    ],
)  # fmt: skip
def test_invalid_schema_is_refused_in_one_line(schema, message):
    with pytest.raises(CorruptMetadataError) as caught:
        table_schema(schema, {}, {}, "s3://b/t")
    assert str(caught.value).startswith("s3://b/t: schemaString: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([field("a", "long")], "a: expected delta.columnMapping.id, since the table maps its columns, found null"),
        ([mapped("a", "long", 1, "p"), mapped("b", "long", 1, "q")], "q: expected a field id of its own, found 1"),
        ([mapped("a", "long", "1", "p")], "p: expected a field id from 1 to 2147483647, found 1"),
        ([mapped("a", "long", True, "p")], "p: expected a field id from 1 to 2147483647, found true"),
        ([mapped("a", "long", 2**31, "p")], "p: expected a field id from 1"),
        ([mapped("a", "long", 1, ["p"])], "a: expected a text as delta.columnMapping.physicalName"),
        ([mapped("a", "long", 1, "p"), mapped("b", "long", 2, "p")], "p: expected one field of this name"),
    ],
)  # fmt: skip
def test_incomplete_or_duplicate_column_mapping_is_refused(fields, message):
    with pytest.raises(CorruptMetadataError) as caught:
        read(*fields, configuration=NAME)
    assert message in str(caught.value)


def test_deepest_accepted_schema_can_be_used():
    schema = read(field("a", nested("long", MAX_DEPTH)))
    assert len(field_ids(schema.schema)) == MAX_DEPTH + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "struct", "array", "map", "long", "name"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "fields", "name", "metadata", "elementType", "keyType", "valueType", "delta.columnMapping.id"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150)
@example({"type": "struct", "fields": [{"name": "a", "type": "long", "metadata": []}]}, NAME)
@given(
    JSON | st.lists(JSON, max_size=3).map(lambda fields: {"type": "struct", "fields": fields}),
    st.sampled_from([{}, NAME, ID]),
)
def test_any_json_is_a_schema_or_refused(document, configuration):
    try:
        schema = table_schema(json.dumps(document), configuration, {}, "t")
    except CorruptMetadataError:
        return
    assert field_ids(schema.schema) == set(schema.field_ids.values())
    assert len(primitive_columns(schema.schema)) <= len(schema.field_ids)


# --- columns in files ---------------------------------------------------------------------------------------------


def with_ids(table, **ids):
    fields = [f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) if f.name in ids else f for f in table.schema]
    return table.cast(pa.schema(fields))


def test_field_ids_of_files_are_ignored_without_id_mode(tmp_path, read_files):
    path = tmp_path / "1.parquet"
    pq.write_table(with_ids(pa.table({"a": [1, 2], "b": [3, 4]}), a=2, b=1), path)
    assert read_files(read(field("a", "long"), field("b", "long")), path).sketches == {
        "a": sketch([1, 2], "long"),
        "b": sketch([3, 4], "long"),
    }


def test_name_mode_finds_columns_by_physical_name_at_every_depth(tmp_path, read_files):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"a": [9, 9], "p": [1, 2], "q": [{"y": 5, "r": 6}, None]}), path)
    schema = read(
        mapped("a", "long", 1, "p"),
        mapped("st", struct(mapped("y", "long", 3, "r"), mapped("late", "long", 4, "s")), 2, "q"),
        configuration=NAME,
    )
    assert read_files(schema, path).sketches == {
        "a": sketch([1, 2], "long"),
        "st.y": sketch([6], "long"),
        "st.late": sketch(pa.nulls(0), "long"),
    }


def test_id_mode_finds_columns_by_id_and_missing_ids_are_null(tmp_path, read_files):
    path = tmp_path / "1.parquet"
    pq.write_table(with_ids(pa.table({"p": [1, 2], "q": [3, 4]}), p=2, q=9), path)
    schema = read(mapped("a", "long", 1, "p"), mapped("b", "long", 2, "q"), configuration=ID)
    assert read_files(schema, path).sketches == {"a": sketch(pa.nulls(0), "long"), "b": sketch([1, 2], "long")}


def test_id_mode_refuses_files_without_any_ids(tmp_path, read_files):
    """The protocol allows that or nulls; Spark refuses too, and a wrong count would be worse."""
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"p": [1, 2]}), path)
    with pytest.raises(UnsupportedTableError, match=r"1\.parquet: the file has no field ids"):
        read_files(read(mapped("a", "long", 1, "p"), configuration=ID), path)


def test_names_are_found_in_another_case_as_in_spark(tmp_path, read_files):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"ID": [1, 2], "st": [{"X": 3}, {"X": 4}]}), path)
    schema = read(field("id", "long"), field("ST", struct(field("x", "long"))))
    assert read_files(schema, path).sketches == {"id": sketch([1, 2], "long"), "ST.x": sketch([3, 4], "long")}


def test_exact_case_wins_and_each_name_is_used_once(tmp_path, read_files):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"A": [1], "a": [2], "b": [3]}), path)
    schema = read(field("a", "long"), field("b", "long"), field("B", "long"))
    assert read_files(schema, path).sketches == {
        "a": sketch([2], "long"),
        "b": sketch([3], "long"),
        "B": sketch(pa.nulls(0), "long"),
    }


def test_two_columns_that_differ_only_in_case_are_ambiguous(tmp_path, read_files):
    path = tmp_path / "1.parquet"
    pq.write_table(pa.table({"ID": [1], "Id": [2]}), path)
    with pytest.raises(
        CorruptDataFileError, match=r"1\.parquet: column id: expected one field named 'Id', found several"
    ):
        read_files(read(field("id", "long")), path)
