"""Texts that are nearly a JAAS entry: an entry or a refusal, at once, and no secret in it."""

from __future__ import annotations

import contextlib
import time

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkmirror.clusters.security.jaas import JaasRefused, parse_jaas

PIECES = ["org.x.LoginModule", "required", "username", "=", '"ann"', "'ann'", ";", '"', "'", "\\", "//", "/*", "*/", "\n",
          " ", "${env:X}", "\0", "é", "{", "}", "canary"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=200))
@example("a required x=" + '"' * 1001)
@settings(max_examples=500, deadline=None)
def test_any_text_is_an_entry_or_a_refusal(text: str) -> None:
    try:
        entry = parse_jaas(text)
    except JaasRefused as refusal:
        assert "canary" not in refusal.reason or "written twice" in refusal.reason
    else:
        assert entry.module


@given(st.dictionaries(st.from_regex(r"[A-Za-z][A-Za-z.]{0,9}", fullmatch=True),
                       st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=30), max_size=5))  # fmt: skip
def test_what_is_written_in_quotes_is_read_back(options: dict[str, str]) -> None:
    written = " ".join(
        f'{name}="' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for name, value in options.items()
    )
    assert parse_jaas(f"org.x.LoginModule required {written};").options == options


def test_long_texts_take_no_long_time() -> None:
    began = time.monotonic()
    long = ("/*" * 100_000, " " * 200_000, 'a required x="' + "\\" * 200_001,
            "a required " + "x=y " * 50_000, "//" * 100_000)  # fmt: skip
    for text in long:
        with contextlib.suppress(JaasRefused):
            parse_jaas(text)
    assert time.monotonic() - began < 2
