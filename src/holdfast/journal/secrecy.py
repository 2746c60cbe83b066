"""What people may see of a recorded call: every view of an event goes through ``visible``.

An action's arguments stay unmasked in the journal, because the action is called with them from there. So the recorded
call names the secret ones, in the name of its payload's codec. No code is needed to show it, and a reader that does not
know the codec shows nothing. Older versions recorded calls of actions without that mark: none of their arguments are
shown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.cbor import canonical
from holdfast.journal.error_classes import error_members, written_details
from holdfast.journal.payload import CBOR, SIGNALS, Failure, Payload
from holdfast.journal.quotes import MASK, forms_of, value_without, without_forms

ACTION: Final = "action"
NOT_SHOWN: Final = "[not shown]"
_CALL: Final = "cbor;secret="

Place = tuple[int | str, ...]
"""A path into a call's arguments: 0 and an index, or 1 and a name, then members. A list stands for all its items."""


def marked(call: Payload, secrets: Sequence[Place]) -> Payload:
    """A call's arguments, marked with the places of the secret ones."""
    return Payload(call.data, f"{_CALL}{json.dumps(secrets, separators=(',', ':'))}", call.blob)


def is_same_call(one: Payload, other: Payload) -> bool:
    """Whether these are the same arguments. Their marks may differ: newer code may hide more."""
    plain = _is_plain(one.codec) and _is_plain(other.codec)
    return one.data == other.data and one.blob == other.blob and (plain or one.codec == other.codec)


def visible(event: e.Event) -> e.Event:
    """The event as people may see it. An event that is masked already is unchanged."""
    if isinstance(event, e.ExecutionStarted):
        hidden = Payload(canonical(NOT_SHOWN))
        fields = {
            name: hidden for name in ("carried", "former") if getattr(event, name) is not None
        }  # calls of actions
        if event.signals is not None and event.signals.codec == SIGNALS:
            fields["signals"] = _how_many(event.signals)
        return msgspec.structs.replace(event, **fields) if fields else event
    if not isinstance(event, e.InvokeScheduled) or event.kind != ACTION:
        return event
    shown = visible_call(event.input)
    return event if shown is event.input else msgspec.structs.replace(event, input=shown)


def _how_many(signals: Payload) -> Payload:
    """The number of the signals that a start carries, in their place."""
    try:
        return Payload(canonical(cbor2.loads(signals.data)[0]))
    except (cbor2.CBORError, LookupError, TypeError):  # they are damaged
        return Payload(canonical(None))


def visible_call(call: Payload) -> Payload:
    """An action's arguments with the secret ones masked; none at all where the call does not name them."""
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
    """The secret values of a recorded call, where it names them."""
    if isinstance(event, e.InvokeScheduled) and event.kind == ACTION:
        yield from secrets_in(event.input)


def secrets_in(call: Payload) -> Iterator[Any]:
    """The values at the places that a call marks as secret."""
    places = [] if call.blob is not None else _places(call)
    arguments = cbor2.loads(call.data) if places else None
    for place in places or ():
        yield from _values_at(arguments, place)


def leaves(values: Iterable[Any]) -> Iterator[str | bytes | int | float]:
    """The texts and numbers inside values."""
    for value in values:
        if isinstance(value, str | bytes | int | float):
            yield value
        elif isinstance(value, list | dict):
            yield from leaves(value.values() if isinstance(value, dict) else value)


def scrubbed(failure: Failure, secrets: Collection[Any]) -> Failure:
    """A failure without the secrets that its texts may quote."""
    return failure_without(failure, forms_of(secrets)) if secrets else failure


def failure_without(failure: Failure, forms: Collection[str]) -> Failure:
    """A failure whose texts quote none of these forms."""
    message, trace = without_forms(failure.message, forms), without_forms(failure.trace, forms)
    return Failure(failure.type, message, trace, written_details(value_without(error_members(failure), forms)))


def is_call(codec: str) -> bool:
    """Whether the codec is that of a call that names its secret arguments."""
    return codec.startswith(_CALL)


def _is_plain(codec: str) -> bool:
    return codec == CBOR or is_call(codec)


def _places(call: Payload) -> list[Place] | None:
    """The places of the secret arguments; None where the call does not name them."""
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
    return None if value is None else MASK  # it has no members: it may be the secret itself


def _values_at(value: Any, place: Place) -> Iterator[Any]:
    if not place:
        yield value
    elif isinstance(value, list):
        chosen = [value[place[0]]] if isinstance(place[0], int) and place[0] < len(value) else []
        for item in chosen if isinstance(place[0], int) else value:
            yield from _values_at(item, place[1:] if isinstance(place[0], int) else place)
    elif isinstance(value, dict):
        if place[0] in value:
            yield from _values_at(value[place[0]], place[1:])
    elif value is not None:
        yield value
