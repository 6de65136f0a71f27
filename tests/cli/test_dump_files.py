"""``puffin dump``: whose files it reads, and where from."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pytest


def test_java_samples(puffin, fixtures):
    """The samples of Iceberg's Java library: two blobs of unknown types, compressed or not, and their payloads."""
    for name, codec in (("uncompressed", None), ("compressed-zstd", "zstd")):
        file = fixtures / "puffin-java" / f"sample-metric-data-{name}.bin"
        document = puffin("dump", file, "--json").document
        assert document["properties"] == {"created-by": "Test 1234"}
        assert [(blob["type"], blob["compression-codec"], blob["sketch"]) for blob in document["blobs"]] == [
            ("some-blob", codec, None),
            ("some-other-blob", codec, None),
        ]
        assert puffin("dump", file, "--blob", 0, "--raw").stdout == b"abcdefghi"


def test_spark_statistics(puffin, fixtures, spark_warehouse):
    """Every sketch in a statistics file of Iceberg's Spark action has the NDV that Spark itself put beside it."""
    expected = json.loads((fixtures / "tables-spark-3.5-iceberg-1.10" / "iceberg-spark-expected.json").read_bytes())
    entries = {Path(entry["path"]).name: entry for table in expected.values() for entry in table["stats"]}
    files = [file for file in spark_warehouse.rglob("*.stats") if file.name in entries]
    assert len(files) == len(entries) > 1
    for file in files:
        document = puffin("dump", file, "--json").document
        entry = entries[file.name]
        assert (document["file-size"], document["footer-size"]) == (entry["size"], entry["footer"])
        assert sorted(int(blob["sketch"]["estimate"]) for blob in document["blobs"]) == sorted(
            map(int, entry["ndv"].values())
        )
        for blob in document["blobs"]:
            sketch = blob["sketch"]
            assert sketch["lower"] <= sketch["estimate"] <= sketch["upper"]
            assert sketch["estimating"] == (sketch["theta"] < 1.0) == (sketch["lower"] < sketch["upper"])


def test_spark_deletion_vectors(puffin, spark_warehouse):
    """Every deletion vector of Iceberg's Spark writer has the cardinality among its properties."""
    files = list(spark_warehouse.rglob("*.puffin"))
    assert files
    for file in files:
        for blob in puffin("dump", file, "--json").document["blobs"]:
            assert str(blob["deletion-vector"]["cardinality"]) == blob["properties"]["cardinality"]
            assert len(blob["deletion-vector"]["first-positions"]) == 10


def test_foreign_footer(puffin, fixtures):
    """Unknown keys, types and codecs, gaps and blobs without bytes at any offset are all listed."""
    document = puffin("dump", fixtures / "puffin-recipe" / "foreign-footer.bin", "--json").document
    assert [(blob["type"], blob["offset"], blob["length"]) for blob in document["blobs"]] == [
        ("presto-kll-sketch-bytes-v1", 20, 5),
        ("apache-datasketches-theta-v1", 4, 7),
        ("x-brotli", 11, 8),
        ("x-empty", 20, 0),
        ("x-empty", 4, 0),
    ]


def test_compressed_footer(puffin, fixtures):
    """A compressed footer is read, and said to be one."""
    file = fixtures / "puffin-recipe" / "lz4-footer.bin"
    assert puffin("dump", file, "--json").document["footer-compressed"] is True
    assert ", compressed\n" in puffin("dump", file).text


def test_standard_input(puffin, sound_file, sound_image):
    """``-`` is standard input; only the path in the document differs."""
    named = puffin("dump", sound_file, "--json").document
    assert puffin("dump", "-", "--json", stdin=sound_image).document == {**named, "path": "-"}


def test_file_uri(puffin, sound_file):
    """A ``file:`` URI, with one slash or three, is a local path; the document has it as it was given."""
    named = puffin("dump", sound_file, "--json").document
    for uri in (f"file:{sound_file}", f"file://{sound_file}"):
        assert puffin("dump", uri, "--json").document == {**named, "path": uri}


def test_remote_uri(puffin, sound_file, sound_image):
    """Any URI that fsspec knows is read."""
    fsspec.filesystem("memory").pipe("/dump/sound.puffin", sound_image)
    named = puffin("dump", sound_file, "--json").document
    uri = "memory://dump/sound.puffin"
    assert puffin("dump", uri, "--json").document == {**named, "path": uri}


@pytest.mark.parametrize("uri", ["memory://dump/missing.puffin", "nosuch://dump/sound.puffin", "/dev/null/x"])
def test_unreadable_uri(puffin, uri):
    """A file that is not there and a scheme that nobody knows fail with one line that names the URI."""
    run = puffin("dump", uri)
    assert (run.code, run.stdout, run.stderr.count("\n")) == (1, b"", 1)
    assert run.stderr.startswith(f"puffin: {uri}: ")


def test_path_that_is_not_utf8(puffin, sound_image, tmp_path):
    """A path of arbitrary bytes opens its file, and neither document nor text breaks over it."""
    file = tmp_path / os.fsdecode(b"\xff.puffin")
    file.write_bytes(sound_image)
    assert puffin("dump", file, "--json").document["path"] == str(file)
    assert r"\udcff.puffin" in puffin("dump", file).text


def test_as_a_module(tmp_path, make):
    """``python -m puffin dump`` is the command; JSON is UTF-8 and text can be shown, whatever the locale."""
    file = tmp_path / "file.puffin"
    file.write_bytes(make.file(make.blob("x", b"", note="café")))
    for options, shown in ([], rb"caf\xe9"), (["--json"], "café".encode()):
        run = subprocess.run(
            [sys.executable, "-m", "puffin", "dump", file, *options],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert (run.returncode, run.stderr) == (0, b"")
        assert shown in run.stdout
