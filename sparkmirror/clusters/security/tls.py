"""TLS contexts from PEM text, PEM files and PKCS12 stores, and what went wrong in a handshake, in words.

A private key is never written to a disk: OpenSSL, which reads files only, is given a file in memory.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkmirror.clusters.security.key_stores import Store, StoreRefused, certificate_days, read_store
from sparkmirror.errors import ConfigError

TRUST, KEYS = "ssl.truststore", "ssl.keystore"
STORE_BYTES_MAX = 16 << 20  # all public authorities of the world take less than one
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
JKS_HEADS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----((?:[^-]|-(?!----))*)-----END \1-----")

# X509_V_ERR_…
NOT_YET_VALID, EXPIRED, OTHER_HOST, OTHER_ADDRESS = 9, 10, 62, 64
PROBE_S = 5.0


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Everything a context is made from. Texts are empty where nothing is written."""

    trusted: str = field(repr=False)
    trust_file: str
    trust_type: str
    trust_password: str = field(repr=False)
    chain: str = field(repr=False)
    key: str = field(repr=False)
    key_file: str
    key_type: str
    store_password: str = field(repr=False)
    key_password: str = field(repr=False)
    checks_host: bool
    versions: tuple[str, ...]

    def stamps(self) -> tuple[object, ...]:
        """What changes when a file is replaced under us."""
        found: list[object] = []
        for key, path in ((TRUST, self.trust_file), (KEYS, self.key_file)):
            if path:
                with _readable(key, path):
                    status = os.stat(path)
                found.append((status.st_mtime_ns, status.st_ino, status.st_size))
        return tuple(found)

    @property
    def trust_source(self) -> str:
        """Where the trusted certificates stand."""
        if self.trusted:
            return f"{TRUST}.certificates"
        return f"{TRUST}.location {self.trust_file}" if self.trust_file else "the system's own authorities"

    @property
    def key_source(self) -> str:
        """Where our own certificate stands; empty without one."""
        if self.chain or self.key:
            return f"{KEYS}.certificate.chain"
        return f"{KEYS}.location {self.key_file}" if self.key_file else ""


def trusting_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context that checks the broker's certificate; raises `ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    wanted = [VERSIONS[name] for name in settings.versions if name in VERSIONS]
    if not wanted:
        raise ConfigError(f"ssl.enabled.protocols: expected {' or '.join(VERSIONS)}, found {','.join(settings.versions)}")
    context.minimum_version, context.maximum_version = min(wanted), max(wanted)
    context.check_hostname = settings.checks_host
    _load_trust(context, settings)
    if settings.key_source:
        _load_identity(context, settings)
    return context


def known_certificates(settings: TlsSettings) -> tuple[list[bytes], list[bytes]]:
    """The certificates that we trust and our own, as DER; the system's own authorities are not among them."""
    trusted, own = Store(), Store()
    if settings.trusted:
        trusted = _pem_store(settings.trusted)
    elif settings.trust_file:
        trusted = _file_store(TRUST, settings.trust_file, settings.trust_type, settings.trust_password)
    if settings.chain or settings.key:
        own = _pem_store(settings.chain + "\n" + settings.key)
    elif settings.key_file:
        own = _file_store(KEYS, settings.key_file, settings.key_type, settings.store_password)
    return trusted.certificates, own.certificates


def _load_trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.trusted:
        store = _pem_store(settings.trusted)
    elif settings.trust_file:
        store = _file_store(TRUST, settings.trust_file, settings.trust_type, settings.trust_password)
    else:
        context.load_default_certs()
        return
    if not store.certificates:
        raise ConfigError(f"{settings.trust_source}: it holds no certificate to trust")
    try:
        context.load_verify_locations(cadata=_certificates(store))
    except ssl.SSLError as error:
        raise ConfigError(f"{settings.trust_source}: a certificate cannot be read: {_reason(error)}") from error


