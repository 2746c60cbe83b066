"""Who gave a value: the person who answered a form, sent a signal, or approved an act.

The name stands in the name of the payload's codec, so the value's bytes and their hash stay those that the person gave.
An error that a person decided has the name among its details.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.journal.error_classes import error_members, written_details
from holdfast.journal.payload import CBOR, Err, Failure, Ok, Outcome, Payload
from holdfast.journal.receipt_signatures import is_signed_codec

_BY: Final = ";by="
_GIVEN: Final = f"{CBOR}{_BY}"
BY: Final = "by"


def given_by(payload: Payload, who: str | None) -> Payload:
    """The payload with the name of the person who gave it. Only plain values have one."""
    if who is None or not (payload.codec == CBOR or (is_signed_codec(payload.codec) and giver_of(payload) is None)):
        return payload
    return Payload(payload.data, f"{payload.codec}{_BY}{who}", payload.blob)


def decided_by(outcome: Outcome, who: str | None) -> Outcome:
    """An outcome with the name of the person who made it so."""
    if who is None:
        return outcome
    if isinstance(outcome, Ok):
        return Ok(given_by(outcome.value, who))
    return Err(refused_by(outcome.failure, who))


def refused_by(failure: Failure, who: str) -> Failure:
    """A failure with the name of the person who decided it."""
    return msgspec.structs.replace(failure, details=written_details({**error_members(failure), BY: who}))


def giver_of(payload: Payload) -> str | None:
    """The person who gave a value; None where a program did, or nobody is known."""
    head, by, who = payload.codec.partition(_BY)
    return who if by and (head == CBOR or is_signed_codec(head)) else None


def decider_of(outcome: Outcome | None) -> str | None:
    """The person who made an outcome what it is; None where nobody did."""
    if isinstance(outcome, Ok):
        return giver_of(outcome.value)
    who = None if outcome is None else error_members(outcome.failure).get(BY)
    return who if isinstance(who, str) else None


def is_given(codec: str) -> bool:
    """Whether the codec names the person who gave the value, or the executor who signed it: it is plain CBOR."""
    return codec.startswith(_GIVEN) or is_signed_codec(codec)
