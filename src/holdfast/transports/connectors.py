"""The ``connectors:`` of a definition: where a service is, how to show who calls, and what each operation does there.

Only here are secrets named: a connector's address is fixed, so that no input of a run can have a secret sent elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.gate.proposals import Risk
from holdfast.transports import secrets
from holdfast.transports.http.call import Auth, Give, SecretName

METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")
READING: Final = frozenset({"get", "head"})
"""Every other method writes, unless an operation says otherwise."""

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
"""The name of a connector or an operation. It has no dot, so that it is no host's name."""


class Basic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user name, and the name of the secret that is the password."""

    username: str
    password: str


class HeaderAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A header, and the name of the secret that is its value."""

    name: str
    value: str


class ConnectorAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of three ways to show who calls."""

    bearer: str | None = None
    basic: Basic | None = None
    header: HeaderAuth | None = None

    def recorded(self, what: str) -> Auth:
        """As a call records it. Raises InvalidRequest."""
        if sum(way is not None for way in (self.bearer, self.basic, self.header)) != 1:
            raise InvalidRequest(f"{what}: auth is one of bearer, basic and header")
        if self.bearer is not None:
            return Auth(scheme="bearer", secret=secret_name(self.bearer, what))
        if self.basic is not None:
            return Auth(scheme="basic", username=self.basic.username, secret=secret_name(self.basic.password, what))
        assert self.header is not None
        return Auth(scheme="header", name=self.header.name, secret=secret_name(self.header.value, what))


class ConnectorOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing that a service does: a method with a path, or a GraphQL document."""

    get: str | None = None
    head: str | None = None
    post: str | None = None
    put: str | None = None
    patch: str | None = None
    delete: str | None = None
    options: str | None = None
    graphql: str | None = None
    writes: bool | None = None
    risk: Risk | None = None
    safe_to_retry: bool | None = None
    query: list[str] = []
    headers: dict[str, str | SecretName] = {}
    accept: list[int | str] = []
    redirect: bool | list[str] = False
    give: Give = "content"
    not_done: list[int] = []

    def method(self, what: str) -> tuple[str, str]:
        """Its method and its path. Raises InvalidRequest."""
        said = [(name, path) for name in METHODS if (path := getattr(self, name)) is not None]
        if len(said) != 1 or self.graphql is not None:
            raise InvalidRequest(f"{what} has one method with a path, such as `get: /orders/{{id}}`")
        if not said[0][1].startswith("/"):
            raise InvalidRequest(f"{what}: its path begins with /, behind the connector's base")
        return said[0]


class Connector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A service: its address, and its operations by name."""

    base: str
    operations: dict[str, ConnectorOperation]
    auth: ConnectorAuth | None = None
    headers: dict[str, str | SecretName] = {}


class Called(msgspec.Struct, frozen=True):
    """The operation that a request calls, and its connector."""

    name: str
    connector: Connector
    operation_name: str
    operation: ConnectorOperation

    @property
    def what(self) -> str:
        return f"{self.name}.{self.operation_name}"

    @property
    def secrets(self) -> set[str]:
        """The names of the secrets that its calls send. Raises InvalidRequest."""
        named = {value.secret for value in self.headers.values() if isinstance(value, SecretName)}
        return named if self.auth is None else named | {self.auth.secret}

    @property
    def auth(self) -> Auth | None:
        return None if self.connector.auth is None else self.connector.auth.recorded(f"connector {self.name}")

    @property
    def headers(self) -> dict[str, str | SecretName]:
        """The connector's headers and the operation's, which come first."""
        return {**self.connector.headers, **self.operation.headers}


def called(call: object, connectors: Mapping[str, Any]) -> Called:
    """What ``call: bureau.report`` names. Raises InvalidRequest."""
    if not isinstance(call, str) or call.count(".") != 1:
        raise InvalidRequest("call names a connector and an operation of it, such as bureau.report")
    name, operation = call.split(".")
    connector = read_connector(name, connectors)
    found = connector.operations.get(operation)
    if found is None or NAME.fullmatch(operation) is None:
        known = ", ".join(sorted(connector.operations)) or "none"
        raise InvalidRequest(f"connector {name} has no operation {operation!r}; it has {known}")
    return Called(name, connector, operation, found)


def read_connector(name: str, connectors: Mapping[str, Any]) -> Connector:
    """A declared connector. Raises InvalidRequest, which says what is wrong with it."""
    if name not in connectors or NAME.fullmatch(name) is None:
        known = ", ".join(sorted(connectors)) or "none"
        raise InvalidRequest(f"no connector is called {name!r}; the definition has {known}")
    try:
        return msgspec.convert(connectors[name], Connector)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"connector {name}: {error}") from None


def secret_name(name: str, what: str) -> str:
    """The name of a secret. Raises InvalidRequest where it is none: then it may be the secret itself."""
    if secrets.NAME.fullmatch(name) is None:
        raise InvalidRequest(
            f"{what}: a secret is given by its name (letters, digits, `_`, `.`, `-`), and its value to the worker"
        )
    return name
