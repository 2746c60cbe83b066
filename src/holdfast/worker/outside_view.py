"""Looks at the outside world for a person who must decide: one probe, outside of any run.

No journal and no receipt knows of it: it may be done as often as somebody asks, and changes nothing.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import msgspec

from holdfast.gate.effects import DidNotHappen, Happened, Performable
from holdfast.journal.payload import ONCE
from holdfast.kernel.requests import Invoke
from holdfast.runs.clock import Clock
from holdfast.store.protocol import Key, Store
from holdfast.worker.gate.acts import finding_of
from holdfast.worker.steps.performance import Outcome, Performance
from holdfast.worker.steps.performer import Performer


async def look(
    store: Store, clock: Clock, probe: Performable, key: Key, call: Invoke, act: str, seconds: float
) -> Happened | DidNotHappen | None:
    """What the probe of a call finds within these seconds; None where it fails, or takes longer.

    ``act`` is the idempotency key of the call: ``step_info().key`` gives it to the probe.
    """
    answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def report(_: Performance, outcome: Outcome) -> None:
        if not answer.done():
            answer.set_result(outcome)

    threads = ThreadPoolExecutor(1, "holdfast-look")
    retry = msgspec.structs.replace(ONCE, attempt_timeout=seconds)
    performer = Performer(store, clock, threads, 1, 1)
    attempt = performer.perform(
        probe, key, call.promise_id, 1, call.input, report, lambda *_: None, act=act, mark=call.mark, retry=retry
    )
    try:
        return finding_of(await answer)
    finally:
        attempt.cancel()
        threads.shutdown(wait=False)  # a plain function that hangs cannot be stopped, and nobody waits for it
