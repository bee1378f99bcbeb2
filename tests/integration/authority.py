"""Certificates for tests, made by openssl: an authority of our own, and what it signs."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Sequence
from pathlib import Path

CONFIG = """
[ca]
default_ca = own
[own]
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
"""
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def openssl(*words: str, stdin: str = "") -> str:
    """What openssl prints."""
    done = subprocess.run(["openssl", *words], input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Authority:
    """Signs certificates; `file` is its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self.file = self.folder / "authority.pem"
        (self.folder / "index.txt").touch()
        (self.folder / "serial").write_text("01")
        (self.folder / "ca.cnf").write_text(CONFIG.format(folder=self.folder))
        openssl("req", "-x509", *CURVE, "-nodes", "-keyout", str(self.folder / "authority.key"), "-out", str(self.file),
                "-days", "30", "-subj", f"/CN={name}")  # fmt: skip

    def issue(
        self, name: str, *, hosts: Sequence[str] = ("DNS:localhost", "IP:127.0.0.1"), from_day: int = -1, to_day: int = 20
    ) -> Path:
        """One PEM file with a new key and its certificate, valid between two days from now."""
        key, request, certificate = (self.folder / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"[all]\nsubjectAltName = {','.join(hosts)}\n")
        openssl("req", *CURVE, "-nodes", "-keyout", str(key), "-out", str(request), "-subj", f"/CN={name}")
        openssl("ca", "-batch", "-notext", "-config", str(self.folder / "ca.cnf"), "-in", str(request),
                "-out", str(certificate), "-cert", str(self.file), "-keyfile", str(self.folder / "authority.key"),
                "-startdate", _day(from_day), "-enddate", _day(to_day),
                "-extfile", str(extensions), "-extensions", "all")  # fmt: skip
        whole = self.folder / f"{name}.pem"
        whole.touch(mode=0o600)
        whole.write_text(key.read_text() + certificate.read_text())
        return whole


def pkcs12(pem: Path, password: str, *options: str) -> Path:
    """A PKCS12 store with the key and the certificate of a PEM file."""
    store = pem.with_suffix(".p12")
    openssl("pkcs12", "-export", "-in", str(pem), "-out", str(store), "-passout", f"pass:{password}", *options)
    store.chmod(0o600)
    return store


def keytool(*words: str) -> None:
    """Runs Java's keytool."""
    done = subprocess.run(["keytool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def trust_store(authority: Path, store: Path, password: str, kind: str) -> Path:
    """A store with a trusted certificate, as Java writes it."""
    keytool("-importcert", "-noprompt", "-alias", "authority", "-file", str(authority), "-keystore", str(store),
            "-storepass", password, "-storetype", kind)  # fmt: skip
    return store


def _day(offset: int) -> str:
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=offset)
    return f"{moment:%Y%m%d%H%M%S}Z"
