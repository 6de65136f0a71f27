"""Encrypted Parquet files are refused by name before pyarrow sees them, which would end the process."""

import base64
import contextlib

import pyarrow as pa
import pytest
from pyarrow.parquet import encryption

from puffin.errors import CorruptDataFileError, UnsupportedTableError
from puffin.files.parquet.encryption import read_plain_footer
from puffin.files.parquet.parquet_footer import parse_footer

LZO = 3


class KeysInMemory(encryption.KmsClient):
    """A key service that wraps keys in nothing."""

    def __init__(self, _):
        super().__init__()

    def wrap_key(self, key_bytes, _):
        return base64.b64encode(key_bytes)

    def unwrap_key(self, wrapped_key, _):
        return base64.b64decode(wrapped_key)


@pytest.fixture(params=[False, True], ids=["encrypted footer", "plain footer"])
def secret(request):
    """Settings with which pyarrow encrypts column ``k``."""
    config = encryption.EncryptionConfiguration(
        footer_key="footer", column_keys={"column": ["k"]}, plaintext_footer=request.param
    )
    factory = encryption.CryptoFactory(KeysInMemory)
    return {"encryption_properties": factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)}


ROWS = pa.table({"k": [1, 2, 3], "s": ["a", "b", "c"]})


@pytest.mark.parametrize("columns", [("k",), ("s",)])
def test_encrypted_data_file_is_refused_by_every_read(make_table, secret, columns):
    table = make_table([(1, "k", "long"), (2, "s", "string")])
    table.snapshot(table.data(table.write("a.parquet", ROWS, {"k": 1, "s": 2}, **secret), record_count=3))
    with pytest.raises(
        UnsupportedTableError, match=r"a\.parquet: Parquet file not supported: encrypted (footer|columns)"
    ):
        table.read(*columns)


def test_encrypted_delete_file_is_refused(make_table, secret):
    table = make_table([(1, "k", "long"), (2, "s", "string")])
    path = table.write("a.parquet", ROWS, {"k": 1, "s": 2})
    deletes = table.data(table.write("d.parquet", ROWS, {"k": 1, "s": 2}, **secret), record_count=3)
    table.snapshot(table.data(path), deletes | {"content": 2, "equality_ids": [1], "sequence_number": 2})
    with pytest.raises(UnsupportedTableError, match=r"d\.parquet: delete file not supported: encrypted"):
        table.read()


def test_long_plain_footer_is_not_mistaken_for_encrypted(make_table):
    table = make_table([(1, "k", "long")])
    path = table.write("a.parquet", ROWS.append_column("t" * 200_000, [[1, 2, 3]]), {"k": 1, "s": 2, "t" * 200_000: 3})
    with pa.OSFile(str(path)) as source:
        assert read_plain_footer(source).num_rows == 3
    table.snapshot(table.data(path))
    assert table.read().rows == 3


@pytest.mark.parametrize("kept", [0, 3, 8, 11])
def test_file_without_a_footer_is_left_to_pyarrow(make_table, kept):
    table = make_table([(1, "k", "long")])
    path = table.write("a.parquet", ROWS, {"k": 1, "s": 2})
    entry = table.data(path)
    path.write_bytes(path.read_bytes()[-kept:] if kept else b"")
    table.snapshot(entry)
    with pytest.raises(CorruptDataFileError, match=r"a\.parquet: expected a readable Parquet file: .*(Parquet|footer)"):
        table.read()


@pytest.mark.parametrize("kind", ["data", "delete"])
def test_unsupported_codec_is_refused_by_name(make_table, kind):
    """LZO: nobody writes it any more, so the test changes a footer."""
    table = make_table([(1, "k", "long")])
    path = table.write("a.parquet", pa.table({"k": [1, 2, 3]}), {"k": 1}, compression="gzip", use_dictionary=False)
    whole = table.write("b.parquet", pa.table({"k": [1, 2, 3]}), {"k": 1})
    path.write_bytes(with_codec_lzo(path.read_bytes()))
    lzo = table.data(path)
    if kind == "delete":
        table.snapshot(table.data(whole), lzo | {"content": 2, "equality_ids": [1], "sequence_number": 2})
    else:
        table.snapshot(lzo)
    with pytest.raises(UnsupportedTableError, match=r"(?i)a\.parquet: (Parquet|delete) file not supported: .*lzo"):
        table.read()


def with_codec_lzo(data):
    """Change the byte of the footer that names the compression of the column."""
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for at in range(footer, len(data) - 8):
        changed = data[:at] + bytes([2 * LZO]) + data[at + 1 :]  # zigzag
        with contextlib.suppress(CorruptDataFileError):
            if [chunk and chunk.codec for (chunk,) in parse_footer(changed[footer:-8])] == [LZO]:
                return changed
    raise AssertionError("no byte of the footer is the codec")
