"""The command lines that pages name, parsed by the program's own parser without running anything."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer

from papers.pages import PROMPT, fences
from sparkmirror.cli.app import app
from sparkmirror.cli.usage import ClustersCommand

__all__ = ["VERBS", "commands", "complaint"]

_ROOT: Any = typer.main.get_command(app)
VERBS = frozenset(_ROOT.commands)
_PROGRAM = re.compile(r"(?:\$ )?(?:\.venv/bin/)?sparkmirror (?=[a-z])")
# A word that the reader replaces: FILE, GROUP, N, A->B is not one (it is a flow's real name).
_PLACEHOLDER = re.compile(r"\b(?!A->B)[A-Z][A-Z-]*\b|…|\|")


def commands(text: str) -> Iterator[str]:
    """Command lines without the program's name: in blocks, and in code within sentences and tables."""
    for fence in fences(text):
        lines = fence.text.splitlines()
        yield from _of_lines([line for line in lines if fence.language != "console" or line.startswith(PROMPT)])
    rest = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from _of_lines([line.removeprefix("    ") for line in rest.splitlines() if line.startswith("    ")])
    for span in re.findall(r"`([^`]+)`", rest):
        words = " ".join(span.replace("\\|", "|").split())
        if words.startswith("sparkmirror ") and words.split()[1] != "=":
            yield words.removeprefix("sparkmirror ")
        elif words.split()[0] in VERBS and re.search(r" (--|[A-Z]{2})", words):
            yield words


def _of_lines(lines: list[str]) -> Iterator[str]:
    joined = re.sub(r"\\?\n\s+(?=\[|--)", " ", "\n".join(lines))
    for line in joined.splitlines():
        found = _PROGRAM.match(line)
        if found:
            yield line[found.end() :]


def complaint(command: str) -> str:
    """Why the program would not take the command; empty if it would.

    Where words stand for others (FILE, `a|b`), options and the number of arguments are checked; else values too. A command
    without a file is an abbreviation (`run --once`): its options must exist.
    """
    plain = re.sub(r"\s#.*|\s>.*|\s\|\s\S+|…$", "", command)
    is_pattern = _PLACEHOLDER.search(plain) is not None or "[" in plain
    words = shlex.split(re.sub(r"[\[\]]", " ", plain))
    verb: Any = _ROOT
    while hasattr(verb, "commands"):
        if not words:
            return ""
        name, *words = words
        if name not in verb.commands:
            return f"there is no command {name}"
        verb = verb.commands[name]
    if not any(word == "FILE" or word.endswith(".properties") for word in words):
        known = {option for parameter in verb.params for option in parameter.opts}
        return " ".join(word for word in words if word.startswith("--") and word not in known)
    return _refusal(verb, verb.spread_clusters(words) if isinstance(verb, ClustersCommand) else words, is_pattern)


def _refusal(verb: Any, words: list[str], is_pattern: bool) -> str:
    context = verb.context_class(verb, info_name=verb.name)
    try:
        if not is_pattern:
            verb.make_context(verb.name, list(words))
            return ""
        _, surplus, _ = verb.make_parser(context).parse_args(args=list(words))
    except typer._click.exceptions.ClickException as error:
        return error.format_message()
    except SystemExit as error:  # commands with a usage error of their own
        return f"status {error.code}"
    return f"too many words: {surplus}" if surplus else ""
