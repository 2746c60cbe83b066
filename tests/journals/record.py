"""Write golden journals that do not exist yet: ``python -m tests.journals.record``. Existing ones are never changed.

Each scenario is played by a real engine on virtual time; all journals that it leaves behind are written, one file each.
The scenario's own run gives the file its name; further generations, children and other runs are named after it.
"""

from __future__ import annotations

import asyncio
import base64
import random
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import cbor2
import msgspec

from holdfast import Holdfast, RunHandle, WorkerOptions
from holdfast.errors import RunCancelled, RunFailed
from holdfast.journal import events as e
from holdfast.journal.blobs import references
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import CBOR
from holdfast.journal.promise import PromiseId
from holdfast.programs.function import failures
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from holdfast.worker.presence.heart import LoopPulse
from tests.journals import definitions as d
from tests.journals import programs as g
from tests.journals.golden import FOLDER, Golden, GoldenSegment, listing, status_name

Scenario = Callable[[Holdfast], Awaitable[RunHandle[Any]]]

SCENARIOS: Final[dict[str, Scenario]] = {}
OPTIONS: Final = WorkerOptions(retention_days=None, lease_seconds=3600.0, evidence=False)


def scenario(play: Scenario) -> Scenario:
    """A scenario to be recorded. Its docstring is the description in the golden file."""
    SCENARIOS[play.__name__] = play
    return play


def plain(workflow: Any, about: str, *args: Any, **kwargs: Any) -> None:
    """A scenario that only starts a run and waits for its end."""

    async def play(app: Holdfast) -> RunHandle[Any]:
        handle = await app.start(workflow, *args, id="golden", **kwargs)
        await over(handle)
        return handle

    play.__name__, play.__doc__ = workflow.name.removeprefix("golden."), about
    scenario(play)


async def over(handle: RunHandle[Any]) -> None:
    """Wait for any end."""
    try:
        await handle.result()
    except (RunFailed, RunCancelled):
        return


plain(g.sequence, "Steps one after the other, with a keyword argument.", 1, increments=[2, 3, 4])
plain(g.nothing, "A body that does nothing.")
plain(g.retries, "Attempts that fail and are tried again, and a step that fails for good.")
plain(g.failure, "A step fails terminally and fails its run.", "it is forbidden")
plain(g.own_failure, "The body raises.")
plain(g.gathered, "gather, with a failing member kept as an error.")
plain(g.grouped, "A TaskGroup.")
plain(g.group_fails, "A TaskGroup whose failing member calls the others off.")
plain(g.race, "wait for the first, the other is called off.")
plain(g.timeouts, "A timeout that expires, and one that does not.")
plain(g.timers, "Timers one after the other and side by side.")
plain(g.entropy, "Recorded time and randomness.")
plain(g.join_next, "A join set taken one by one, in the order of completion.")
plain(g.join_all, "A join set taken at once, with a child in it; another whose member fails.")
plain(g.children, "Child workflows: one completes, one fails.")
plain(g.detached, "A detached run, a signal to it, and a signal to nobody.")
plain(g.compensation, "Successes are undone, newest first, when the run fails.")
plain(g.given_up, "A call that was given up succeeds, and is undone before its run returns.")
plain(g.party, "A run fails while a call and a child are under way: both end before anything is undone.")
plain(g.patches, "Markers of changed code.")
plain(g.queued, "Steps of a queue, one of them tried twice.")


@scenario
async def signals(app: Holdfast) -> RunHandle[Any]:
    """Signals buffered before they are asked for, first in, first out; and one that is waited for."""
    handle = await app.start(g.signals, id="golden")
    await handle.signal("early", {"n": 1})
    await handle.signal("early", "two")
    await asyncio.sleep(30)
    await handle.signal("late", [3, None, 4.5])
    await over(handle)
    return handle


@scenario
async def forms(app: Holdfast) -> RunHandle[Any]:
    """People are asked: one answers, one does not, one need not."""
    handle = await app.start(g.forms, id="golden")
    (task,) = [task async for task in app.tasks.list()]
    await app.tasks.complete(task.id, {"decision": "pay", "amount": 3}, by="ann", groups=["claims"])
    await over(handle)
    return handle


@scenario
async def approval(app: Holdfast) -> RunHandle[Any]:
    """A signal against a timeout, which wins; then two signals awaited in parallel."""
    handle = await app.start(g.approval, id="golden")
    await asyncio.sleep(60)
    await handle.signal("reason", "it is late")
    await asyncio.sleep(1)
    await handle.signal("decision", True)
    await over(handle)
    return handle


