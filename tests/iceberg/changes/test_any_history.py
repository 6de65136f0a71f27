"""For any history, the changes equal a comparison of whole plans and add up to the final rows."""

import itertools
from collections import Counter
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


class Commits:
    """Commits of every kind to a history, with files and rows picked at random."""

    def __init__(self, history, random):
        self._history = history
        self._random = random
        self._data, self._deletes, self._former = [], [], []
        self._scattered = set()
        self._numbers = itertools.count()

    def append(self):
        self._commit("append", self._new_files())

    def merging_append(self):
        self._commit("append", self._new_files(), rewrite=True)

    def add_again(self):
        self._commit("append", [self._former.pop()] if self._former else [])

    def list_again(self):
        self._commit("append", [self._history.listed_again(file) for file in self._some(self._data)])

    def list_in_two_partitions(self):
        file = self._history.data(self._name())
        places = {"partition": (1,)}, {"spec_id": 1, "partition": ()}
        self._scattered.add(file["file_path"])
        self._commit("append", [file, self._history.listed_again(file, **self._random.choice(places))])

    def append_and_delete_rows_of_it(self):
        files = self._new_files()
        self._commit("overwrite", [*files, self._position_deletes(files[:1])])

    def remove_files(self):
        self._commit("delete", remove=self._some(self._data))

    def overwrite_files_and_some_of_their_deletes(self):
        gone = self._some(self._data)
        self._commit("overwrite", self._new_files(), remove=[*gone, *self._some(self._vectors_of(gone))])

    def delete_rows_of_a_file(self):
        if self._data:
            self._commit("delete", [self._position_deletes([self._random.choice(self._data)])])

    def delete_rows_of_a_partition(self):
        if self._data:
            first = self._random.choice(self._data)
            named = [file for file in self._data if _partition(file) == _partition(first)]
            named = {file["file_path"]: file for file in self._some(named)}
            self._commit("delete", [self._position_deletes(named.values())])

    def delete_rows_by_vector(self):
        for data in self._some([file for file in self._data if file["file_path"] not in self._scattered]):
            vector = self._history.vector(self._name(), data, self._positions(data))
            self._commit("delete", [vector], remove=self._vectors_of([data]))

    def delete_rows_by_equality(self):
        for data in self._some(self._data)[:1]:
            ids = self._positions(data)
            self._commit("overwrite", [*self._new_files(), self._history.equality_deletes(self._name(), data, ids)])

    def bring_rows_back(self):
        self._commit("overwrite", remove=self._some(self._deletes))

    def rewrite_manifests(self):
        self._commit("replace", rewrite=True)

    def compact_files(self):
        gone = _paths(self._some(self._data))
        gone = [file for file in self._data if file["file_path"] in gone]
        tasks = [task for task in self._history.table.plan() if task.data_file.file_path in _paths(gone)]
        ids = list(self._history.rows(tasks).elements())
        compacted = [self._history.data(self._name(), ids=ids)] if ids else []
        self._commit("replace", compacted, remove=[*gone, *self._vectors_of(gone)])

    def _commit(self, operation, add=(), *, remove=(), rewrite=False):
        self._history.commit(operation, add, remove=remove, rewrite=rewrite)
        if operation != "replace":
            self._former += [file for file in remove if file["content"] == 0]
        live = [file for file in self._data + self._deletes if file not in remove] + list(add)
        self._data = [file for file in live if file["content"] == 0]
        self._deletes = [file for file in live if file["content"] != 0]

    def _new_files(self):
        # Of few partitions, and of both specs.
        return [self._history.data(self._name(), p=i % 2, spec_id=self._random.randint(0, 1)) for i in range(3)]

    def _position_deletes(self, files):
        # Those of one file are corrupt where a file that is listed in several partitions is of another than they are.
        of_partition = not self._scattered.isdisjoint(_paths(files))
        rows = [(file, self._positions(file)) for file in files]
        return self._history.position_deletes(self._name(), *rows, of_partition=of_partition)

    def _positions(self, data):
        return self._random.sample(range(data["record_count"]), min(3, data["record_count"]))

    def _vectors_of(self, files):
        return [file for file in self._deletes if file.get("referenced_data_file") in _paths(files)]

    def _some(self, files):
        return self._random.sample(files, min(len(files), self._random.randint(1, 2)))

    def _name(self):
        return f"file-{next(self._numbers)}"


def _paths(files):
    return {file["file_path"] for file in files}


def _partition(file):
    return file["spec_id"], file["partition"]


KINDS = [name for name in vars(Commits) if not name.startswith("_")]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=3, max_size=10), seed=st.integers(0, 2**32))
def test_changes_equal_the_differences_of_whole_plans(make_history, kinds, seed):
    history = make_history()
    commits = Commits(history, Random(seed))
    for kind in ["append", *kinds]:
        getattr(commits, kind)()
    plans = [history.table.plan(snapshot["snapshot-id"]) for snapshot in history.snapshots]
    expected = Counter()
    for parent in reversed(range(len(plans) - 1)):
        if history.snapshots[parent + 1]["summary"]["operation"] != "replace":
            expected.update(history.pairs(plans[parent + 1]))
            expected.subtract(history.pairs(plans[parent]))
        changes = history.changes(parent + 1, len(plans))

        found = history.pairs(changes.added)
        found.subtract(history.pairs(changes.removed))
        assert (+found, -found) == (+expected, -expected)

        for to_read in (changes, changes.narrowed):
            rows = history.rows(plans[parent])
            rows.update(history.rows(to_read.added))
            rows.subtract(history.rows(to_read.removed))
            assert (+rows, -rows) == (history.rows(plans[-1]), Counter())
