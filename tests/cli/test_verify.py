"""``puffin verify``: what is valid, which rule is broken, and how it reports that."""

import subprocess
import sys
from dataclasses import replace

import fsspec
import pytest

from puffin.errors import StorageError
from puffin.storage import LocalStore

THETA = "apache-datasketches-theta-v1"
VECTOR = "deletion-vector-v1"


@pytest.fixture
def errors_of(puffin, make):
    """Return the errors of a file of the blobs given."""

    def errors(*blobs):
        (file,) = puffin("verify", "-", "--json", stdin=make.file(*blobs)).document["files"]
        assert file["valid"] == (not file["errors"])
        return file["errors"]

    return errors


def test_file_that_keeps_every_rule_is_valid(puffin, sound_file):
    """Its blob types and codecs do not matter."""
    run = puffin("verify", sound_file, "--json")
    assert (run.code, run.stderr) == (0, "")
    assert run.document == {"files": [{"path": str(sound_file), "valid": True, "errors": []}]}
    run = puffin("verify", sound_file)
    assert (run.code, run.text, run.stderr) == (0, f"{sound_file}: ok\n", "")


def test_golden_files_of_java_and_spark_are_valid(puffin, fixtures, spark_warehouse):
    """The ``ndv`` beside each sketch is checked too."""
    files = [*(fixtures / "puffin-java").glob("*.bin"), *spark_warehouse.rglob("*.*")]
    assert len(files) > 10
    run = puffin("verify", *files, "--json")
    assert [file["errors"] for file in run.document["files"]] == [[]] * len(files)
    assert run.code == 0


def test_every_bad_blob_is_reported(puffin, bad_blobs_file):
    """A bad blob hides no other, and good ones are not blamed."""
    run = puffin("verify", bad_blobs_file, "--json")
    assert run.code == 1
    (file,) = run.document["files"]
    assert run.stderr == f"puffin: 1 of 1 files invalid: {bad_blobs_file}: {file['errors'][0]}\n"
    assert not file["valid"]
    assert {error.partition(":")[0] for error in file["errors"]} == {f"blob {index}" for index in range(6, 12)}
    assert "brotli" in file["errors"][0]


def test_every_file_is_reported(puffin, sound_file, bad_blobs_file, tmp_path):
    """Missing files, directories and broken files have entries, in the order given."""
    missing, directory = tmp_path / "missing", tmp_path
    files = [missing, sound_file, directory, bad_blobs_file, sound_file]
    run = puffin("verify", *files, "--json")
    entries = run.document["files"]
    assert [entry["path"] for entry in entries] == [str(file) for file in files]
    assert [entry["valid"] for entry in entries] == [False, True, False, False, True]
    assert "no such file" in entries[0]["errors"][0]
    (said,) = run.stderr.splitlines()
    assert (run.code, said.partition(": /")[0]) == (1, "puffin: 1 of 5 files invalid, 2 not read")
    assert all(f"{file}: " in said for file in (missing, directory, bad_blobs_file))


def test_file_that_cannot_be_read_is_not_called_invalid(puffin, sound_file, tmp_path, monkeypatch):
    """Missing, a directory, a pattern that matched nothing, not permitted, a store that is not there."""
    closed = tmp_path / "closed"

    def refuse(self, uri):
        if uri == str(closed):
            raise StorageError(f"{uri}: Permission denied")
        return open_source(self, uri)

    open_source = LocalStore.open_source
    monkeypatch.setattr(LocalStore, "open_source", refuse)
    files = [tmp_path / "missing", tmp_path, tmp_path / "*.stats", closed, "nostore://bucket/x"]
    run = puffin("verify", *files, sound_file)
    states = [line for line in run.text.splitlines() if not line.startswith("  ")]
    assert states == [*(f"{file}: NOT READ" for file in files), f"{sound_file}: ok"]
    (said,) = run.stderr.splitlines()
    assert said.startswith(f"puffin: 5 of 6 files not read: {files[0]}: no such file or directory; {files[1]}: ")
    assert (run.code, said.endswith("; and 2 more")) == (1, True)


def test_text_has_a_line_for_each_file_and_indented_errors(puffin, sound_file, tmp_path):
    file = tmp_path / "broken"
    file.write_bytes(b"no")
    run = puffin("verify", file, sound_file)
    assert run.text == (f"{file}: INVALID\n  file-size: expected at least 20 bytes, found 2 bytes\n{sound_file}: ok\n")
    why = "file-size: expected at least 20 bytes, found 2 bytes"
    assert (run.code, run.stderr) == (1, f"puffin: 1 of 2 files invalid: {file}: {why}\n")


@pytest.mark.parametrize("size", [1, 100_000])
def test_verify_checks_the_head_magic_of_large_files(puffin, make, size):
    """The footer of a large file is read by itself."""
    image = make.file(make.blob("x", b"\0" * size))
    (file,) = puffin("verify", "-", "--json", stdin=b"X" + image[1:]).document["files"]
    assert file["errors"] == ["head-magic at offset 0: expected b'PFA1', found b'XFA1'"]


def test_verify_reads_any_fsspec_uri(puffin, sound_image):
    fsspec.filesystem("memory").pipe("/verify/sound.puffin", sound_image)
    assert puffin("verify", "memory://verify/sound.puffin").code == 0
    assert puffin("verify", "memory://verify/missing.puffin").code == 1


