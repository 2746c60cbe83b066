"""What class of error a recorded failure is, and what programs may read of it.

Retry policies and definitions speak of classes and not of exceptions: ``on: [transport, timeout]``. A failure's details
say its class; where they do not, the exception's name does. The classes:

- ``transport``: a connection, or an answer that says that a request failed
- ``timeout``: no answer in time, or nobody answered a task in time
- ``authorisation``: the gate, a person or the other side refused it
- ``definition``: what was asked for is not there, or its arguments do not fit
- ``expression``: an expression of a definition failed
- ``consistency``: what is recorded does not fit together
- ``business``: an error that a definition raised itself
- ``error``: whatever else a step raised
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from holdfast.journal.payload import Failure

TRANSPORT: Final = "transport"
TIMEOUT: Final = "timeout"
AUTHORISATION: Final = "authorisation"
DEFINITION: Final = "definition"
EXPRESSION: Final = "expression"
CONSISTENCY: Final = "consistency"
BUSINESS: Final = "business"
OTHER: Final = "error"

CLASSES: Final = (TRANSPORT, TIMEOUT, AUTHORISATION, DEFINITION, EXPRESSION, CONSISTENCY, BUSINESS, OTHER)

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    TIMEOUT: (
        "ConnectTimeout",
        "ConnectTimeoutError",
        "PoolTimeout",
        "ReadTimeout",
        "ReadTimeoutError",
        "ServerTimeoutError",
        "NodeTimeout",
        "TaskExpired",
        "Timeout",
        "TimeoutError",
        "TimeoutException",
        "TransportTimeout",
        "WriteTimeout",
    ),
    AUTHORISATION: ("ActionDenied", "ApprovalExpired", "ApprovalRejected", "GateError", "NotAuthorised"),
    TRANSPORT: (
        "AddressRefused",
        "AnswerUnusable",
        "BrokenPipeError",
        "ClientError",
        "ConnectError",
        "ConnectionAbortedError",
        "ConnectionError",
        "ConnectionFailed",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "HTTPError",
        "HTTPStatusError",
        "IncompleteRead",
        "IncompleteReadError",
        "OutcomeUnknown",
        "ReadError",
        "RemoteDisconnected",
        "RemoteProtocolError",
        "RequestException",
        "RequestRefused",
        "SSLError",
        "SecretMissing",
        "SecretRefused",
        "ServerDisconnectedError",
        "ServiceFailed",
        "TransportError",
        "TransportFailed",
        "URLError",
        "WriteError",
        "gaierror",
    ),
    DEFINITION: (
        "InvalidArguments",
        "InvalidDefinition",
        "InvalidFunction",
        "InvalidRequest",
        "Undecodable",
        "Unencodable",
        "WorkflowUnknown",
    ),
    BUSINESS: ("BusinessError",),
    CONSISTENCY: ("LawBroken", "Nondeterminism", "RunConflict", "RunRetired", "StoreCorrupt"),
}
_CLASS_OF: Final = {name: kind for kind, names in _NAMES.items() for name in names}


def error_class(failure: Failure) -> str:
    """The class of a recorded failure."""
    said = error_members(failure).get("class") if failure.details else None
    return said if isinstance(said, str) else class_of_name(failure.type) or OTHER


def class_of_name(name: str) -> str | None:
    """The class that an exception's name tells: of the usual libraries, Python's own, and ours."""
    return _CLASS_OF.get(name.rpartition(":")[2].rpartition(".")[2])


def error_members(failure: Failure) -> dict[str, object]:
    """What programs may read of a failure besides its type and message: ``status``, ``body``, ``url`` and the like."""
    try:
        found = json.loads(failure.details) if failure.details else {}
    except ValueError:  # nothing that this version wrote
        return {}
    return found if isinstance(found, dict) else {}


def written_details(members: Mapping[str, object]) -> str:
    """Members as a failure keeps them."""
    if not members:
        return ""
    return json.dumps(members, separators=(",", ":"), sort_keys=True)
