"""What people may see of a whole journal: the secrets of its actions are masked wherever their texts appear in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import CBOR, CONTINUED, Err, Failure, Ok, Payload
from holdfast.journal.quoting import MASK, SHORTEST, forms_of, without_forms
from holdfast.journal.secrecy import secrets_of, visible
from holdfast.runs.journals import read
from holdfast.store.protocol import Run, Store

_FIELDS: Final = ("input", "result", "payload", "error", "reason")


class Veil:
    """One journal's secrets. Let it learn all events first: a secret may come in before the action that names it."""

    def __init__(self) -> None:
        self._forms: set[str] = set()

    def learn(self, event: e.Event) -> None:
        """Take in what a recorded call says of its secrets. Short ones are too common to be looked for elsewhere."""
        self._forms |= {form for form in forms_of(secrets_of(event)) if len(form) >= SHORTEST}

    def over(self, entry: e.Entry) -> e.Entry:
        """The entry as people may see it."""
        event = visible(entry.event)
        if self._forms:
            fields = {name: getattr(event, name) for name in _FIELDS if hasattr(event, name)}
            changed = {name: shown for name, value in fields.items() if (shown := self._shown(value)) != value}
            event = msgspec.structs.replace(event, **changed) if changed else event
        return entry if event is entry.event else e.Entry(entry.sequence, entry.timestamp, event)

    def payload(self, payload: Payload) -> Payload:
        """A value that is not in the journal yet, as people may see it."""
        found: Payload = self._shown(payload) if self._forms else payload
        return found

    def _shown(self, value: Any) -> Any:
        match value:
            case str():
                return without_forms(value, self._forms)
            case Failure(type=kind, message=message, trace=trace):
                return Failure(kind, without_forms(message, self._forms), without_forms(trace, self._forms))
            case Err(failure=failure):
                return Err(self._shown(failure))
            case Ok(value=payload):
                return Ok(self._shown(payload))
            case Payload(data=data, codec=codec, blob=None) if codec in (CBOR, CONTINUED):
                return self._payload(data, codec)
            case _:
                return value

    def _payload(self, data: bytes, codec: str) -> Payload:
        try:
            found = cbor2.loads(data)
            shown = self._value(found)
            return Payload(data if shown == found else canonical(shown), codec)
        except (cbor2.CBORError, ValueError, TypeError):  # nobody can read it
            return Payload(data, codec)

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return without_forms(value, self._forms)
        if isinstance(value, Mapping):
            return {self._value(name): self._value(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._value(item) for item in value]
        if isinstance(value, bytes):
            return value if not forms_of([value]) & self._forms else MASK
        told = isinstance(value, int | float) and not isinstance(value, bool) and repr(value) in self._forms
        return MASK if told else value


async def veil_of(store: Store, run: Run) -> Veil:
    """What hides the secrets of a run's actions. Only a governed run has any."""
    veil = Veil()
    if run.governed:
        async for entry in read(store, run):
            veil.learn(entry.event)
    return veil


async def shown(store: Store, run: Run, first: int = 0, veil: Veil | None = None) -> AsyncIterator[e.Entry]:
    """The same entries as people may see them: without the secrets of actions. A ``veil`` may know some already."""
    veil = veil or await veil_of(store, run)
    async for entry in read(store, run, first):
        veil.learn(entry.event)
        yield veil.over(entry)
