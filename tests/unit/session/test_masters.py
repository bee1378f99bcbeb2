"""A Spark master that does not answer is said to be so at once."""

from __future__ import annotations

import socket
import time

import pytest

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.session.masters import require_answer


def test_a_master_that_nobody_listens_for_is_refused_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(EnvironmentUnfit) as refused:
        require_answer("spark://127.0.0.1:1")
    assert time.monotonic() - began < 5
    assert refused.value.message == (
        "the Spark master spark://127.0.0.1:1 does not answer: 127.0.0.1:1: Connection refused"
    )


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        require_answer(f"spark://127.0.0.1:1,127.0.0.1:{listening.getsockname()[1]}")


@pytest.mark.parametrize("master", ["local[*]", "local", "yarn", "k8s://https://127.0.0.1:1"])
def test_other_masters_are_left_to_spark(master: str) -> None:
    require_answer(master)


def test_an_address_without_a_port_is_said() -> None:
    with pytest.raises(EnvironmentUnfit, match="does not answer"):
        require_answer("spark://somewhere")
