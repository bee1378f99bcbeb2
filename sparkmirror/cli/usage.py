"""Commands whose wrong usage has a status of its own: for these, 2 means that a question stayed open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand
from typer.exceptions import TyperException

from sparkmirror.diagnose.exit_status import USAGE
from sparkmirror.errors import ConfigError

__all__ = ["UsageCommand", "usage_status"]


@contextlib.contextmanager
def usage_status(status: int = USAGE, *, of_configuration: bool = True) -> Iterator[None]:
    """Wrong usage that is found in the block ends the program with `status`, wrong configuration too unless it is not to."""
    try:
        yield
    except TyperException as error:
        error.exit_code = status
        raise
    except ConfigError as error:
        error.exit_status = status if of_configuration else error.exit_status
        raise


class UsageCommand(TyperCommand):
    """A command whose wrong usage or configuration ends with status 1: inspect, doctor, why, translate."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does."""
        with usage_status():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """As typer does."""
        with usage_status():
            return super().invoke(ctx)
