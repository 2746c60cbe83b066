"""Readers of model traces: the Informal Trace Format, and in it the events and statuses of the journal model.

Every reader takes a value and its place in the trace. It gives the typed value, or raises an ``InvalidRequest`` that
names the place. Nothing is guessed: an unknown event, a missing field or an unknown one is an error, because a trace of
another model, or of another version of it, must not be judged as if it were this one.

The model names things by lists of numbers: ``[1]`` is an execution, ``[1, 0]`` its first child. Such a name becomes a
``PromiseId`` whose root is the first number in 32 bytes. Its payloads, policies and errors are plain strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from holdfast.errors import InvalidRequest
from holdfast.journal import events as e
from holdfast.journal import status as s
from holdfast.journal.payload import Failure, Ok, Payload, RetryPolicy
from holdfast.journal.promise import ROOT_BYTES, JoinSetId, PromiseId

_WHOLE = re.compile(r"-?[0-9]{1,76}")
_SHOWN_CHARACTERS = 40


def refuse(at: str, what: str) -> NoReturn:
    """Raise the error that names the place of the fault and the reason."""
    raise InvalidRequest(f"not a trace of the journal model: at {at}: {what}")


def load(text: str | bytes) -> Any:
    """The JSON of a trace. A truncated or damaged file is refused with line and column."""
    try:
        return json.loads(text.decode() if isinstance(text, bytes) else text)
    except UnicodeDecodeError as error:
        refuse(f"byte {error.start}", "the file is not UTF-8 text")
    except json.JSONDecodeError as error:
        refuse(f"line {error.lineno}, column {error.colno}", f"{error.msg}; the file is truncated or is no JSON")
    except RecursionError:
        refuse("the beginning", "the values are nested too deeply")
    except ValueError as error:
        refuse("the beginning", str(error))


def describe(value: object) -> str:
    """A value in an error message: its kind, or itself, cut short."""
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "nothing"
    form = repr(value)
    return form if len(form) <= _SHOWN_CHARACTERS else f"{form[:_SHOWN_CHARACTERS]}…"


def integer(value: object, at: str) -> int:
    """A number, plain or as ``{"#bigint": "…"}``."""
    if type(value) is int:
        return value
    if isinstance(value, dict):
        digits = value.get("#bigint")
        if isinstance(digits, str) and _WHOLE.fullmatch(digits):
            return int(digits)
    refuse(at, f"expected an integer, found {describe(value)}")


def text(value: object, at: str) -> str:
    """A string that UTF-8 can hold."""
    if not isinstance(value, str):
        refuse(at, f"expected a string, found {describe(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        refuse(at, "the string holds half of a character")
    return value


def elements(value: object, at: str) -> list[Any]:
    """A list, plain or as a tuple ``{"#tup": […]}``."""
    inner = value.get("#tup") if isinstance(value, dict) else value
    if not isinstance(inner, list):
        refuse(at, f"expected a list, found {describe(value)}")
    return inner


def members(value: object, at: str) -> list[Any]:
    """The members of a set, ``{"#set": […]}``."""
    inner = value.get("#set") if isinstance(value, dict) else None
    if not isinstance(inner, list):
        refuse(at, f"expected a set, found {describe(value)}")
    return inner


def pairs(value: object, at: str) -> list[tuple[Any, Any]]:
    """The entries of a map, ``{"#map": [[key, value], …]}``."""
    inner = value.get("#map") if isinstance(value, dict) else None
    if not isinstance(inner, list):
        refuse(at, f"expected a map, found {describe(value)}")
    for index, pair in enumerate(inner):
        if not isinstance(pair, list) or len(pair) != 2:
            refuse(f"{at}.#map[{index}]", f"expected a key and a value, found {describe(pair)}")
    return [(key, entry) for key, entry in inner]


def record(value: object, at: str, required: frozenset[str], optional: frozenset[str] = frozenset()) -> dict[str, Any]:
    """An object with exactly these fields."""
    if not isinstance(value, dict):
        refuse(at, f"expected an object, found {describe(value)}")
    if missing := required - value.keys():
        refuse(at, f"the field {min(missing)!r} is missing")
    if unknown := value.keys() - required - optional:
        refuse(at, f"unknown field {min(unknown)!r}")
    return value


def variant(value: object, at: str) -> tuple[str, Any]:
    """A tag and its value. The value of a plain tag differs between tools, and is ignored."""
    if not isinstance(value, dict) or not isinstance(value.get("tag"), str):
        refuse(at, f"expected a tagged value, found {describe(value)}")
    return value["tag"], value.get("value")


def name(value: object, at: str) -> tuple[int, ...]:
    """A model's name of an execution, a promise or a join set: a list of at least one number."""
    numbers = tuple([integer(number, f"{at}[{index}]") for index, number in enumerate(elements(value, at))])
    if not numbers:
        refuse(at, "an id has at least one number")
    return numbers


def identify(numbers: tuple[int, ...]) -> PromiseId:
    """The promise id for a model's name; different names give different ids."""
    return PromiseId(numbers[0].to_bytes(ROOT_BYTES, "big", signed=True), numbers[1:])


def promise(value: object, at: str) -> PromiseId:
    return identify(name(value, at))


def _parent(value: object, at: str) -> PromiseId | None:
    return promise(value, at) if elements(value, at) else None


