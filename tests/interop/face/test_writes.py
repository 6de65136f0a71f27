"""Statements that would change a table are refused, and the table stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.interop.face.conftest import FAST

STEPS = (
    "CREATE TABLE {t} (row bigint, k int) USING iceberg PARTITIONED BY (k)",
    "INSERT INTO {t} SELECT id, CAST(id % 2 AS int) FROM range(10)",
    "INSERT INTO {t} SELECT id, CAST(id % 2 AS int) FROM range(10, 20)",
)


@pytest.fixture(scope="module")
def written(make_table: Callable[..., str]) -> str:
    return make_table("face.written", *STEPS)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {t} VALUES (100, 0)",
        "INSERT OVERWRITE {t} VALUES (100, 0)",
        "DELETE FROM {t} WHERE row = 3",
        "DELETE FROM {t} WHERE k = 1",
        "UPDATE {t} SET k = 5 WHERE row = 3",
        """MERGE INTO {t} USING (SELECT 3L AS row) s ON {t}.row = s.row WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED THEN INSERT (row, k) VALUES (s.row, 0)""",
        "TRUNCATE TABLE {t}",
        "DROP TABLE {t}",
        "DROP TABLE {t} PURGE",
        "CREATE TABLE {c}.face.made (a int) USING iceberg",
        "CREATE TABLE {c}.face.made USING iceberg AS SELECT * FROM {t}",
        "CREATE OR REPLACE TABLE {t} (a int) USING iceberg",
        "ALTER TABLE {t} ADD COLUMN more int",
        "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",
        "ALTER TABLE {t} RENAME TO face.renamed",
        "ALTER TABLE {t} CREATE BRANCH more",
        "CREATE NAMESPACE {c}.more",
        "DROP NAMESPACE {c}.face CASCADE",
        "CALL {c}.system.rewrite_data_files(table => 'face.written', options => map('rewrite-all', 'true'))",
        "CALL {c}.system.rewrite_manifests(table => 'face.written')",
        "CALL {c}.system.expire_snapshots(table => 'face.written', older_than => TIMESTAMP'2100-01-01')",
        "CALL {c}.system.rollback_to_snapshot(table => 'face.written', snapshot_id => {id})",
    ],
)
def test_statement_that_changes_a_table_is_refused(face: Any, written: str, statement: str) -> None:
    first = face.sql("SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at", written).first().snapshot_id
    before, data = face.metadata_files(written), files_of(face, written)
    with pytest.raises(Exception, match=r"Server does not support endpoint: (POST|DELETE)"):
        face.sql(statement.replace("{id}", str(first)), written, FAST).collect()
    # What was written for the commit is no part of the table.
    after = {name: content for name, content in face.metadata_files(written).items() if name in before}
    assert after == before
    assert data <= files_of(face, written)
    assert not [name for name in face.metadata_files(written).keys() - before.keys() if name.endswith("json")]


def test_table_has_its_rows_after_all_refusals(face: Any, written: str) -> None:
    assert sorted(row.row for row in face.rows("SELECT * FROM {t}", written)) == list(range(20))
    assert {path.name for path in (face.warehouse / "face").glob("made*")} == set()


def files_of(face: Any, name: str) -> set[Path]:
    return set((face.directory(name) / "data").rglob("*.parquet"))
