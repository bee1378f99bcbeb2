"""Where the mirror may listen, and what it then asks of callers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from integration.authority import Authority

from sparkmirror.errors import ConfigError
from sparkmirror.rest import AccessFiles, HttpDoor, address_of


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("8083", "127.0.0.1", 8083), (":8083", "127.0.0.1", 8083), ("localhost:1", "localhost", 1), ("[::1]:0", "::1", 0),
     ("127.9.9.9:65535", "127.9.9.9", 65535)],
)  # fmt: skip
def test_loopback_asks_for_nothing(text: str, host: str, port: int) -> None:
    address = address_of(text)
    assert (address.host, address.port, address.token, address.tls) == (host, port, None, None)


@pytest.mark.parametrize("text", ["", "host", "127.0.0.1:", "0:65536", "127.0.0.1:-1", "127.0.0.1:٣", "::1:80", "a:b:80"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected \[HOST:\]PORT"):
        address_of(text)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b"])
def test_a_name_that_nobody_knows_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="expected an address of this machine"):
        address_of(f"{host}:80")


def test_elsewhere_needs_a_token_and_tls_or_the_users_word(tmp_path: Path) -> None:
    token, certificate = tmp_path / "token", str(Authority(tmp_path, "own").issue("mirror"))
    token.write_text("0123456789abcdef\n")
    with pytest.raises(ConfigError, match="no --listen-token and --listen-certificate") as refused:
        address_of("0.0.0.0:0")
    assert "--listen-open-read" in refused.value.hint
    with pytest.raises(ConfigError, match="no --listen-certificate"):
        address_of("0.0.0.0:0", AccessFiles(token=str(token)))
    with pytest.raises(ConfigError, match="no --listen-token"):
        address_of("0.0.0.0:0", AccessFiles(certificate=certificate))
    guarded = address_of("0.0.0.0:0", AccessFiles(token=str(token), certificate=certificate))
    assert guarded.token is not None and guarded.token.reveal() == "0123456789abcdef" and guarded.tls is not None
    assert address_of("0.0.0.0:0", AccessFiles(is_open=True)).token is None


@pytest.mark.parametrize("content", [b"", b"short", b"with a blank in it all", b"x" * 600, "ä".encode() * 20, b"line\n" * 9])
def test_a_token_that_is_none_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="expected 16 to 512 visible ASCII signs") as refused:
        address_of("80", AccessFiles(token=str(file)))
    assert "umask 077" in refused.value.hint
    if content:
        assert content.decode(errors="replace") not in str(refused.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--listen-token .*gone.*No such file"):
        address_of("80", AccessFiles(token=str(tmp_path / "gone")))
    with pytest.raises(ConfigError, match=r"--listen-certificate .*gone.*No such file"):
        address_of("80", AccessFiles(certificate=str(tmp_path / "gone")))
    (tmp_path / "wrong.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"wrong\.pem: expected a PEM file"):
        address_of("80", AccessFiles(certificate=str(tmp_path / "wrong.pem")))


def test_a_port_that_is_taken_is_told_with_who_to_ask() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--listen 127.0.0.1:{port}: .*in use") as refused:
            HttpDoor(address_of(str(port)))
    assert f"sport = :{port}" in refused.value.hint
