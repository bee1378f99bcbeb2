"""A wrong password, in every verb: one login error, at once, with cluster, mechanism, user and key; never a silent one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake.pair import FakePair, fake_pair
from typer.testing import CliRunner

from sparkmirror.cli.app import app

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
AT_ONCE_S = 6.0  # a request is tried again for ten seconds where that may help
REFUSED = "PLAIN login of user ann was refused: Authentication failed: Invalid username or password; check username and "
VERBS = {
    "plan": "plan FILE",
    "inspect": "inspect --mm2-config FILE",
    "doctor": "doctor FILE --wait 0",
    "why": "why FILE orders --wait 0",
    "translate": "translate FILE --at orders:0=3",
    "verify": "verify FILE",
    "list": "offsets list FILE",
    "export": "offsets export FILE FILE.positions",
    "skip": "offsets skip FILE --topic orders",
    "reset": "offsets reset FILE --topic orders",
    "set": "offsets set FILE --topic orders --partition 0 --to 3",
}


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair({"A->B.topics": "orders"}) as made:
        made.source.create_topic("orders")
        yield made


def refused(pair: FakePair, folder: Path, alias: str) -> str:
    """The file of a flow whose password is wrong on one cluster."""
    cluster = {"A": pair.source, "B": pair.target}[alias]
    cluster.passwords = {"ann": "canary"}
    cluster.hang_up()
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="wrong-one";'
    path = folder / "mm2.properties"
    path.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\nB.bootstrap.servers = {pair.target.bootstrap}\n"
        "A->B.enabled = true\nA->B.topics = orders\nreplication.factor = 1\n"
        f"{alias}.security.protocol = SASL_PLAINTEXT\n{alias}.sasl.mechanism = PLAIN\n{alias}.sasl.jaas.config = {jaas}\n"
    )
    return str(path)


def check(output: str, alias: str, pair: FakePair) -> None:
    address = {"A": pair.source, "B": pair.target}[alias].bootstrap
    told = " ".join(output.split())  # long lines are folded
    assert f"cluster {alias} at {address}: {REFUSED}password in sasl.jaas.config" in told, output
    for other in ("unreachable", "does not answer", "wrong-one", "Traceback"):
        assert other not in told, output


# An export asks the target alone.
CASES = [(verb, alias) for verb in VERBS for alias in "AB" if (verb, alias) != ("export", "A")]


@pytest.mark.parametrize(("verb", "alias"), CASES)
def test_a_wrong_password_is_a_login_error(verb: str, alias: str, pair: FakePair, tmp_path: Path) -> None:
    words = VERBS[verb].replace("FILE", refused(pair, tmp_path, alias)).split()
    began = time.monotonic()
    result = CliRunner().invoke(app, words, env={"NO_COLOR": "1"})
    assert time.monotonic() - began < AT_ONCE_S
    error = result.exception
    told = str(error) if error is not None and not isinstance(error, SystemExit) else ""  # as the program prints it
    status = getattr(error, "exit_status", result.exit_code)
    assert status in ((4,) if verb in ("doctor", "why") else (2,)), result.output
    check(result.output + told, alias, pair)


def test_a_run_ends_with_the_login_error(pair: FakePair, tmp_path: Path) -> None:
    ended = subprocess.run(
        [PROGRAM, "run", refused(pair, tmp_path, "B")], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 2
    check(ended.stderr, "B", pair)
