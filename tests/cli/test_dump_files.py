"""``puffin dump``: the writers and places whose files it reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog


def test_dump_reads_the_java_samples(puffin, fixtures):
    """They hold two blobs of unknown types, compressed and not."""
    for name, codec in (("uncompressed", None), ("compressed-zstd", "zstd")):
        file = fixtures / "puffin-java" / f"sample-metric-data-{name}.bin"
        document = puffin("dump", file, "--json").document
        assert document["properties"] == {"created-by": "Test 1234"}
        assert [(blob["type"], blob["compression-codec"], blob["sketch"]) for blob in document["blobs"]] == [
            ("some-blob", codec, None),
            ("some-other-blob", codec, None),
        ]
        assert puffin("dump", file, "--blob", 0, "--raw").stdout == b"abcdefghi"


def test_dump_of_a_table_shows_the_file_that_answers(puffin, tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2, 3]}))
    run = puffin("dump", tmp_path / "t")
    assert (run.code, run.stderr) == (1, f"puffin: {tmp_path}/t: no statistics file\n")
    file = puffin("analyze", tmp_path / "t", "--json").document["statistics-file"]["path"]
    assert puffin("dump", tmp_path / "t", "--json").document == puffin("dump", file, "--json").document
    assert (
        puffin("dump", tmp_path / "t", "--blob", 0, "--raw").stdout == puffin("dump", file, "--blob", 0, "--raw").stdout
    )


def test_dump_of_a_table_in_an_object_store_shows_the_file_that_answers(puffin, tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2, 3]}))
    puffin("analyze", tmp_path / "t")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "t"), "memory://dump/t", recursive=True)
    try:
        document = puffin("dump", "memory://dump/t", "--json").document
        assert document["path"].startswith("memory://dump/t/_delta_log/_puffin_sidecar/")
        assert document == puffin("dump", document["path"], "--json").document
        for absent in ("memory://dump/absent", "memory://dump/t/_delta_log/absent.stats"):
            run = puffin("dump", absent)
            assert (run.code, run.stderr) == (1, f"puffin: {absent}: no such file or directory\n")
    finally:
        memory.rm("memory://dump", recursive=True)


def test_dump_of_a_catalogs_table_shows_the_file_that_answers(puffin, tmp_path):
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": tmp_path.as_uri()}
    catalog = SqlCatalog("prod", **properties)
    catalog.create_namespace("db")
    catalog.create_table("db.t", pa.schema({"k": pa.int64()})).append(pa.table({"k": [1, 2, 3]}))
    catalog.close()
    said = "puffin: db.t: no such file or directory; for a table of a catalog, pass --catalog\n"
    assert puffin("dump", "db.t").stderr == said
    named = ["--catalog", "prod", *(f"--catalog-property={key}={value}" for key, value in properties.items())]
    puffin("analyze", "db.t", *named)
    document = puffin("dump", "db.t", *named, "--json").document
    assert [blob["sketch"]["estimate"] for blob in document["blobs"]] == [3.0]


def test_dump_of_spark_statistics_agrees_with_sparks_ndv(puffin, fixtures, spark_warehouse):
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


def test_dump_of_spark_deletion_vectors_agrees_with_their_cardinality(puffin, spark_warehouse):
    files = list(spark_warehouse.rglob("*.puffin"))
    assert files
    for file in files:
        for blob in puffin("dump", file, "--json").document["blobs"]:
            assert str(blob["deletion-vector"]["cardinality"]) == blob["properties"]["cardinality"]
            assert len(blob["deletion-vector"]["first-positions"]) == 10


def test_dump_lists_unusual_footers_of_other_writers(puffin, fixtures):
    """Unknown keys, types and codecs, gaps, and empty blobs at any offset are all listed."""
    document = puffin("dump", fixtures / "puffin-recipe" / "foreign-footer.bin", "--json").document
    assert [(blob["type"], blob["offset"], blob["length"]) for blob in document["blobs"]] == [
        ("presto-kll-sketch-bytes-v1", 20, 5),
        ("apache-datasketches-theta-v1", 4, 7),
        ("x-brotli", 11, 8),
        ("x-empty", 20, 0),
        ("x-empty", 4, 0),
    ]


def test_dump_reads_compressed_footers(puffin, fixtures):
    """The document says that the footer is compressed."""
    file = fixtures / "puffin-recipe" / "lz4-footer.bin"
    assert puffin("dump", file, "--json").document["footer-compressed"] is True
    assert ", compressed\n" in puffin("dump", file).text


def test_dash_reads_standard_input(puffin, sound_file, sound_image):
    """Only the path in the document differs."""
    named = puffin("dump", sound_file, "--json").document
    assert puffin("dump", "-", "--json", stdin=sound_image).document == {**named, "path": "-"}


def test_file_uris_are_local_paths(puffin, sound_file):
    """With one slash or three; the document shows the URI as given."""
    named = puffin("dump", sound_file, "--json").document
    for uri in (f"file:{sound_file}", f"file://{sound_file}"):
        assert puffin("dump", uri, "--json").document == {**named, "path": uri}


def test_dump_reads_any_fsspec_uri(puffin, sound_file, sound_image):
    fsspec.filesystem("memory").pipe("/dump/sound.puffin", sound_image)
    named = puffin("dump", sound_file, "--json").document
    uri = "memory://dump/sound.puffin"
    assert puffin("dump", uri, "--json").document == {**named, "path": uri}


@pytest.mark.parametrize("uri", ["memory://dump/missing.puffin", "nosuch://dump/sound.puffin", "/dev/null/x"])
def test_unreadable_uri_fails_in_one_line_that_names_it(puffin, uri):
    """The file is missing, or nobody knows the scheme."""
    run = puffin("dump", uri)
    assert (run.code, run.stdout, run.stderr.count("\n")) == (1, b"", 1)
    assert run.stderr.startswith(f"puffin: {uri}: ")


def test_dump_opens_paths_that_are_not_utf8(puffin, sound_image, tmp_path):
    """Neither the document nor the text breaks."""
    file = tmp_path / os.fsdecode(b"\xff.puffin")
    file.write_bytes(sound_image)
    assert puffin("dump", file, "--json").document["path"] == str(file)
    assert r"\udcff.puffin" in puffin("dump", file).text


def test_dump_runs_as_a_module(tmp_path, make):
    """``python -m puffin dump`` prints UTF-8 JSON, and text that any locale can show."""
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
