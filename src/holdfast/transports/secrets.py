"""Secrets by name: a call names them, and its attempt gets their values. Nothing else ever has a value in its hands.

A worker looks in its environment first, for ``HOLDFAST_SECRET_<NAME>``, then where ``HOLDFAST_SECRETS`` points: at a
directory with one file for each name, or at a file with a map from names to values, in JSON or YAML. A value is looked
up for every attempt, so a changed one is used at once. Who may use which name is decided before: ``secret_keeper``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from holdfast.errors import SecretMissing

VARIABLE: Final = "HOLDFAST_SECRET_"
PLACE: Final = "HOLDFAST_SECRETS"

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
"""The name of a secret. It can neither leave a directory nor be a hidden file."""

SecretPurpose = Literal["connector", "webhook", "subscription", "login"]
"""To call a service, to check deliveries, to sign deliveries; or to log people in, which is no tenant's."""


class SecretUse(msgspec.Struct, frozen=True):
    """Who asks for a secret, and for what. ``url`` is where a connector sends it. A login is of no tenant."""

    tenant: str
    use: SecretPurpose
    url: str = ""


class SecretSource(Protocol):
    """Where values are looked up. A vault is another source.

    A source may have a second method, ``find_for(name, use)``, which is called instead of ``find``: so it learns the
    tenant and the use. It gives and raises the same.
    """

    async def find(self, name: str) -> str | None:
        """The value of this name; None where there is none here. Raises SecretMissing where it cannot be read."""
        ...


class EnvironmentSecrets:
    """Values in the environment. Its names have no dots and dashes, and are usually written in capitals."""

    async def find(self, name: str) -> str | None:
        plain = _plain(name)
        return os.environ.get(VARIABLE + plain) or os.environ.get(VARIABLE + plain.upper())


def _plain(name: str) -> str:
    return name.replace(".", "_").replace("-", "_")


def one_spelling(name: str) -> str:
    """The same text for all names that may have one value: ``a.b`` and ``A_B`` are one variable."""
    return _plain(name).upper()


class FileSecrets:
    """Values in a directory of files, or in one file. A line's end behind a value is no part of it."""

    async def find(self, name: str) -> str | None:
        given = os.environ.get(PLACE)
        if not given:
            return None
        try:
            return await asyncio.to_thread(_found_in, Path(given), name)  # a directory may be slow, or far away
        except (OSError, ValueError) as error:  # its text may quote the file
            raise SecretMissing(f"{PLACE} names {given!r}, which cannot be read ({type(error).__name__})") from None


def _found_in(place: Path, name: str) -> str | None:
    if place.is_dir():
        file = place / name
        return file.read_text(encoding="utf-8").rstrip("\r\n") if file.is_file() else None
    value = _map_of(place.read_bytes(), place.suffix).get(name)
    return None if value is None else str(value)


def _map_of(data: bytes, suffix: str) -> dict[str, Any]:
    found: Any
    if suffix == ".json":
        found = json.loads(data)
    else:
        import yaml

        try:
            found = yaml.safe_load(data)
        except yaml.YAMLError:
            raise ValueError("it is no YAML") from None
    return found if isinstance(found, dict) else {}


SOURCES: Final[Sequence[SecretSource]] = (EnvironmentSecrets(), FileSecrets())


async def value_of(name: str, use: SecretUse, sources: Iterable[SecretSource] = SOURCES) -> str:
    """The value of a secret that may be used. Raises SecretMissing, which names it and never quotes it."""
    for source in sources if NAME.fullmatch(name) else ():
        find_for = getattr(source, "find_for", None)
        if value := await (source.find(name) if find_for is None else find_for(name, use)):
            if any(ord(character) < 32 or ord(character) == 127 for character in value):
                raise SecretMissing(f"the secret {name} has a control character in it, such as a line's end: mend it")
            return str(value)
    raise SecretMissing(
        f"no secret {name} is given to this worker: set {VARIABLE}{_plain(name)}, or put it where {PLACE} points"
    )


async def login_secret(name: str) -> str:
    """The value of a secret by which the installation logs people in. Raises SecretMissing."""
    return await value_of(name, SecretUse("", "login"))


ConnectorSecrets = Callable[[str, str], Awaitable[str]]
"""Gives the value of a name to a call of this URL."""

connector_secrets: ContextVar[ConnectorSecrets | None] = ContextVar("holdfast-connector-secrets", default=None)
"""The secrets of the attempt under way: those of its run's tenant."""


async def secret_of(name: str, url: str) -> str:
    """The value of a secret that the call of the attempt under way sends to ``url``. Raises SecretMissing."""
    find = connector_secrets.get()
    if find is None:
        raise SecretMissing(f"the secret {name} is for calls that a worker makes: start a run that makes it")
    return await find(name, url)