@pytest.mark.parametrize("ndv", ["4.0", " 3", "3 ", "-3", "+3", "", "³", "٣", "3e0", "0x3"])
def test_ndv_with_anything_but_digits_is_an_error(errors_of, make, ndv):
    """Engines fail on such an ``ndv``."""
    (error,) = errors_of(make.blob(THETA, make.small_sketch.to_bytes(), ndv=ndv))
    assert error.startswith("blob 0: property ndv: expected decimal digits only, found ")


def test_ndv_must_equal_the_estimate_rounded_down(errors_of, make):
    """Without an ``ndv`` there is nothing to compare."""
    large = make.large_sketch
    assert large.estimate != large.ndv
    assert errors_of(make.blob(THETA, large.to_bytes(), ndv=str(large.ndv))) == []
    assert errors_of(make.blob(THETA, large.to_bytes())) == []
    assert errors_of(make.blob(THETA, large.to_bytes(), ndv=str(large.ndv + 1))) == [
        f"blob 0: property ndv: expected {large.ndv} as the payload says, found '{large.ndv + 1}'"
    ]
    assert len(errors_of(make.blob(THETA, large.to_bytes(), ndv="9" * 5000))) == 1


def test_ndv_is_the_upper_bound_if_there_are_fewer_rows_than_estimated(errors_of, make):
    """The job's ``ndv`` is never above the number of values, which its bounds say; it is never below the hashes."""
    large = make.large_sketch
    fewer, bounds = large.ndv - 1, "puffin-sidecar.bounds"
    image = large.to_bytes()
    assert errors_of(make.blob(THETA, image, **{"ndv": str(fewer), bounds: f"{fewer - 1},{fewer}"})) == []
    for ndv, upper in [(fewer, fewer + 1), (fewer, fewer - 1), (1, 1)]:
        assert len(errors_of(make.blob(THETA, image, **{"ndv": str(ndv), bounds: f"1,{upper}"}))) == 1


def test_ndv_of_an_empty_sketch_is_zero(errors_of, make):
    """It may have any number of digits."""
    empty = make.small_sketch.difference(make.small_sketch).to_bytes()
    assert errors_of(make.blob(THETA, empty, ndv="0"), make.blob(THETA, empty, ndv="00")) == []
    assert len(errors_of(make.blob(THETA, empty, ndv="1"))) == 1


def test_wrong_ndv_is_reported_beside_a_bad_sketch(errors_of, make):
    assert len(errors_of(make.blob(THETA, b"not a sketch", ndv="4.0"))) == 2


def test_ndv_of_other_blob_types_is_ignored(errors_of, make):
    assert errors_of(make.blob("x", b"", ndv="4.0", cardinality="many")) == []


def test_deletion_vector_must_name_data_file_and_cardinality(errors_of, make):
    payload = make.deletion_vector().payload
    assert errors_of(make.deletion_vector()) == []
    assert errors_of(make.blob(VECTOR, payload, cardinality="19")) == [
        "blob 0: property referenced-data-file: expected one, found none"
    ]
    assert errors_of(make.blob(VECTOR, payload, referenced_data_file="x")) == [
        "blob 0: property cardinality: expected one, found none"
    ]


def test_deletion_vector_cardinality_must_match_the_payload(errors_of, make):
    assert errors_of(make.deletion_vector(cardinality="18")) == [
        "blob 0: property cardinality: expected 19 as the payload says, found '18'"
    ]
    assert errors_of(make.deletion_vector(cardinality="19.0")) == [
        "blob 0: property cardinality: expected decimal digits only, found '19.0'"
    ]


def test_compressed_deletion_vector_is_an_error(errors_of, make):
    """It can be read all the same."""
    vector = make.deletion_vector()
    compressed = make.blob(VECTOR, vector.payload, "zstd", **vector.properties)
    assert errors_of(compressed) == ["blob 0: compression-codec: expected none for a deletion vector, found 'zstd'"]


def test_deletion_vector_that_names_a_snapshot_is_an_error(errors_of, make):
    """Nobody knows the snapshot yet when the file is written, so the specification wants -1."""
    vector = make.deletion_vector()
    assert errors_of(replace(vector, snapshot_id=11)) == [
        "blob 0: snapshot-id: expected -1 for a deletion vector, found 11"
    ]
    assert errors_of(replace(vector, sequence_number=0)) == [
        "blob 0: sequence-number: expected -1 for a deletion vector, found 0"
    ]


def test_verify_needs_a_file(puffin):
    run = puffin("verify")
    assert (run.code, run.stdout) == (2, b"")


def test_verify_says_what_to_name_of_a_table(puffin, tmp_path):
    (tmp_path / "t" / "metadata").mkdir(parents=True)
    run = puffin("verify", tmp_path / "t")
    said = "expected a file, found a directory; of a table, name its statistics files, such as metadata/*.stats"
    assert (run.code, run.stdout.decode()) == (1, f"{tmp_path}/t: NOT READ\n  {tmp_path}/t: {said}\n")


def test_verify_runs_as_a_module_and_sets_the_exit_code(sound_file, tmp_path):
    command = [sys.executable, "-m", "puffin", "verify"]
    assert subprocess.run([*command, sound_file], capture_output=True).returncode == 0
    run = subprocess.run([*command, sound_file, tmp_path], capture_output=True, text=True)
    said = f"puffin: 1 of 2 files not read: {tmp_path}: expected a file, found a directory\n"
    assert (run.returncode, run.stderr) == (1, said)
