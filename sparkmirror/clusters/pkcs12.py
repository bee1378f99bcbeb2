"""PKCS12 stores (RFC 7292) as Java and OpenSSL write them today: AES, and a check sum made with the password.

Certificates are decrypted here. A private key is only found here: it is handed on as it is, encrypted, for OpenSSL.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkmirror.clusters.aes import decrypt_cbc
from sparkmirror.clusters.der import OCTETS, SEQUENCE, DerRefused, Item, only_item

__all__ = ["Store", "StoreRefused", "StoreTooOld", "pem", "read_store"]

DATA, ENCRYPTED_DATA = "1.2.840.113549.1.7.1", "1.2.840.113549.1.7.6"
BAGS = "1.2.840.113549.1.12.10.1."
KEY_BAG, SHROUDED_KEY_BAG, CERTIFICATE_BAG = BAGS + "1", BAGS + "2", BAGS + "3"
LOCAL_KEY_ID = "1.2.840.113549.1.9.21"
PBES2, PBKDF2 = "1.2.840.113549.1.5.13", "1.2.840.113549.1.5.12"
AES_KEY_BYTES = {f"2.16.840.1.101.3.4.1.{number}": size for number, size in ((2, 16), (22, 24), (42, 32))}
HMACS = {f"1.2.840.113549.2.{n}": name for n, name in ((7, "sha1"), (9, "sha256"), (10, "sha384"), (11, "sha512"))}
DIGESTS = {
    "1.3.14.3.2.26": "sha1",
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
# Java writes 10 000, OpenSSL 2 048; ten million take some seconds and are somebody's joke.
ITERATIONS_MAX = 10_000_000


class StoreRefused(Exception):
    """The file is no PKCS12 store, or not one that this password opens."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StoreTooOld(StoreRefused):
    """The store is encrypted in a way that nobody should use any more."""


@dataclass(slots=True)
class Store:
    """What a store holds: certificates (DER), the one of the key first, and the key as PEM, encrypted or not."""

    certificates: list[bytes] = field(default_factory=list)
    key: str = field(default="", repr=False)


def pem(label: str, der: bytes) -> str:
    """DER as PEM text."""
    lines = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def read_store(content: bytes, password: str) -> Store:
    """The store in a file; raises `StoreRefused`."""
    try:
        return _read(content, password)
    except (IndexError, ValueError) as error:  # no ASN.1 (DerRefused), or fewer parts than there must be
        raise StoreRefused("it is no PKCS12 store, or it is damaged") from error


def _read(content: bytes, password: str) -> Store:
    _, safe, *mac = only_item(content, SEQUENCE).expect(SEQUENCE).children()
    contents = _octets(_content_of(safe, DATA))
    if mac:
        _check_mac(mac[0], contents, password)
    store, keys, owners = Store(), 0, list[tuple[bytes, bytes]]()
    key_id = b""
    for bag, value, owner in _bags(contents, password):
        if bag == CERTIFICATE_BAG:
            owners.append((owner, _octets(value.expect(SEQUENCE).children()[1].children()[0])))
        elif bag in (KEY_BAG, SHROUDED_KEY_BAG):
            keys += 1
            key_id = owner
            store.key = pem("ENCRYPTED PRIVATE KEY" if bag == SHROUDED_KEY_BAG else "PRIVATE KEY", value.whole)
    if keys > 1:
        raise StoreRefused(f"it holds {keys} private keys, expected one")
    # The broker is shown the first certificate as ours; it is the one that says to belong to the key.
    owners.sort(key=lambda pair: pair[0] != key_id or not pair[0])
    store.certificates = [certificate for _, certificate in owners]
    return store


