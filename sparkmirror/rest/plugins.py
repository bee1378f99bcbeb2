"""`/connector-plugins`: the three classes, their keys, and whether settings would be accepted."""

from __future__ import annotations

from starlette.requests import Request

from sparkmirror.config.connect_transforms import OPTIONS, PREDICATE_OPTIONS, SIDED
from sparkmirror.rest.bodies import BadBody, parsed, settings
from sparkmirror.rest.connectors import PLUGINS, VERSION
from sparkmirror.rest.messages import HttpAnswer, compact_answer, refusal
from sparkmirror.rest.paths import Paths
from sparkmirror.rest.validation import KEYS, key_document, role_of, unknown_class, validation_document


def plugin_paths() -> Paths:
    """What these paths answer."""
    at = "/connector-plugins"
    return {
        at: {"GET": plugins},
        f"{at}/{{plugin}}/config": {"GET": plugin_keys},
        f"{at}/{{plugin}}/config/validate": {"PUT": validate},
    }


def plugins(request: Request) -> HttpAnswer:
    """The three connectors; with `connectorsOnly=false` also the transforms and predicates that run here."""
    found = [*PLUGINS]
    if request.query_params.get("connectorsOnly", "true").lower() == "false":
        package = "org.apache.kafka.connect.transforms"
        names = [f"{name}{side}" for name in OPTIONS for side in (("$Key", "$Value") if name in SIDED else ("",))]
        found += [{"class": f"{package}.{name}", "type": "transformation", "version": VERSION} for name in names]
        found += [
            {"class": f"{package}.predicates.{name}", "type": "predicate", "version": VERSION} for name in PREDICATE_OPTIONS
        ]
    return compact_answer(200, found)


def plugin_keys(request: Request) -> HttpAnswer:
    """Every key that a connector takes, with type and default."""
    name = request.path_params["plugin"]
    if role_of(name) is None:
        return refusal(404, f"Unknown plugin {name}.")
    return compact_answer(200, [key_document(key) for key in KEYS.values()])


async def validate(request: Request) -> HttpAnswer:
    """Each key with its value and what is wrong with it. Changes nothing."""
    name = request.path_params["plugin"]
    try:
        config = settings(parsed(await request.body()))
    except BadBody as error:
        return refusal(500, str(error))
    written = config.get("connector.class", name)
    role, wanted = role_of(name), role_of(written)
    if role is not wanted:
        return refusal(400, f"Included connector type {written} does not match request type {name}")
    if role is None:
        why = unknown_class(name)
        return refusal(500, f"org.apache.kafka.connect.runtime.rest.errors.BadRequestException: {why}")
    return compact_answer(200, validation_document(role, config))
