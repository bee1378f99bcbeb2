"""The one door to Spark on the driver: the session, and one long job per slot.

Spark is imported where it is used: most commands need none, and its import takes longer than they do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.errors import EnvironmentUnfit
from sparkmirror.session.class_archive import archive_option
from sparkmirror.session.equipping import Equipment
from sparkmirror.session.masters import require_answer
from sparkmirror.session.root_cause import cause_in, root_cause
from sparkmirror.session.spark_log import SparkLog
from sparkmirror.session.spark_settings import (
    Need,
    expected_cores,
    is_cluster,
    is_sized,
    refuse_deadly,
    settings_for,
    shares_cores,
    sized,
    slot_cpus,
)
from sparkmirror.slot.program import program
from sparkmirror.slot.slot import SlotOrder
from sparkmirror.slot.task import run_slot, task_of

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

APP = "sparkmirror"
JVM_PORT = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for the program that it starts
PYTHON = Path(__file__).with_name("python.sh")
STOP_S = 20.0
CORES_S, CORES_S_MAX, CORES_POLL_S = 2.0, 30.0, 0.1
DIED = "died: "  # before the cause of a task that Spark could not run to its end


class SparkSlots:
    """Starts Spark in the background and runs slots on it."""

    _log: SparkLog | None = None
    has_core_for_each = True  # whether Spark starts each slot at once

    def __init__(
        self,
        *,
        master: str,
        conf: Mapping[str, str],
        slots: int,
        queries: int = 0,
        jvm_option: str | None = None,
        session: SparkSession | None = None,
    ) -> None:
        """Of a `session` that is handed in, nothing is changed but the environment of its Python, and it is not ended."""
        self._master = master
        self._session = session
        self._equipment = Equipment()
        self._program = ""  # what executors must run; empty where tasks are this very program
        self._need = Need(slots, queries)
        self._jvm_option = archive_option(has_queries=queries > 0) if jvm_option is None else jvm_option
        self._conf = dict(conf)
        is_ours = session is None and JVM_PORT not in os.environ
        self.has_core_for_each = is_ours and is_sized(conf.get("spark.master", master))
        self._tag = f"{APP}-{uuid.uuid4().hex[:8]}"  # of every job of ours in the application
        self._shares_cores = False
        self._profiles: dict[float, Any] = {}
        self._context: SparkContext | None = None
        self._failed: Exception | None = None
        self._log = SparkLog() if is_ours else None
        self._ready = threading.Event()
        self._threads: list[threading.Thread] = []
        threading.Thread(target=self._start, name="spark", daemon=True).start()

    def _start(self) -> None:
        try:
            self._context = self._open()
        except Exception as error:  # noqa: BLE001  border to Spark: whoever waits for a slot gets it
            self._failed = error
        self._ready.set()

    def _open(self) -> SparkContext:
        """The context, with executors that have what tasks need."""
        if self._session is not None:
            context = self._session.sparkContext
            refuse_deadly(dict(context.getConf().getAll()))
        else:
            context = self._join() if JVM_PORT in os.environ else self._launch_jvm()
        if is_cluster(context.master):
            self._program = program()
            self._equipment.give(context, has_queries=self._need.queries > 0)
        self._shares_cores = shares_cores(context.master, dict(context.getConf().getAll()))
        if self._shares_cores:
            _await_cores(context)
        return context

    def _settings(self, given: Mapping[str, str]) -> SparkConf:
        """All settings: ours, then those that the JVM was `given`, then the user's own."""
        from pyspark import SparkConf

        wanted = {**given, **self._conf}
        master = wanted.pop("spark.master", self._master)
        self.has_core_for_each = is_sized(master)
        master = sized(master, self._need)
        require_answer(master)
        if "spark.remote" in wanted or wanted.get("spark.api.mode", "classic") != "classic":
            raise EnvironmentUnfit(
                "Spark Connect has no RDDs, and so no tasks of our kind: sparkmirror needs classic mode",
                hint="remove spark.remote and set spark.api.mode=classic",
            )
        settings = settings_for(master, self._need, wanted, self._jvm_option)
        return SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))

    def _join(self) -> SparkContext:
        """The JVM that started us, as `spark-submit` does: its settings are kept, and it is not ours to end."""
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        gateway = launch_gateway()
        conf = self._settings(dict(SparkConf(_jvm=gateway.jvm).getAll()))
        _name_python(conf, is_joined=True)
        return SparkContext(conf=conf, gateway=gateway)

    def _launch_jvm(self) -> SparkContext:
        """Starts the JVM in a session of its own: a Ctrl-C at the terminal must reach the driver alone."""
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        conf = self._settings({})
        _name_python(conf)
        assert self._log is not None
        gateway = launch_gateway(conf, {"stdout": self._log.sink, "stderr": self._log.sink, "start_new_session": True})
        self._log.is_handed_over()
        return SparkContext(conf=conf, gateway=gateway)

    @property
    def log_path(self) -> str:
        """Where Spark's own log is; empty if the JVM is not ours: then it is where that one writes."""
        return "" if self._log is None else self._log.path

    def keep_log(self) -> str:
        """Words for an error that name the log, which then stays when this process ends."""
        if self._log is None:
            return "Spark's log is that of spark-submit"
        self._log.is_kept = True
        return f"Spark's log is {self._log.path}"

    def _log_tail(self) -> str:
        """The cause that stands at the end of what Spark wrote about itself."""
        return "" if self._log is None else cause_in(self._log.tail())

    def wait(self) -> SparkContext:
        """The running context; raises what kept Spark from starting."""
        self._ready.wait()
        if self._context is None:
            if isinstance(self._failed, EnvironmentUnfit):
                raise self._failed
            if self._failed is None:
                raise EnvironmentUnfit("Spark was stopped before it was needed")  # a run that ended while Spark started
            cause = "; ".join(filter(None, (root_cause(self._failed), self._log_tail())))
            hint = f"check --master, --conf and java -version; {self.keep_log()}"
            raise EnvironmentUnfit(f"Spark does not start: {cause}", hint=hint)
        return self._context

    def launch(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        """Runs a slot as a job of its own; `ended` is called on its thread when the driver's call returns."""
        thread = threading.Thread(target=self._run, args=(order, ended), name=_title(order), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        from pyspark import InheritableThread

        try:
            context = self.wait()
        except EnvironmentUnfit as error:
            ended(order, f"failed: {error}")
            return
        outcome: list[str] = []

        def job() -> None:
            try:
                results = self._collect(context, order)
                outcome.append(str(results[0]) if results else "ended without a word")
            except Exception as error:  # noqa: BLE001  border to Spark: a dead worker is an end like others
                outcome.append(f"{DIED}{root_cause(error)}")

        inner = InheritableThread(target=job)
        inner.start()
        inner.join()
        ended(order, outcome[0])

    def _collect(self, context: SparkContext, order: SlotOrder) -> list[Any]:
        """The job of one slot: until it ends. What Spark's pages show of it says which flow and slot it is."""
        flow, title = f"{order.source}->{order.target}", _title(order)
        context.setJobGroup(title, f"{flow} slot {order.slot}: copies the partitions that the flow gives it", False)
        for tag in (self._tag, flow):
            context.addJobTag(tag.replace(",", " "))  # the one character that no tag may have
        context.setLocalProperty("spark.scheduler.pool", flow)
        tasks = context.parallelize([task_of(order, self._program)], 1).mapPartitions(run_slot).setName(title)
        if self._shares_cores:
            tasks = tasks.withResources(self._profile(slot_cpus(context.defaultParallelism, self._need)))
        return list(tasks.collect())

    def _profile(self, cpus: float) -> Any:
        """One resource profile for all slots of a size: Spark schedules each profile apart."""
        from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

        if cpus not in self._profiles:
            self._profiles[cpus] = ResourceProfileBuilder().require(TaskResourceRequests().cpus(cpus)).build
        return self._profiles[cpus]

    def cancel(self, order: SlotOrder) -> None:
        """Kills a slot that does not end; only the fence makes sure of its silence."""
        if self._context is not None:
            self._context.cancelJobGroup(_title(order))

    def stop(self) -> None:
        """Ends Spark and waits until its processes are gone; what does not end by itself is killed, as it holds nothing."""
        self._ready.wait()
        context, self._context = self._context, None
        if context is not None:
            self._equipment.close(context)
        if context is not None and self._session is not None:
            self._leave(context)
        elif context is not None:
            gateway = context._gateway
            process = gateway.proc
            asking = threading.Thread(target=_end, args=(context,), name="ending spark", daemon=True)
            asking.start()
            asking.join(STOP_S)
            if asking.is_alive() and process is not None:
                process.kill()  # and the call that waits for its answer ends
                asking.join(STOP_S)
            if process is None:
                gateway.close()
            else:
                gateway.shutdown()
                _await_end(process)
            kind = type(context)
            kind._gateway = kind._jvm = None  # the next one starts a JVM of its own
        if self._log is not None:
            self._log.close()
            self._log = None

    def _leave(self, context: SparkContext) -> None:
        """Ends our tasks in a session that goes on."""
        deadline = time.monotonic() + STOP_S
        context.cancelJobsWithTag(self._tag)
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))