def _bags(contents: bytes, password: str) -> Iterator[tuple[str, Item, bytes]]:
    """Kind, value and local key id of every bag."""
    for info in only_item(contents, SEQUENCE).children():
        kind = info.expect(SEQUENCE).children()[0].name
        if kind == DATA:
            safe = _octets(_content_of(info, DATA))
        elif kind == ENCRYPTED_DATA:
            safe = _decrypted(_content_of(info, ENCRYPTED_DATA), password)
        else:
            raise StoreRefused("a part of it is encrypted for a public key")
        for bag in only_item(safe, SEQUENCE).children():
            name, value, *attributes = bag.expect(SEQUENCE).children()
            yield name.name, value.children()[0], _local_key_id(attributes)


def _content_of(info: Item, kind: str) -> Item:
    name, content = info.expect(SEQUENCE).children()[:2]
    if name.name != kind:
        raise StoreRefused("it is signed instead of being protected by a password")
    return content.children()[0]


def _octets(item: Item) -> bytes:
    """The bytes of an OCTET STRING, also of one in pieces."""
    if item.tag in (OCTETS, 0x80):
        return item.content
    if item.tag in (OCTETS | 0x20, 0xA0):
        return b"".join(_octets(piece) for piece in item.children())
    raise DerRefused("no octets")


def _local_key_id(attributes: list[Item]) -> bytes:
    for attribute in attributes[0].children() if attributes else ():
        name, values = attribute.children()[:2]
        if name.name == LOCAL_KEY_ID:
            return values.content
    return b""


def _decrypted(encrypted: Item, password: str) -> bytes:
    _, algorithm, content = encrypted.expect(SEQUENCE).children()[1].expect(SEQUENCE).children()[:3]
    scheme, parameters = algorithm.children()[:2]
    if scheme.name != PBES2:
        raise StoreTooOld("its certificates are encrypted with RC2 or 3DES")
    derivation, cipher = parameters.children()[:2]
    derived_by, settings = derivation.children()[:2]
    cipher_name, vector = cipher.children()[:2]
    size = AES_KEY_BYTES.get(cipher_name.name)
    if derived_by.name != PBKDF2 or size is None:
        raise StoreTooOld("its certificates are not encrypted with PBKDF2 and AES")
    salt, iterations, *rest = settings.children()
    hashes = [HMACS.get(item.children()[0].name) for item in rest if item.tag == SEQUENCE] or ["sha1"]
    if hashes[0] is None:
        raise StoreRefused("it uses a hash that is not known here")
    key = hashlib.pbkdf2_hmac(hashes[0], password.encode(), _octets(salt), _bounded(iterations), size)
    try:
        return decrypt_cbc(key, _octets(vector), _octets(content))
    except ValueError as error:
        raise StoreRefused("the password is wrong") from error


def _bounded(iterations: Item) -> int:
    if not 1 <= iterations.number <= ITERATIONS_MAX:
        raise StoreRefused(f"{iterations.number} iterations, expected at most {ITERATIONS_MAX}")
    return iterations.number


def _check_mac(mac: Item, contents: bytes, password: str) -> None:
    found, salt, *iterations = mac.expect(SEQUENCE).children()
    algorithm, digest = found.children()[:2]
    name = DIGESTS.get(algorithm.children()[0].name)
    if name is None:
        raise StoreRefused("its check sum is made in a way that is not known here")
    key = _derived_key(name, password, _octets(salt), _bounded(iterations[0]) if iterations else 1)
    if not hmac.compare_digest(hmac.digest(key, contents, name), _octets(digest)):
        raise StoreRefused("the password is wrong, or the file was changed")


def _derived_key(name: str, password: str, salt: bytes, iterations: int) -> bytes:
    """The key for the check sum (RFC 7292, appendix B, purpose 3)."""
    block = hashlib.new(name).block_size
    text = (password + "\0").encode("utf-16-be") if password else b"\0\0"
    mixed = bytes([3]) * block + _filled(salt, block) + _filled(text, block)
    for _ in range(iterations):
        mixed = hashlib.new(name, mixed).digest()
    return mixed


def _filled(data: bytes, block: int) -> bytes:
    """`data` again and again until it fills whole blocks."""
    wanted = block * -(-len(data) // block)
    return (data * (wanted // len(data) + 1))[:wanted] if data else b""
