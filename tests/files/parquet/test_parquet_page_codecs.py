"""Pages of each codec whose library decompresses them are sound and of their size, or left to pyarrow."""

import gzip
import random
from collections.abc import Callable

import numpy as np
import pytest
import zstandard

from puffin.files.parquet.page_codecs import ZSTD, decompress_all, decompress_gzip_member, decompress_zstd_frame


def streamed(content: bytes) -> bytes:
    """A frame as Java's streams write it: its header does not say how many bytes it has."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(content) + stream.flush()


@pytest.mark.parametrize("compress_frame", [streamed, zstandard.ZstdCompressor().compress])
def test_a_page_is_one_sound_zstd_frame_of_its_size(compress_frame: Callable[[bytes], bytes]) -> None:
    draw = random.Random(5)
    for _ in range(50):
        content = draw.randbytes(draw.randrange(1, 300)) * draw.randrange(1, 200)
        frame, size = compress_frame(content), len(content)
        assert decompress_zstd_frame(frame, size) == content
        others = (frame, size - 1), (frame, size + 1), (frame[:-1], size), (frame + b"!", size), (2 * frame, 2 * size)
        assert [decompress_zstd_frame(*other) for other in others] == [None] * len(others)


def test_a_page_is_one_sound_gzip_member_of_its_size() -> None:
    draw = random.Random(7)
    for _ in range(50):
        content = draw.randbytes(draw.randrange(1, 300)) * draw.randrange(1, 200)
        member, size = gzip.compress(content, draw.randrange(10)), len(content)
        assert decompress_gzip_member(memoryview(member), size) == content
        others = (member, size - 1), (member, size + 1), (member + b"!", size), (2 * member, 2 * size)
        cut = [(member[:end], size) for end in range(len(member))]
        wrong_sum = (member[:-8] + bytes((member[-8] ^ 1,)) + member[-7:], size)
        assert {decompress_gzip_member(*other) for other in (*others, *cut, wrong_sum)} == {None}


def test_frames_are_decompressed_at_once_unless_one_is_broken() -> None:
    draw = random.Random(6)
    for count in (2, 3, 40):
        contents = [draw.randbytes(draw.randrange(1, 300)) * draw.randrange(1, 200) for _ in range(count)]
        frames = [draw.choice((streamed, zstandard.ZstdCompressor().compress))(each) for each in contents]
        gap = b"between"
        data = gap + gap.join(frames)
        places = np.array([(data.index(frame), len(frame)) for frame in frames])
        sizes = np.array([len(content) for content in contents])
        found = decompress_all(ZSTD, data, places, sizes)
        assert found is not None
        assert list(map(bytes, found)) == contents
        broken = np.arange(count) == draw.randrange(count)
        for change in (-1, 1):
            assert decompress_all(ZSTD, data, places, sizes + change * broken) is None
        assert decompress_all(ZSTD, data, places - np.stack([0 * broken, broken], axis=1), sizes) is None


def test_a_page_of_many_bytes_is_left_to_others_unless_its_frame_states_them() -> None:
    content = bytes(100_000)
    assert decompress_zstd_frame(streamed(content), len(content)) is None
    assert decompress_zstd_frame(zstandard.ZstdCompressor().compress(content), len(content)) == content
