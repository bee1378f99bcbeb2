"""Kafka's own MirrorMaker 2 as a child process, from the same jars as the brokers."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sparkmirror.errors import InternalError
from sparkmirror.local.jars import kafka_jars
from sparkmirror.local.java import JavaCall, log_settings, log_tail, scratch_option
from sparkmirror.local.processes import Child, ScratchFolder

MAIN_CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
STOP_SECONDS = 60.0  # MM2 waits for its tasks, its producers and its herders one after the other
HEAP_MB = 512


class MirrorMaker:
    """One MM2 process, started by `with` or `open`; its log and scratch folder go when it is closed.

    `properties` is the text of an `mm2.properties`, or its keys and values; `jars` is a folder of
    another release's jars than the brokers'.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | str,
        *,
        name: str = "mm2",
        heap_mb: int = HEAP_MB,
        jvm_options: Sequence[str] = (),
        log_level: str = "info",
        jars: Path | None = None,
    ) -> None:
        if not isinstance(properties, str):
            properties = "".join(f"{key} = {value}\n" for key, value in properties.items())
        self.name = name
        self._properties = properties
        self._heap_mb = heap_mb
        self._jvm_options = list(jvm_options)
        self._log_level = log_level
        self._jars = jars
        self._scratch: ScratchFolder | None = None
        self._child: Child | None = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def log_file(self) -> Path:
        """MM2's log; gone after `close`."""
        return self._folder / "mm2.log"

    @property
    def is_running(self) -> bool:
        """True while the process lives; it says nothing about whether it copies."""
        return self._child is not None and self._child.is_running

    @property
    def cpu_seconds(self) -> float:
        """CPU time of the process and its children so far; in all once it has ended."""
        return self._process.cpu_seconds()

    def open(self) -> Self:
        """Starts the process; it copies only some time later, and nothing here waits for that."""
        self._scratch = ScratchFolder(self.name)
        try:
            file = self._folder / "mm2.properties"
            file.write_text(self._properties, encoding="utf-8")
            log_option = log_settings(self._folder / "log4j2.properties", log_file=self.log_file, level=self._log_level)
            options = [log_option, scratch_option(self._folder), *self._jvm_options]
            call = JavaCall(self._jars or kafka_jars(), MAIN_CLASS, [str(file)], heap_mb=self._heap_mb, options=options)
            self._child = Child(f"MirrorMaker {self.name}", call.command(), log_file=self._folder / "stdout.log")
        except BaseException:
            self.close()
            raise
        return self

    def check(self) -> None:
        """Raises with the end of the log if the process has ended by itself."""
        if not self._process.is_running:
            tail = log_tail(self._folder / "stdout.log") + log_tail(self.log_file)
            raise InternalError(f"MirrorMaker {self.name} ended with status {self._process.exit_status}:\n{tail}")

    def stop(self) -> None:
        """Asks it to end in an orderly way (SIGTERM) and waits until it has."""
        self._process.stop(STOP_SECONDS)

    def kill(self) -> None:
        """Ends it at once (SIGKILL)."""
        self._process.kill()

    def suspend(self) -> None:
        """Freezes it (SIGSTOP): its connections stay open and it asks for nothing."""
        self._process.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Resumes a frozen one (SIGCONT)."""
        self._process.send(signal.SIGCONT)

    def close(self) -> None:
        """Kills it if it still runs and removes its folder; CPU time stays readable."""
        if self._child is not None:
            self._child.kill()
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    @property
    def _process(self) -> Child:
        if self._child is None:
            raise InternalError(f"MirrorMaker {self.name} was never started")
        return self._child

    @property
    def _folder(self) -> Path:
        if self._scratch is None:
            raise InternalError(f"MirrorMaker {self.name} is not open")
        return self._scratch.path
