"""What others on the machine can see of a mirror while it runs."""

from __future__ import annotations

import json
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil


@dataclass
class Sightings:
    """What another process on this machine can look at while a mirror runs."""

    arguments: set[str] = field(default_factory=set)
    pages: dict[str, str] = field(default_factory=dict)  # of Spark
    answers: dict[str, str] = field(default_factory=dict)  # of the mirror itself
    metrics: str = ""

    def look(self, process: psutil.Process, spark_port: int, own_port: int, metrics: Path) -> None:
        """Adds what there is now."""
        with suppress(psutil.Error):  # it has just ended
            for each in (process, *process.children(recursive=True)):
                self.arguments |= {*each.cmdline(), *(f"{key}={text}" for key, text in each.environ().items())}
        with suppress(OSError):
            self.metrics = metrics.read_text()
        api = f"http://127.0.0.1:{spark_port}/api/v1/applications"
        with suppress(OSError, ValueError, LookupError):  # not up yet, or gone again
            self.pages[api] = page(api)
            own = f"{api}/{json.loads(self.pages[api])[0]['id']}"
            pages = [f"{own}/{part}" for part in ("environment", "jobs", "stages", "stages?details=true", "allexecutors")]
            pages += [f"http://127.0.0.1:{spark_port}/{part}/" for part in ("environment", "jobs", "stages", "executors")]
            for address in pages:
                self.pages[address] = page(address)
        with suppress(OSError, ValueError, LookupError):
            own = f"http://127.0.0.1:{own_port}"
            flows = [flow["flow"] for flow in json.loads(page(f"{own}/flows"))["flows"]]
            for part in ("metrics", "flows", *(f"flows/{flow}" for flow in flows)):
                self.answers[part] = page(f"{own}/{part}")


def page(address: str) -> str:
    """What a web server answers."""
    with urllib.request.urlopen(address, timeout=5) as answer:
        return str(answer.read(), errors="replace")