def _name_python(conf: SparkConf, *, is_joined: bool = False) -> None:
    """Tells Spark which Python tasks run in: the one of this process only where they run on its machine."""
    master, named = conf.get("spark.master") or "", conf.get("spark.pyspark.python")
    if named:
        os.environ["PYSPARK_PYTHON"] = named
    elif is_cluster(master):
        os.environ.setdefault("PYSPARK_PYTHON", f"python{sys.version_info.major}.{sys.version_info.minor}")
    elif master.startswith("local") and not is_joined:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ["SPARKMIRROR_PYTHON"] = sys.executable
        os.environ.setdefault("PYSPARK_PYTHON", str(PYTHON) if os.access(PYTHON, os.X_OK) else sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Closes what keeps the JVM alive; kills it if that is not enough."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(timeout=STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=STOP_S)


def _end(context: SparkContext) -> None:
    from py4j.protocol import Py4JError

    # The JVM may be gone already, or be killed meanwhile: that is all that is wanted, and PySpark warns of it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            context.stop()
        except (Py4JError, OSError):
            context._jsc = None  # nobody to ask: what is left to end is PySpark's own
            context.stop()


def _await_cores(context: SparkContext) -> None:
    """Until the expected executors have come, or no more come; their cores say how many slots must share one."""
    expected = expected_cores(dict(context.getConf().getAll()))
    deadline = time.monotonic() + CORES_S_MAX
    seen, since = 0, time.monotonic()
    while time.monotonic() < deadline and (expected or not seen or time.monotonic() < since + CORES_S):
        executors = context._jsc.sc().getExecutorMemoryStatus().size() - 1  # the driver is one of them
        if executors != seen:
            seen, since = executors, time.monotonic()
        if expected and seen and context.defaultParallelism >= expected:
            return
        time.sleep(CORES_POLL_S)


def _title(order: SlotOrder) -> str:
    return f"{order.source}->{order.target} slot {order.slot}.{order.incarnation}"
