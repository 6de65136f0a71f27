"""Tasks of two snapshots are matched by the rows that they mean, however many delete files they have."""

from __future__ import annotations

import random
import time
from collections import Counter

from puffin.tables.changes import compare_rows
from puffin.tables.scan_task import EQUALITY_DELETES, ContentFile, FileScanTask
from tests.scan_files import data_file, whole


def file(path: str, partition: int = 0, **fields) -> ContentFile:
    return data_file(path, 99, partition={"1000": partition}, **fields)


def meaning(task: FileScanTask) -> tuple:
    """What makes tasks the same, spelled out."""
    data = task.data_file
    deletes = frozenset((each.file_path, each.content_offset) for each in task.delete_files)
    described = data.file_path, str(data.partition), data.spec_id, data.record_count, data.file_size_in_bytes
    return *described, deletes, task.deleted_by is None


def drawn(draw: random.Random) -> list[FileScanTask]:
    """Return tasks that share delete files or have equal ones, in any order, some of them twice."""
    deletes = [file(f"d{n // 2}", content_offset=draw.choice((None, 4, 8))) for n in range(8)]
    tasks, chosen = [], ()
    for _ in range(draw.randrange(12)):
        if draw.random() < 0.6:
            chosen = tuple(draw.choices(deletes, k=draw.randrange(4)))
        data = file(f"f{draw.randrange(4)}", draw.randrange(2), record_count=draw.choice((1, 1, 2)))
        by = draw.choice((None, None, None, chosen))
        tasks.append(FileScanTask(data, chosen, 0, 99, by))
    return tasks


def test_tasks_are_compared_as_their_meaning_spelled_out():
    seed = random.Random().randrange(1 << 30)
    draw = random.Random(seed)
    for _ in range(300):
        before, after = drawn(draw), drawn(draw)
        found = compare_rows(before, after)
        then, now = Counter(map(meaning, before)), Counter(map(meaning, after))
        expected = then - now, then & now, now - then
        assert tuple(Counter(map(meaning, side)) for side in (found.before, found.both, found.after)) == expected, seed


def test_files_with_the_same_thousands_of_deletes_are_compared_without_looking_at_each():
    deletes = tuple(file(f"delete-{n}", content=EQUALITY_DELETES) for n in range(2000))
    before = [whole(file(f"data-{n}"), deletes[:1999]) for n in range(2000)]
    after = [whole(file(f"data-{n}"), deletes) for n in range(2000)]
    started = time.process_time()
    found = compare_rows([*before, *after], after)
    assert (len(found.before), len(found.both), len(found.after)) == (2000, 2000, 0)
    assert time.process_time() - started < 1, "4 million pairs are not hashed"
