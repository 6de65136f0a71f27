"""
Tables with a history whose manifests are listed again by later snapshots, as real writers do.

Data files are never written, since planning opens none. What a test says of their rows is kept beside them, so that
the rows of any tasks can be told without reading.
"""

import itertools
from collections import Counter

import pytest

from puffin.iceberg.scan.changes import changes_between
from puffin.iceberg.scan.manifest_lists import manifest_files
from puffin.storage import LocalStore, Store, store_for
from tests.bound import bound

EXISTING, ADDED, DELETED = 0, 1, 2
PARTITIONED, UNPARTITIONED = 0, 1


class History:
    """
    Snapshots of a `HandMadeTable`, numbered from 1, each the parent of the next.

    The table has two partition specs: by its column ``p``, and none. Entries are made by ``data``, ``vector``,
    ``position_deletes`` and ``equality_deletes``, and get their sequence number from the snapshot that adds them.

    Attributes:
        manifests: Those of the last snapshot, each with its entries.
        opened: The names of the files that ``changes`` opened, in order.
    """

    def __init__(self, table):
        self.table = table
        self.snapshots = table.document["snapshots"]
        self.manifests = []
        self.opened = []
        self._ids, self._positions, self._deleted_ids = {}, {}, {}
        self._names = itertools.count()
        table.document["partition-specs"].append({"spec-id": UNPARTITIONED, "fields": []})

    # --- commits --------------------------------------------------------------------------------------------------

    def commit(self, operation, add=(), *, remove=(), rewrite=False):
        """Make a snapshot; manifests with entries to remove are rewritten, or all of them on request."""
        number = len(self.snapshots) + 1
        gone = set(map(_place, remove))
        listed, groups = [], {}
        for manifest, entries in self.manifests:
            live = [entry for entry in entries if entry["status"] != DELETED]
            if live and not rewrite and gone.isdisjoint(map(_place, live)):
                listed.append((manifest, entries))
                continue
            for entry in live:
                status = DELETED if _place(entry) in gone else EXISTING
                groups.setdefault((*_kind(entry), not rewrite and manifest), []).append(entry | {"status": status})
        for entry in add:
            numbered = {"sequence_number": number if self.table.version > 1 else 0, "status": ADDED}
            groups.setdefault((*_kind(entry), "added"), []).append(entry | numbered)
        self.manifests = listed + [self._manifest(number, entries) for entries in groups.values()]
        self._list(number, operation)
        return number

    def rewrite_delete_manifests(self):
        """Make the next snapshot list the same deletes, each in a rewritten manifest."""
        self.manifests = [
            self._manifest(len(self.snapshots) + 1, [entry | {"status": EXISTING} for entry in entries])
            if entries[0]["content"]
            else (manifest, entries)
            for manifest, entries in self.manifests
        ]

    def upgrade(self):
        """Upgrade a version 1 table to version 2, which lists its old manifests with sequence number 0."""
        from pyiceberg.manifest import ManifestFile

        self.table.version = self.table.document["format-version"] = 2
        counts = (f"{status}_{of}_count" for status in ("added", "existing", "deleted") for of in ("files", "rows"))
        zeros = dict.fromkeys((*counts, "content", "sequence_number", "min_sequence_number", "added_snapshot_id"), 0)
        self.manifests = [
            (
                ManifestFile.from_args(
                    2,
                    **zeros | {"added_files_count": len(entries)},
                    manifest_path=manifest.manifest_path,
                    manifest_length=manifest.manifest_length,
                    partition_spec_id=manifest.partition_spec_id,
                ),
                entries,
            )
            for manifest, entries in self.manifests
        ]

    def unlist(self, number):
        """Make the metadata name the manifests of a snapshot, which then has no list (format version 1)."""
        snapshot = self.snapshots[number - 1]
        listed = manifest_files(snapshot.pop("manifest-list"), store_for)
        snapshot["manifests"] = [manifest.manifest_path for manifest in listed]

    # --- files ----------------------------------------------------------------------------------------------------

    def data(self, name, *, p=0, spec_id=PARTITIONED, ids=range(10), **fields):
        """A data file with a row for each of these ids."""
        path = self.table.root / name
        self._ids.setdefault(str(path), list(ids))
        entry = self.table.data(path, record_count=len(ids), file_size_in_bytes=100, spec_id=spec_id, **fields)
        return entry | {"partition": (p,) if spec_id == PARTITIONED else ()}

    def listed_again(self, data, **fields):
        """The same data file again; either can be removed without the other."""
        return data | fields | {"sort_order_id": next(self._names)}

    def vector(self, name, data, positions):
        return self._deletes(self.table.vector(name, data["file_path"], positions), (data, positions))

    def position_deletes(self, name, *rows, of_partition=False):
        """
        Position deletes of these data files and positions; about one file or, for several or on request, a partition.
        """
        places = [(data["file_path"], position) for data, positions in rows for position in positions]
        of_one_file = len(rows) == 1 and not of_partition
        return self._deletes(self.table.position_deletes(name, places, of_one_file=of_one_file), *rows)

    def equality_deletes(self, name, data, ids):
        """Equality deletes of rows with these ids, in a data file's partition, or everywhere without one."""
        path = self.table.root / name
        self._deleted_ids[str(path)] = set(ids)
        fields = {"content": 2, "equality_ids": [1], "file_size_in_bytes": 100, "record_count": len(ids)}
        return self.table.data(path) | fields | {key: data[key] for key in ("spec_id", "partition")}

    def _deletes(self, entry, *rows):
        self._positions[entry["file_path"]] = {data["file_path"]: set(positions) for data, positions in rows}
        return entry | {key: rows[0][0][key] for key in ("spec_id", "partition")}

    # --- answers --------------------------------------------------------------------------------------------------

    def changes(self, base, target):
        state = self.table.state()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Store, "read", self._spied(Store.read))
            patch.setattr(LocalStore, "open_input", self._spied(LocalStore.open_input))
            return changes_between(bound(state, target), state.snapshot(base))

    def changed(self, base, target):
        """The changes as two lists of names, added and removed: a data file with its deletes, if any, in brackets."""
        changes = self.changes(base, target)
        return sorted(map(_named, changes.added)), sorted(map(_named, changes.removed))

    def rows(self, tasks):
        """The ids of the live rows of these tasks, and how many rows have each."""
        rows = Counter()
        for task in tasks:
            path = task.data_file.file_path
            places = (
                range(len(self._ids[path])) if task.deleted_by is None else self._all_deleted(task.deleted_by, path)
            )
            places = set(places) - self._all_deleted(task.delete_files, path)
            rows.update(self._ids[path][at] for at in places)
        return rows

    def pairs(self, tasks):
        """How often each data file occurs, with those of its deletes that delete rows of it."""
        return Counter(
            (path, *sorted(delete.file_path for delete in task.delete_files if self._deleted(delete, path)))
            for task in tasks
            for path in [task.data_file.file_path]
        )

    def _all_deleted(self, deletes, path):
        return set().union(*(self._deleted(delete, path) for delete in deletes))

    def _deleted(self, delete, path):
        if delete.content == "POSITION_DELETES":
            return self._positions[delete.file_path].get(path, set())
        return {at for at, id_ in enumerate(self._ids[path]) if id_ in self._deleted_ids[delete.file_path]}

    def _spied(self, method):
        def spy(store, uri):
            self.opened.append(uri.rpartition("/")[2])
            return method(store, uri)

        return spy

    # --- metadata -------------------------------------------------------------------------------------------------

    def _manifest(self, number, entries):
        # What is added has no sequence number yet, and inherits the manifest's.
        inherited = {"sequence_number": None}
        records = [entry | (inherited if entry["status"] == ADDED else {}) for entry in entries]
        manifest = self.table._manifest(next(self._names), *_kind(entries[0]), records)
        if self.table.version > 1:
            live = [entry["sequence_number"] for entry in entries if entry["status"] != DELETED]
            manifest.sequence_number, manifest.min_sequence_number = number, min(live, default=number)
        return manifest, entries

    def _list(self, number, operation):
        self.snapshots.append(
            {
                "snapshot-id": number,
                "parent-snapshot-id": number - 1 or None,
                "sequence-number": number,
                "timestamp-ms": 1000 * number,
                "manifest-list": self.table._manifest_list(number, [manifest for manifest, _ in self.manifests]),
                "summary": {"operation": operation},
            }
        )
        self.table.document["current-snapshot-id"] = number


def _kind(entry):
    return entry["spec_id"], entry["content"] != 0


def _place(entry):
    return entry["file_path"], entry.get("content_offset"), entry.get("sort_order_id")


def _named(task):
    data, *deletes = (file.file_path.rpartition("/")[2] for file in (task.data_file, *task.delete_files))
    return f"{data}[{' '.join(sorted(deletes))}]" if deletes else data


@pytest.fixture
def make_history(make_table):
    """Makes a `History` of a table of some format version."""
    return lambda version=3: History(
        make_table([(1, "id", "long"), (2, "p", "long")], version=version, spec=[(2, "identity")])
    )


@pytest.fixture
def history(make_history):
    return make_history()
