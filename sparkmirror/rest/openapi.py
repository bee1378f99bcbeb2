"""`/openapi.json`: what is served, made of the table of paths; the forms of bodies and answers are kept here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from sparkmirror.rest.bodies import INITIAL_STATES
from sparkmirror.rest.connectors import VERSION, ConnectState
from sparkmirror.rest.loggers import LEVELS
from sparkmirror.rest.messages import HttpAnswer, compact_answer
from sparkmirror.rest.paths import Paths

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
LIST: Schema = {"type": "array"}
OBJECT: Schema = {"type": "object"}
SETTINGS: Schema = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}


def _fields(**fields: Schema) -> Schema:
    return {"type": "object", "required": [*fields], "properties": fields}


def _lists(of: Schema) -> Schema:
    return {"type": "array", "items": of}


ERROR = _fields(error_code=WHOLE, message=TEXT)
STATE: Schema = {"enum": [state.value for state in ConnectState]}
CONNECTOR_STATE = _fields(state=STATE, worker_id=TEXT, version=TEXT)
TASK_STATE = _fields(id=WHOLE, state=STATE, worker_id=TEXT, version=TEXT)
STATUS = _fields(name=TEXT, connector=CONNECTOR_STATE, tasks=_lists(TASK_STATE), type=TEXT)
TASK = _fields(connector=TEXT, task=WHOLE)
INFO = _fields(name=TEXT, config=SETTINGS, tasks=_lists(TASK), type=TEXT)
NULLABLE: Schema = {"type": ["object", "null"]}
OFFSETS = _fields(offsets=_lists({"type": "object", "properties": {"partition": NULLABLE, "offset": NULLABLE}}))
DONE = _fields(message=TEXT)
KEY = _fields(name=TEXT, type=TEXT, required={"type": "boolean"}, default_value={"type": ["string", "null"]})
LEVEL = _fields(level={"enum": [*LEVELS]}, last_modified={"type": ["integer", "null"]})
POSITIONS = _fields(schema=WHOLE, positions=LIST, unknown=LIST, notes=LIST, status=WHOLE)
EMPTY: Schema = {}

AT = "/connectors/{connector}"
# By method and path: what success means, and its body.
SUCCESS: Mapping[tuple[str, str], Mapping[int, Schema]] = {
    ("GET", "/"): {200: _fields(version=TEXT, commit=TEXT, kafka_cluster_id={"type": ["string", "null"]})},
    ("GET", "/health"): {200: DONE, 503: DONE},
    ("GET", "/connectors"): {200: {"type": ["array", "object"]}},
    ("POST", "/connectors"): {201: INFO},
    ("GET", AT): {200: INFO},
    ("DELETE", AT): {204: EMPTY},
    ("GET", f"{AT}/config"): {200: SETTINGS},
    ("PUT", f"{AT}/config"): {200: INFO},
    ("PATCH", f"{AT}/config"): {200: INFO},
    ("GET", f"{AT}/tasks"): {200: _lists(_fields(id=TASK, config=SETTINGS))},
    ("GET", f"{AT}/status"): {200: STATUS},
    ("GET", f"{AT}/tasks/{{task}}/status"): {200: TASK_STATE},
    ("POST", f"{AT}/tasks/{{task}}/restart"): {204: EMPTY},
    ("POST", f"{AT}/restart"): {202: STATUS, 204: EMPTY},
    ("PUT", f"{AT}/pause"): {202: EMPTY},
    ("PUT", f"{AT}/resume"): {202: EMPTY},
    ("PUT", f"{AT}/stop"): {204: EMPTY},
    ("PUT", f"{AT}/offsets/stop"): {204: EMPTY},
    ("GET", f"{AT}/offsets"): {200: OFFSETS},
    ("PATCH", f"{AT}/offsets"): {200: DONE},
    ("DELETE", f"{AT}/offsets"): {200: DONE},
    ("GET", f"{AT}/topics"): {200: {"type": "object", "additionalProperties": _fields(topics=_lists(TEXT))}},
    ("PUT", f"{AT}/topics/reset"): {202: EMPTY},
    ("GET", "/connector-plugins"): {200: _lists(_fields(**{"class": TEXT, "type": TEXT, "version": TEXT}))},
    ("GET", "/connector-plugins/{plugin}/config"): {200: _lists(KEY)},
    ("PUT", "/connector-plugins/{plugin}/config/validate"): {
        200: _fields(name=TEXT, error_count=WHOLE, groups=LIST, configs=_lists(_fields(definition=KEY, value=OBJECT))),
    },
    ("GET", "/admin/loggers"): {200: {"type": "object", "additionalProperties": LEVEL}},
    ("GET", "/admin/loggers/{logger}"): {200: LEVEL},
    ("PUT", "/admin/loggers/{logger}"): {200: _lists(TEXT), 204: EMPTY},
    ("GET", "/translate"): {200: POSITIONS},
    ("GET", "/openapi.json"): {200: OBJECT},
}
# Our own paths that `answers.py` serves.
OWN: Mapping[str, tuple[str, Mapping[int, Schema]]] = {
    "/health/live": ("Whether the process answers.", {200: OBJECT}),
    "/health/ready": ("Whether every flow does what it is there for.", {200: OBJECT, 503: OBJECT}),
    "/health/flows": ("Whether every flow is as it should be.", {200: OBJECT, 503: OBJECT}),
    "/flows": ("Each flow, and what of it is not copied.", {200: OBJECT}),
    "/flows/{flow}": ("One flow with every partition.", {200: OBJECT}),
    "/metrics": ("Metrics in Prometheus' text format.", {200: EMPTY}),
}
QUERY: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("GET", "/connectors"): ("expand",),
    ("POST", f"{AT}/restart"): ("includeTasks", "onlyFailed"),
    ("GET", "/connector-plugins"): ("connectorsOnly",),
    ("PUT", "/admin/loggers/{logger}"): ("scope",),
    ("GET", "/translate"): ("flow", "group", "topic", "partition", "offset", "back", "records"),
}
BODIES: Mapping[tuple[str, str], Schema] = {
    ("POST", "/connectors"): {
        "type": "object",
        "properties": {"name": TEXT, "config": SETTINGS, "initial_state": {"enum": [*INITIAL_STATES]}},
    },
    ("PUT", f"{AT}/config"): SETTINGS,
    ("PATCH", f"{AT}/config"): SETTINGS,
    ("PATCH", f"{AT}/offsets"): OFFSETS,
    ("PUT", "/connector-plugins/{plugin}/config/validate"): SETTINGS,
    ("PUT", "/admin/loggers/{logger}"): _fields(level={"enum": [*LEVELS]}),
}
# Of every request, and more of what changes something or waits for a cluster.
REFUSALS = (401, 403, 404, 413, 429, 431, 500, 503)
MORE_REFUSALS = (400, 409, 415, 502)


def openapi_paths(paths: Paths) -> Paths:
    """The path of the document about these and itself."""
    document = openapi_document({**paths, "/openapi.json": {"GET": _see}})
    answer = compact_answer(200, document)
    return {"/openapi.json": {"GET": lambda request: answer}}


def _see(request: Request) -> HttpAnswer:
    """This document."""
    raise AssertionError("only its text is used")


def openapi_document(paths: Paths) -> dict[str, Any]:
    """OpenAPI 3.1."""
    found: dict[str, dict[str, Any]] = {}
    for path, methods in paths.items():
        shown = re.sub(r":\w+}", "}", path)
        for method, handler in methods.items():
            summary = (handler.__doc__ or "").strip().partition("\n")[0]
            answers = SUCCESS[method, shown]
            found.setdefault(shown, {})[method.lower()] = _operation(method, shown, summary, answers)
    for path, (summary, answers) in OWN.items():
        found[path] = {"get": _operation("GET", path, summary, answers)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "sparkmirror", "version": VERSION, "summary": "Kafka Connect's REST, and the mirror's own paths"},
        "paths": found,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(method: str, path: str, summary: str, answers: Mapping[int, Schema]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    inside = [{"name": name, "in": "path", "required": True, "schema": WHOLE if name == "task" else TEXT} for name in names]
    query = [{"name": name, "in": "query", "schema": TEXT} for name in QUERY.get((method, path), ())]
    refusals = (*REFUSALS, *(MORE_REFUSALS if method != "GET" or path == "/translate" else ()))
    error: Schema = {"$ref": "#/components/schemas/Error"}
    responses = {str(status): _content(error, "a refusal") for status in refusals if status not in answers}
    responses |= {str(status): _content(schema, "the answer") for status, schema in answers.items()}
    operation: dict[str, Any] = {"summary": summary, "parameters": [*inside, *query], "responses": responses}
    if (method, path) in BODIES:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": BODIES[method, path]}}}
    return operation


def _content(schema: Schema, description: str) -> dict[str, Any]:
    return {"description": description} | ({"content": {"application/json": {"schema": schema}}} if schema else {})
