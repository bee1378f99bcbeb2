"""Connect's REST, as far as it is about settings: those of a connector of `sparkmirror run` are those of its file.

A PUT or PATCH that says what the file says is accepted; another one is refused with the keys to change there. A connector
that is deleted is stopped, and not listed until it is created again or the process starts again: then it is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from starlette.requests import Request

from sparkmirror.rest.asking import FlowOwners, Refused, refusing
from sparkmirror.rest.bodies import creation, parsed, patch, settings
from sparkmirror.rest.connectors import ConnectState, MirrorConnector, Named, find, info_document
from sparkmirror.rest.messages import HttpAnswer, compact_answer, empty_answer
from sparkmirror.rest.paths import Paths
from sparkmirror.rest.validation import errors_of, invalid, role_of, unknown_class

KEYS_MAX = 5  # that a refusal names
_OWN = ("name", "connector.class")
_STATES = {"PAUSED": ("pause", ConnectState.PAUSED), "STOPPED": ("stop", ConnectState.STOPPED)}


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """What the paths need: owners to ask, all connectors of the file, and the names of those that were deleted."""

    owners: FlowOwners
    whole: Callable[[], list[MirrorConnector]]
    deleted: set[str] = field(default_factory=set)

    def paths(self) -> Paths:
        """These paths."""
        at = "/connectors/{connector}"
        return {
            "/connectors": {"POST": refusing(self.create)},
            at: {"DELETE": refusing(self.delete)},
            f"{at}/config": {"PUT": refusing(self.replace), "PATCH": refusing(self.change)},
        }

    async def replace(self, request: Request) -> HttpAnswer:
        """Accepts settings that the file has; refuses others with the keys that differ."""
        name, config = request.path_params["connector"], settings(parsed(await request.body()))
        _require_name(name, config)
        _require_valid(config, name)
        named = find(self.owners.connectors(), name)
        if named is None:
            raise Refused.of(409, self._no_creation(name))
        for part in named.parts:
            self._require_same(part, config, is_whole=True)
        return compact_answer(200, info_document(named))

    async def change(self, request: Request) -> HttpAnswer:
        """The same for some of the settings; null is for those that the file must not have."""
        changes = patch(parsed(await request.body()))
        named = self.owners.named(request)
        for part in named.parts:
            merged: Mapping[str, str | None] = {**part.config, **changes}
            config = {key: text for key, text in merged.items() if text is not None}
            _require_name(named.name, {**config, "name": changes.get("name") or named.name})
            _require_valid(config, named.name)
            self._require_same(part, config, is_whole=True)
        return compact_answer(200, info_document(named))

    async def create(self, request: Request) -> HttpAnswer:
        """Lists and resumes a connector of the file again that was deleted."""
        name, config, state = creation(parsed(await request.body()))
        config = settings(config)
        _require_name(name, config)
        _require_valid({**config, "name": name or config.get("name", "")}, name)
        if find(self.owners.connectors(), name) is not None:
            raise Refused.of(409, f"Connector {name} already exists")
        named = find(self.whole(), name)
        if named is None or not named.parts:
            raise Refused.of(409, self._no_creation(name))
        for part in named.parts:
            self._require_same(part, config, is_whole=False)
        self.deleted.difference_update(part.name for part in named.parts)
        for part in named.parts:
            verb, *shown = _STATES.get(state, ("resume",))
            await self.owners.wish(request, part, str(verb), *(s for s in shown if isinstance(s, ConnectState)))
        where = f"{request.url.scheme}://{request.url.netloc}/connectors/{quote(name, safe='')}"
        body = compact_answer(201, info_document(Named(name, named.parts))).body
        return HttpAnswer(201, body, headers=(("Location", where),))

    async def delete(self, request: Request) -> HttpAnswer:
        """Stops a connector and no longer lists it; its offsets stay."""
        part = self.owners.one(request)
        await self.owners.wish(request, part, "stop", ConnectState.STOPPED)
        self.deleted.add(part.name)
        return empty_answer(204)

    def _no_creation(self, name: str) -> str:
        known = ", ".join(connector.name for connector in self.whole())
        return (
            f"no connector {name}: those of `sparkmirror run` come from {self.owners.settings.path} ({known}); "
            "add a flow there to have another one"
        )

    def _require_same(self, part: MirrorConnector, config: Mapping[str, str], *, is_whole: bool) -> None:
        """Raises Refused with the keys that the file would have to say otherwise; never with their values."""
        wrong = [key for key, text in config.items() if key not in _OWN and part.config.get(key) != text]
        if is_whole:
            wrong += [key for key in part.config if key not in config and key not in _OWN]
        if wrong:
            path = self.owners.settings.path
            named = ", ".join(sorted(wrong)[:KEYS_MAX]) + (f" and {len(wrong) - KEYS_MAX} more" if wrong[KEYS_MAX:] else "")
            raise Refused.of(
                409,
                f"the settings of {part.name} are those of {path}, and nothing was changed: write {part.flow}.KEY = VALUE "
                f"there for {named}",
            )


def _require_name(name: str, config: Mapping[str, str]) -> None:
    written = config.get("name")
    if written is not None and written != name and name:
        raise Refused.of(400, f"Connector name configuration ({written}) doesn't match connector name in the URL ({name})")


def _require_valid(config: Mapping[str, str], name: str) -> None:
    """Raises Refused with Kafka's sentences about what is wrong."""
    written = config.get("connector.class")
    if written is None:
        raise Refused.of(400, f"Connector config {{name={name}}} contains no connector type")
    role = role_of(written)
    if role is None:
        raise Refused.of(400, unknown_class(written))
    errors = errors_of(role, config)
    if errors:
        raise Refused.of(400, invalid(errors))
