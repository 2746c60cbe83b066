"""The receipt signer: it signs what this worker gives for executors whose private keys it has.

What is signed is what an attempt gave, what a probe found, or what the store has recorded of the same act under the
same key. Where the key of an executor is not here, its effects are not begun here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdfast.audit.keychain import passphrase_of_environment
from holdfast.audit.keys import Signer, open_signer
from holdfast.errors import KeyLocked
from holdfast.gate.effects import Performable
from holdfast.journal.payload import Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.receipt_signatures import ReceiptSignature, message_of, with_signature
from holdfast.kernel.arrivals import AttemptFailed
from holdfast.runs.lanes import CellOrigin
from holdfast.worker.steps.performance import Outcome

_NONE: Mapping[str, str] = {}


class ReceiptSigner:
    """``files`` are the PEM files of the private keys, by executor. Raises KeyLocked where one cannot be opened."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._signers = {executor: _opened(executor, file) for executor, file in (files or _NONE).items()}

    def lack(self, effect: Performable | None) -> str | None:
        """Why what came of an effect could not be signed here; None where it can, or need not be."""
        executor = executor_of(effect)
        if effect is None or executor is None or executor in self._signers:
            return None
        return (
            f"{effect.name} is signed by executor {executor!r}, whose private key is not here: start the worker with "
            f"--executor-key {executor}=FILE"
        )

    def locked(self, effect: Performable) -> Failure | None:
        """The error of a call that is not begun because what came of it could not be signed here."""
        lack = self.lack(effect)
        return None if lack is None else Failure("holdfast.errors:KeyLocked", lack)

    def sign(self, origin: CellOrigin | None, promise: PromiseId, effect: Performable, outcome: Outcome) -> Outcome:
        """What came of an attempt, signed; as it is where no cell asked, or its effect names no executor."""
        if origin is None or executor_of(effect) is None:
            return outcome
        if isinstance(outcome, AttemptFailed):
            signed = self.seal(origin, promise, effect, Err(outcome.failure))
            assert isinstance(signed, Err)
            return msgspec.structs.replace(outcome, failure=signed.failure)
        return msgspec.structs.replace(outcome, outcome=self.seal(origin, promise, effect, outcome.outcome))

    def seal(
        self, origin: CellOrigin | None, promise: PromiseId, effect: Performable, outcome: Ok[Payload] | Err
    ) -> Ok[Payload] | Err:
        """An outcome, signed; as ``sign`` does."""
        executor = executor_of(effect)
        signer: Signer | None = None if executor is None else self._signers.get(executor)
        if origin is None or executor is None or signer is None:
            return outcome
        message = message_of(origin.machine, origin.key, str(promise), effect.name, executor, outcome)
        return with_signature(outcome, ReceiptSignature(executor, signer.public, signer.sign(message)))


def executor_of(effect: Performable | None) -> str | None:
    """Who signs what came of an effect; only what Python code declares can name one."""
    executor: str | None = getattr(effect, "executor", None)
    return executor


def _opened(executor: str, file: str) -> Signer:
    what = f"the private key of executor {executor!r}"
    try:
        pem = Path(file).read_bytes()
    except OSError as error:
        raise KeyLocked(f"{what} cannot be read from {file} ({error.strerror}): give the right file.") from error
    return open_signer(pem, passphrase_of_environment(), what)
