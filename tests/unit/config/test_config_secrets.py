"""A secret never shows itself."""

import copy
import json
import logging
import pickle

import pytest

from sparkmirror.config import HIDDEN, Secret

CANARY = "canary-5f1c"


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        lambda s: f"{s}",
        lambda s: f"{s!s:>20}",
        lambda s: "{}".format(s),  # noqa: UP032
        lambda s: "".join([s]),
        lambda s: s + "",
        lambda s: s[:],
        lambda s: json.dumps({"k": s}),
        lambda s: json.dumps({s: 1}),
        lambda s: s.encode().decode(),
        lambda s: repr([s, {"a": s}]),
        lambda s: logging.LogRecord("n", 20, "p", 1, "%s %r", (s, s), None).getMessage(),
        lambda s: s.upper(),
    ],
)
def test_every_way_of_showing_a_secret_hides_it(show):
    shown = show(Secret(CANARY))
    assert CANARY not in shown
    assert CANARY.upper() not in shown


def test_reveal_gives_the_content():
    assert Secret(CANARY).reveal() == CANARY
    assert Secret(Secret(CANARY)).reveal() == CANARY


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_is_refused(protocol):
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps({"a": Secret(CANARY)}, protocol)


def test_copies_are_the_secret_itself():
    secret = Secret(CANARY)
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret


def test_secrets_are_equal_by_content_and_never_to_plain_text():
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert Secret("a") != HIDDEN
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2
