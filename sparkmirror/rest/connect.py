"""Connect's REST, as far as it reads: the paths, bodies and errors of Connect 4.3.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from sparkmirror.rest.connectors import (
    VERSION,
    Document,
    MirrorConnector,
    Named,
    config_document,
    find,
    info_document,
    offsets_document,
    status_document,
    task_document,
    tasks_document,
    topics_document,
)
from sparkmirror.rest.messages import HttpAnswer, compact_answer, refusal
from sparkmirror.rest.paths import Handler, Paths

HEALTHY = {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
STARTING = {"status": "starting", "message": "Worker is still starting up."}


@dataclass(frozen=True, slots=True)
class ConnectWorker:
    """What the paths need: the connectors as they are now, this process's address, and the target's cluster id."""

    connectors: Callable[[], Sequence[MirrorConnector]]
    worker_id: str
    cluster_id: Callable[[], str | None]

    def paths(self) -> Paths:
        """Everything under Connect's paths."""
        at = "/connectors/{connector}"
        found: dict[str, Handler] = {
            "/": self.root,
            "/health": self.health,
            "/connectors": self.list,
            at: self.of(info_document),
            f"{at}/config": self.of(config_document),
            f"{at}/tasks": self.of(tasks_document),
            f"{at}/offsets": self.of(offsets_document),
            f"{at}/status": self.status,
            f"{at}/tasks/{{task:int}}/status": self.task_status,
            f"{at}/topics": self.topics,
        }
        return {path: {"GET": handler} for path, handler in found.items()}

    def root(self, request: Request) -> HttpAnswer:
        """Version and the target's cluster id."""
        return compact_answer(200, {"version": VERSION, "commit": "unknown", "kafka_cluster_id": self.cluster_id()})

    def health(self, request: Request) -> HttpAnswer:
        """Whether the process works, not whether every partition copies."""
        return compact_answer(200, HEALTHY) if self.connectors() else compact_answer(503, STARTING)

    def list(self, request: Request) -> HttpAnswer:
        """The connectors' names, or with `expand=status` and `expand=info` their documents."""
        found = self.connectors()
        wanted = request.query_params.getlist("expand")
        if not wanted:
            return compact_answer(200, [connector.name for connector in found])
        document: dict[str, Document] = {}
        for connector in found:
            named, expanded = Named(connector.name, (connector,)), document.setdefault(connector.name, {})
            if "status" in wanted:
                expanded["status"] = status_document(named, self.worker_id)
            if "info" in wanted:
                expanded["info"] = info_document(named)
        return compact_answer(200, document)

    def of(self, make: Callable[[Named], object]) -> Callable[[Request], HttpAnswer]:
        """A document of one connector."""

        def answer(request: Request) -> HttpAnswer:
            name = request.path_params["connector"]
            named = find(self.connectors(), name)
            if named is None:
                return refusal(404, f"Connector {name} not found")
            return compact_answer(200, make(named))

        answer.__doc__ = make.__doc__
        return answer

    def status(self, request: Request) -> HttpAnswer:
        """The state of a connector and of its tasks."""
        name = request.path_params["connector"]
        named = find(self.connectors(), name)
        if named is None:
            return refusal(404, f"No status found for connector {name}")
        return compact_answer(200, status_document(named, self.worker_id))

    def task_status(self, request: Request) -> HttpAnswer:
        """The state of a task, and why it failed."""
        name, number = request.path_params["connector"], request.path_params["task"]
        named = find(self.connectors(), name)
        if named is None or number >= len(named.tasks):
            return refusal(404, f"No status found for task {name}-{number}")
        return compact_answer(200, task_document(named, number, self.worker_id))

    def topics(self, request: Request) -> HttpAnswer:
        """The remote topics of a connector."""
        name = request.path_params["connector"]
        return compact_answer(200, topics_document(name, find(self.connectors(), name)))
