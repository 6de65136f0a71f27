"""The histories of tables that Spark wrote, compared as whole plans compare them."""

from collections import Counter

import pytest

from puffin.iceberg.catalogs.directory import IcebergDirectory
from puffin.iceberg.scan.changes import changes_between
from puffin.iceberg.scan.plan import plan_snapshot
from tests.bound import bound


def by_rows(tasks):
    return Counter((task.data_file.file_path, *sorted(map(str, task.delete_files))) for task in tasks)


@pytest.mark.parametrize("name", ["t_mor_v2", "t_dv_v3", "t_evolved"])
def test_changes_equal_the_differences_of_whole_plans(golden_tables, name):
    state = IcebergDirectory(str(golden_tables / name)).open().state
    target, *ancestors = state.ancestors(state.current_snapshot_id)
    assert ancestors
    later, expected = target, Counter()
    for base in ancestors:
        if later.operation != "replace":
            expected.update(by_rows(plan_snapshot(bound(state), later)))
            expected.subtract(by_rows(plan_snapshot(bound(state), base)))
        changes = changes_between(bound(state, target.snapshot_id), base)
        found = by_rows(changes.added)
        found.subtract(by_rows(changes.removed))
        assert (+found, -found) == (+expected, -expected)
        later = base
