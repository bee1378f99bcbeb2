"""A JVM with Kafka's own classes, called from Python: `with java_gateway() as jvm: jvm.java.util.HashMap()`."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import py4j.java_gateway
import py4j.protocol
import pyspark
from py4j.java_gateway import GatewayParameters, JavaClass, JavaGateway

from sparkmirror.local import kafka_jars
from sparkmirror.local.java import QUICK_START, JavaCall, log_settings
from sparkmirror.local.processes import launch

__all__ = ["java_gateway", "java_list", "java_map"]

HEAP_MB = 256
STOP_SECONDS = 10.0


@contextmanager
def java_gateway() -> Iterator[Any]:
    """py4j's view of a JVM that has Kafka's jars; it ends with the block, and with this process whatever ends that."""
    if pyspark.SparkContext._active_spark_context is None:
        # A session that has ended leaves its own reader of Java's exceptions in py4j, which the iterators do not know.
        py4j.java_gateway.get_return_value = py4j.protocol.get_return_value
    with tempfile.TemporaryDirectory(prefix="java-gateway-") as folder, (Path(folder) / "errors").open("w+b") as errors:
        command = _command(Path(folder))
        with launch(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors) as process:
            try:
                gateway = _connect(process, errors)
                try:
                    yield gateway.jvm
                finally:
                    gateway.shutdown()
            finally:
                _end(process)


def java_map(jvm: Any, entries: Mapping[str, str]) -> Any:
    """A java.util.HashMap, as Kafka's classes take their properties."""
    # By `jvm.java.util`, Java would look through all jars for classes named `java` and `java.util`, each time: 10 ms.
    made = JavaClass("java.util.HashMap", jvm._gateway_client)()
    for key, value in entries.items():
        made.put(key, value)
    return made


def java_list(jvm: Any, items: Sequence[Any]) -> Any:
    """A java.util.ArrayList."""
    made = JavaClass("java.util.ArrayList", jvm._gateway_client)()
    for item in items:
        made.add(item)
    return made


def _command(folder: Path) -> list[str]:
    jars = Path(pyspark.__file__).parent / "jars"
    bridge = ":".join(str(jar) for stem in ("py4j", "janino", "commons-compiler") for jar in jars.glob(f"{stem}-*.jar"))
    options = (*QUICK_START, log_settings(folder / "log4j2.properties", log_file=None, level="warn"))
    # It serves until its stdin ends; 0 is any free port, which it prints with the token that callers must know.
    arguments = ["--die-on-broken-pipe", "--enable-auth", "0"]
    call = JavaCall(kafka_jars(), "py4j.GatewayServer", arguments, heap_mb=HEAP_MB, options=options)
    command = call.command()
    command[command.index("-cp") + 1] += f":{bridge}"
    return command


def _connect(process: subprocess.Popen[bytes], errors: IO[bytes]) -> JavaGateway:
    assert process.stdout is not None
    port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
    if not port.isdigit() or not token:
        errors.seek(0)
        raise AssertionError(f"the JVM did not serve: {port!r} {errors.read().decode(errors='replace')[-2000:]}")
    return JavaGateway(gateway_parameters=GatewayParameters(port=int(port), auth_token=token.decode(), auto_convert=True))


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
        process.wait(STOP_SECONDS)
    finally:
        process.kill()
