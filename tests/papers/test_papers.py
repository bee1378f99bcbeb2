"""README.md and docs/ say what is so: paths exist, commands parse, links lead somewhere, blocks were printed."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Set
from pathlib import Path

import pytest

from papers.commands import commands, complaint
from papers.pages import ROOT, console_blocks, pages, prose, slugs
from papers.staging import BLOCKS

PAGES = [pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages()]
PLACEHOLDERS = re.compile(r"OUTPUT-[A-Z]|\b(TODO|FIXME|TBD|XXX)\b")
# Made by the program or by its tests, or records of what was decided when: their words are changed where they are made.
MADE = {"configuration.md", "doctor.md", "faults.md", "seeds.md", "soak.md"}
WORDS = re.compile(r"\b(told|standing|anew|strays?|shelf|slips?|guests?|lanes?|parcels?)\b", re.IGNORECASE)
PATH = re.compile(r"(?<![\w./<-])[\w-][\w./-]*(?:\.(?:py|sh|java|svg|md|json)\b|/(?=[`|]))")
# What a reader writes or gets, not files of this repository.
READERS_FILES = {"before.json", "positions.json", "docs/decisions/NNNN-title.md"}
# An error code, or a key of a properties file, with the alias or flow that it is of, and its value.
NAME = re.compile(r"`(?:[A-Z]+(?:->[A-Z]+)?\.)?([A-Z]{2,}(?:_[A-Z]+)+|[a-z]+(?:-[a-z]+)*(?:\.[a-z-]+)+)(?: = [^`]*)?`")
FILE_ENDINGS = (".md", ".py", ".json", ".csv", ".properties", ".svg", ".sh")
# Keys of brokers, of Spark's connector and of an example, and a topic.
OTHERS = {
    "dataclasses.asdict", "dataclasses.replace",  # of Python
    # MirrorMaker 2's figures as guides write them
    "source.connector.record-count", "source.connector.record-age-ms", "source.connector.replication-latency-ms",
    "source.connector.byte-count", "checkpoint.connector.checkpoint-latency-ms",
    "producer.id.expiration.ms", "kafka.security.protocol", "team.name", "eu.orders-fr",
}  # fmt: skip
# A code in a comment: (O6), (R11, R12), L13: …
KEYS = ("protocol.md", "differences.md", "doctor.md", "faults.md")
CODE = re.compile(r"\b[CDGILMOR]\d{1,2}\b")


@functools.cache
def tracked() -> frozenset[str]:
    """Every file of the repository, and every folder with a slash at its end."""
    listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
    files = [name for name in listed.splitlines() if (ROOT / name).exists()]
    return frozenset(files) | {f"{parent.as_posix()}/" for name in files for parent in Path(name).parents}


@functools.cache
def source_of_program() -> str:
    """The program, its tests but these, and the bench, as one text."""
    files = [path for folder in ("sparkmirror", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    return "\n".join(path.read_text("utf-8") for path in files if path.parent != Path(__file__).parent)


@functools.cache
def source_of_tests() -> str:
    """All tests, as one text."""
    return "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))


def unknown_paths(page: Path, text: str, known: Set[str]) -> list[str]:
    """Paths that are not in the tree.

    A path counts from the root, from `sparkmirror/` or from the page. A bare name lies in a folder, or beside a file, that
    the same paragraph or row of a table names before it.
    """
    unknown = []
    roots = ["", "sparkmirror/", f"{page.parent.relative_to(ROOT).as_posix()}/".removeprefix("./")]
    for paragraph in re.split(r"\n\s*\n|\n(?=\||- |\d+\. )", text):
        near: list[str] = []
        for name in PATH.findall(paragraph):
            found = [root + name for root in [*roots, *near] if root + name in known]
            near += [path if path.endswith("/") else f"{Path(path).parent.as_posix()}/" for path in found]
            if not found and name not in READERS_FILES:
                unknown.append(name)
    return unknown


@pytest.mark.parametrize("page", PAGES)
def test_page_holds_no_placeholder(page: Path) -> None:
    assert PLACEHOLDERS.findall(page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    text = re.sub(r"\]\([^)]*\)", "]()", page.read_text("utf-8"))
    text = re.sub(r"^```console$.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert unknown_paths(page, text, tracked()) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_command_that_a_page_names_is_one_that_the_program_takes(page: Path) -> None:
    found = {command: complaint(command) for command in commands(page.read_text("utf-8"))}
    assert {command: reason for command, reason in found.items() if reason} == {}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text("utf-8"))):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", name):
            continue
        file = (page.parent / name).resolve() if name else page
        if not file.exists() or (anchor and anchor not in slugs(file.read_text("utf-8"))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text("utf-8")))
    assert {name for name in named if f"def {name}(" not in source_of_tests()} == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_error_code_and_key_that_a_page_names_is_known_to_the_program(page: Path) -> None:
    named = set(NAME.findall(page.read_text("utf-8")))
    assert {name for name in named if name not in source_of_program() and not name.endswith(FILE_ENDINGS)} - OTHERS == set()


@pytest.mark.parametrize("page", [page for page in PAGES if page.values[0].name not in MADE and "decisions" not in page.id])
def test_page_keeps_to_the_words_of_the_glossary(page: Path) -> None:
    """Names in code, such as a field of JSON or a file, and addresses of links are not words of the page."""
    assert WORDS.findall(re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose(page.read_text("utf-8")))) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_console_block_was_printed_by_the_script(page: Path) -> None:
    for block in console_blocks(page.read_text("utf-8")):
        assert block.name in BLOCKS, f"no block of papers/staging.py is called {block.name}: {block.commands}"
        assert block.commands, f"{block.name} has no commands"
        assert block.output, f"{block.name} is empty: make docs"


def test_every_page_is_in_the_index() -> None:
    linked = re.findall(r"\]\(([^)#\s]+)", (ROOT / "docs" / "README.md").read_text("utf-8"))
    found = {path.relative_to(ROOT / "docs").as_posix() for path in pages() if ROOT / "docs" in path.parents}
    assert found - {"README.md"} - set(linked) == set()


def test_every_block_of_the_script_is_on_one_page() -> None:
    found = [block.name for page in pages() for block in console_blocks(page.read_text("utf-8"))]
    assert sorted(found) == sorted(BLOCKS)


def table(text: str) -> list[list[str]]:
    """The cells of every row of every table."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_the_numbers_of_the_readme_are_those_of_the_last_bench() -> None:
    measured = {(row[0], row[1]): row for row in table((ROOT / "bench" / "results" / "latest.md").read_text("utf-8"))}
    scenarios = {scenario for scenario, who in measured if who == "bare sockets"}
    shown = {row[0]: row for row in table((ROOT / "README.md").read_text("utf-8")) if row[0] in scenarios}
    assert set(shown) == scenarios
    for scenario, row in shown.items():
        mm2, ours = measured[scenario, "MM2, tuned"], measured[scenario, "sparkmirror"]
        wanted = [mm2[2], ours[2], *(float(cell) for cell in (ours[4], ours[5], mm2[6], ours[6]))]
        assert [row[1], row[2], *map(float, row[3:])] == [*wanted[:2], *(pytest.approx(n, rel=0.05) for n in wanted[2:])]