def _load_identity(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.chain or settings.key:
        store = _pem_store(settings.chain + "\n" + settings.key)
    else:
        store = _file_store(KEYS, settings.key_file, settings.key_type, settings.store_password)
        if settings.key_type != "PEM" and settings.key_password != settings.store_password:
            # The store's password has opened the key, so this one is wrong; Java fails on it too.
            raise ConfigError("ssl.key.password: it is not the password of the key, which is ssl.keystore.password's")
    source = settings.key_source
    if not store.certificates or not store.key:
        missing = "certificate" if not store.certificates else "private key"
        raise ConfigError(f"{source}: it holds no {missing}; a client needs its key and its certificates")
    _refuse_outlived(source, store.certificates[0])
    try:
        with _file_in_memory(store.key + _certificates(store)) as path:
            context.load_cert_chain(path, password=lambda: settings.key_password or _no_password(source))
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{source}: the key and the first certificate do not belong together") from error
        raise ConfigError(
            f"{source}: key and certificate cannot be used: {_reason(error)}; check ssl.key.password"
        ) from error


def _no_password(source: str) -> str:
    # Without this OpenSSL would ask on the terminal.
    raise ConfigError(f"{source}: the private key is encrypted; write ssl.key.password")


def _refuse_outlived(source: str, certificate: bytes) -> None:
    days, now = certificate_days(certificate), datetime.datetime.now(datetime.UTC)
    if days is not None and not days[0] <= now <= days[1]:
        raise ConfigError(f"{source}: our own certificate {_in_words(*days, now)}; replace it")


def _in_words(starts: datetime.datetime, ends: datetime.datetime, now: datetime.datetime) -> str:
    if now < starts:
        return f"is not valid before {starts:%Y-%m-%d %H:%M} UTC"
    return f"expired on {ends:%Y-%m-%d %H:%M} UTC"


# --- stores ----------------------------------------------------------------------------------------------------


def _file_store(key: str, path: str, kind: str, password: str) -> Store:
    with _readable(key, path), open(path, "rb") as file:
        content = file.read(STORE_BYTES_MAX + 1)
    if len(content) > STORE_BYTES_MAX:
        raise ConfigError(f"{key}.location: {path} is larger than {STORE_BYTES_MAX} bytes; it is no key store")
    if kind == "PEM":
        return _pem_store(content.decode("utf-8", "replace"))
    if kind not in ("JKS", "PKCS12"):
        raise ConfigError(f"{key}.type: expected PEM, PKCS12 or JKS, found {kind}")
    if content.startswith(JKS_HEADS):
        raise ConfigError(f"{key}.location: {path} is a JKS store, which Java alone reads; {_convert(key, path)}")
    if content.lstrip().startswith(b"-----BEGIN"):
        raise ConfigError(f"{key}.location: {path} is a PEM file; write {key}.type = PEM")
    # Java reads PKCS12 where JKS is written, and JKS is the default: so do we.
    try:
        return read_store(content, password)
    except StoreRefused as refusal:
        both = ", which must open the private key too" if key == KEYS else ""
        raise ConfigError(f"{key}.location: {path}: {refusal.reason}; check {key}.password{both}") from refusal


def _convert(key: str, path: str) -> str:
    new = path.removesuffix(".jks").removesuffix(".p12") + ".new.p12"
    return (
        f"convert it with: keytool -importkeystore -srckeystore {path} -destkeystore {new} -deststoretype PKCS12 "
        f"and write {key}.location = {new}, {key}.type = PKCS12"
    )


@contextlib.contextmanager
def _readable(key: str, path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"{key}.location: {path} cannot be read: {reason}") from error


def _pem_store(text: str) -> Store:
    """Certificates and the key of a PEM text, also one whose line breaks a properties file has swallowed."""
    store = Store()
    for label, body in _PEM_BLOCK.findall(text):
        whole = f"-----BEGIN {label}-----{_lines(body)}-----END {label}-----\n"
        if label == "CERTIFICATE":
            try:
                store.certificates.append(ssl.PEM_cert_to_DER_cert(whole))
            except ValueError as error:
                raise ConfigError("a certificate in PEM form cannot be read: its base64 is damaged") from error
        elif label.endswith("PRIVATE KEY") and not store.key:
            store.key = whole
    return store


def _lines(body: str) -> str:
    if ":" in body:  # headers of an old way of encrypting; lines mean something there
        return body
    packed = "".join(body.split())
    return "\n" + "".join(f"{packed[at : at + 64]}\n" for at in range(0, len(packed), 64))


def _certificates(store: Store) -> str:
    return "".join(map(ssl.DER_cert_to_PEM_cert, store.certificates))


@contextlib.contextmanager
def _file_in_memory(text: str) -> Iterator[str]:
    """The path of a file that is on no disk and gone at the end of the block."""
    if not hasattr(os, "memfd_create"):
        raise ConfigError("private keys can be used on Linux alone: elsewhere they would have to be written to a disk")
    handle = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        with open(handle, "wb", closefd=False) as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


# --- handshakes ------------------------------------------------------------------------------------------------


def is_alert(error: BaseException | None) -> bool:
    """Whether the other side ended the talk with an alert of TLS."""
    return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")


def handshake_trouble(error: ssl.SSLError, settings: TlsSettings, host: str, port: int) -> str:
    """What went wrong and what to do, in one sentence; empty if it may be a passing trouble."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, settings, host, port)
    if is_alert(error):
        return _alert(error, settings)
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return "the listener does not speak TLS; write another security.protocol, or the port of a TLS listener"
    return ""


def _untrusted(error: ssl.SSLCertVerificationError, settings: TlsSettings, host: str, port: int) -> str:
    if error.verify_code in (EXPIRED, NOT_YET_VALID):
        days = _presented_days(host, port)
        text = "has expired or is not yet valid" if days is None else _in_words(*days, datetime.datetime.now(datetime.UTC))
        if days is not None and days[0] <= datetime.datetime.now(datetime.UTC) <= days[1]:
            text = f"is signed by an authority of {settings.trust_source} whose own certificate is out of date"
        return f"the broker's certificate {text}; the broker's owner must replace it"
    if error.verify_code in (OTHER_HOST, OTHER_ADDRESS):
        return (
            f"the broker's certificate is not for {host}; connect by a name that it holds, or write "
            "ssl.endpoint.identification.algorithm with an empty value to check no name"
        )
    return (
        f"the broker's certificate is not signed by an authority that is trusted ({error.verify_message}); trusted is "
        f"{settings.trust_source}: add the authority's certificate there (ssl.truststore.location)"
    )


def _alert(error: ssl.SSLError, settings: TlsSettings) -> str:
    reason = _reason(error)
    if "protocol version" in reason:
        return f"the broker speaks none of {', '.join(settings.versions)}; check ssl.enabled.protocols"
    if "handshake failure" in reason:
        return "the broker accepts none of our ciphers, or wants a client certificate (ssl.keystore.location)"
    if not settings.key_source:
        return f"the broker wants a client certificate ({reason}); write ssl.keystore.location with key and certificate"
    return (
        f"the broker refused our certificate of {settings.key_source} ({reason}); the broker's truststore must hold the "
        "authority that signed it"
    )


def _presented_days(host: str, port: int) -> tuple[datetime.datetime, datetime.datetime] | None:
    """From when to when the broker's certificate is valid: looked at without trust, and without saying anything."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), timeout=PROBE_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as talk,
        ):
            return certificate_days(talk.getpeercert(binary_form=True) or b"")
    except (OSError, ValueError):
        return None


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or type(error).__name__).lower().replace("_", " ")