def _join_set(value: object, at: str) -> JoinSetId:
    return JoinSetId(promise(value, at))


def _promises(value: object, at: str) -> tuple[PromiseId, ...]:
    return tuple(sorted({promise(member, f"{at}.#set[{index}]") for index, member in enumerate(members(value, at))}))


def _payload(value: object, at: str) -> Payload:
    return Payload(text(value, at).encode(), "text")


def _outcome(value: object, at: str) -> Ok[Payload]:
    return Ok(_payload(value, at))


def _failure(value: object, at: str) -> Failure:
    return Failure("Error", text(value, at))


def _entropy(value: object, at: str) -> bytes:
    return text(value, at).encode()


def _policy(value: object, at: str) -> RetryPolicy:
    text(value, at)  # The model does not look inside a policy; its bound on retries is one for all.
    return RetryPolicy()


def _invoke_kind(value: object, at: str) -> str:
    tag, _ = variant(value, at)
    if tag not in {"Function", "Http"}:
        refuse(at, f"unknown kind of invocation {describe(tag)}")
    return tag.lower()


_PLAIN_KINDS: Final[dict[str, e.AwaitKind]] = {
    "Single": e.Single(),
    "Any": e.Any(),
    "All": e.All(),
    "Open": e.Open(),
}


def _await_kind(value: object, at: str) -> e.AwaitKind:
    tag, inner = variant(value, at)
    if tag == "AwaitSignal":
        fields = record(inner, at, frozenset({"name", "promise_id"}))
        return e.Signal(text(fields["name"], f"{at}.name"), promise(fields["promise_id"], f"{at}.promise_id"))
    if tag not in _PLAIN_KINDS:
        refuse(at, f"unknown kind of await {describe(tag)}")
    return _PLAIN_KINDS[tag]


Reader = Callable[[object, str], object]

_FIELDS: Final[Mapping[type[e.Event], dict[str, Reader]]] = {
    e.ExecutionStarted: {
        "component_digest": text,
        "input": _payload,
        "parent_id": _parent,
        "idempotency_key": text,
    },
    e.ExecutionCompleted: {"result": _payload},
    e.ExecutionFailed: {"error": _failure},
    e.CancelRequested: {"reason": text},
    e.ExecutionCancelled: {"reason": text},
    e.InvokeScheduled: {
        "promise_id": promise,
        "kind": _invoke_kind,
        "function_name": text,
        "input": _payload,
        "retry_policy": _policy,
    },
    e.InvokeStarted: {"promise_id": promise, "attempt": integer},
    e.InvokeCompleted: {"promise_id": promise, "result": _outcome, "attempt": integer},
    e.InvokeRetrying: {"promise_id": promise, "failed_attempt": integer, "error": _failure, "retry_at": integer},
    e.RandomGenerated: {"promise_id": promise, "value": _entropy},
    e.TimeRecorded: {"promise_id": promise, "time": integer},
    e.TimerScheduled: {"promise_id": promise, "duration": integer, "fire_at": integer},
    e.TimerFired: {"promise_id": promise},
    e.SignalDelivered: {"signal_name": text, "payload": _payload, "delivery_id": integer},
    e.SignalReceived: {"promise_id": promise, "signal_name": text, "payload": _payload, "delivery_id": integer},
    e.ExecutionAwaiting: {"waiting_on": _promises, "kind": _await_kind},
    e.ExecutionResumed: {},
    e.JoinSetCreated: {"join_set_id": _join_set},
    e.JoinSetSubmitted: {"join_set_id": _join_set, "promise_id": promise},
    e.JoinSetAwaited: {"join_set_id": _join_set, "promise_id": promise, "result": _outcome},
}

_EVENTS: Final = {kind.__name__: (kind, fields, frozenset(fields)) for kind, fields in _FIELDS.items()}

_ENTRY: Final = frozenset({"sequence", "timestamp", "event"})


def entry(value: object, at: str) -> e.Entry:
    """One line of a model's journal."""
    fields = record(value, at, _ENTRY)
    return e.Entry(
        integer(fields["sequence"], f"{at}.sequence"),
        integer(fields["timestamp"], f"{at}.timestamp"),
        _event(fields["event"], f"{at}.event"),
    )


def _event(value: object, at: str) -> e.Event:
    tag, inner = variant(value, at)
    if tag not in _EVENTS:
        refuse(at, f"unknown event {describe(tag)}")
    kind, readers, required = _EVENTS[tag]
    if not readers:
        return kind()
    fields = record(inner, at, required)
    return kind(**{field: read(fields[field], f"{at}.{field}") for field, read in readers.items()})


_PLAIN_STATUSES: Final[dict[str, s.Status]] = {
    kind.__name__: kind() for kind in (s.Running, s.Cancelling, s.Completed, s.Failed, s.Cancelled)
}


def status(value: object, at: str) -> s.Status:
    """A stored status; a blocked one with its wait."""
    tag, inner = variant(value, at)
    if tag == "Blocked":
        fields = record(inner, at, frozenset({"waiting_on", "kind"}))
        waiting_on = _promises(fields["waiting_on"], f"{at}.waiting_on")
        return s.Blocked(waiting_on, _await_kind(fields["kind"], f"{at}.kind"))
    if tag not in _PLAIN_STATUSES:
        refuse(at, f"unknown status {describe(tag)}")
    return _PLAIN_STATUSES[tag]