@scenario
async def cleanup(app: Holdfast) -> RunHandle[Any]:
    """Cancelled while it sleeps: the cleanup runs, then the compensation, then it is cancelled."""
    handle = await app.start(g.cleanup, id="golden")
    await asyncio.sleep(10)
    await handle.cancel("nobody needs it")
    await over(handle)
    return handle


@scenario
async def cancelling(app: Holdfast) -> RunHandle[Any]:
    """The same in the middle of its cleanup."""
    handle = await app.start(g.cleanup, id="golden")
    await asyncio.sleep(10)
    await handle.cancel("nobody needs it")
    await asyncio.sleep(1)
    return handle


@scenario
async def counter(app: Holdfast) -> RunHandle[Any]:
    """Continues as new, three generations; signals that came early are carried over."""
    handle = await app.start(g.counter, 2, [], id="golden")
    for word in ("one", "two", "three"):
        await handle.signal("word", word)
    await over(handle)
    return handle


@scenario
async def large(app: Holdfast) -> RunHandle[Any]:
    """An argument, a result and a signal over 32 KiB live in blobs."""
    handle = await app.start(g.large, "x" * g.LARGE, id="golden")
    await asyncio.sleep(1)
    await handle.signal("more", "y" * g.LARGE)
    await over(handle)
    return handle


@scenario
async def long_wait(app: Holdfast) -> RunHandle[Any]:
    """Blocked on a retry, a timer and a signal at once."""
    handle = await app.start(g.long_wait, id="golden")
    await asyncio.sleep(1)
    return handle


@scenario
async def blocked_on_a_signal(app: Holdfast) -> RunHandle[Any]:
    """Blocked on one signal."""
    handle = await app.start(g.listener, id="golden")
    await asyncio.sleep(1)
    return handle


@scenario
async def resting(app: Holdfast) -> RunHandle[Any]:
    """Paused while a timer runs, over its time; signalled and resumed."""
    handle = await app.start(g.resting, id="golden")
    await asyncio.sleep(15)
    await handle.pause("for a while")
    await handle.signal("unheard", "while it rests")
    await asyncio.sleep(100)
    await handle.resume()
    await over(handle)
    return handle


@scenario
async def cancelled_while_paused(app: Holdfast) -> RunHandle[Any]:
    """Cancelled while it was paused: what came meanwhile is recorded, the cleanup runs after."""
    handle = await app.start(g.cleanup, id="golden")
    await asyncio.sleep(1)
    await handle.pause("for a while")
    await handle.signal("unheard", "while it rests")
    await asyncio.sleep(1)
    await handle.cancel("after all")
    await over(handle)
    return handle


@scenario
async def paused_during_steps(app: Holdfast) -> RunHandle[Any]:
    """Paused while steps run: their outcomes are recorded, the body rests until it is resumed."""
    handle = await app.start(g.grouped, id="golden")
    await asyncio.sleep(0.1)
    await handle.pause("for a while")
    await asyncio.sleep(10)
    await handle.resume()
    await over(handle)
    return handle


@scenario
async def retried(app: Holdfast) -> RunHandle[Any]:
    """Failed, and retried as a new generation with the journal up to the failed step; it fails again."""
    handle = await app.start(g.repairable, id="golden")
    await handle.signal("word", "bad")
    await over(handle)
    await handle.retry()
    await over(handle)
    return handle


@scenario
async def forked(app: Holdfast) -> RunHandle[Any]:
    """Failed, and forked from before its signal, which then was another."""
    handle = await app.start(g.repairable, id="golden")
    await asyncio.sleep(1)
    await handle.signal("word", "bad")
    await over(handle)
    delivered = [n.sequence async for n in handle.journal() if n.event == "SignalDelivered"]
    fork = await handle.fork(delivered[0], id="golden-fork")
    await asyncio.sleep(1)
    await fork.signal("word", "good")
    await over(fork)
    return handle


async def _trip(app: Holdfast) -> RunHandle[Any]:
    """A run of the definition, up to its last wait."""
    app.definitions.add(d.TRIP)
    handle = await app.start("golden.trip", {"city": "Rome"}, id="golden")
    await asyncio.sleep(3700)
    await handle.signal("papers", "stamped", key="Rome", by="ann")
    async for task in app.tasks.list(run="golden"):
        await app.tasks.complete(task.id, {"name": "Bo"}, by="bob")
    await asyncio.sleep(100)
    return handle


