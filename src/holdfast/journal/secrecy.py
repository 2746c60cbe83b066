"""What people may see of a recorded call: every view of an event goes through ``visible``.

An action's arguments stay in the journal as they are, because the act gets them from there. So the call itself says
which of them are secret, in the name of its payload's codec: whoever shows it needs no code, and a reader that does not
know the name shows nothing. A call of an action that does not say it was recorded by an older version: of that one no
argument is shown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import CBOR, Failure, Payload
from holdfast.journal.quoting import MASK, forms_of, without_forms

ACTION: Final = "action"
NOT_SHOWN: Final = "[not shown]"
_CALL: Final = "cbor;secret="

Place = tuple[int | str, ...]
"""A way into a call's arguments: 0 and an index, or 1 and a name, then members. A list stands for all its items."""


def marked(call: Payload, secrets: Sequence[Place]) -> Payload:
    """A call's arguments that say which of them are secret."""
    return Payload(call.data, f"{_CALL}{json.dumps(secrets, separators=(',', ':'))}", call.blob)


def is_same_call(one: Payload, other: Payload) -> bool:
    """Whether these are the same arguments, whatever they say of secrets: newer code may hide more."""
    plain = _is_plain(one.codec) and _is_plain(other.codec)
    return one.data == other.data and one.blob == other.blob and (plain or one.codec == other.codec)


def visible(event: e.Event) -> e.Event:
    """The event as people may see it. What has been masked stays as it is."""
    if isinstance(event, e.ExecutionStarted) and event.carried is not None:
        return msgspec.structs.replace(event, carried=Payload(canonical(NOT_SHOWN)))  # calls of actions are among it
    if not isinstance(event, e.InvokeScheduled) or event.kind != ACTION:
        return event
    shown = visible_call(event.input)
    return event if shown is event.input else msgspec.structs.replace(event, input=shown)


def visible_call(call: Payload) -> Payload:
    """An action's arguments with the secret ones masked, or without any where it is not known which are."""
    places = _places(call)
    if call.blob is not None or places == []:
        return call
    if places is None:
        return Payload(canonical([[NOT_SHOWN], {}]), f"{_CALL}[]")
    arguments = cbor2.loads(call.data)
    for place in places:
        arguments = _masked(arguments, place)
    return Payload(canonical(arguments), call.codec)


def secrets_of(event: e.Event) -> Iterator[Any]:
    """The secret values of a recorded call, as far as it says which they are."""
    if isinstance(event, e.InvokeScheduled) and event.kind == ACTION:
        yield from secrets_in(event.input)


def secrets_in(call: Payload) -> Iterator[Any]:
    """The values that a call's arguments call secret."""
    places = [] if call.blob is not None else _places(call)
    arguments = cbor2.loads(call.data) if places else None
    for place in places or ():
        yield from _found(arguments, place)


def leaves(values: Iterable[Any]) -> Iterator[str | bytes | int | float]:
    """The texts and numbers inside values."""
    for value in values:
        if isinstance(value, str | bytes | int | float):
            yield value
        elif isinstance(value, list | dict):
            yield from leaves(value.values() if isinstance(value, dict) else value)


def scrubbed(failure: Failure, secrets: Collection[Any]) -> Failure:
    """A failure without the secrets that its texts may quote."""
    if not secrets:
        return failure
    forms = forms_of(secrets)
    return Failure(failure.type, without_forms(failure.message, forms), without_forms(failure.trace, forms))


def is_call(codec: str) -> bool:
    """Whether the codec is that of a call that says which of its arguments are secret."""
    return codec.startswith(_CALL)


def _is_plain(codec: str) -> bool:
    return codec == CBOR or is_call(codec)


def _places(call: Payload) -> list[Place] | None:
    """Which arguments are secret; None where the call does not say."""
    if not is_call(call.codec):
        return None
    return [tuple(place) for place in json.loads(call.codec.removeprefix(_CALL))]


def _masked(value: Any, place: Place) -> Any:
    if not place:
        return MASK
    first, rest = place[0], place[1:]
    if isinstance(value, list):
        if isinstance(first, int):
            return [_masked(item, rest) if index == first else item for index, item in enumerate(value)]
        return [_masked(item, place) for item in value]
    if isinstance(value, dict):
        return {name: _masked(item, rest) if name == first else item for name, item in value.items()}
    return None if value is None else MASK  # it has no members: who can tell that it is not the secret itself


def _found(value: Any, place: Place) -> Iterator[Any]:
    if not place:
        yield value
    elif isinstance(value, list):
        chosen = [value[place[0]]] if isinstance(place[0], int) and place[0] < len(value) else []
        for item in chosen if isinstance(place[0], int) else value:
            yield from _found(item, place[1:] if isinstance(place[0], int) else place)
    elif isinstance(value, dict):
        if place[0] in value:
            yield from _found(value[place[0]], place[1:])
    elif value is not None:
        yield value
