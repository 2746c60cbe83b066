"""A kind of invocation as another part would add it: a remark that the turn's commit writes into the audit."""

from __future__ import annotations

from typing import ClassVar

import cbor2

from holdfast.journal.events import InvokeScheduled
from holdfast.journal.payload import NOTHING, ONCE, Ok, Outcome
from holdfast.kernel.requests import Invoke
from holdfast.kernel.waits import Wait
from holdfast.programs.function.decorators import current
from holdfast.programs.function.values import encode
from holdfast.runs.advice import AdviceCode, Awaited
from holdfast.runs.kinds.kind import CallingRun, Errand, Kind, Pins, Shown, failed
from holdfast.store.protocol import Answer, Note, Noted, Run, Store


async def remark(text: str, *, settled: bool = True) -> None:
    """Have the commit of this turn write a remark. One that is not ``settled`` by it waits for ever."""
    loop, program = current("remark()")
    promise = loop.scribe.invoke(Remark.name, text, encode([[text, settled], {}]), ONCE)
    await program.value(promise, f"remark {text!r}")


class Remark(Kind):
    name: ClassVar[str] = "remark"

    def plan(self, run: CallingRun, request: Invoke, now: int, pins: Pins) -> Errand:
        (text, settled), _ = cbor2.loads(request.input.data)
        note = Note(run.key.tenant, run.key.run, "remark", now, text.encode())
        return Errand(note, request.promise_id, _outcome) if settled else Errand(note)

    async def explain(self, store: Store, run: Run, wait: Wait, now: int) -> Awaited:
        return Awaited(AdviceCode.WAIT_CALL, f"an answer to the remark {wait.name!r}")

    def show(self, event: InvokeScheduled) -> Shown:
        return Shown(f"remarked: {event.function_name}", "for the audit")


def _outcome(answer: Answer) -> Outcome:
    return Ok(NOTHING) if isinstance(answer, Noted) else failed("EngineError", f"unexpected answer {answer!r}")
