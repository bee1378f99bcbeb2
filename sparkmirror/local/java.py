"""The Java of this machine: where it is, whether it is new enough, and how Kafka's classes are called with it."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.errors import EnvironmentUnfit

JAVA_VERSION_MIN = 17  # Kafka 4 brokers (KIP-1013) and Spark 4 refuse anything older

# For programs that live for seconds: no second compiler, no collector threads.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
LOG_TAIL_LINES = 15

_LOG_TEMPLATE = """\
status = error
appender.out.type = {appender}
appender.out.name = out
{destination}
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = out
logger.reflections.name = org.reflections
logger.reflections.level = error
"""


@functools.cache
def find_java() -> str:
    """The path of a Java that is new enough; raises EnvironmentUnfit in one line if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    wanted = f"java {JAVA_VERSION_MIN} or newer is needed to run brokers"
    if found is None:
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "no java on the PATH"
        raise EnvironmentUnfit(f"{wanted}; {where}", hint="install openjdk-17-jre-headless or newer")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False, timeout=60)
    version = _major_version(answer.stderr + answer.stdout)
    if version is None or version < JAVA_VERSION_MIN:
        what = f"{found} is version {version or 'unknown'}"
        raise EnvironmentUnfit(f"{wanted}; {what}", hint="set JAVA_HOME to a newer one")
    return found


def _major_version(text: str) -> int | None:
    """17 from `version "17.0.15"`, 8 from the old spelling `version "1.8.0_412"`."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def log_settings(settings: Path, *, log_file: Path | None, level: str) -> str:
    """Writes log4j settings to the file `settings` and returns the JVM option that names it; None logs to stderr."""
    appender = "File" if log_file else "Console"
    destination = f"appender.out.fileName = {log_file}" if log_file else "appender.out.target = SYSTEM_ERR"
    part = settings.with_name(f"{settings.name}.{os.getpid()}")
    part.write_text(_LOG_TEMPLATE.format(appender=appender, destination=destination, level=level), encoding="utf-8")
    part.replace(settings)  # another process may be reading the old one
    return f"-Dlog4j2.configurationFile={settings}"


def scratch_option(folder: Path) -> str:
    """The JVM option that names the folder for what it unpacks, which one that is killed leaves there."""
    return f"-Djava.io.tmpdir={folder}"


def log_tail(path: Path) -> str:
    """The last lines of a log, or nothing if there is none."""
    if not path.is_file():
        return ""
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:])


@dataclass(frozen=True, slots=True)
class JavaCall:
    """One Java program: jar folder, main class, its arguments, and the options of its JVM."""

    jars: Path
    main_class: str
    arguments: Sequence[str] = ()
    heap_mb: int = 256
    options: Sequence[str] = ()

    def command(self) -> list[str]:
        """The whole command line."""
        # Byte order of text must not hang on the locale: header keys and file names are UTF-8 in Kafka.
        encoding = ["-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
        heap = [f"-Xms{min(self.heap_mb, 64)}m", f"-Xmx{self.heap_mb}m"]
        classpath = ["-cp", f"{self.jars}/*"]
        scratch = scratch_option(Path(tempfile.gettempdir()))  # Java itself does not look at TMPDIR
        return [find_java(), *heap, *encoding, scratch, *self.options, *classpath, self.main_class, *self.arguments]
