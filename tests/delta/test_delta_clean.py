"""Cleanup of the statistics directory of a Delta table: what goes, what stays, and that no answer is lost."""

import datetime
import json
import os
import shutil
import uuid
from pathlib import Path

import pytest

from puffin.clean import clean
from puffin.delta import leftovers
from puffin.load import load_table
from puffin.lookup import ndv
from puffin.tables.leftovers import SAFETY_AGE, AgeLimit
from stats_jobs import Options, analyze

DAY = datetime.timedelta(days=1)
NOW = datetime.timedelta()


class Delta:
    """A Delta table and our directory in it."""

    def __init__(self, writer) -> None:
        self.writer = writer
        self.path = str(writer.path)
        self.files = writer.log / "_puffin_sidecar"

    def append(self, *values: int) -> int:
        return self.writer.commit(self.writer.add({"a": list(values), "b": list(values)}))

    def analyze(self, **options):
        return analyze(self.path, Options(mode="full", **options)).entry

    def clean(self, older_than=NOW, **options):
        return clean(load_table(self.path), older_than=older_than, **options)

    def checkpoint(self, version: int) -> None:
        """Write a JSON checkpoint of the log entries up to a version, and delete those."""
        entries = [self.writer.entry(v) for v in range(version + 1)]
        actions = [line for entry in entries for line in entry.read_text().splitlines()]
        kept = [line for line in actions if "commitInfo" not in line and '"txn"' not in line]
        meta = json.dumps({"checkpointMetadata": {"version": version}})
        name = f"{version:020d}.checkpoint.{uuid.uuid4()}.json"
        (self.writer.log / name).write_text("".join(f"{line}\n" for line in [meta, *kept]))
        for entry in entries:
            entry.unlink()

    def names(self) -> set[str]:
        return {path.name for path in self.files.iterdir()}

    def answers(self, version: int | None = None) -> set:
        found = ndv(self.path, snapshot_id=version)
        return {(c.column.name, c.ndv, c.stats_snapshot_id) for c in found.columns}


@pytest.fixture
def delta(delta_table) -> Delta:
    """A table with one version of three rows."""
    delta = Delta(delta_table())
    delta.append(1, 2, 3)
    return delta


@pytest.fixture
def orphan(delta):
    """Writes the statistics file of a job killed before its entry was put, and returns its path."""
    return lambda: Path(analyze(delta.path, Options(mode="full", commit=False)).entry.statistics_path)


def paths(cleaning) -> set[str]:
    return {leftover.file.name for leftover in of_statistics(cleaning)}


def of_statistics(cleaning) -> list:
    """The leftovers below the log; other tests cover private state."""
    return [leftover for leftover in cleaning.files if "/_delta_log/" in leftover.file.uri]


def kept(cleaning) -> dict[str, str]:
    return {Path(each.path).name: each.reason for each in cleaning.kept if "/_delta_log/" in each.path}


def age(path: Path, by: datetime.timedelta) -> None:
    then = (datetime.datetime.now() - by).timestamp()
    os.utime(path, (then, then))


def name_of(entry) -> str:
    return Path(entry.statistics_path).name


def test_statistics_file_without_an_entry_is_removed(delta, orphan):
    named, lost = name_of(delta.analyze()), orphan()
    listed = delta.clean()
    assert (paths(listed), listed.removed) == ({lost.name}, False)
    assert lost.exists()
    assert paths(delta.clean(remove=True)) == {lost.name}
    assert delta.names() == {named, "0-0.json", "field-ids-0.json"}


def test_file_younger_than_the_safety_age_is_kept(delta, orphan):
    """A running job may be about to put its entry."""
    young, old = orphan(), orphan()
    age(young, SAFETY_AGE - DAY)
    age(old, SAFETY_AGE + DAY)
    cleaning = delta.clean(SAFETY_AGE, remove=True)
    assert (paths(cleaning), set(kept(cleaning))) == ({old.name}, {young.name})


def test_invalid_statistics_file_is_kept(delta, orphan):
    lost = orphan()
    lost.write_bytes(lost.read_bytes()[:-1])
    assert "not a Puffin file" in kept(delta.clean(remove=True))[lost.name]


def test_unreadable_entry_keeps_every_statistics_file(delta, orphan):
    """It may be of a later version of this project, and name any file."""
    lost = orphan()
    (delta.files / "7-0.json").write_text('{"format-version": 99}')
    cleaning = delta.clean(remove=True)
    assert "an entry that cannot be read may name it" in kept(cleaning)[lost.name]
    assert (delta.files / "7-0.json").exists()


def test_links_are_not_followed(delta, orphan, tmp_path):
    target = orphan().rename(tmp_path / "precious")
    link = delta.files / f"0-{uuid.uuid4()}.stats"
    link.symlink_to(target)
    assert "is a link" in kept(delta.clean(remove=True))[link.name]
    assert link.is_symlink()
    assert target.exists()


