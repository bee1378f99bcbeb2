"""Compression within bounds."""

from __future__ import annotations

import gzip

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire import compress, decompress
from sparkmirror.wire.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
BOMB = bytes(8 * 1024 * 1024)


@given(st.sampled_from(CODECS), st.binary(max_size=200), st.integers(1, 2000))
def test_decompress_gives_back_what_was_compressed(codec: int, data: bytes, times: int) -> None:
    plain = data * times
    assert decompress(codec, compress(codec, plain), limit=len(plain)) == plain


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_beyond_the_limit_is_refused(codec: int) -> None:
    packed = compress(codec, bytes(100_000))
    assert decompress(codec, packed, limit=100_000) == bytes(100_000)
    with pytest.raises(CorruptBatch, match="99999"):
        decompress(codec, packed, limit=99_999)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_bomb_is_refused_without_being_unpacked(codec: int) -> None:
    with pytest.raises(CorruptBatch, match="beyond the limit"):
        decompress(codec, compress(codec, BOMB), limit=64 * 1024)


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped"])
def test_damaged_data_is_refused(codec: int, damage: str) -> None:
    packed = compress(codec, b"some bytes that repeat, some bytes that repeat")
    bad = {"cut": packed[:-3], "empty": b"", "flipped": b"\x55" + packed[1:]}[damage]
    with pytest.raises(CorruptBatch):
        decompress(codec, bad, limit=1 << 20)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        decompress(codec, b"x", limit=10)
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        compress(codec, b"x")


def test_snappy_is_read_bare_and_in_java_framing() -> None:
    plain = b"abc" * 50_000
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(plain)), limit=len(plain)) == plain
    framed = compress(SNAPPY, plain)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(SNAPPY, framed, limit=len(plain)) == plain


def test_gzip_of_several_members_is_read_as_one() -> None:
    assert decompress(GZIP, gzip.compress(b"one,") + gzip.compress(b"two"), limit=7) == b"one,two"
    with pytest.raises(CorruptBatch):
        decompress(GZIP, gzip.compress(b"one,") + gzip.compress(b"two"), limit=6)


def test_lz4_frames_are_read_whether_blocks_are_linked_or_not() -> None:
    plain = b"linked blocks " * 20_000
    assert decompress(LZ4, bytes(cramjam.lz4.compress(plain)), limit=len(plain)) == plain


def test_lz4_frame_is_written_with_independent_blocks_as_java_needs_it() -> None:
    assert compress(LZ4, bytes(200_000))[:7].hex() == "04224d18604082"


def test_memoryviews_are_accepted() -> None:
    for codec in CODECS:
        packed = memoryview(bytearray(compress(codec, memoryview(b"bytes of a view"))))
        assert decompress(codec, packed, limit=100) == b"bytes of a view"
