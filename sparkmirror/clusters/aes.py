"""AES-CBC decryption (FIPS 197), for the certificates in PKCS12 stores: Python's own library has hashes but no ciphers.

It is never used for a private key: OpenSSL decrypts those. So neither its speed nor its timing matter.
"""

from __future__ import annotations

import functools
import struct

__all__ = ["decrypt_cbc"]

BLOCK = 16
WORDS = struct.Struct(">4I")


def decrypt_cbc(key: bytes, vector: bytes, data: bytes) -> bytes:
    """The plain text without its padding; raises `ValueError` if key or data are wrong."""
    if len(vector) != BLOCK or not data or len(data) % BLOCK:
        raise ValueError("not whole blocks")
    rounds = _round_keys(key)
    plain, before = bytearray(), int.from_bytes(vector, "big")
    for at in range(0, len(data), BLOCK):
        block = data[at : at + BLOCK]
        plain += (_decrypt_block(rounds, block) ^ before).to_bytes(BLOCK, "big")
        before = int.from_bytes(block, "big")
    padding = plain[-1]
    if not 1 <= padding <= BLOCK or plain[-padding:] != bytes([padding]) * padding:
        raise ValueError("wrong padding")
    return bytes(plain[:-padding])


@functools.cache
def _boxes() -> tuple[list[int], list[int]]:
    """The S-box and its inverse, computed as the standard defines them."""
    box, inverse = [0x63] * 256, [0] * 256
    p = q = 1
    while True:
        p ^= (p << 1) ^ (0x11B if p & 0x80 else 0)  # times 3
        for shift in (1, 2, 4):  # divided by 3
            q ^= q << shift & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        box[p] = q ^ _rotated(q, 1) ^ _rotated(q, 2) ^ _rotated(q, 3) ^ _rotated(q, 4) ^ 0x63
        if p == 1:
            break
    for at, value in enumerate(box):
        inverse[value] = at
    return box, inverse


def _rotated(byte: int, by: int) -> int:
    return (byte << by | byte >> (8 - by)) & 0xFF


def _times(a: int, b: int) -> int:
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


@functools.cache
def _columns() -> list[list[int]]:
    """By row: what a byte adds to the mixed column once the inverse S-box has been applied to it."""
    first = [
        _times(s, 14) << 24 | _times(s, 9) << 16 | _times(s, 13) << 8 | _times(s, 11) for s in _boxes()[1]
    ]
    return [[(word >> 8 * row | word << (32 - 8 * row)) & 0xFFFFFFFF for word in first] for row in range(4)]


def _round_keys(key: bytes) -> list[list[int]]:
    """Four words for each round, in the order of decryption, mixed for the equivalent inverse cipher."""
    size = len(key) // 4
    if len(key) not in (16, 24, 32):
        raise ValueError("a key of no AES")
    box, columns = _boxes()[0], _columns()
    words = list(struct.unpack(f">{size}I", key))
    constant = 1
    while len(words) < 4 * (size + 7):
        word = words[-1]
        if len(words) % size == 0:
            word = _substituted((word << 8 | word >> 24) & 0xFFFFFFFF) ^ constant << 24
            constant = _times(constant, 2)
        elif size == 8 and len(words) % size == 4:
            word = _substituted(word)
        words.append(words[-size] ^ word)
    rounds = [words[at : at + 4] for at in range(0, len(words), 4)][::-1]
    for middle in rounds[1:-1]:
        middle[:] = [
            functools.reduce(int.__xor__, (columns[row][box[word >> 24 - 8 * row & 0xFF]] for row in range(4)))
            for word in middle
        ]
    return rounds


def _substituted(word: int) -> int:
    return int.from_bytes(bytes(_boxes()[0][byte] for byte in word.to_bytes(4, "big")), "big")


def _decrypt_block(rounds: list[list[int]], block: bytes) -> int:
    first, second, third, fourth = _columns()
    a, b, c, d = (word ^ key for word, key in zip(WORDS.unpack(block), rounds[0], strict=True))
    for i, j, k, m in rounds[1:-1]:  # one step of the standard for each column
        a, b, c, d = (
            first[a >> 24] ^ second[d >> 16 & 0xFF] ^ third[c >> 8 & 0xFF] ^ fourth[b & 0xFF] ^ i,
            first[b >> 24] ^ second[a >> 16 & 0xFF] ^ third[d >> 8 & 0xFF] ^ fourth[c & 0xFF] ^ j,
            first[c >> 24] ^ second[b >> 16 & 0xFF] ^ third[a >> 8 & 0xFF] ^ fourth[d & 0xFF] ^ k,
            first[d >> 24] ^ second[c >> 16 & 0xFF] ^ third[b >> 8 & 0xFF] ^ fourth[a & 0xFF] ^ m,
        )
    inverse, state, plain = _boxes()[1], (a, b, c, d), 0
    for at, key in enumerate(rounds[-1]):
        moved = [inverse[state[at - row] >> 24 - 8 * row & 0xFF] for row in range(4)]
        plain = plain << 32 | int.from_bytes(bytes(moved), "big") ^ key
    return plain
