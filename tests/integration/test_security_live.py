"""Certificates and tokens that change under a running mirror: sessions of a few seconds on both sides bring it out."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import Row
from integration.guarded import START_S, told
from integration.mirroring import (
    TRACEBACK,
    LiveMirror,
    await_true,
    create_topics,
    live_mirror,
    log_ends,
    numbered,
    produce,
    write_settings,
)
from integration.secured import SESSION_MS, Secured, secured_clusters
from judge import java_records

pytestmark = pytest.mark.nightly

TOPIC, REMOTE = "changing", "changing.changing"
TOLD_S_MAX, HEALED_S_MAX = 30.0, 60.0
TOKEN_LIFE_S = 8.0


@dataclass
class Running:
    """A mirror whose source wants a certificate and a password, and whose target wants tokens."""

    secured: Secured
    folder: Path
    mirror: LiveMirror
    sent: list[bytes] = field(default_factory=list)

    @property
    def own(self) -> Path:
        """Our key and certificate."""
        return self.folder / "own.pem"

    @property
    def trusted(self) -> Path:
        """The authorities that the source's brokers must be signed by."""
        return self.folder / "trusted.pem"

    def copies(self) -> None:
        """Sends some records and waits until they are copied, neither fewer nor more."""
        values = numbered(10, first=len(self.sent))
        self.sent += values
        produce(self.secured.source, TOPIC, 0, values)
        count = len(self.sent)
        await_true(lambda: log_ends(self.secured.target, REMOTE) == {0: count}, HEALED_S_MAX, f"{count} records")

    def copies_for_a_while(self) -> None:
        """Over more than two sessions on each side."""
        began = time.monotonic()
        while time.monotonic() - began < 2.2 * SESSION_MS / 1000:
            self.copies()
            time.sleep(0.5)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("changing")
    with secured_clusters(tmp_path_factory.mktemp("certificates")) as secured:
        create_topics(secured.source, {TOPIC: (1, {})})
        replace_file(folder / "own.pem", secured.files.mirror)
        replace_file(folder / "trusted.pem", secured.files.authority.file)
        secured.tokens.life_s = TOKEN_LIFE_S
        flow = secured.flow(TOPIC, source="scram512", target="oauth", topics=TOPIC)
        flow |= {
            f"{TOPIC}.bootstrap.servers": secured.source.address_of("BOTH"),
            f"{TOPIC}.ssl.keystore.type": "PEM", f"{TOPIC}.ssl.keystore.location": str(folder / "own.pem"),
            f"{TOPIC}.ssl.truststore.location": str(folder / "trusted.pem"),
            f"{TOPIC}-to.sasl.login.read.timeout.ms": "2000",
        }  # fmt: skip
        with live_mirror(write_settings(folder / "mm2.properties", flow)) as mirror, told(mirror):
            mirror.await_said(f"{TOPIC}-0 copying", START_S)
            found = Running(secured, folder, mirror)
            found.copies()
            yield found


def replace_file(path: Path, content: Path) -> None:
    """As whoever renews certificates does it: whole, and at once."""
    fresh = path.with_name(f"{path.name}.new")
    shutil.copy(content, fresh)
    os.replace(fresh, path)


@pytest.mark.fault("F37", "F38")
def test_a_new_certificate_of_the_same_authority_and_tokens_that_end_are_never_seen(running: Running, row: Row) -> None:
    said, tokens = len(running.mirror.output), len(running.secured.tokens.given)
    with told(running.mirror):
        for _ in range(2):
            replace_file(running.own, running.secured.files.authority.issue("renewed"))
            running.copies_for_a_while()
        assert "WARN" not in running.mirror.output[said:]
    renewed = len(running.secured.tokens.given) - tokens
    assert renewed >= 2
    row.seen = f"two new certificates and {renewed} new tokens, no line about them"


@contextmanager
def other_file(path: Path, content: Path) -> Iterator[None]:
    """A file replaced by another one, and put back."""
    kept = path.with_name(f"{path.name}.kept")
    shutil.copy(path, kept)
    replace_file(path, content)
    try:
        yield
    finally:
        replace_file(path, kept)


