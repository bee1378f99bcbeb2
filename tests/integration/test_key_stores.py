"""PKCS12 stores as openssl and Java's keytool write them, read here; and stores that somebody damaged."""

from __future__ import annotations

import contextlib
import datetime
import random
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from integration.authority import Authority, keytool, openssl, pkcs12, trust_store

from sparkmirror.clusters.security.key_stores import StoreRefused, certificate_days, read_store
from sparkmirror.clusters.security.settings import tls_context
from sparkmirror.errors import ConfigError

PASSWORD = "pä55 wörd"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stores"), "authority")


def certificate_of(pem: Path) -> bytes:
    text = pem.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


def test_days_of_a_certificate_are_read_and_a_damaged_one_has_none(authority: Authority) -> None:
    certificate = certificate_of(authority.issue("days", from_day=-3, to_day=7))
    starts, ends = certificate_days(certificate) or pytest.fail("no days")
    assert (ends - starts).days == 10
    assert starts < datetime.datetime.now(datetime.UTC) < ends
    of_version_47 = certificate.replace(bytes.fromhex("a003020102"), bytes.fromhex("a00302012e"))
    assert [certificate_days(damaged) for damaged in (b"", certificate[:99], of_version_47)] == [None] * 3


@pytest.mark.parametrize(
    "options",
    [(), ("-nomac",), ("-legacy",), ("-certpbe", "PBE-SHA1-3DES", "-keypbe", "PBE-SHA1-3DES", "-macalg", "sha1")],
    ids=["aes", "aes without a check sum", "rc2", "3des"],
)
def test_a_store_of_openssl_gives_certificates_and_key_also_of_old_ciphers(
    authority: Authority, options: tuple[str, ...]
) -> None:
    pem = authority.issue("one")
    store = read_store(pkcs12(pem, PASSWORD, "-certfile", str(authority.file), *options).read_bytes(), PASSWORD)
    assert store.certificates == [certificate_of(pem), certificate_of(authority.file)]
    assert openssl("pkey", stdin=store.key) == openssl("pkey", "-in", str(pem))
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


def test_a_wrong_password_is_named(authority: Authority) -> None:
    content = pkcs12(authority.issue("six"), PASSWORD).read_bytes()
    for password in ("", "x", PASSWORD + "x"):
        with pytest.raises(StoreRefused, match="the password is wrong"):
            read_store(content, password)


def test_a_key_password_that_is_not_the_one_of_the_store_is_refused_as_java_refuses_it(authority: Authority) -> None:
    store = pkcs12(authority.issue("seven"), "changeit")
    keys = {
        "security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.file),
        "ssl.keystore.location": str(store), "ssl.keystore.password": "changeit",
    }  # fmt: skip
    assert tls_context(keys | {"ssl.key.password": "changeit"}) is not None
    with pytest.raises(ConfigError, match=r"ssl\.key\.password: it is not the password of the key"):
        tls_context(keys | {"ssl.key.password": "another"})


def test_the_library_is_not_imported_where_no_store_is_opened(authority: Authority) -> None:
    code = (
        "import sys\nfrom sparkmirror.clusters.security.settings import tls_context\n"
        f"tls_context({{'security.protocol': 'SSL', 'ssl.truststore.type': 'PEM', "
        f"'ssl.truststore.location': {str(authority.file)!r}}})\nprint('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_damaged_store_is_refused_and_never_worse(authority: Authority, rng: random.Random) -> None:
    """Without its check sum a store is still read; damage then must not end in anything but a refusal."""
    content = pkcs12(authority.issue("eight"), PASSWORD, "-nomac").read_bytes()
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(min(len(damaged), 400))] = rng.randrange(256)
        with contextlib.suppress(StoreRefused):
            read_store(bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))]), PASSWORD)
