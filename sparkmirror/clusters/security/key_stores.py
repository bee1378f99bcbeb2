"""PKCS12 stores and the dates of certificates, read by `cryptography`.

The library takes some 50 ms to import, so it is imported where a store or a certificate is opened and nowhere else.
"""

from __future__ import annotations

import contextlib
import datetime
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field


class StoreRefused(Exception):
    """The file is no PKCS12 store, or not one that this password opens."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Store:
    """What a store holds: certificates (DER), the one of the key first, and the key as PEM, encrypted or not."""

    certificates: list[bytes] = field(default_factory=list)
    key: str = field(default="", repr=False)


def read_store(content: bytes, password: str) -> Store:
    """The PKCS12 store in a file, old ciphers (RC2, 3DES) included; its key is not encrypted. Raises `StoreRefused`."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    from cryptography.x509 import InvalidVersion

    try:
        with _quietly():
            found = pkcs12.load_pkcs12(content, password.encode() or None)
        held = [*([found.cert] if found.cert else []), *found.additional_certs]
        certificates = [one.certificate.public_bytes(Encoding.DER) for one in held]
        key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode() if found.key else ""
    except UnsupportedAlgorithm as error:
        raise StoreRefused(f"it is encrypted in a way that is not supported: {error}") from error
    except (ValueError, InvalidVersion) as error:
        if "password" in str(error):  # the library cannot tell these two apart
            raise StoreRefused("the password is wrong, or the file was changed") from error
        raise StoreRefused("it is no PKCS12 store, or it is damaged") from error
    return Store(certificates, key)


def certificate_days(certificate: bytes) -> tuple[datetime.datetime, datetime.datetime] | None:
    """From when to when a certificate (DER) is valid; None if it cannot be read."""
    from cryptography import x509

    try:
        with _quietly():
            found = x509.load_der_x509_certificate(certificate)
        return found.not_valid_before_utc, found.not_valid_after_utc
    except (ValueError, x509.InvalidVersion):
        return None


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the library's warnings about what it still reads: BER instead of DER, serial numbers below 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
