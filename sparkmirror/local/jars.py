"""Kafka's own jars, fetched once by the Ivy that ships with PySpark and kept in the user's cache folder.

The folder appears by one rename, so whoever sees it sees all of it. Two processes that both need it take turns
on a lock file; the second finds the folder finished. `python -m sparkmirror.local` fetches and prints it.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sparkmirror.caches import cache_root
from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.local.java import find_java

KAFKA_VERSION = "4.3.1"
LOG4J_VERSION = "2.25.4"  # what kafka-server 4.3.1 names; log4j-slf4j-impl is the binding for its slf4j 1.7
PROGRESS_SECONDS = 5.0  # the fetch takes about a minute and a half; silence for longer looks like a hang
STEPS_ABOUT = 188  # 94 modules found, 94 jars downloaded

_MODULES = (
    ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    ("org.apache.kafka", "kafka-tools", KAFKA_VERSION),
    ("org.apache.kafka", "connect-mirror", KAFKA_VERSION),
    ("org.apache.kafka", "connect-runtime", KAFKA_VERSION),
    ("org.apache.kafka", "connect-json", KAFKA_VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
)


def kafka_jars(say: Callable[[str], None] | None = None) -> Path:
    """The folder of jars, fetched first if need be; `say` gets the progress lines, stderr by default."""
    find_java()
    root = cache_root()
    folder = root / f"kafka-{KAFKA_VERSION}"
    if folder.is_dir():
        return folder
    with _locked(root / f"kafka-{KAFKA_VERSION}.lock"):
        if not folder.is_dir():
            _fetch(root, folder, say or _say_on_stderr)
    return folder


def _say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on the file; the kernel frees it when the process dies, however it dies."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(root: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Fills a folder of another name and renames it when it is complete. Runs under the lock."""
    for leftover in root.glob(f"{folder.name}.part-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=root))
    ivy_cache = root / "ivy"
    started = time.monotonic()
    say(f"fetching the jars of Kafka {KAFKA_VERSION} (55 MB, once, about a minute and a half)")
    try:
        _run_ivy(part, ivy_cache, say)
        _check_complete(part)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(ivy_cache, ignore_errors=True)  # a second copy of everything; kept only after a failure
    say(f"fetched {len(list(folder.iterdir()))} jars in {time.monotonic() - started:.0f} s")


def _run_ivy(part: Path, ivy_cache: Path, say: Callable[[str], None]) -> None:
    """Runs one Ivy call for all modules together, so that each library comes in one version only."""
    with tempfile.TemporaryDirectory(prefix="sparkmirror-ivy-") as scratch:
        wanted = Path(scratch) / "ivy.xml"
        wanted.write_text(_ivy_file(), encoding="utf-8")
        pattern = f"{part}/[artifact]-[revision](-[classifier]).[ext]"
        command = [find_java(), "-cp", f"{_pyspark_jars()}/*", f"-Divy.default.ivy.user.dir={ivy_cache}"]
        command += ["org.apache.ivy.Main", "-m2compatible", "-ivy", str(wanted), "-confs", "default"]
        command += ["-cache", str(ivy_cache), "-retrieve", pattern]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
            assert ivy.stdout is not None
            trouble = _follow(ivy.stdout, say)
        if ivy.returncode != 0:
            raise EnvironmentUnfit(
                f"fetching Kafka {KAFKA_VERSION} from Maven Central failed: {trouble or 'ivy gave no reason'}",
                hint="the network must reach repo1.maven.org; for a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=...",
            )


def _ivy_file() -> str:
    lines = [
        f'    <dependency org="{organisation}" name="{name}" rev="{version}" conf="default->default"/>'
        for organisation, name, version in _MODULES
    ]
    head = '<ivy-module version="2.0">\n  <info organisation="sparkmirror" module="kafka"/>\n'
    confs = '  <configurations><conf name="default"/></configurations>\n'
    return head + confs + "  <dependencies>\n" + "\n".join(lines) + "\n  </dependencies>\n</ivy-module>\n"


def _follow(output: Iterable[str], say: Callable[[str], None]) -> str:
    """Reports progress while Ivy talks; returns the line that best tells why it failed, or nothing."""
    trouble, count, last_said = "", 0, time.monotonic()
    for line in output:
        words = line.split()
        if words[:1] in (["found"], ["downloading"]):  # first it looks at every module, then it downloads each jar
            count += 1
            if time.monotonic() - last_said >= PROGRESS_SECONDS:
                last_said = time.monotonic()
                say(f"  {count} of about {STEPS_ABOUT}: {words[0]} {words[1].rpartition('/')[2].rpartition('#')[2]}")
        elif not trouble and any(sign in line for sign in ("Exception", "ERROR", "UNRESOLVED", "unresolved")):
            trouble = line.strip(" \t\n:")
    return trouble


def _check_complete(folder: Path) -> None:
    for _, name, version in _MODULES:
        jar = f"{name}-{version}.jar"
        if not (folder / jar).is_file():
            raise EnvironmentUnfit(f"fetching Kafka {KAFKA_VERSION} failed: ivy ended well, but {jar} is missing")


def _pyspark_jars() -> Path:
    """PySpark's jar folder, found without importing PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EnvironmentUnfit("pyspark is not installed, and its Ivy fetches Kafka", hint="pip install pyspark")
    return Path(spec.origin).parent / "jars"
