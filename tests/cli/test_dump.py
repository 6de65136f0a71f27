"""``puffin dump``: the JSON document, the text, and raw payloads."""

import re
from types import SimpleNamespace

import pyarrow as pa
import pytest
from datasketches import compact_theta_sketch
from deltalake import write_deltalake

BLOB_KEYS = [
    "index",
    "type",
    "fields",
    "snapshot-id",
    "sequence-number",
    "offset",
    "length",
    "compression-codec",
    "properties",
]


def test_document_describes_the_file(puffin, sound_file, sound_image):
    """The document has the file's sizes, footer compression and properties, under these keys only."""
    run = puffin("dump", sound_file, "--json")
    assert (run.code, run.stderr) == (0, "")
    document = run.document
    blobs = document.pop("blobs")
    footer_size = len(sound_image) - max(blob["offset"] + blob["length"] for blob in blobs)
    assert document == {
        "path": str(sound_file),
        "file-size": len(sound_image),
        "footer-size": footer_size,
        "footer-compressed": sound_image[-8] == 1,
        "properties": {"created-by": "the tests"},
    }


def test_document_lists_every_blob(puffin, bad_blobs_file):
    """Good or bad, every blob appears in footer order with its metadata."""
    run = puffin("dump", "--json", bad_blobs_file)
    assert (run.code, run.stderr) == (0, "")
    blobs = run.document["blobs"]
    assert [blob["index"] for blob in blobs] == list(range(12))
    assert all(list(blob)[: len(BLOB_KEYS)] == BLOB_KEYS for blob in blobs)
    assert {key: blobs[0][key] for key in ("type", "fields", "snapshot-id", "sequence-number", "offset")} == {
        "type": "apache-datasketches-theta-v1",
        "fields": [1],
        "snapshot-id": 11,
        "sequence-number": 2,
        "offset": 4,
    }
    assert [blob["compression-codec"] for blob in blobs[:4]] == ["zstd", "lz4", None, None]
    assert blobs[2]["properties"] == {}
    assert blobs[5]["length"] == 0


def test_document_of_an_exact_sketch_has_exact_bounds(puffin, sound_file):
    """An exact sketch's estimate is a count, its bounds equal the count, and theta is 1.0."""
    for index in (1, 2):
        assert puffin("dump", sound_file, "--json").document["blobs"][index]["sketch"] == {
            "estimate": 3.0,
            "lower": 3.0,
            "upper": 3.0,
            "theta": 1.0,
            "retained": 3,
            "estimating": False,
            "seed-hash": "93cc",
            "serial-version": 3,
        }


def test_document_of_an_estimating_sketch_matches_datasketches(puffin, sound_file, make: SimpleNamespace):
    """Estimate, theta and the two-standard-deviation bounds equal those of Apache DataSketches."""
    reference = compact_theta_sketch.deserialize(make.large_sketch.to_bytes())
    assert puffin("dump", sound_file, "--json").document["blobs"][0]["sketch"] == {
        "estimate": reference.get_estimate(),
        "lower": reference.get_lower_bound(2),
        "upper": reference.get_upper_bound(2),
        "theta": pytest.approx(reference.theta, rel=1e-15),
        "retained": 32,
        "estimating": True,
        "seed-hash": "93cc",
        "serial-version": 3,
    }


def test_document_has_the_serial_version_of_a_compressed_image(puffin, tmp_path, make):
    image = compact_theta_sketch.deserialize(make.large_sketch.to_bytes()).serialize(compress=True)
    file = tmp_path / "v4.puffin"
    file.write_bytes(make.file(make.blob("apache-datasketches-theta-v1", image)))
    sketch = puffin("dump", file, "--json").document["blobs"][0]["sketch"]
    assert (sketch["serial-version"], sketch["retained"]) == (4, 32)