@scenario
async def defined(app: Holdfast) -> RunHandle[Any]:
    """A definition: every kind of wait, then a failure, and all that was done is undone."""
    handle = await _trip(app)
    await handle.signal("go")
    await over(handle)
    return handle


@scenario
async def moved(app: Holdfast) -> RunHandle[Any]:
    """A definition's run that moves to another version while it waits, and ends as that one says."""
    handle = await _trip(app)
    await app.definitions.migrate(app.definitions.add(d.MENDED), by="ann")
    await asyncio.sleep(1)
    await handle.signal("go")
    await over(handle)
    return handle


class Keeper(MemoryStore):
    """A store that keeps the root of every generation, because the journal's bytes do not contain it."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self.roots: dict[tuple[p.Key, int], bytes] = {}

    async def commit(self, batch: Any) -> list[p.Answer]:
        answers = await super().commit(batch)
        for key, run in self._tables.runs.items():
            self.roots[key, run.generation] = run.root
        return answers

    def journals(self) -> list[tuple[p.Run, int, list[p.Segment]]]:
        return [
            (run, generation, segments)
            for key, run in sorted(self._tables.runs.items())
            for generation, segments in sorted(self._tables.segments[key].items())
        ]

    def code_of(self, run: p.Run) -> list[p.Code]:
        return [code for code in self._tables.code.values() if code.digest == run.code_digest]

    def blobs_of(self, entries: list[e.Entry]) -> dict[bytes, bytes]:
        wanted = {digest for n in entries for digest in references(n.event)}
        return {digest: data for (_, digest), data in sorted(self._tables.blobs.items()) if digest in wanted}


@asynccontextmanager
async def engine() -> AsyncIterator[tuple[Holdfast, Keeper]]:
    clock = VirtualClock(asyncio.get_running_loop())
    store = Keeper(clock.now)
    app = Holdfast(store, clock=clock, entropy=random.Random(7), pulse=LoopPulse, options=OPTIONS)
    await app.open()
    try:
        yield app, store
    finally:
        await app.close(0)


async def play(name: str) -> dict[str, Golden]:
    """The journals that a scenario leaves behind, by the names of their files."""
    async with engine() as (app, store):
        handle = await SCENARIOS[name](app)
        about = " ".join((SCENARIOS[name].__doc__ or "").split())
        found: dict[str, Golden] = {}
        for run, generation, segments in store.journals():
            suffix = "" if run.key == handle.key else "." + run.key.run.replace("~", "-")
            suffix += f".{generation}" if generation else ""
            found[name + suffix] = _golden(about, store, run, generation, segments)
        return found


def _golden(about: str, store: Keeper, run: p.Run, generation: int, segments: list[p.Segment]) -> Golden:
    root = PromiseId(store.roots[run.key, generation])
    blobs = store.blobs_of(unseal(segments, root, {}))
    entries = unseal(segments, root, blobs)
    ledger = Ledger(root)
    ledger.extend(entries)
    last = entries[-1].event
    completed = isinstance(last, e.ExecutionCompleted) and last.result.codec == CBOR
    lines = listing(entries)
    return Golden(
        about=about,
        run=run.key.run,
        generation=generation,
        workflow=run.workflow,
        root=root.root.hex(),
        status=status_name(ledger.status),
        end=lines[-1].split(maxsplit=2)[2],
        result=cbor2.loads(last.result.data) if completed and isinstance(last, e.ExecutionCompleted) else None,
        listing=lines,
        segments=[GoldenSegment.of(segment) for segment in segments],
        code={code.digest.hex(): base64.b64encode(code.data).decode() for code in store.code_of(run)},
        blobs={digest.hex(): base64.b64encode(zlib.compress(data)).decode() for digest, data in blobs.items()},
    )


def main() -> None:
    limit, failures.TRACE_LIMIT = failures.TRACE_LIMIT, 1  # traces name the folders of the machine that records
    try:
        record_missing()
    finally:
        failures.TRACE_LIMIT = limit


def record_missing() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in SCENARIOS:
        if (FOLDER / f"{name}.json").exists():
            continue
        for stem, golden in run_virtually(play(name)).items():
            path = FOLDER / f"{stem}.json"
            if path.exists():
                sys.exit(f"{path} is there already: golden journals are never overwritten")
            path.write_bytes(msgspec.json.format(msgspec.json.encode(golden), indent=1) + b"\n")
            print(path.name)


if __name__ == "__main__":
    main()
