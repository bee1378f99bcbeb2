"""Config providers: `${provider:path:key}` in a value is replaced when the file is loaded.

The three providers that ship with Kafka are known: file, directory, environment. A reference that nobody answers
stays in the value as it is, as with Kafka, and is a warning. What a provider returns is never looked at again for
references, so providers cannot send each other round in circles. Error texts never hold what was read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import javaproperties

from sparkmirror.config.parsing import shown, split_list

_PACKAGE = "org.apache.kafka.common.config.provider."
# A password or a certificate chain; a larger file is a mistake in the path.
PROVIDED_BYTES_MAX = 1 << 20
_REFERENCE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_ANY_REFERENCE = re.compile(r"\$\{[^}]*\}")


class ProviderRefused(Exception):
    """A provider cannot be made or cannot read what is asked."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Provider(Protocol):
    """Looks one key up; None when it has no value."""

    def get(self, path: str, key: str) -> str | None: ...


@dataclass(frozen=True, slots=True)
class FileProvider:
    """Keys of a `.properties` file."""

    allowed: tuple[Path, ...] | None

    def get(self, path: str, key: str) -> str | None:
        if not path or not _is_inside(path, self.allowed):
            return None
        # Kafka reads these files as UTF-8, unlike the main file.
        text = _read(path)
        try:
            return dict(javaproperties.loads(text)).get(key)
        except ValueError as error:
            raise ProviderRefused(f"{path} is not a properties file: a malformed \\u escape") from error


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """Files of a directory: the name is the key, the content the value."""

    allowed: tuple[Path, ...] | None

    def get(self, path: str, key: str) -> str | None:
        if not path or not _is_inside(path, self.allowed):
            return None
        if "/" in key or key in ("", ".", ".."):
            return None
        file = os.path.join(path, key)
        return _read(file) if os.path.isfile(file) and _is_inside(file, self.allowed) else None


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """Environment variables."""

    variables: Mapping[str, str] = field(repr=False)
    allowed: re.Pattern[str] | None = None

    def get(self, path: str, key: str) -> str | None:
        if path:
            raise ProviderRefused("an environment variable has no path; expected ${provider:NAME}")
        if self.allowed is not None and not self.allowed.fullmatch(key):
            return None
        return self.variables.get(key)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value with its references replaced, and sentences about those that were not."""

    text: str
    changed: bool
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Providers:
    """The declared providers by name."""

    by_name: Mapping[str, Provider]

    def resolve(self, text: str) -> Resolved:
        """`text` with every reference replaced that a provider answers."""
        warnings: list[str] = []
        problems: list[str] = []

        def replace(match: re.Match[str]) -> str:
            try:
                found = self._look_up(match)
            except ProviderRefused as refusal:
                problems.append(f"{shown(match[0])}: {refusal.reason}")
                return match[0]
            if found is None:
                warnings.append(f"{shown(match[0])} is left as it is: {self._why(match[1])}")
                return match[0]
            return found

        replaced = _REFERENCE.sub(replace, text)
        for odd in _ANY_REFERENCE.findall(text):
            if not _REFERENCE.fullmatch(odd):
                warnings.append(f"{shown(odd)} is left as it is: expected ${{provider:key}} or ${{provider:path:key}}")
        return Resolved(replaced, replaced != text, tuple(warnings), tuple(problems))

    def _look_up(self, match: re.Match[str]) -> str | None:
        provider = self.by_name.get(match[1])
        return None if provider is None else provider.get(match[3] or "", match[4])

    def _why(self, name: str) -> str:
        if name in self.by_name:
            return f"provider `{name}` has no value for it"
        return f"no provider `{name}` is declared in config.providers"


def declare(written: Mapping[str, str], variables: Mapping[str, str]) -> tuple[Providers, dict[str, str]]:
    """The providers of `config.providers`, and by key what is wrong with those that cannot be made."""
    made: dict[str, Provider] = {}
    problems: dict[str, str] = {}
    for name in split_list(written.get("config.providers", "")):
        key = f"config.providers.{name}.class"
        try:
            made[name] = _make(written, f"config.providers.{name}.", variables)
        except ProviderRefused as refusal:
            problems[key if key in written else "config.providers"] = refusal.reason
    return Providers(made), problems


def _make(written: Mapping[str, str], prefix: str, variables: Mapping[str, str]) -> Provider:
    class_name = written.get(prefix + "class", "").strip()
    if not class_name:
        raise ProviderRefused(f"expected {prefix}class, found nothing")
    kind = KNOWN_PROVIDERS.get(class_name)
    if kind is None:
        raise ProviderRefused(f"expected one of {', '.join(KNOWN_PROVIDERS)}, found {shown(class_name)}")
    if kind == "environment":
        return EnvironmentProvider(variables, _pattern(written.get(prefix + "param.allowlist.pattern")))
    allowed = _paths(written.get(prefix + "param.allowed.paths"))
    return FileProvider(allowed) if kind == "file" else DirectoryProvider(allowed)


KNOWN_PROVIDERS: Mapping[str, str] = {
    _PACKAGE + "FileConfigProvider": "file",
    _PACKAGE + "DirectoryConfigProvider": "directory",
    _PACKAGE + "EnvVarConfigProvider": "environment",
}


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise ProviderRefused(f"param.allowlist.pattern: expected a regular expression: {error.msg}") from error


def _paths(text: str | None) -> tuple[Path, ...] | None:
    if text is None or not text.strip():
        return None
    paths = tuple(Path(item) for item in split_list(text))
    for path in paths:
        if not path.is_absolute() or not path.exists():
            raise ProviderRefused(f"param.allowed.paths: expected existing absolute paths, found {shown(str(path))}")
    return tuple(path.resolve() for path in paths)


def _is_inside(path: str, allowed: tuple[Path, ...] | None) -> bool:
    # Links are followed first: `/allowed/link-to-etc/passwd` is outside.
    return allowed is None or any(Path(os.path.realpath(path)).is_relative_to(root) for root in allowed)


def _read(path: str) -> str:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise ProviderRefused(f"{path} is not a regular file")
        if status.st_size > PROVIDED_BYTES_MAX:
            raise ProviderRefused(f"{path} has {status.st_size} bytes; at most {PROVIDED_BYTES_MAX} are read")
        with open(path, "rb") as file:
            return file.read(PROVIDED_BYTES_MAX).decode("utf-8")
    except OSError as error:
        raise ProviderRefused(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ProviderRefused(f"{path} is not UTF-8 text") from error
