"""The signature of whoever carried out an effect for a machine's cell, as it travels with what came of the effect.

It stands in the name of the payload's codec, so the value's bytes and their hash stay those that the effect gave; of an
error, among its details. It is over the machine, the cell's key, the intent, the effect, the executor, the status and
the bytes, in one canonical form.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.journal.cbor import canonical
from holdfast.journal.error_classes import error_members, written_details
from holdfast.journal.payload import CBOR, Err, Failure, Ok, Outcome, Payload

_DOMAIN: Final = "holdfast.receipt.1"
_SIGNED: Final = "cbor;signed="
_MEMBER: Final = "signed"
_BY: Final = ";by="
_TEXT: Final = re.compile(r"([\w.-]{1,100}) ([0-9a-f]{64}) ([0-9a-f]{128})")

EXECUTOR: Final = re.compile(r"[\w.-]{1,100}", re.ASCII)
"""What an executor may be called."""


class ReceiptSignature(msgspec.Struct, frozen=True, gc=False):
    """Who signed: the executor's name, the public half of the key, and the signature."""

    executor: str
    public: bytes
    signature: bytes

    @property
    def text(self) -> str:
        return f"{self.executor} {self.public.hex()} {self.signature.hex()}"


def message_of(machine: str, key: bytes, intent: str, effect: str, executor: str, outcome: Outcome) -> bytes:
    """What is signed."""
    if isinstance(outcome, Ok):
        status, given = "ok", outcome.value.data
    else:
        failure = outcome.failure
        members = {name: value for name, value in error_members(failure).items() if name != _MEMBER}
        status, given = "error", canonical([failure.type, failure.message, failure.trace, members])
    return canonical([_DOMAIN, machine, key, intent, effect, executor, status, given])


def with_signature(outcome: Outcome, signature: ReceiptSignature) -> Outcome:
    """An outcome with the signature over it."""
    if isinstance(outcome, Ok):
        by = outcome.value.codec.removeprefix(CBOR)  # a person's name may stand there already
        return Ok(Payload(outcome.value.data, f"{_SIGNED}{signature.text}{by}", outcome.value.blob))
    details = written_details({**error_members(outcome.failure), _MEMBER: signature.text})
    return Err(msgspec.structs.replace(outcome.failure, details=details))


def signature_of(outcome: Outcome) -> ReceiptSignature | None:
    """The signature that an outcome has; None where it has none that can be read."""
    if isinstance(outcome, Ok):
        text: object = outcome.value.codec.removeprefix(_SIGNED).partition(_BY)[0] if is_signed_codec(outcome) else ""
    else:
        text = error_members(outcome.failure).get(_MEMBER)
    found = _TEXT.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else ReceiptSignature(found[1], bytes.fromhex(found[2]), bytes.fromhex(found[3]))


def is_signed_codec(value: Ok[Payload] | str) -> bool:
    """Whether the codec has a signature; the value is plain CBOR."""
    return (value if isinstance(value, str) else value.value.codec).startswith(_SIGNED)


def unsigned(failure: Failure) -> Failure:
    """The failure as it was before it was signed."""
    members = dict(error_members(failure))
    if members.pop(_MEMBER, None) is None:
        return failure
    return msgspec.structs.replace(failure, details=written_details(members) if members else "")
