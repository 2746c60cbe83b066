"""Acts: they begin when their receipt is open, and what came of them closes it.

An act that has begun is never cut off. Where its run is lost or gone meanwhile, the receipt is closed by a commit of
its own, and the next holder of the run finds it there.
"""

from __future__ import annotations

import logging
from typing import Any

import cbor2
import msgspec

from holdfast.gate.call import Call, is_of
from holdfast.gate.effects import DidNotHappen, Happened
from holdfast.gate.run_calls import Closing
from holdfast.journal.attribution import given_by
from holdfast.journal.payload import Err, Ok, Payload
from holdfast.kernel.arrivals import AttemptFailed, CallSettled
from holdfast.programs.function.interrupts import is_interrupt
from holdfast.runs import messages
from holdfast.runs.clock import Clock
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.worker.gate import entries, orphans
from holdfast.worker.gate.settler import Floor, Settler
from holdfast.worker.held import Held
from holdfast.worker.steps.performance import Outcome
from holdfast.worker.steps.receipt_signer import ReceiptSigner

log = logging.getLogger("holdfast.gate")


class Acts:
    """The acts of this worker's runs, and their receipts."""

    def __init__(
        self, committer: Committer, clock: Clock, settler: Settler, floor: Floor, signer: ReceiptSigner
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._settler = settler
        self._floor = floor
        self._signer = signer

    # -- beginning ---------------------------------------------------------------------------------------------------

    def begin(self, held: Held, call: Call) -> None:
        """The receipt is open: let the act be done, unless nobody waits for it any more."""
        calls = held.gate_of_run()
        if held.dropped:  # the run was lost: its new holder may ask what became of the act
            calls.move(call, "abandoned")
            self._send(held.key, entries.never_begun(held, call, self._clock.now()))
        elif held.live.ended or held.live.request_of(call.promise) is None:
            calls.move(call, "abandoned")
            self._attach(held, entries.never_begun(held, call, self._clock.now()))
            self._floor.give_turn(held)
        else:
            calls.move(call, "opened")
            self._floor.perform_effect(held, call)

    def begin_probe(self, held: Held, call: Call) -> None:
        """Let the probe look what became of an attempt."""
        if not held.dropped:
            held.gate_of_run().move(call, "probed")
            self._floor.perform_effect(held, call)

    # -- ending ------------------------------------------------------------------------------------------------------

    def finish(self, held: Held, call: Call, outcome: Outcome) -> None:
        """An attempt has ended: keep what came of it."""
        calls, decider = held.gate_of_run(), call.decider
        outcome = _scrubbed(call, outcome)
        closing = entries.outcome(held, call, outcome, self._clock.now())
        is_unknown = closing.receipt.state == "unknown"
        if call.state == "abandoned":
            self._finish_abandoned(held, call, closing)
            return
        if is_unknown:
            call.earlier = closing.receipt
        self._attach(held, closing)
        if is_unknown and not call.may_repeat:
            self._settler.check(held, call)
            return
        if isinstance(outcome, AttemptFailed):
            calls.move(call, "failed")
            if not call.is_worth_keeping:
                calls.drop(call)
        else:
            calls.move(call, "settled")
        self._arrive(held, call, outcome, decider)

    def _finish_abandoned(self, held: Held, call: Call, closing: p.CloseReceipt) -> None:
        """Its run waits for the outcome no more. If it is unknown, people are asked."""
        held.gate_of_run().move(call, "ended")
        receipt = closing.receipt
        if receipt.asked is not None:  # unknown; else the run is lost, and its next holder finds the receipt
            closing = orphans.abandoned(held.key.run, call.name, receipt, self._clock.now(), receipt.asked)
        self._attach(held, closing)
        self._floor.give_turn(held)

    def finish_probe(self, held: Held, call: Call, outcome: Outcome) -> None:
        """A probe has ended: close the receipt with what it found, or judge the call once more."""
        call.probed = True
        found = finding_of(outcome)
        result = self._result_of(call, found) if isinstance(found, Happened) else None
        if call.state == "abandoned":
            self._finish_abandoned_probe(held, call, found, result)
        elif result is not None:
            call.earlier = None
            held.gate_of_run().move(call, "found")
            self._record(held, call, result)
        elif isinstance(found, DidNotHappen):
            closing = entries.failed(held, call, _NOT_DONE, self._clock.now())
            self._attach(held, closing)
            call.earlier = closing.receipt  # the store still has it as pending
            held.gate_of_run().move(call, "missed")
            self._floor.give_turn(held)
        else:
            if found is None:
                log.warning("the probe of %s could not tell what became of it", call.effect.name)
            self._settler.check(held, call)

    def _finish_abandoned_probe(
        self, held: Held, call: Call, found: Happened | DidNotHappen | None, result: CallSettled | None
    ) -> None:
        held.gate_of_run().move(call, "ended")
        if result is not None:
            self._attach(held, entries.outcome(held, call, result, self._clock.now()))
        elif isinstance(found, DidNotHappen):
            self._attach(held, entries.failed(held, call, _NOT_DONE, self._clock.now()))
        self._floor.give_turn(held)

    def _result_of(self, call: Call, found: Happened) -> CallSettled | None:
        """What a probe found, as the outcome of the call; None where the effect cannot have given it."""
        result = Payload(cbor2.dumps(found.value, canonical=True))
        if (misfit := misfit_of(call, result)) is not None:
            log.warning("what the probe of %s found cannot be read: %s", call.effect.name, misfit)
            return None
        return CallSettled(call.promise, Ok(result), call.request.attempt, call.receipt.opened_at)

    def _record(self, held: Held, call: Call, settled: CallSettled) -> None:
        """Close the receipt with what a probe found, then let the run know.

        Another call under the same key may have asked, too, and have closed it first: then this one takes what is
        recorded. So it does where the act is another call's: it relies on it as on any other that it did not do.
        """

        def closed(answer: p.Answer | Exception) -> None:
            if held.dropped or call.state != "concluding":
                return
            if isinstance(answer, p.Closed) and is_of(call.receipt, call.promise):
                held.gate_of_run().move(call, "settled")
                self._arrive(held, call, settled, call.decider)
            else:
                self._settler.check(held, call)

        closing = entries.outcome(held, call, settled, self._clock.now())
        self._committer.submit(closing, closed)

    def _arrive(self, held: Held, call: Call, outcome: Outcome, decider: str | None) -> None:
        """Let the run know what came of an act: signed by its executor, with the name of who let it be done."""
        signed = self._signer.sign(held.origin_of(call.promise), call.promise, call.effect, outcome)
        self._floor.arrive(held, _attributed(signed, decider))

    def seal(self, held: Held, call: Call, recorded: Ok[Payload] | Err) -> Ok[Payload] | Err:
        """What the store has recorded of an act that was done before, signed for this call."""
        return self._signer.seal(held.origin_of(call.promise), call.promise, call.effect, recorded)

    # -- receipts ----------------------------------------------------------------------------------------------------

    def _attach(self, held: Held, closing: p.CloseReceipt) -> None:
        """Let the next commit of the run carry it; a run that is gone has none, so it goes alone."""
        if held.dropped:
            self._send(held.key, closing)
        else:
            held.gate_of_run().carry(closing)

    def _send(self, key: p.Key, closing: Closing) -> None:
        """Commit it alone, and notify the run's next holder."""

        def closed(answer: p.Answer | Exception) -> None:
            if isinstance(answer, p.Closed) and isinstance(closing, p.CloseReceipt):
                message = p.Deliver(key, messages.receipt_closed(closing.receipt, self._clock.now()))
                self._committer.submit(message, lambda _: self._floor.delivered(key))

        self._committer.submit(closing, closed)

    def let_go(self, held: Held, carried: tuple[Closing, ...] = ()) -> None:
        """The run is let go: what its next commit should have carried goes alone, and acts not begun are closed."""
        for closing in carried:
            self._send(held.key, closing)
        calls = held.gate
        if calls is None:
            return
        for closing in calls.take_closings():
            self._send(held.key, closing)
        for call in list(calls.calls.values()):
            if call.state == "acting" and not call.begun:
                self.call_off(held, call)
                self._send(held.key, entries.never_begun(held, call, self._clock.now()))
            elif call.state in ("acting", "probing"):
                calls.move(call, "abandoned")

    def call_off(self, held: Held, call: Call) -> None:
        """Let an act that has not begun never begin."""
        held.gate_of_run().move(call, "called_off")
        if call.attempt is not None:
            call.attempt.cancel()


_NOT_DONE = "the probe found that it did not happen"


def misfit_of(call: Call, result: Payload) -> BaseException | None:
    """Why the act cannot have given this result, with which its run could never go on; None where it can."""
    try:
        call.effect.read_result(result)
    except BaseException as error:  # a class of the author's own may refuse it in its own way
        if is_interrupt(error):
            raise
        return error
    return None


def finding_of(outcome: Outcome) -> Happened | DidNotHappen | None:
    """What a probe found; None where it found nothing out."""
    found: Any = None
    if isinstance(outcome, CallSettled) and isinstance(outcome.outcome, Ok):
        found = cbor2.loads(outcome.outcome.value.data)
    finding = found.get("type") if isinstance(found, dict) else None
    if finding == "Happened":
        return Happened(found.get("value"))
    return DidNotHappen(found.get("present")) if finding == "DidNotHappen" else None


def _attributed(outcome: Outcome, decider: str | None) -> Outcome:
    """A result with the name of the person who let the act be done."""
    if isinstance(outcome, AttemptFailed) or isinstance(outcome.outcome, Err):
        return outcome
    return msgspec.structs.replace(outcome, outcome=Ok(given_by(outcome.outcome.value, decider)))


def _scrubbed(call: Call, outcome: Outcome) -> Outcome:
    """The outcome without the secrets that its error may quote."""
    if not call.effect.secret_names:
        return outcome
    if isinstance(outcome, AttemptFailed):
        return msgspec.structs.replace(outcome, failure=call.effect.scrub(outcome.failure, call.arguments))
    if isinstance(outcome.outcome, Err):
        failure = call.effect.scrub(outcome.outcome.failure, call.arguments)
        return msgspec.structs.replace(outcome, outcome=Err(failure))
    return outcome
