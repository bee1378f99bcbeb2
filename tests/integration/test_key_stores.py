"""PKCS12 stores as openssl and Java's keytool write them, read here; and stores that somebody damaged."""

from __future__ import annotations

import contextlib
import datetime
import random
import secrets
import ssl
import subprocess
from pathlib import Path

import pytest
from integration.authority import Authority, keytool, openssl, pkcs12, trust_store

from sparkmirror.clusters.aes import decrypt_cbc
from sparkmirror.clusters.der import certificate_days
from sparkmirror.clusters.pkcs12 import StoreRefused, StoreTooOld, read_store
from sparkmirror.clusters.security import tls_context
from sparkmirror.errors import ConfigError

PASSWORD = "pä55 wörd"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stores"), "authority")


def certificate_of(pem: Path) -> bytes:
    text = pem.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


@pytest.mark.parametrize("size", [16, 24, 32])
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 1000])
def test_what_openssl_encrypts_with_aes_is_decrypted(size: int, length: int) -> None:
    key, vector, plain = secrets.token_bytes(size), secrets.token_bytes(16), secrets.token_bytes(length)
    words = ["openssl", "enc", f"-aes-{size * 8}-cbc", "-K", key.hex(), "-iv", vector.hex()]
    encrypted = subprocess.run(words, input=plain, capture_output=True, check=True).stdout
    assert decrypt_cbc(key, vector, encrypted) == plain


def test_days_of_a_certificate_are_read(authority: Authority) -> None:
    pem = authority.issue("days", from_day=-3, to_day=7)
    starts, ends = certificate_days(certificate_of(pem))
    assert (ends - starts).days == 10
    assert starts < datetime.datetime.now(datetime.UTC) < ends


def test_a_store_of_openssl_gives_certificate_and_encrypted_key(authority: Authority) -> None:
    pem = authority.issue("one")
    store = read_store(pkcs12(pem, PASSWORD, "-certfile", str(authority.file)).read_bytes(), PASSWORD)
    assert store.certificates == [certificate_of(pem), certificate_of(authority.file)]
    assert store.key.startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    assert "PRIVATE" not in repr(store)


def test_a_store_of_java_gives_certificate_and_key_and_may_be_called_jks(authority: Authority, tmp_path: Path) -> None:
    pem = authority.issue("two")
    made, store = pkcs12(pem, "changeit", "-name", "two"), tmp_path / "store.jks"
    keytool("-importkeystore", "-srckeystore", str(made), "-srcstorepass", "changeit", "-destkeystore", str(store),
            "-deststoretype", "PKCS12", "-deststorepass", "changeit")  # fmt: skip
    assert read_store(store.read_bytes(), "changeit").certificates[0] == certificate_of(pem)
    trusted = trust_store(authority.file, tmp_path / "trusted.p12", "changeit", "PKCS12")
    context = tls_context({
        "security.protocol": "SSL", "ssl.keystore.location": str(store), "ssl.keystore.password": "changeit",
        "ssl.truststore.location": str(trusted), "ssl.truststore.password": "changeit",
    })  # fmt: skip
    assert context is not None
    assert [found["subject"] for found in context.get_ca_certs()] == [((("commonName", "authority"),),)]


def test_an_encrypted_pem_key_needs_its_password_and_nobody_is_asked_on_the_terminal(
    authority: Authority, tmp_path: Path
) -> None:
    pem, locked = authority.issue("three"), tmp_path / "locked.pem"
    key = openssl("pkcs8", "-topk8", "-in", str(pem), "-passout", "pass:secret", "-v2", "aes256")
    locked.write_text(key + pem.read_text()[pem.read_text().index("-----BEGIN CERT") :])
    keys = {
        "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.file),
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(locked),
    }  # fmt: skip
    assert tls_context(keys | {"ssl.key.password": "secret"}) is not None
    with pytest.raises(ConfigError, match=r"the private key is encrypted; write ssl\.key\.password"):
        tls_context(keys)
    with pytest.raises(ConfigError, match=r"cannot be used.*check ssl\.key\.password"):
        tls_context(keys | {"ssl.key.password": "another"})


def test_a_key_of_another_certificate_is_refused(authority: Authority, tmp_path: Path) -> None:
    one, other = authority.issue("four").read_text(), authority.issue("five").read_text()
    mixed = tmp_path / "mixed.pem"
    at = one.index("-----BEGIN CERT")
    mixed.write_text(one[:at] + other[other.index("-----BEGIN CERT") :])
    keys = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": str(mixed)}
    with pytest.raises(ConfigError, match="do not belong together"):
        tls_context(keys)


def test_a_wrong_password_and_an_old_cipher_are_told(authority: Authority) -> None:
    content = pkcs12(authority.issue("six"), PASSWORD).read_bytes()
    for password in ("", "x", PASSWORD + "x"):
        with pytest.raises(StoreRefused, match="the password is wrong"):
            read_store(content, password)
    old = pkcs12(authority.issue("seven"), PASSWORD, "-certpbe", "PBE-SHA1-3DES").read_bytes()
    with pytest.raises(StoreTooOld):
        read_store(old, PASSWORD)


def test_a_damaged_store_is_refused_and_never_worse(authority: Authority, rng: random.Random) -> None:
    """Without its check sum a store is still read; damage then must not end in anything but a refusal."""
    content = pkcs12(authority.issue("eight"), PASSWORD, "-nomac").read_bytes()
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(min(len(damaged), 400))] = rng.randrange(256)
        with contextlib.suppress(StoreRefused):
            read_store(bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))]), PASSWORD)
