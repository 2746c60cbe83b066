"""Executors: who carries out effects of machines, and signs what came of them with a key of its own.

An effect names its executor; the manifest has the executors' public keys. What came of such an effect is checked where
it arrives, before it is recorded: what is not signed by a key of its executor is recorded as rejected. So a replay
finds the same whatever keys there are by then, and checks the signature in the journal by the key that stands beside
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast.errors import InvalidFunction, InvalidRequest
from holdfast.journal.attribution import giver_of
from holdfast.journal.payload import Err, Failure, Ok, Outcome
from holdfast.journal.promise import PromiseId
from holdfast.journal.receipt_signatures import message_of, signature_of
from holdfast.programs.machine.manifest import ExecutorEntry
from holdfast.runs.lanes import CellOrigin

ExecutorKeys = str | bytes | Sequence[str | bytes]
"""Public keys as PEM: one text, which may have several, or a list of texts."""

REJECTED: Final = "holdfast.errors:ReceiptRejected"
"""The recorded name of the error in place of what was not signed as it must be."""

_ENGINE: Final = ("holdfast.errors:", "asyncio.exceptions:CancelledError")


def executor_entries(
    machine: str, effects: Iterable[Any], given: Mapping[str, ExecutorKeys]
) -> tuple[ExecutorEntry, ...]:
    """The executors of a machine, with their keys. Raises InvalidFunction where an effect names one without a key."""
    named = {each.executor: each.name for each in effects if getattr(each, "executor", None) is not None}
    for executor, effect in named.items():
        if executor not in given:
            raise InvalidFunction(
                f"machine {machine}: effect {effect} is signed by executor {executor!r}, and no public key of it is "
                f"given: add executors={{{executor!r}: …}}, with the key as PEM."
            )
    for executor in given:
        if executor not in named:
            raise InvalidFunction(f"machine {machine}: no effect names executor {executor!r}: leave its keys out.")
    return tuple(ExecutorEntry(name=name, keys=_keys(machine, name, keys)) for name, keys in given.items())


def _keys(machine: str, executor: str, given: ExecutorKeys) -> tuple[str, ...]:
    from holdfast.audit.keys import read_pem

    texts = [given] if isinstance(given, str | bytes) else given
    try:
        found = [key.hex() for text in texts for key in read_pem(text.encode() if isinstance(text, str) else text)]
    except InvalidRequest as error:
        raise InvalidFunction(f"machine {machine}: the keys of executor {executor!r}: {error}") from error
    return tuple(dict.fromkeys(found))


class EffectCall(NamedTuple):
    """A call of an effect: which cell asked for it, and its queue, if it has one."""

    origin: CellOrigin
    promise: PromiseId
    effect: str
    queue: str | None


def signed_or_rejected(call: EffectCall, outcome: Outcome, executor: str, keys: frozenset[bytes] | None) -> Outcome:
    """What came of a call, as it is recorded: as it is where it is its executor's word, else as rejected."""
    misfit = _misfit(call, outcome, executor, keys)
    return outcome if misfit is None else Err(Failure(REJECTED, misfit))


def _misfit(call: EffectCall, outcome: Outcome, executor: str, keys: frozenset[bytes] | None) -> str | None:
    """Why what came of an effect is not its executor's word; None where it is, or where it is nobody's.

    The worker that holds the lane carries out what is not queued: so an error of the engine's own, such as a denial,
    needs no signature then, and neither does what a person reported about an action. Without ``keys`` the signature is
    checked by the key that is written beside it.
    """
    origin, promise, effect, queue = call
    signature = signature_of(outcome)
    if signature is None:
        if queue is None and _is_nobodys(outcome):
            return None
        return f"it is not signed, and {executor!r} signs what {effect} gives"
    from holdfast.audit.keys import is_signed, key_id

    if signature.executor != executor:
        return f"it is signed by {signature.executor!r}, and {executor!r} signs what {effect} gives"
    if keys is not None and signature.public not in keys:
        return f"it is signed with key {key_id(signature.public)}, which is none of executor {executor!r}"
    message = message_of(origin.machine, origin.key, str(promise), effect, executor, outcome)
    if not is_signed(signature.public, signature.signature, message):
        return f"the signature of executor {executor!r} is not over this outcome of this call"
    return None


def _is_nobodys(outcome: Outcome) -> bool:
    """Whether no attempt gave it: the engine refused the call, or a person said what became of it."""
    if isinstance(outcome, Ok):
        return giver_of(outcome.value) is not None
    return outcome.failure.type.startswith(_ENGINE)


def is_rejected(outcome: Outcome) -> bool:
    """Whether it was recorded as rejected when it came."""
    return isinstance(outcome, Err) and outcome.failure.type == REJECTED and signature_of(outcome) is None
