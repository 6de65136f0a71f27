"""``puffin dump`` and ``puffin verify`` of broken files print one line, exit with a code, and show no traceback."""

import pytest


def _assert_failed(run, name):
    assert (run.code, run.stdout) == (1, b"")
    assert run.stderr.startswith(f"puffin: {name}: ")
    assert run.stderr.count("\n") == 1
    assert "internal error" not in run.stderr


def test_dump_refuses_a_file_cut_at_any_byte(puffin, sound_image):
    for size in range(len(sound_image)):
        _assert_failed(puffin("dump", "-", "--json", stdin=sound_image[:size]), "-")


def test_dump_survives_a_change_of_any_byte(puffin, sound_image):
    """Either the blobs are listed, or one line says why not."""
    for position in range(len(sound_image)):
        damaged = bytearray(sound_image)
        damaged[position] ^= 0xFF
        run = puffin("dump", "-", "--json", stdin=bytes(damaged))
        if run.code == 0:
            assert len(run.document["blobs"]) == 6
        else:
            _assert_failed(run, "-")


def test_verify_finds_any_changed_byte_of_a_checksummed_blob(puffin, sound_image):
    """The blobs stay listed."""
    blobs = puffin("dump", "-", "--json", stdin=sound_image).document["blobs"]
    vector = blobs[3]
    for position in range(vector["offset"], vector["offset"] + vector["length"]):
        damaged = bytearray(sound_image)
        damaged[position] ^= 0xFF
        run = puffin("dump", "-", "--json", stdin=bytes(damaged))
        assert run.code == 0
        assert run.document["blobs"][3]["deletion-vector"] is None
        assert run.document["blobs"][:3] + run.document["blobs"][4:] == blobs[:3] + blobs[4:]
        assert puffin("verify", "-", stdin=bytes(damaged)).code == 1


def test_dump_checks_the_head_magic_of_large_files(puffin, tmp_path, make):
    """The footer of a large file is read by itself."""
    for size in (1, 100_000):
        file = tmp_path / "head.puffin"
        file.write_bytes(b"X" + make.file(make.blob("x", b"\0" * size))[1:])
        _assert_failed(puffin("dump", file), file)
        assert "head-magic" in puffin("dump", file, "--json").stderr
        assert puffin("dump", file, "--blob", 0, "--raw").code == 1


@pytest.mark.parametrize("content", [b"", b"PFA1", b"PAR1" + b"\0" * 100 + b"PAR1", b"PFA1" * 20])
def test_other_files_are_refused_with_path_and_broken_rule(puffin, tmp_path, content):
    file = tmp_path / "other"
    file.write_bytes(content)
    _assert_failed(puffin("dump", file), file)
    _assert_failed(puffin("dump", file, "--json"), file)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PAR1" * 30, "tail-magic at offset 116: expected b'PFA1', found b'PAR1'; it is a Parquet file"),
        (b'{"a": 1}\n', "file-size: expected at least 20 bytes, found 9 bytes; it is a JSON file"),
        (b"", "file-size: expected at least 20 bytes, found 0 bytes; it is an empty file"),
        (b"PFA1", "file-size: expected at least 20 bytes, found 4 bytes"),
        (
            b"PFA1" + b"?" * 20,
            "tail-magic at offset 20: expected b'PFA1', found b'????'; it is no Puffin file, or cut short",
        ),
    ],
)
def test_error_says_what_a_file_is_that_is_no_puffin_file(puffin, tmp_path, content, says):
    file = tmp_path / "other"
    file.write_bytes(content)
    assert puffin("dump", file).stderr == f"puffin: {file}: {says}\n"
    assert puffin("verify", file).text == f"{file}: INVALID\n  {says}\n"


def test_missing_files_and_directories_are_named(puffin, tmp_path):
    _assert_failed(puffin("dump", tmp_path / "missing"), tmp_path / "missing")
    _assert_failed(puffin("dump", tmp_path), tmp_path)


def test_debug_shows_the_traceback(puffin, tmp_path):
    """``--debug`` prints the traceback before the line."""
    run = puffin("dump", tmp_path / "missing", "--debug")
    assert run.code == 1
    assert run.stderr.startswith("Traceback")
    assert run.stderr.splitlines()[-1].startswith("puffin: ")
