"""A recorded HTTP call: all that the gate must know of it, and all that an attempt needs.

Its members are for ever, because journals have them. What is not said is not written. Secrets are in it by name; a
value that a request brought along itself is marked, so that no view shows it.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import cbor2
import msgspec

from holdfast.errors import InvalidRequest, Undecodable
from holdfast.gate.proposals import Risk
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Payload
from holdfast.journal.quotes import MASK
from holdfast.journal.secrecy import Place, marked

Give = Literal["content", "response", "raw"]
Scheme = Literal["bearer", "basic", "header"]

DECLARED: Final = frozenset(
    {"connector", "operation", "writes", "risk", "safe_to_retry", "not_done", "key", "timeout", "give", "answers"}
)
"""What a call says of itself to the gate and to its attempt. The rest is what is sent."""


class SecretName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A header's value that is a secret of this name."""

    secret: str


class Auth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a request shows who sends it: by the ``secret`` of that name, or by a ``value`` that it brought along."""

    scheme: Scheme
    username: str = ""
    name: str = ""
    secret: str = ""
    value: str = ""

    def __repr__(self) -> str:
        """As a struct shows itself, without the value."""
        return f"Auth(scheme={self.scheme!r}, secret={self.secret!r}, value={MASK if self.value else ''!r})"


class HttpCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request, as it is recorded. ``answers`` is what the answer's content must be, beyond its status; ``not_done``
    are the statuses by which the service says that it did nothing."""

    method: str
    url: str
    connector: str
    operation: str
    writes: bool
    risk: Risk
    safe_to_retry: bool
    query: dict[str, str | list[str]] = {}
    headers: dict[str, str | SecretName] = {}
    auth: Auth | None = None
    json: Any = msgspec.UNSET
    form: dict[str, str | list[str]] | None = None
    body: str | None = None
    key: str | None = None
    timeout: float | None = None
    redirect: bool | list[str] = False
    accept: list[int | str] = []
    give: Give = "content"
    answers: Literal["", "graphql"] = ""
    not_done: list[int] = []

    @property
    def target(self) -> str:
        """What it is about: the URL without its query."""
        return self.url.partition("?")[0]

    def members(self) -> dict[str, Any]:
        """The call as plain data."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found

    def fields(self) -> dict[str, Any]:
        """What is sent, as people and policies see it."""
        fields = {name: value for name, value in self.members().items() if name not in DECLARED}
        if self.auth is not None and self.auth.value:
            fields["auth"] = {**fields["auth"], "value": MASK}
        return fields


def written(call: HttpCall) -> Payload:
    """The recorded input of a call. Raises InvalidRequest."""
    try:
        data = canonical([[], call.members()])
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidRequest(f"what the request sends is no plain data: {error}") from error
    secrets: list[Place] = [(1, "auth", "value")] if call.auth is not None and call.auth.value else []
    return marked(Payload(data), secrets)


def read(input: Payload | None) -> HttpCall:
    """A recorded call. Raises Undecodable where it is none, or one of a newer Holdfast."""
    try:
        if input is None:
            raise ValueError("it has no input")
        _, members = cbor2.loads(input.data)
        return msgspec.convert(members, HttpCall)
    except (cbor2.CBORError, ValueError, TypeError) as error:
        raise Undecodable(
            f"the recorded request cannot be read ({type(error).__name__}): upgrade this worker"
        ) from None
