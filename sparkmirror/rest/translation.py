"""`/translate`: where a reader of one cluster resumes on the other, for programs that keep offsets outside Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request

from sparkmirror.config import Settings, choose_flow
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.proof import WalkLimits
from sparkmirror.positions.translating import TranslateRequest, translate_positions, translations_json
from sparkmirror.rest.messages import HttpAnswer, json_answer, refusal
from sparkmirror.rest.paths import Paths, Workers

GROUPS_MAX = 100
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
KNOWN = frozenset({"flow", "group", "topic", "partition", "offset", "back", "records"})


@dataclass(frozen=True, slots=True)
class TranslationPath:
    """The same values as `sparkmirror translate --json`."""

    settings: Settings
    workers: Workers

    def paths(self) -> Paths:
        """What this path answers."""
        return {"/translate": {"GET": self.translate}}

    async def translate(self, request: Request) -> HttpAnswer:
        """The positions of `group`, or of `topic`, `partition` and `offset`; from the target with `back=true`."""
        try:
            asked = self._asked(request)
        except ConfigError as error:
            return refusal(400, str(error))

        def work() -> HttpAnswer:
            try:
                return json_answer(200, translations_json(translate_positions(self.settings, asked)))
            except SparkmirrorError as error:
                return refusal(error.http_status, str(error))

        return await self.workers.do(work)

    def _asked(self, request: Request) -> TranslateRequest:
        given = request.query_params
        unknown = sorted(set(given) - KNOWN)
        if unknown:
            raise ConfigError(f"expected parameters {', '.join(sorted(KNOWN))}, found {unknown[0]}")
        groups = tuple(dict.fromkeys(given.getlist("group")))
        places = ("topic", "partition", "offset")
        if bool(groups) == any(name in given for name in places) or len(groups) > GROUPS_MAX:
            raise ConfigError(f"expected 1 to {GROUPS_MAX} group parameters, or topic, partition and offset")
        at = () if groups else ((TopicPartition(_text(given, "topic"), _number(given, "partition", INT32_MAX)),
                                 _number(given, "offset", INT64_MAX)),)  # fmt: skip
        name = choose_flow(self.settings, given.get("flow")).name
        is_back = given.get("back", "false").lower() == "true"
        limits = WalkLimits(_number(given, "records", INT32_MAX)) if "records" in given else WalkLimits()
        return TranslateRequest(
            origin=name.target if is_back else name.source,
            destination=name.source if is_back else name.target,
            groups=groups,
            at=at,
            limits=limits if limits.records else None,
        )


def _text(given: Mapping[str, str], name: str) -> str:
    if not given.get(name):
        raise ConfigError(f"expected a parameter {name}, found none")
    return given[name]


def _number(given: Mapping[str, str], name: str, most: int) -> int:
    text = _text(given, name)
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= most):
        raise ConfigError(f"expected a whole number from 0 to {most} as {name}, found {text[:40]}")
    return int(text)