def test_linked_entry_keeps_the_file_it_names(delta, tmp_path):
    first = delta.analyze()
    delta.analyze()
    entry = delta.files / "0-0.json"
    entry.symlink_to(entry.rename(tmp_path / "entry"))
    assert delta.clean(remove=True).files == ()
    assert Path(first.statistics_path).exists()


def test_temporary_files_are_removed_from_our_directory_and_the_log(delta):
    """A note in the log is written under a temporary name too."""
    delta.analyze()
    ours = [path / f".puffin-sidecar-{uuid.uuid4().hex}.tmp" for path in (delta.files, delta.writer.log)]
    others = [delta.writer.log / name for name in (".tmp", f".{uuid.uuid4()}.tmp", "_last_checkpoint")]
    for path in (*ours, *others):
        path.write_bytes(b"cut sho")
    assert paths(delta.clean(remove=True)) == {path.name for path in ours}
    assert all(path.exists() for path in others)


def test_superseded_entries_are_removed_before_their_files(delta):
    """So no entry ever names a missing file."""
    first, second, newest = (name_of(delta.analyze()) for _ in range(3))
    before = delta.answers()
    cleaning = delta.clean(remove=True)
    assert [leftover.file.name for leftover in of_statistics(cleaning)] == [
        "0-1.json",
        "0-0.json",
        *sorted((first, second)),
    ]
    assert delta.names() == {"0-2.json", newest, "field-ids-0.json"}
    assert delta.answers() == before
    assert delta.clean(remove=True).files == ()


def test_recently_superseded_generations_are_kept(delta):
    delta.analyze()
    delta.analyze()
    cleaning = delta.clean(DAY, remove=True)
    assert cleaning.files == ()
    assert "0-0.json" in kept(cleaning)


def test_broken_entry_is_warned_of_once(delta, caplog):
    for _ in range(3):
        delta.analyze()
    (delta.files / "0-0.json").write_text("{")
    load_table(delta.path).open().leftovers(AgeLimit(datetime.datetime.now(datetime.timezone.utc), NOW))
    assert len(caplog.records) == 1


def test_superseded_field_ids_are_removed(delta):
    delta.analyze()
    ids = (delta.files / "field-ids-0.json").read_text()
    (delta.files / "field-ids-1.json").write_text(ids)
    assert paths(delta.clean(remove=True)) == {"field-ids-0.json"}


def test_field_ids_are_kept_while_newer_ones_are_unreadable(delta):
    delta.analyze()
    (delta.files / "field-ids-1.json").write_text("{")
    assert delta.clean(remove=True).files == ()


# --- versions that are gone ---------------------------------------------------------------------------------------


@pytest.fixture
def history(delta) -> Delta:
    """Statistics of two versions with their own rows; the first version can no longer be reconstructed."""
    delta.analyze()
    second = delta.append(4)
    delta.analyze()
    delta.checkpoint(second)
    return delta


def test_entry_of_a_lost_version_is_removed_once_a_later_one_answers(history):
    before = history.answers()
    cleaning = history.clean(remove=True)
    assert [leftover.file.name.partition("-")[0] for leftover in of_statistics(cleaning)] == ["0", "0"]
    assert [leftover.file.name.endswith(".json") for leftover in of_statistics(cleaning)] == [True, False]
    assert history.answers() == before
    assert not any(name.startswith("0-") for name in history.names())


def test_entry_is_kept_while_it_answers_for_an_existing_version(delta):
    """Even without its own version's log entry: lookups use the nearest earlier one."""
    delta.analyze()
    before_second = delta.append(4)
    delta.append(5)
    delta.analyze()
    delta.checkpoint(before_second)
    answers = delta.answers(before_second)
    assert {each[2] for each in answers} == {0}
    assert delta.clean(remove=True).files == ()
    assert delta.answers(before_second) == answers


def test_entry_is_kept_until_a_later_one_has_all_its_columns(delta):
    delta.analyze()
    second = delta.append(4)
    entry = delta.analyze(columns=("a",))
    keep_only(delta.files / f"{second}-0.json", 1)
    delta.checkpoint(second)
    before = delta.answers()
    assert ("b", 3, 0) in before
    assert delta.clean(remove=True).files == ()
    assert delta.answers() == before
    assert entry.snapshot_id == second


def keep_only(entry: Path, field_id: int) -> None:
    """Leave an entry with the statistics of one column."""
    document = json.loads(entry.read_text())
    blobs = document["statistics"]["blob-metadata"]
    document["statistics"]["blob-metadata"] = [blob for blob in blobs if blob["fields"] == [field_id]]
    entry.write_text(json.dumps(document))


