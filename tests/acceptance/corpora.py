"""Workflows that others publish, run on a real engine that dies around its commits."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import runpy
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from holdfast import Holdfast, RunHandle, WorkerOptions
from holdfast.definition import from_serverless
from holdfast.errors import RunFailed
from holdfast.journal.error_classes import error_members
from holdfast.journal.payload import Failure
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.worker.presence.heart import LoopPulse
from tests.unit.worker.ground import FREE, Line

CORPORA = Path(os.environ.get("HOLDFAST_CORPORA") or Path(__file__).parents[3] / "shared" / "data")
KIT = CORPORA / "ctk"
MORE = CORPORA / "swf-more"

needs_corpora = pytest.mark.skipif(
    not (KIT.exists() and MORE.exists()), reason="the Serverless Workflow corpora are not here: set HOLDFAST_CORPORA"
)

_seeds = itertools.count(1)
LEASE_SECONDS = 1.5
OPTIONS = WorkerOptions(warm_limit=0, retention_days=None, lease_seconds=LEASE_SECONDS, evidence=False)


class Case(NamedTuple):
    """A workflow, what it is started with, and what must come of it."""

    name: str
    text: str
    input: Any
    expect: list[dict[str, Any]]


def kit_cases() -> list[Case]:
    """The scenarios of the conformance kit."""
    if not KIT.exists():
        return []
    found = json.loads((KIT / "cases.json").read_text())
    return [Case(each["scenario"], json.dumps(each["definition"]), each["input"], each["expect"]) for each in found]


def more_cases() -> list[Case]:
    """The runnable workflows of two SDKs."""
    if not MORE.exists():
        return []
    found = json.loads((MORE / "cases.json").read_text())
    return [
        Case(
            f"{each['workflow'].removeprefix('workflows/')} {json.dumps(each['input'])}",
            (MORE / each["workflow"]).read_text(),
            each["input"],
            [each["expect"]],
        )
        for each in found
    ]


@contextmanager
def services() -> Iterator[int]:
    """The kit's stand-in for its two outside services; gives its port."""
    handler = runpy.run_path(str(KIT / "stub.py"))["Handler"]
    handler.disable_nagle_algorithm = True  # else each answer waits 40 ms between its head and its body
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def rewritten(text: str, port: int) -> str:
    """The workflow with its outside services on loopback."""
    here = f"http://127.0.0.1:{port}"
    return text.replace("https://petstore.swagger.io", f"{here}/petstore").replace(
        "https://httpbin.org", f"{here}/httpbin"
    )


class Outcome(NamedTuple):
    """How a run ended: its result, or its error as problem details."""

    status: str
    value: Any


class _Clock:
    """The machine's clock, which can be put forward: the leases of the dead end at once."""

    def __init__(self) -> None:
        self._ahead = 0

    def now(self) -> int:
        return time.time_ns() // 1000 + self._ahead

    def skip(self, seconds: float) -> None:
        self._ahead += round(seconds * 1e6)


class _MortalStore(Line):
    """A line to a store that dies before or after its commit of that number."""

    def __init__(self, store: p.Store, dies_at: int | None, *, after: bool) -> None:
        super().__init__(store)
        self._dies_at = dies_at
        self._after = after
        self.commits = 0
        self.died = asyncio.Event()

    async def commit(self, batch: Any) -> Any:
        await self._pass()
        self.commits += 1
        is_last = self.commits == self._dies_at
        if is_last and not self._after:
            self._die()
        await self._pass()
        answer = await self._store.commit(batch)
        if is_last:
            self._die()
        await self._pass()
        return answer

    def _die(self) -> None:
        self.dead = True
        self.died.set()


async def _engine(store: _MortalStore, clock: _Clock, document: Any, input: Any) -> tuple[Holdfast, RunHandle[Any]]:
    app = Holdfast(
        store,  # type: ignore[arg-type]  # every operation is forwarded by name
        clock=clock,
        entropy=random.Random(next(_seeds)),  # workers must not be called the same
        pulse=LoopPulse,
        options=OPTIONS,
        policy=FREE,
    )
    name = app.definitions.add(document).definition.name
    await app.open()
    return app, await app.start(name, {} if input is None else input, id="case")


async def _lived(store: _MortalStore, clock: _Clock, document: Any, input: Any) -> Outcome:
    app, run = await _engine(store, clock, document, input)
    try:
        return Outcome("complete", await run.result())
    except RunFailed as error:
        failure = cast("Failure", error.failure)
        return Outcome("fault", error_members(failure).get("details") or str(failure))
    finally:
        if not store.died.is_set():
            await app.close(0)


async def play(document: Any, input: Any, dies_at: int | None = None, *, after: bool = False) -> tuple[Outcome, int]:
    """How a run ends whose engine dies around one commit and is followed by another; and the commits of the first."""
    clock = _Clock()
    memory = MemoryStore(clock.now)
    await memory.open()
    store = _MortalStore(memory, dies_at, after=after)
    life = asyncio.ensure_future(_lived(store, clock, document, input))
    death = asyncio.ensure_future(store.died.wait())
    try:
        await asyncio.wait({life, death}, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        if life.done():
            return life.result(), store.commits
        assert store.died.is_set(), "it neither ended nor died within a minute"
        clock.skip(10 * LEASE_SECONDS)
        heir = _MortalStore(memory, None, after=False)
        async with asyncio.timeout(60):
            return await _lived(heir, clock, document, input), store.commits
    finally:
        await _bury()


async def _bury() -> None:
    """Take away what a killed engine was doing, and whatever that begins when it is taken away."""
    for _ in range(100):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1)


def document_of(case: Case, port: int) -> Any:
    """The case's workflow as a definition."""
    return from_serverless(rewritten(case.text, port))


def _at(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value[name]
    return value


def _has(value: Any, path: str) -> bool:
    try:
        _at(value, path)
    except (KeyError, TypeError):
        return False
    return True


def judge(case: Case, outcome: Outcome, ran: list[str]) -> None:
    """Compare what came of a case with all that it expects; ``ran`` are the tasks in the order in which they began."""
    for expect in case.expect:
        for word, wanted in expect.items():
            match word:
                case "workflow":
                    assert outcome.status == wanted, outcome
                case "output":
                    assert outcome == Outcome("complete", wanted)
                case "output_items":
                    assert len(_at(outcome.value, wanted[0])) == wanted[1]
                case "output_has":
                    assert [path for path in wanted if not _has(outcome.value, path)] == []
                case "output_value":
                    assert _at(outcome.value, wanted[0]) == wanted[1]
                case "output_value_in":
                    assert _at(outcome.value, wanted[0]) in wanted[1]
                case "error":
                    assert outcome.status == "fault", outcome
                    assert {name: outcome.value.get(name) for name in wanted} == wanted
                case "task":
                    _judge_order(wanted, expect, ran)
                case "ran" | "other":
                    pass
                case _:
                    raise AssertionError(f"nobody knows how to judge {word!r}")


def _judge_order(task: str, expect: dict[str, Any], ran: list[str]) -> None:
    match expect["ran"]:
        case "first":
            assert ran[0] == task
        case "last":
            assert ran[-1] == task
        case "after":
            assert ran.index(task) > ran.index(expect["other"])
        case other:
            raise AssertionError(f"nobody knows how to judge {other!r}")