def test_every_code_in_a_comment_has_its_key_in_docs() -> None:
    keys = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in KEYS)
    known = set(re.findall(r"^(?:\| |### )([A-Z]\d{1,2})\b", keys, re.MULTILINE))
    used: dict[str, str] = {}
    for path in sorted((ROOT / "sparkmirror").rglob("*.py")):
        for comment in re.findall(r"#.*|\"\"\".*?\"\"\"|assert .*", path.read_text("utf-8")):
            for group in re.findall(r"\(([^()]*)\)|\"([A-Z]\d+):", comment):
                used |= dict.fromkeys(CODE.findall(" ".join(group)), path.relative_to(ROOT).as_posix())
    assert {code: path for code, path in used.items() if code not in known} == {}


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("stat mm2.properties", "no command stat"),
        ("run mm2.properties --onse", "--onse"),
        ("offsets skip mm2.properties --topic orders --partition one", "--partition"),
        ("plan FILE --json --yes", "--yes"),
        ("plan FILE MORE", "MORE"),
        ("run --onse", "--onse"),
    ],
)
def test_a_command_that_the_program_does_not_take_is_found(command: str, words: str) -> None:
    assert words in complaint(command)


@pytest.mark.parametrize(
    "command",
    [
        "run mm2.properties --clusters B C",
        "offsets reset FILE --topic NAME [--partition N] [--to earliest|latest|OFFSET]",
        "doctor",
        "offsets list",
        "run --listen",
        "why FILE TOPIC | TOPIC:PARTITION | GROUP [--flow 'A->B']",
        "translate mm2.properties --group g > p.csv",
    ],
)
def test_a_command_that_the_program_takes_is_not_complained_of(command: str) -> None:
    assert complaint(command) == ""


def test_a_path_that_is_not_there_is_found() -> None:
    known = {"sparkmirror/wire/splice.py", "sparkmirror/wire/", "README.md"}
    text = "`wire/` has `splice.py` and README.md\n\n`splice.py`, `wire/gone.py`"
    assert unknown_paths(ROOT / "README.md", text, known) == ["splice.py", "wire/gone.py"]
