"""Classes that a user wrote, named in the file as `module:Class`: found, made once for each flow, and asked.

Nothing of the user's is trusted: what cannot be found or made is a mistake in the file, and a method that raises or
answers with something else than was asked is `CustomClassFailed`, which names class, method and argument.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType, ModuleType
from typing import Any

from sparkmirror.config import FlowSettings
from sparkmirror.config.custom_classes import CUSTOM_METHODS, is_class_reference, signatures
from sparkmirror.config.parsing import shown
from sparkmirror.errors import ConfigInvalid, CustomClassFailed

# One for each class and flow; a file names at most 4 classes for each of some dozens of flows.
OBJECTS_MAX = 1024


@dataclass(frozen=True, slots=True)
class CustomObject:
    """One object of a class of the user's."""

    reference: str
    instance: Any

    def has(self, method: str) -> bool:
        """Whether the class defines `method`."""
        return inspect.getattr_static(self.instance, method, None) is not None

    def text(self, method: str, *arguments: str) -> str:
        """The answer of a method that must return text."""
        answer = self._answer(method, *arguments)
        if not isinstance(answer, str) or not answer:
            raise self._failed(method, arguments, f"returned {_brief(answer)}, expected text")
        return answer

    def text_or_none(self, method: str, *arguments: str) -> str | None:
        """The answer of a method that may have none."""
        answer = self._answer(method, *arguments)
        if answer is not None and not isinstance(answer, str):
            raise self._failed(method, arguments, f"returned {_brief(answer)}, expected text or None")
        return answer

    def truth(self, method: str, *arguments: str) -> bool:
        """The answer of a method that must return True or False."""
        answer = self._answer(method, *arguments)
        if not isinstance(answer, bool):
            raise self._failed(method, arguments, f"returned {_brief(answer)}, expected True or False")
        return answer

    def _answer(self, method: str, *arguments: str) -> object:
        try:
            asked = getattr(self.instance, method)
            return asked(*arguments) if callable(asked) else asked
        except Exception as error:  # border to the user's code: anything may come out of it
            raise self._failed(method, arguments, f"raised {_error_text(error)}") from error

    def _failed(self, method: str, arguments: tuple[str, ...], what: str) -> CustomClassFailed:
        text = ", ".join(shown(argument)[1:-1].join("''") for argument in arguments)
        return CustomClassFailed(
            f"{self.reference}: {method}({text}) {what}", hint=f"mend {method}; see docs/policies.md for what it must do"
        )


class _Refused(Exception):
    """Why a class cannot be used, in words."""


def custom_object(flow: FlowSettings, key: str, reference: str) -> CustomObject | None:
    """The object of `reference`, always the same for the same flow; none if it does not name a Python class.

    Raises `ConfigInvalid`.
    """
    if not is_class_reference(reference):
        return None
    texts = tuple(sorted(flow.custom_texts.items()))
    try:
        return CustomObject(reference, _object(key, reference, flow.folder, texts))
    except _Refused as refused:
        raise ConfigInvalid(str(flow.name), [f"{key}: {refused}"]) from refused.__cause__


@functools.lru_cache(maxsize=OBJECTS_MAX)
def _object(key: str, reference: str, folder: str, texts: tuple[tuple[str, str], ...]) -> object:
    module_name, _, class_name = reference.partition(":")
    module = _module(module_name, folder, reference)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        where = getattr(module, "__file__", None) or "a module of Python itself"
        what = "no such name" if found is None else f"{class_name}, which is no class but {type(found).__name__}"
        raise _Refused(
            f"expected a class {class_name} in module {module_name}, found {what} in {where}; define it there, or name "
            "another module:Class"
        )
    _require_methods(found, reference, key)
    made = _made(found, reference, MappingProxyType(dict(texts)))
    _require_arguments(made, reference, key)
    return made


def _module(name: str, folder: str, reference: str) -> ModuleType:
    """The module, from the folder of the file only if Python's own path does not have it."""
    beside = os.path.abspath(folder or os.curdir)
    if beside not in sys.path:
        sys.path.append(beside)  # it stays there: a method may import its neighbours later
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise _Refused(
                f"expected a module {name}, found none; put {name.replace('.', '/')}.py into {beside} or into a folder "
                "of PYTHONPATH"
            ) from error
        raise _Refused(
            f"expected {reference}, but its module imports {shown(error.name or '')}, which is not there; install it"
        ) from error
    except (Exception, SystemExit) as error:  # border to the user's code: importing runs it
        raise _Refused(f"expected {reference}, but importing {name} raised {_error_text(error)}; mend the module") from error


def _require_methods(found: type, reference: str, key: str) -> None:
    missing = [name for name in CUSTOM_METHODS[key] if not callable(getattr(found, name, None))]
    if missing:
        raise _Refused(
            f"expected a class with {signatures(key)}, found {reference} without {', '.join(missing)}; define what "
            "is missing, see docs/policies.md"
        )


def _require_arguments(made: object, reference: str, key: str) -> None:
    for name, arguments in CUSTOM_METHODS[key].items():
        method = getattr(made, name)
        if not _takes(method, arguments):
            raise _Refused(
                f"expected {name}({', '.join(arguments)}), found {reference}.{name}{inspect.signature(method)}; change "
                "its arguments, see docs/policies.md"
            )


def _takes(method: Any, arguments: tuple[str, ...]) -> bool:
    try:
        inspect.signature(method).bind(*arguments)
    except ValueError:
        return True  # a method written in C may not tell its arguments
    except TypeError:
        return False
    return True


def _made(found: type, reference: str, texts: Mapping[str, str]) -> object:
    try:
        return found(texts) if _wants_config(found) else found()
    except Exception as error:  # border to the user's code
        raise _Refused(
            f"expected to make one {reference}, but its constructor raised {_error_text(error)}; mend it, or what it reads"
        ) from error


def _wants_config(found: type) -> bool:
    owner = next(base for base in found.__mro__ if "__init__" in vars(base))
    if owner is not found and owner.__module__.startswith("sparkmirror."):
        return False  # inherited from a policy of ours, whose arguments are others
    try:
        parameters = inspect.signature(found).parameters.values()
    except ValueError:
        return False
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _error_text(error: BaseException) -> str:
    text = shown(" ".join(str(error).split()))[1:-1]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _brief(answer: object) -> str:
    try:
        return f"{type(answer).__name__} {shown(repr(answer))}"
    except Exception:  # noqa: BLE001  border to the user's code: repr may be the user's own
        return type(answer).__name__
