"""Verifying journals of older rules: what these let a run break is noted, and is no problem."""

from __future__ import annotations

import asyncio

from holdfast import Holdfast
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.payload import NOTHING, ONCE, Ok
from holdfast.journal.promise import JoinSetId, PromiseId
from holdfast.runs.birth import idempotency_key
from holdfast.runs.segments import seal
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore

KEY = p.Key("default", "old")


def _journal(edition: int) -> p.Start:
    """A run that submitted one call to two sets, the second time after its result was taken."""
    run = PromiseId.of_run("digest", None, idempotency_key(KEY))
    one, two, call = JoinSetId(run.child(0)), JoinSetId(run.child(2)), run.child(1)
    events: list[e.Event] = [
        e.ExecutionStarted("digest", NOTHING, None, idempotency_key(KEY), edition),
        e.JoinSetCreated(one),
        e.InvokeScheduled(call, "step", "charge", NOTHING, ONCE),
        e.JoinSetSubmitted(one, call),
        e.InvokeStarted(call, 1),
        e.InvokeCompleted(call, Ok(NOTHING), 1),
        e.JoinSetAwaited(one, call, Ok(NOTHING)),
        e.JoinSetCreated(two),
        e.JoinSetSubmitted(two, call),
        e.ExecutionCompleted(NOTHING),
    ]
    segment = seal([(1, event) for event in events], 0, GENESIS, {})
    return p.Start(KEY, "old", b"fingerprint", run.root, segment, p.Projection("completed"))


def test_verify_notes_what_older_rules_let_a_run_break() -> None:
    """J-72b: an older run is good, with a note; one of the present rules is not."""

    async def main(edition: int) -> tuple[bool, str | None, int]:
        store = MemoryStore()
        async with Holdfast(store, worker=False) as app:
            await store.commit([_journal(edition)])
            found = await app.run("old").verify()
            assert all("JS-7" in note and "after its result was taken" in note for note in found.notes)
            return found.good, found.law, len(found.notes)

    assert [asyncio.run(main(edition)) for edition in (0, 1, 2)] == [
        (True, None, 1),
        (True, None, 1),
        (False, "JS-7", 0),
    ]
