"""The headers of a request: which may be said, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.errors import InvalidRequest
from holdfast.transports.connectors import secret_name
from holdfast.transports.http.call import SecretName
from holdfast.transports.http.urls import scalar

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_OURS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""What the engine says itself: another host or another length would be another request than the one that was judged."""


def declared(headers: Mapping[str, str | SecretName], what: str) -> dict[str, str | SecretName]:
    """A connector's headers, whose values may be secrets by name. Raises InvalidRequest."""
    found: dict[str, str | SecretName] = {}
    for name, value in headers.items():
        if isinstance(value, SecretName):
            found[checked_name(name, what)] = SecretName(secret_name(value.secret, f"{what}: header {name}"))
        else:
            found[checked_name(name, what)] = checked_value(value, f"{what}: header {name}")
    return found


def given(headers: object, what: str) -> dict[str, str | SecretName]:
    """A request's own headers. Raises InvalidRequest, also for a secret: its address may come from a run's input."""
    if not isinstance(headers, Mapping):
        raise InvalidRequest(f"{what}: headers are a map of names and values")
    return {
        checked_name(str(name), what): _given_value(value, f"{what}: header {name}")
        for name, value in headers.items()
        if value is not None
    }


def checked_value(value: str, what: str) -> str:
    """A header's value. Raises InvalidRequest."""
    if _VALUE.fullmatch(value) is None:
        raise InvalidRequest(f"{what} has a line's end, a control character or a letter beyond ASCII in it")
    return value


def _given_value(value: Any, what: str) -> str:
    if isinstance(value, Mapping):
        raise InvalidRequest(f"{what}: only a connector's headers may be secrets: declare one, and `call` it")
    return checked_value(scalar(value, what), what)


def checked_name(name: str, what: str) -> str:
    """A header's name. Raises InvalidRequest."""
    if _NAME.fullmatch(name) is None:
        raise InvalidRequest(f"{what}: {name[:40]!r} is no header's name")
    if name.lower() in _OURS:
        raise InvalidRequest(f"{what}: the header {name} is not yours to say")
    return name


def merged(first: Mapping[str, str | SecretName], then: Mapping[str, str | SecretName]) -> dict[str, str | SecretName]:
    """Both; of a header that both have, however it is written, the second."""
    names = {name.lower() for name in then}
    return {**{name: value for name, value in first.items() if name.lower() not in names}, **then}
