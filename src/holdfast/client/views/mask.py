"""A journal as people may see it: the secrets of its actions are masked in every place where their texts appear."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import cbor2
import msgspec

from holdfast.journal import events as e
from holdfast.journal.attribution import is_given
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import CBOR, CONTINUED, Err, Failure, Ok, Payload
from holdfast.journal.quotes import MASK, SHORTEST, forms_of, without_forms
from holdfast.journal.secrecy import failure_without, secrets_of, visible
from holdfast.runs.journals import PAGE, read
from holdfast.store.protocol import Run, Store

_FIELDS: Final = ("input", "result", "payload", "error", "reason")


class JournalMask:
    """Masks the secrets of one journal. It must learn all events first: a secret may appear before its action."""

    def __init__(self) -> None:
        self._forms: set[str] = set()

    def learn(self, event: e.Event) -> None:
        """Take in the secrets that a recorded call names. Short ones are left out: their texts are too common."""
        self._forms |= {form for form in forms_of(secrets_of(event)) if len(form) >= SHORTEST}

    def entry(self, entry: e.Entry) -> e.Entry:
        """The entry as people may see it."""
        event = visible(entry.event)
        if self._forms:
            fields = {name: getattr(event, name) for name in _FIELDS if hasattr(event, name)}
            changed = {name: masked for name, value in fields.items() if (masked := self._masked(value)) != value}
            event = msgspec.structs.replace(event, **changed) if changed else event
        return entry if event is entry.event else e.Entry(entry.sequence, entry.timestamp, event)

    def payload(self, payload: Payload) -> Payload:
        """A value that is not in the journal yet, such as that of a signal, as people may see it."""
        masked: Payload = self._masked(payload) if self._forms else payload
        return masked

    def text(self, text: str) -> str:
        """A text about the run, as people may see it."""
        return without_forms(text, self._forms) if self._forms else text

    def _masked(self, value: Any) -> Any:
        match value:
            case str():
                return without_forms(value, self._forms)
            case Failure():
                return failure_without(value, self._forms)
            case Err(failure=failure):
                return Err(self._masked(failure))
            case Ok(value=payload):
                return Ok(self._masked(payload))
            case Payload(data=data, codec=codec, blob=None) if codec in (CBOR, CONTINUED) or is_given(codec):
                return self._payload(data, codec)
            case _:
                return value

    def _payload(self, data: bytes, codec: str) -> Payload:
        try:
            value = cbor2.loads(data)
            masked = self._value(value)
            return Payload(data if masked == value else canonical(masked), codec)
        except (cbor2.CBORError, ValueError, TypeError):  # not data: nothing in it can be read
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
        is_secret = isinstance(value, int | float) and not isinstance(value, bool) and repr(value) in self._forms
        return MASK if is_secret else value


async def mask_of(store: Store, run: Run) -> JournalMask:
    """The mask for a run's journal. Only a governed run has secrets."""
    mask = JournalMask()
    if run.governed:
        async for entry in read(store, run):
            mask.learn(entry.event)
    return mask


async def masked_entries(
    store: Store, run: Run, first: int = 0, mask: JournalMask | None = None, *, page_size: int = PAGE
) -> AsyncIterator[e.Entry]:
    """The entries of a journal from ``first`` on, masked. ``mask`` may know secrets of earlier journals of the run."""
    mask = mask or await mask_of(store, run)
    async for entry in read(store, run, first, page_size=page_size):
        mask.learn(entry.event)
        yield mask.entry(entry)