def test_document_of_a_deletion_vector_has_cardinality_and_lowest_positions(puffin, sound_file, make):
    """It lists the ten lowest positions, and no sketch."""
    blob = puffin("dump", sound_file, "--json").document["blobs"][3]
    assert blob["deletion-vector"] == {"cardinality": 19, "first-positions": make.positions[:10]}
    assert "sketch" not in blob


def test_document_of_a_short_deletion_vector_lists_all_positions(puffin, fixtures, tmp_path, make):
    payload = (fixtures / "deletion-vectors-java" / "small-and-large-values-position-index.bin").read_bytes()
    file = tmp_path / "dv.puffin"
    file.write_bytes(make.file(make.blob("deletion-vector-v1", payload)))
    assert puffin("dump", file, "--json").document["blobs"][0]["deletion-vector"] == {
        "cardinality": 4,
        "first-positions": [100, 101, 2**31 + 99, 2**31 + 100],
    }


def test_document_does_not_decode_other_blob_types(puffin, bad_blobs_file):
    """Their codec does not matter."""
    blobs = puffin("dump", bad_blobs_file, "--json").document["blobs"]
    for index in (4, 5, 6):
        assert blobs[index]["sketch"] is None
        assert set(blobs[index]) == {*BLOB_KEYS, "sketch"}


@pytest.mark.parametrize(
    ("index", "key", "error"),
    [
        (7, "sketch", "brotli"),
        (8, "sketch", "theta sketch"),
        (9, "sketch", "at least 8 bytes"),
        (10, "sketch", "frame-magic"),
        (11, "deletion-vector", "deletion vector"),
    ],
)
def test_document_of_a_bad_blob_has_null_and_the_reason(puffin, bad_blobs_file, index, key, error):
    blob = puffin("dump", bad_blobs_file, "--json").document["blobs"][index]
    assert blob[key] is None
    assert error in blob["error"]
    assert set(blob) == {*BLOB_KEYS, key, "error"}


def test_document_of_an_empty_file_has_an_empty_list(puffin, fixtures):
    """Its properties are an empty object."""
    document = puffin("dump", "--json", fixtures / "puffin-java" / "empty-puffin-uncompressed.bin").document
    assert (document["file-size"], document["footer-size"]) == (32, 28)
    assert (document["blobs"], document["properties"]) == ([], {})


def test_blob_option_selects_one_blob_and_keeps_its_index(puffin, sound_file):
    whole = puffin("dump", sound_file, "--json").document
    part = puffin("dump", sound_file, "--json", "--blob", 3).document
    assert part == {**whole, "blobs": whole["blobs"][3:4]}
    assert re.findall(r"^blob \d+", puffin("dump", sound_file, "--blob", 3).text, re.MULTILINE) == ["blob 3"]


def test_raw_writes_exactly_the_decompressed_payload(puffin, sound_file, make):
    for index, payload in enumerate(
        [
            make.large_sketch.to_bytes(),
            make.small_sketch.to_bytes(),
            make.small_sketch.to_bytes(),
            make.deletion_vector().payload,
            b"payload \x00\xff" * 9,
            b"",
        ]
    ):
        run = puffin("dump", sound_file, "--blob", index, "--raw")
        assert (run.code, run.stdout, run.stderr) == (0, payload, "")


def test_raw_writes_payloads_that_are_no_valid_sketch(puffin, bad_blobs_file):
    assert puffin("dump", bad_blobs_file, "--blob", 8, "--raw").stdout == b"not a sketch"


@pytest.mark.parametrize("index", [6, 7, 10])
def test_raw_fails_in_one_line_if_the_payload_cannot_be_decompressed(puffin, bad_blobs_file, index):
    """Stdout stays empty."""
    run = puffin("dump", bad_blobs_file, "--blob", index, "--raw")
    assert (run.code, run.stdout) == (1, b"")
    assert run.stderr.startswith(f"puffin: {bad_blobs_file}: ")
    assert "not a Puffin file" not in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [(), ("--json",), ("--raw",)])