def test_entry_is_removed_once_several_later_ones_have_its_columns(delta):
    """The one in between stays: no later one has its column."""
    delta.analyze()
    between = delta.append(4)
    delta.analyze()
    newest = delta.append(5)
    delta.analyze()
    keep_only(delta.files / f"{between}-0.json", 1)
    keep_only(delta.files / f"{newest}-0.json", 2)
    delta.checkpoint(newest)
    before = delta.answers()
    assert {name.partition("-")[0] for name in paths(delta.clean(remove=True))} == {"0"}
    assert delta.answers() == before


def test_each_entry_of_many_lost_versions_is_looked_at_once(delta, monkeypatch):
    delta.analyze()
    document = json.loads((delta.files / "0-0.json").read_text())
    newest = max(delta.append(4) for _ in range(20))
    for version in range(1, newest + 1):
        document["version"] = document["statistics"]["snapshot-id"] = version
        document["statistics"]["statistics-path"] = f"{version}-x.stats"
        (delta.files / f"{version}-0.json").write_text(json.dumps(document))
    delta.checkpoint(newest)
    looked_at = []
    columns = leftovers._columns
    monkeypatch.setattr(leftovers, "_columns", lambda document: looked_at.append(document) or columns(document))
    assert sum(name.endswith("-0.json") for name in paths(delta.clean())) == newest
    assert len(looked_at) == newest + 1


def test_entry_is_kept_while_the_later_one_is_young(history):
    """A reader with an older listing looks for it."""
    for path in history.files.glob("0-*"):
        age(path, 9 * DAY)
    assert history.clean(SAFETY_AGE, remove=True).files == ()


@pytest.fixture
def replaced(history) -> Delta:
    """The first version is of another table, which was replaced."""
    entry = history.files / "0-0.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "table-id": "another"}))
    return history


def test_everything_of_a_replaced_table_is_removed_with_its_last_version(replaced):
    """No later version covers its columns, but no reader looks for them any more."""
    before = replaced.answers()
    cleaning = replaced.clean(remove=True)
    assert [leftover.file.name.partition("-")[0] for leftover in of_statistics(cleaning)] == ["0", "0"]
    assert not [path for path in replaced.writer.path.rglob("0-*") if "sidecar" in str(path)]
    assert replaced.clean().files == ()
    assert replaced.answers() == before


def test_entry_of_a_replaced_table_is_kept_while_a_version_of_it_can_be_restored(replaced):
    writer = replaced.writer
    writer.commit(writer.metadata(id="another"))
    writer.commit(writer.metadata())
    assert replaced.clean(remove=True).files == ()


def test_entry_of_a_replaced_table_is_kept_while_an_older_checkpoint_is_unreadable(replaced):
    """Which table it is of is not known; the newest version can be read without it."""
    now = replaced.append(5)
    checkpoint = next(replaced.writer.log.glob("*.checkpoint.*.json"))
    actions = checkpoint.read_text().partition("\n")[2]
    newer = checkpoint.with_name(f"{now:020d}{checkpoint.name[20:]}")
    newer.write_text(json.dumps({"checkpointMetadata": {"version": now}}) + f"\n{actions}")
    checkpoint.write_text("{")
    assert replaced.clean(remove=True).files == ()


def test_entry_is_kept_while_the_later_one_is_of_a_version_that_was_lost(delta):
    """Readers skip that one, so the earlier one answers."""
    delta.analyze()
    lost = delta.append(4)
    delta.analyze()
    for version in range(lost, delta.writer.version + 1):
        delta.writer.entry(version).unlink()
    again = delta.append(5, 6)
    data = delta.writer.entry(again).read_bytes()
    delta.checkpoint(again)
    delta.writer.entry(again).write_bytes(data)
    before = delta.answers()
    assert {each[2] for each in before} == {0}
    assert delta.clean(remove=True).files == ()
    assert delta.answers() == before


def test_entry_is_kept_while_one_of_its_generations_is_unreadable(history):
    (history.files / "0-1.json").write_text("{")
    assert history.clean(remove=True).files == ()


# --- tables -------------------------------------------------------------------------------------------------------


def test_copy_of_a_table_is_cleaned_up_separately(delta, orphan, tmp_path):
    """The copied directory names nothing outside."""
    lost = orphan()
    shutil.copytree(delta.path, tmp_path / "copy")
    assert paths(clean(load_table(str(tmp_path / "copy")), older_than=NOW, remove=True)) == {lost.name}
    assert lost.exists()


def test_table_without_statistics_has_nothing_to_clean_up(delta):
    cleaning = delta.clean(remove=True)
    assert (cleaning.format, cleaning.files, cleaning.entries, cleaning.kept) == ("delta", (), (), ())
    assert not delta.files.exists()


def test_next_run_builds_on_what_is_kept(history):
    history.clean(remove=True)
    history.append(5, 6)
    report = analyze(history.path)
    assert {answer.basis for answer in report.columns} == {"added-files"}
    assert {each[1] for each in history.answers()} == {6}
