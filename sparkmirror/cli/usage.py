"""Commands with their own exit status for wrong usage (2 means incomplete for tools), MirrorMaker 2's --clusters, and FILE.

Every command that reads FILE is registered through `reads_file` and calls `load` of this module.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import ContextVar
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from sparkmirror import config
from sparkmirror.diagnose.exit_status import USAGE
from sparkmirror.errors import ConfigError

CLUSTERS = "--clusters"
ALLOW_HELP = "Treat a key of FILE that resembles a known one as an unknown key: a warning, no error."
AllowUnknownKeys = Annotated[bool, typer.Option("--allow-unknown-keys", help=ALLOW_HELP)]

_allow_unknown_keys: ContextVar[bool] = ContextVar("allow_unknown_keys", default=False)


def reads_file(command: Callable[..., None]) -> Callable[..., None]:
    """The same command with the option --allow-unknown-keys, which `load` obeys while the command runs."""

    @functools.wraps(command)
    def reading(*arguments: Any, allow_unknown_keys: bool = False, **options: Any) -> None:
        before = _allow_unknown_keys.set(allow_unknown_keys)
        try:
            command(*arguments, **options)
        finally:
            _allow_unknown_keys.reset(before)

    own = inspect.signature(command, eval_str=True)
    added = inspect.Parameter(
        "allow_unknown_keys", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AllowUnknownKeys
    )
    parameters = [*own.parameters.values(), added]
    reading.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what inspect looks at first
    reading.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return reading


def load(path: str) -> config.Settings:
    """The settings of FILE, as the running command asks for them."""
    return config.load(path, allow_unknown_keys=_allow_unknown_keys.get())


@contextlib.contextmanager
def usage_status(status: int = USAGE, *, of_configuration: bool = True) -> Iterator[None]:
    """Wrong usage inside the block exits with `status`; with `of_configuration` wrong configuration does too."""
    try:
        yield
    except TyperException as error:
        error.exit_code = status
        raise
    except ConfigError as error:
        error.exit_status = status if of_configuration else error.exit_status
        raise


class UsageCommand(TyperCommand):
    """A command that exits with status 1 for wrong usage or configuration: inspect, doctor, why, translate."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does."""
        with usage_status():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """As typer does."""
        with usage_status():
            return super().invoke(ctx)


class ClustersCommand(TyperCommand):
    """A command that takes FILE and `--clusters A B …` in any order, as connect-mirror-maker does."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does, with one --clusters for each cluster."""
        return super().parse_args(ctx, self.spread_clusters(args))

    def spread_clusters(self, args: Sequence[str]) -> list[str]:
        """The same arguments with one --clusters for each cluster."""
        valued = {name for parameter in self.params for name in parameter.opts if not getattr(parameter, "is_flag", True)}
        return _one_cluster_each(args, valued)


class MirrorMakerCommand(ClustersCommand):
    """connect-mirror-maker, whose original script has a -daemon option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does."""
        if args[:1] == ["-daemon"]:
            reason = "-daemon is not supported; use a service manager or nohup to run it in the background"
            raise typer.BadParameter(reason, param_hint="-daemon")
        return super().parse_args(ctx, args)


def _one_cluster_each(words: Sequence[str], valued: Collection[str]) -> list[str]:
    """The same command line with every list of clusters expanded, and with FILE removed from the list that it ends."""
    others, lists, is_value, is_list = list[str](), list[list[str]](), False, False
    end = words.index("--") if "--" in words else len(words)
    arguments = len(words[end + 1 :])
    for word in words[:end]:
        name, equals, value = word.partition("=")
        if not is_value and name == CLUSTERS:
            lists.append([value] if equals else [])
            is_list = True
        elif is_list and not word.startswith("-"):
            lists[-1].append(word)
        else:
            arguments += not is_value and not word.startswith("-")
            others.append(word)
            is_value, is_list = not is_value and word in valued, False
    if [] in lists:
        raise typer.BadParameter("expected a cluster, found none", param_hint=CLUSTERS)
    file = _file_of(lists) if arguments == 0 else []
    return [*(f"{CLUSTERS}={cluster}" for found in lists for cluster in found), *file, *others, *words[end:]]


def _file_of(lists: Sequence[list[str]]) -> list[str]:
    """FILE if it is the last item of a list of clusters; removes it from that list."""
    longer = [found for found in lists if len(found) > 1]
    if len(longer) > 1:
        reason = "expected FILE before --clusters, found two lists of clusters that may end with it"
        raise typer.BadParameter(reason, param_hint=CLUSTERS)
    return [longer[0].pop()] if longer else []