def test_unknown_blob_index_is_refused_with_the_valid_indexes(puffin, sound_file, options):
    run = puffin("dump", sound_file, "--blob", 6, *options)
    assert (run.code, run.stdout) == (2, b"")
    assert run.stderr == f"puffin: {sound_file}: blob index: expected 0 to 5, found 6\n"


def test_blob_zero_of_an_empty_file_is_refused(puffin, fixtures):
    run = puffin("dump", fixtures / "puffin-java" / "empty-puffin-uncompressed.bin", "--blob", 0)
    assert run.code == 2
    assert "no blobs" in run.stderr


@pytest.mark.parametrize(
    "args",
    [(), ("--raw",), ("--blob", "0", "--raw", "--json"), ("--blob", "-1"), ("--blob", "first"), ("another",)],
)
def test_contradictory_options_and_missing_file_are_usage_errors(puffin, sound_file, args):
    run = puffin("dump", *([sound_file] if args else []), *args)
    assert (run.code, run.stdout) == (2, b"")
    assert "Traceback" not in run.stderr


def test_text_describes_each_blob_and_its_errors(puffin, bad_blobs_file, make):
    run = puffin("dump", bad_blobs_file)
    assert (run.code, run.stderr) == (0, "")
    head, *blobs = run.text.split("\n\n")
    assert head.splitlines()[0] == str(bad_blobs_file)
    assert "  properties   created-by = the tests\n  blobs        12" in head
    assert re.search(r"size +[\d,]+ bytes \(\d+\.\d KiB\)", head)
    ndv, lower, upper = make.large_sketch.ndv, make.large_sketch.lower_bound(), make.large_sketch.upper_bound()
    assert f"ndv          {ndv} (95 % bounds {lower // 1:.0f} to {-(-upper // 1):.0f})" in blobs[0]
    assert re.search(r"sketch +theta 0\.\d+, 32 retained, seed hash 93cc, serial version 3", blobs[0])
    assert "ndv          3 (exact)" in blobs[1]
    assert "cardinality  19\n  positions    5, 7, 9, 11, 13, 15, 17, 19, 21, 23, ...\n" in blobs[3]
    assert "not decoded" in blobs[4]
    assert "brotli" in blobs[6]
    assert all("NOT DECODED" in blob for blob in blobs[7:])


def test_text_names_the_parts_of_our_properties(puffin, tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": [1, 2, None]}))
    path = puffin("analyze", tmp_path / "t", "--json").document["statistics-file"]["path"]
    said = puffin("dump", path).text
    assert "puffin-sidecar.bounds = 2,2 (95 % bounds of the ndv: lower, upper)" in said
    assert "puffin-sidecar.summary = [3,1,null,16,1,2] (rows, nulls, NaNs, bytes, min, max)" in said


def test_text_tells_blobs_of_ours_from_unknown_ones(puffin, tmp_path):
    """Private state has blobs that nobody looks into; they are not unknown."""
    write_deltalake(str(tmp_path), pa.table({"k": [1, 2, 3]}))
    puffin("analyze", tmp_path)
    text = "".join(puffin("dump", part).text for part in tmp_path.glob("_puffin_sidecar/parts/*/*"))
    assert "for later runs and estimates, not shown" in text
    assert "not known here" not in text


def test_text_escapes_control_characters_from_the_file(puffin, tmp_path, make):
    """Escape sequences and line ends in a file cannot control the terminal."""
    file = tmp_path / "hostile.puffin"
    file.write_bytes(make.file(make.blob("x\x1b[2J\n\u202ey", b"", note="\x9b31m\r")))
    text = puffin("dump", file).text
    assert set(re.findall(r"[^\x20-\x7e]", text)) == {"\n"}
    assert r"blob 0: x\x1b[2J\n\u202ey" in text
    assert r"note = \x9b31m\r" in text
