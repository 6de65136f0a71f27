"""``puffin dump``: the document, the text for a person, and payloads as they are."""

import re
from types import SimpleNamespace

import pytest
from datasketches import compact_theta_sketch

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
    """The document has the sizes, the footer's compression and the properties of the file, under these keys only."""
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
    """Sound or bad, every blob is listed in the order of the footer, with its metadata."""
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


def test_document_of_an_exact_sketch(puffin, sound_file):
    """While a sketch is exact its estimate is a count, its bounds are the count, and theta is 1.0."""
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


def test_document_of_an_estimating_sketch(puffin, sound_file, make: SimpleNamespace):
    """Estimate, theta and the bounds of two standard deviations are those of Apache DataSketches."""
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


def test_document_of_a_compressed_image(puffin, tmp_path, make):
    """The serial version is the one that stands in the image."""
    image = compact_theta_sketch.deserialize(make.large_sketch.to_bytes()).serialize(compress=True)
    file = tmp_path / "v4.puffin"
    file.write_bytes(make.file(make.blob("apache-datasketches-theta-v1", image)))
    sketch = puffin("dump", file, "--json").document["blobs"][0]["sketch"]
    assert (sketch["serial-version"], sketch["retained"]) == (4, 32)


def test_document_of_a_deletion_vector(puffin, sound_file, make):
    """A deletion vector has its cardinality and its ten lowest positions, and no sketch."""
    blob = puffin("dump", sound_file, "--json").document["blobs"][3]
    assert blob["deletion-vector"] == {"cardinality": 19, "first-positions": make.positions[:10]}
    assert "sketch" not in blob


def test_document_of_a_short_deletion_vector(puffin, fixtures, tmp_path, make):
    """Where there are fewer than ten positions, all are listed."""
    payload = (fixtures / "deletion-vectors-java" / "small-and-large-values-position-index.bin").read_bytes()
    file = tmp_path / "dv.puffin"
    file.write_bytes(make.file(make.blob("deletion-vector-v1", payload)))
    assert puffin("dump", file, "--json").document["blobs"][0]["deletion-vector"] == {
        "cardinality": 4,
        "first-positions": [100, 101, 2**31 + 99, 2**31 + 100],
    }


def test_document_of_other_types(puffin, bad_blobs_file):
    """A blob of any other type is not decoded, so that its codec does not matter."""
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
def test_document_of_a_bad_blob(puffin, bad_blobs_file, index, key, error):
    """What cannot be decoded is null and says why."""
    blob = puffin("dump", bad_blobs_file, "--json").document["blobs"][index]
    assert blob[key] is None
    assert error in blob["error"]
    assert set(blob) == {*BLOB_KEYS, key, "error"}


def test_empty_file(puffin, fixtures):
    """A file without blobs and properties has an empty list and an empty object."""
    document = puffin("dump", "--json", fixtures / "puffin-java" / "empty-puffin-uncompressed.bin").document
    assert (document["file-size"], document["footer-size"]) == (32, 28)
    assert (document["blobs"], document["properties"]) == ([], {})


def test_one_blob(puffin, sound_file):
    """``--blob`` leaves out the others and nothing else; the index stays what it is."""
    whole = puffin("dump", sound_file, "--json").document
    part = puffin("dump", sound_file, "--json", "--blob", 3).document
    assert part == {**whole, "blobs": whole["blobs"][3:4]}
    assert re.findall(r"^blob \d+", puffin("dump", sound_file, "--blob", 3).text, re.MULTILINE) == ["blob 3"]


def test_raw_payload(puffin, sound_file, make):
    """``--raw`` writes the payload of any type, decompressed, and not a byte more."""
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


def test_raw_payload_that_is_no_sketch(puffin, bad_blobs_file):
    """A payload need not make sense to be written."""
    assert puffin("dump", bad_blobs_file, "--blob", 8, "--raw").stdout == b"not a sketch"


@pytest.mark.parametrize("index", [6, 7, 10])
def test_raw_payload_that_cannot_be_decompressed(puffin, bad_blobs_file, index):
    """An unknown codec and a broken frame fail with one line, and nothing on stdout."""
    run = puffin("dump", bad_blobs_file, "--blob", index, "--raw")
    assert (run.code, run.stdout) == (1, b"")
    assert run.stderr.startswith(f"puffin: {bad_blobs_file}: ")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("options", [(), ("--json",), ("--raw",)])
def test_unknown_blob(puffin, sound_file, options):
    """A blob that the file does not have is refused with one line that says which there are."""
    run = puffin("dump", sound_file, "--blob", 6, *options)
    assert (run.code, run.stdout) == (2, b"")
    assert run.stderr == f"puffin: {sound_file}: blob index: expected 0 to 5, found 6\n"


def test_unknown_blob_of_an_empty_file(puffin, fixtures):
    """A file without blobs has no blob 0."""
    run = puffin("dump", fixtures / "puffin-java" / "empty-puffin-uncompressed.bin", "--blob", 0)
    assert run.code == 2
    assert "no blobs" in run.stderr


@pytest.mark.parametrize(
    "args",
    [(), ("--raw",), ("--blob", "0", "--raw", "--json"), ("--blob", "-1"), ("--blob", "first"), ("another",)],
)
def test_wrong_usage(puffin, sound_file, args):
    """Options that make no sense together, or no FILE, are wrong usage."""
    run = puffin("dump", *([sound_file] if args else []), *args)
    assert (run.code, run.stdout) == (2, b"")
    assert "Traceback" not in run.stderr


def test_text(puffin, bad_blobs_file, make):
    """The text says of each blob what it is, what it holds, and why not."""
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


def test_text_is_plain(puffin, tmp_path, make):
    """A file cannot steer the terminal: escape sequences and line ends in it come out as text."""
    file = tmp_path / "hostile.puffin"
    file.write_bytes(make.file(make.blob("x\x1b[2J\n\u202ey", b"", note="\x9b31m\r")))
    text = puffin("dump", file).text
    assert set(re.findall(r"[^\x20-\x7e]", text)) == {"\n"}
    assert r"blob 0: x\x1b[2J\n\u202ey" in text
    assert r"note = \x9b31m\r" in text
