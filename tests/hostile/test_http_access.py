"""Who may read and who may change, by address, token, Host, Origin and content type."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from integration.authority import Authority

from sparkmirror.config import load
from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName
from sparkmirror.rest import AccessFiles, HttpDoor, address_of
from sparkmirror.status import FlowStatus

READ, OPERATE = "read-0123456789abcdef", "operate-0123456789abcdef"
FILE = """clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:2
A->B.enabled = true
"""
CHANGE = "/connectors/MirrorSourceConnector/topics/reset"  # changes nothing but what this process shows


class Files:
    """Tokens, a certificate and a properties file."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "own")
        self.certificate = str(self.authority.issue("mirror"))
        self.read, self.operate, self.settings = (str(folder / name) for name in ("read", "operate", "mm2.properties"))
        for path, text in ((self.read, READ), (self.operate, OPERATE), (self.settings, FILE)):
            Path(path).write_text(text)

    def door(self, where: str, **access: object) -> HttpDoor:
        door = HttpDoor(address_of(where, AccessFiles(**access)), load(self.settings))  # type: ignore[arg-type]
        door.show([FlowStatus(FlowName("A", "B"), "running")])
        return door


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("access"))


@pytest.fixture
def loopback(files: Files) -> Iterator[HttpDoor]:
    with files.door("0") as door:
        yield door


def status(door: HttpDoor, method: str, path: str, token: str = "", **headers: str) -> int:
    """What a caller gets; over TLS nobody looks at the certificate."""
    port = int(door.url.rpartition(":")[2])
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    is_tls = door.url.startswith("https")
    caller = (
        http.client.HTTPSConnection("127.0.0.1", port, context=trusting, timeout=30)
        if is_tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    )
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(caller):
        caller.request(method, path, headers=named | ({"Authorization": f"Bearer {token}"} if token else {}))
        answer = caller.getresponse()
        body = answer.read()
        assert answer.status < 400 or json.loads(body)["error_code"] == answer.status
        return answer.status


def test_on_loopback_nobody_needs_a_token(loopback: HttpDoor) -> None:
    assert [status(loopback, "GET", path) for path in ("/flows", "/connectors", "/health/ready")] == [200, 200, 200]
    assert status(loopback, "PUT", CHANGE) == 202


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://127.0.0.1"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:1", "Sec_Fetch_Site": "same-origin"}, 202),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content_Type": "application/json; charset=utf-8"}, 202),
    ],
)
def test_a_page_of_another_site_changes_nothing(loopback: HttpDoor, headers: dict[str, str], wanted: int) -> None:
    assert status(loopback, "PUT", CHANGE, **headers) == wanted


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_every_method_that_changes_is_guarded(loopback: HttpDoor, method: str) -> None:
    assert status(loopback, method, "/connectors/MirrorSourceConnector/offsets", Origin="http://evil.example") == 403


@pytest.mark.parametrize("where", ["0", "0.0.0.0:0"])
def test_the_read_token_reads_and_the_operate_token_does_both(files: Files, where: str) -> None:
    with files.door(where, token=files.read, operate_token=files.operate, certificate=files.certificate) as door:
        found = {name: (status(door, "GET", "/flows", token), status(door, "PUT", CHANGE, token))
                 for name, token in (("none", ""), ("wrong", "x" * 30), ("read", READ), ("operate", OPERATE))}  # fmt: skip
        assert found == {"none": (401, 401), "wrong": (401, 401), "read": (200, 403), "operate": (200, 202)}
        assert [status(door, "GET", path) for path in ("/health", "/health/live", "/health/ready")] == [200, 200, 200]
        assert status(door, "PUT", "/health/live") == 401
        assert status(door, "PUT", CHANGE, OPERATE, Origin="http://evil.example") == 403


def test_open_read_lets_everybody_read_and_nobody_change(files: Files) -> None:
    with files.door("0.0.0.0:0", is_open=True) as door:
        assert (status(door, "GET", "/flows"), status(door, "PUT", CHANGE)) == (200, 403)
    with files.door("0.0.0.0:0", is_open=True, operate_token=files.operate, certificate=files.certificate) as door:
        assert (status(door, "GET", "/flows"), status(door, "PUT", CHANGE)) == (200, 401)
        assert status(door, "PUT", CHANGE, OPERATE) == 202


def test_a_read_token_alone_lets_nobody_change(files: Files) -> None:
    with files.door("0", token=files.read) as door:
        assert (status(door, "GET", "/flows", READ), status(door, "PUT", CHANGE, READ)) == (200, 403)


@pytest.mark.parametrize(
    ("access", "words"),
    [
        ({}, "no --listen-token and --listen-certificate"),
        ({"token": "read"}, "no --listen-certificate"),
        ({"certificate": "certificate"}, "no --listen-token"),
        ({"token": "read", "operate_token": "operate"}, "TLS for the operate token, found no --listen-certificate"),
        ({"is_open": True, "operate_token": "operate"}, "TLS for the operate token, found no --listen-certificate"),
        ({"token": "read", "operate_token": "read", "certificate": "certificate"}, "expected another token"),
    ],
)
def test_a_start_that_could_not_keep_this_is_refused(files: Files, access: dict[str, object], words: str) -> None:
    given = {name: value if value is True else getattr(files, str(value)) for name, value in access.items()}
    with pytest.raises(ConfigError, match=words) as refused:
        address_of("0.0.0.0:0", AccessFiles(**given))  # type: ignore[arg-type]
    assert not {READ, OPERATE} & set(str(refused.value).split())