def stranger(running: Running) -> tuple[Path, Path]:
    return running.own, running.secured.files.intruder


def outlived(running: Running) -> tuple[Path, Path]:
    return running.own, running.secured.files.authority.issue("outlived", from_day=-9, to_day=-2)


def unborn(running: Running) -> tuple[Path, Path]:
    return running.own, running.secured.files.authority.issue("unborn", from_day=2, to_day=9)


def torn(running: Running) -> tuple[Path, Path]:
    half = running.folder / "half.pem"
    text = running.secured.files.mirror.read_text()
    half.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    return running.own, half


def untrusting(running: Running) -> tuple[Path, Path]:
    return running.trusted, running.secured.files.stranger.file


FILES: dict[str, tuple[Callable[[Running], tuple[Path, Path]], str]] = {
    "a certificate that the broker does not trust": (stranger, "the broker refused our certificate of ssl.keystore"),
    "a certificate that has expired": (outlived, "our own certificate expired on 20"),
    "a certificate of the future": (unborn, "our own certificate is not valid before 20"),
    "a file without its key": (torn, "it holds no private key"),
    "another authority to trust": (untrusting, "is not signed by an authority that is trusted"),
}


@pytest.mark.fault("F37")
@pytest.mark.parametrize("what", FILES)
def test_a_file_that_is_replaced_by_a_wrong_one_is_told_by_its_name_and_a_right_one_mends_it(
    what: str, running: Running, row: Row
) -> None:
    make, words = FILES[what]
    path, content = make(running)
    with told(running.mirror):
        said, began = len(running.mirror.output), time.monotonic()
        with other_file(path, content):
            running.mirror.await_said(words, TOLD_S_MAX, after=said)
            row.seen = f"{what}: told after {time.monotonic() - began:.1f} s"
            line = next(line for line in running.mirror.output[said:].splitlines() if words in line)
            assert str(path) in line
            assert f"cluster {TOPIC} at " in line
        restored = time.monotonic()
        running.copies()
        row.recovered = time.monotonic() - restored


@contextmanager
def down(running: Running) -> Iterator[None]:
    running.secured.tokens.down()
    try:
        yield
    finally:
        running.secured.tokens.up()


@contextmanager
def slow(running: Running) -> Iterator[None]:
    running.secured.tokens.is_slow = True
    try:
        yield
    finally:
        running.secured.tokens.is_slow = False


@contextmanager
def wrong(running: Running) -> Iterator[None]:
    running.secured.tokens.is_wrong = True
    try:
        yield
    finally:
        running.secured.tokens.is_wrong = False


TOKENS = {
    "down": (down, "cannot be asked: [Errno 111] Connection refused"),
    "slow": (slow, "cannot be asked: no answer in time"),
    "wrong token": (wrong, "OAUTHBEARER login of client oauth was refused"),
}


@pytest.mark.fault("F38")
@pytest.mark.parametrize("what", TOKENS)
def test_a_token_endpoint_in_trouble_is_told_when_the_last_token_has_ended_and_copying_goes_on_after_it(
    what: str, running: Running, row: Row
) -> None:
    make, words = TOKENS[what]
    with told(running.mirror):
        said, began = len(running.mirror.output), time.monotonic()
        with make(running):
            running.mirror.await_said(words, TOLD_S_MAX, after=said)
            row.seen = f"endpoint {what}: told after {time.monotonic() - began:.1f} s, tokens live {TOKEN_LIFE_S:g} s"
        restored = time.monotonic()
        running.copies()
        row.recovered = time.monotonic() - restored


def test_after_all_of_that_every_record_is_there_once(running: Running) -> None:
    running.copies()
    outcome = running.mirror.stop()
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output
    copied = java_records(running.secured.target.bootstrap, REMOTE)
    assert [record.value for record in copied[0]] == running.sent
    for secret in (*running.secured.files.passwords.values(), *running.secured.tokens.given):
        assert secret not in outcome.output
