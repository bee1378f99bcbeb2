"""Commands whose wrong usage has a status of its own: for tools, 2 means that a question stayed open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand
from typer.exceptions import TyperException

__all__ = ["STATUS_USAGE", "UsageCommand", "usage_status"]

STATUS_USAGE = 1


@contextlib.contextmanager
def usage_status(status: int = STATUS_USAGE) -> Iterator[None]:
    """Wrong usage that is found in the block ends the program with `status`."""
    try:
        yield
    except TyperException as error:
        error.exit_code = status
        raise


class UsageCommand(TyperCommand):
    """A command whose wrong usage ends with status 1, whether the words or their values are wrong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As typer does."""
        with usage_status():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """As typer does."""
        with usage_status():
            return super().invoke(ctx)
