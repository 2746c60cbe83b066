"""Traces: one span for each thing that happens, in the trace of whoever started the run, and nothing of its values."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased

from holdfast import Holdfast, RetryPolicy, RunFailed, SyncHoldfast, TerminalError, action, spawn, step, workflow
from holdfast.runs.tracing import TRACEPARENT, TraceContext, outgoing, receive_trace
from holdfast.server import Operator, Server
from tests.serving import person, served
from tests.unit.transports.governed import calling
from tests.unit.transports.server import Server as OtherSide
from tests.unit.transports.server import data
from tests.unit.worker.ground import FREE, Ground, asked, asking, kill, policy_of

SECRET = "s3cret-4711"
GATES: dict[str, asyncio.Event] = {}
GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@step(name="traced.add")
async def add(number: int) -> int:
    return number + 1


@step(name="traced.queued", queue="traced")
def queued(word: str) -> str:
    return word


@step(name="traced.fail")
async def fail(word: str) -> str:
    raise TerminalError(f"no {word}")


@step(name="traced.flaky", retry=RetryPolicy(max_attempts=2, initial=0.001))
async def flaky(tries: list[int]) -> int:
    if not GATES.pop("failed", None):
        GATES["failed"] = asyncio.Event()
        raise ConnectionError("gone")
    return 1


@step(name="traced.hold")
async def hold() -> int:
    GATES["begun"].set()
    await GATES["open"].wait()
    return 1


@action(connector="bank", operation="pay", name="traced.pay")
async def pay(account: str) -> str:
    return account


@workflow(name="traced.child")
async def child(number: int) -> int:
    return await add(number)


@workflow(name="traced.parent")
async def parent(word: str) -> int:
    await queued(word)
    await spawn(child, 7, id="beside")
    return await child(await add(1))


@workflow(name="traced.failing")
async def failing(word: str) -> str:
    return await fail(word)


@workflow(name="traced.trying")
async def trying() -> int:
    return await flaky([])


@workflow(name="traced.paying")
async def paying(account: str) -> str:
    return await pay(account)


@workflow(name="traced.held")
async def held() -> int:
    return await add(1) + await hold() + await add(2)


FLOWS = (parent, child, failing, trying, paying, held, calling)


class Seen:
    """A provider, and the spans that were made by it."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler)
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._memory.get_finished_spans())

    def named(self, name: str) -> ReadableSpan:
        (found,) = (each for each in self.spans if each.name == name)
        return found

    @property
    def names(self) -> list[str]:
        return sorted(each.name for each in self.spans)

    @contextmanager
    def inside(self, name: str) -> Iterator[str]:
        """Code that belongs to a span of the application's own; gives its context."""
        with self.provider.get_tracer("application").start_as_current_span(name) as span:
            context = span.get_span_context()
            yield f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags.sampled):02x}"


def engine(seen: Seen, **more: Any) -> Holdfast:
    return Holdfast("memory://", workflows=FLOWS, tracing=seen.provider, **more)


def parent_id(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


def trace_id(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.trace_id


def test_a_run_its_steps_and_its_children_are_below_the_span_that_started_it() -> None:
    """Steps on queues and detached runs, too: all of them know the trace from what is stored."""
    seen = Seen()

    async def main() -> None:
        async with engine(seen) as app:
            with seen.inside("request") as context:
                run = await app.start(parent, "w", id="one", attributes={"city": "Ur"})
            assert await run.result() == 3
            await app.run("beside").result()
            row = (await run.info()).attributes
            assert row == {"city": "Ur", TRACEPARENT: context}

    asyncio.run(main())
    request, run = seen.named("request"), seen.named("run traced.parent")
    assert {trace_id(each) for each in seen.spans} == {trace_id(request)}
    assert parent_id(run) == id_of(request)
    assert parent_id(seen.named("step traced.queued")) == id_of(run)
    children = [each for each in seen.spans if each.name == "run traced.child"]
    assert [parent_id(each) for each in children] == [id_of(run)] * 2
    steps = [each for each in seen.spans if each.name == "step traced.add"]
    assert sorted(map(str, map(parent_id, steps))) == sorted(map(str, (id_of(run), *map(id_of, children))))
    assert run.start_time is not None
    assert run.end_time is not None
    assert all(each.end_time <= run.end_time for each in steps if each.end_time and parent_id(each) == id_of(run))


def test_a_run_that_is_started_outside_of_any_trace_has_its_own_and_its_children_share_it() -> None:
    """Its id follows from the run's, so any process that takes the run over knows it."""
    seen = Seen()

    async def main() -> None:
        async with engine(seen) as app:
            assert await (await app.start(parent, "w", id="one")).result() == 3
            await app.run("beside").result()
            assert TRACEPARENT not in (await app.run("one").info()).attributes

    asyncio.run(main())
    run = seen.named("run traced.parent")
    assert run.parent is None
    inside = [each for each in seen.spans if each.attributes and each.attributes["holdfast.run"] != "beside"]
    assert {trace_id(each) for each in inside} == {trace_id(run)}
    (one,) = (each for each in inside if each.name == "run traced.child")
    assert parent_id(one) == id_of(run)


def test_no_span_has_a_value_and_an_error_is_its_type_its_code_and_its_class() -> None:
    """Arguments, results and messages stay in the journal, where secrets are masked and readers are judged."""
    seen = Seen()

    async def main() -> None:
        async with engine(seen, policy=FREE) as app:
            with pytest.raises(RunFailed):
                await (await app.start(failing, SECRET, id="one")).result()
            await (await app.start(paying, SECRET, id="two")).result()

    asyncio.run(main())
    assert len(seen.spans) == 4
    assert not any(SECRET in each.to_json() for each in seen.spans)
    for name in ("step traced.fail", "run traced.failing"):
        span = seen.named(name)
        assert span.status.status_code.name == "ERROR"
        assert span.status.description is None
        assert not span.events
        assert span.attributes is not None
        assert span.attributes["error.type"] == "holdfast.errors.TerminalError"
        assert span.attributes["holdfast.error.code"] == "terminal"
    paid = seen.named("action traced.pay")
    assert paid.attributes is not None
    assert paid.attributes["holdfast.gate.decision"] == "allowed"
    assert (paid.attributes["holdfast.connector"], paid.attributes["holdfast.operation"]) == ("bank", "pay")


def test_an_action_shows_what_the_gate_decided() -> None:
    """Approved by a person, or refused: then no attempt is made, and a span without a length says so."""
    seen = Seen()

    async def main() -> None:
        async with engine(seen, policy=asking(when='action.fields.account == "a"')) as app:
            run = await app.start(paying, "a", id="one")
            task = await asked(app, "one")
            await app.tasks.approve(task.id, by="bob")
            await run.result()
            with pytest.raises(RunFailed):
                await (await app.start(paying, "b", id="two")).result()

    asyncio.run(main())
    spans = [each for each in seen.spans if each.name == "action traced.pay"]
    facts = {str((each.attributes or {})["holdfast.run"]): each for each in spans}
    assert (facts["one"].attributes or {})["holdfast.gate.decision"] == "approved"
    refused = facts["two"]
    assert (refused.attributes or {})["holdfast.gate.decision"] == "refused"
    assert (refused.attributes or {})["error.type"] == "holdfast.errors.ActionDenied"
    assert refused.start_time == refused.end_time


def test_each_attempt_is_a_span_of_its_own() -> None:
    seen = Seen()

    async def main() -> None:
        GATES.clear()
        async with engine(seen) as app:
            assert await (await app.start(trying, id="one")).result() == 1

    asyncio.run(main())
    tries = [each for each in seen.spans if each.name == "step traced.flaky"]
    assert [(each.attributes or {})["holdfast.attempt"] for each in tries] == [1, 2]
    assert len({id_of(each) for each in tries}) == 2
    assert [each.status.status_code.name for each in tries] == ["ERROR", "UNSET"]


def test_a_run_that_is_taken_over_makes_no_span_again_and_keeps_its_trace() -> None:
    """What the lost worker did is rebuilt from the journal, and nothing is emitted for that. The attempt that it began
    has the same id wherever it ends."""
    first, second = Seen(), Seen()

    async def main(ground: Ground) -> list[str]:
        GATES.update(begun=asyncio.Event(), open=asyncio.Event())
        async with ground.engine(*FLOWS, tracing=first.provider) as lost:
            await lost.start(held, id="one", attributes={TRACEPARENT: GIVEN})
            await GATES["begun"].wait()
            kill(lost)
            GATES.update(begun=asyncio.Event(), open=asyncio.Event())
            async with ground.engine(*FLOWS, tracing=second.provider) as app:
                await GATES["begun"].wait()
                GATES["open"].set()
                assert await app.run("one").result() == 6
                return first.names

    assert Ground(None).play(main) == ["step traced.add"]
    assert second.names == ["run traced.held", "step traced.add", "step traced.hold"]
    taken = second.named("step traced.hold")
    assert (taken.attributes or {})["holdfast.begun_before"] is True
    assert {f"{trace_id(each):032x}" for each in (*first.spans, *second.spans)} == {GIVEN.split("-")[1]}
    assert parent_id(first.spans[0]) == parent_id(taken) == id_of(second.named("run traced.held"))


def test_a_retried_run_ends_again_below_its_first_end() -> None:
    seen = Seen()

    async def main() -> None:
        async with engine(seen) as app:
            run = await app.start(failing, "x", id="one")
            with pytest.raises(RunFailed):
                await run.result()
            await run.retry()
            with pytest.raises(RunFailed):
                await run.result()

    asyncio.run(main())
    first, again = (each for each in seen.spans if each.name == "run traced.failing")
    assert first.parent is None
    assert parent_id(again) == id_of(first)
    assert len({id_of(each) for each in seen.spans}) == len(seen.spans)


def test_a_call_by_http_or_graphql_carries_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The header names the span of the attempt. A header of the call's own has precedence."""
    seen = Seen()
    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "127.0.0.1")
    other = OtherSide()
    other.behaviour = lambda _: data({"data": {}})

    async def main() -> None:
        async with engine(seen, policy=policy_of({})) as app:
            await (await app.start(calling, {"get": f"{other.url}/a"}, id="one")).result()
            request = {"endpoint": f"{other.url}/g", "query": "{ a }"}
            await (await app.start(calling, request, "graphql", id="two")).result()
            own = {"get": f"{other.url}/b", "headers": {"Traceparent": GIVEN}}
            await (await app.start(calling, own, id="three")).result()
        async with Holdfast("memory://", workflows=FLOWS, policy=policy_of({})) as untraced:
            await (await untraced.start(calling, {"get": f"{other.url}/a"}, id="four")).result()

    try:
        asyncio.run(main())
    finally:
        other.close()
    sent = [{name.lower(): value for name, value in each.headers.items()}.get(TRACEPARENT) for each in other.seen]
    spans = [each for each in seen.spans if each.name.startswith("action ")]
    expected = [f"00-{trace_id(each):032x}-{id_of(each):016x}-01" for each in spans[:2]]
    assert sent == [*expected, GIVEN, None]


def test_a_start_by_http_belongs_to_the_trace_of_its_request_and_no_other_run_does() -> None:
    """With or without tracing in the server: workers elsewhere may trace. What is no context is passed over."""

    async def main() -> None:
        async with Holdfast("memory://", workflows=FLOWS) as app:
            operator = Operator(app, "root")
            server = Server(app, authenticators=[operator])
            async with served(app, server=server) as address, person(address, operator.key) as client:
                for id, header in (("one", GIVEN), ("two", "00-zz"), ("three", None)):
                    headers = {} if header is None else {TRACEPARENT: header}
                    body = {"workflow": "traced.child", "args": [1], "id": id}
                    answer = await client.post("/v1/runs", json=body, headers=headers)
                    assert answer.status_code == 201, answer.text
            found = {id: (await app.run(id).info()).attributes for id in ("one", "two", "three")}
            assert found == {"one": {TRACEPARENT: GIVEN}, "two": {}, "three": {}}
            receive_trace(GIVEN)
            await asyncio.create_task(app.start(child, 1, id="four"))  # inherits the variable, and is another task
            assert (await app.run("four").info()).attributes == {}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (GIVEN, True),
        (GIVEN[:-2] + "00", True),
        ("cc" + GIVEN[2:] + "-more", True),
        (GIVEN + "-more", False),
        ("ff" + GIVEN[2:], False),
        (GIVEN.upper(), False),
        ("00-" + "0" * 32 + GIVEN[35:], False),
        (GIVEN[:36] + "0" * 16 + "-01", False),
        (GIVEN + "\n", False),
        ("", False),
    ],
)
def test_a_context_is_read_as_the_standard_says(text: str, is_one: bool) -> None:
    """What a later version adds is passed over; what is wrong is as if it were not there."""
    found = TraceContext.parse(text)
    assert (found is not None) is is_one
    if found is not None:
        assert str(found)[3:] == text[3:55]


def test_whether_a_trace_is_kept_is_decided_once() -> None:
    """By whoever began it, or by the sampler for a run that began it: never by each span for itself."""
    off, half = Seen(ParentBased(ALWAYS_OFF)), Seen(ParentBased(TraceIdRatioBased(0.5)))

    async def main() -> None:
        async with engine(off) as app:
            await (await app.start(child, 1, id="one")).result()
            kept = {TRACEPARENT: GIVEN}
            await (await app.start(child, 1, id="two", attributes=kept)).result()
        async with engine(half) as app:
            for number in range(12):
                await (await app.start(child, 1, id=f"run-{number}")).result()
            dropped = {TRACEPARENT: GIVEN[:-2] + "00"}
            await (await app.start(child, 1, id="dropped", attributes=dropped)).result()

    asyncio.run(main())
    assert off.names == ["run traced.child", "step traced.add"]
    assert {f"{trace_id(each):032x}" for each in off.spans} == {GIVEN.split("-")[1]}
    runs = {trace_id(each) for each in half.spans if each.name.startswith("run")}
    steps = {trace_id(each) for each in half.spans if each.name.startswith("step")}
    assert runs == steps
    assert 0 < len(runs) < 12


def test_spans_of_a_step_are_below_it_in_its_thread_too() -> None:
    """The step's code has its span as the current one."""
    seen = Seen()

    @step(name="traced.inner")
    def inner() -> int:
        with seen.inside("inner"):
            return 1

    @workflow(name="traced.around")
    async def around() -> int:
        return await inner() + await add(1)

    with SyncHoldfast("memory://", workflows=[around], tracing=seen.provider) as app, seen.inside("request"):
        assert app.start(around, id="one").result() == 3
    assert parent_id(seen.named("inner")) == id_of(seen.named("step traced.inner"))
    assert parent_id(seen.named("step traced.add")) == id_of(seen.named("run traced.around"))
    assert parent_id(seen.named("run traced.around")) == id_of(seen.named("request"))


class Bystander:
    """Observes the engine, and what the current span is then."""

    def __init__(self) -> None:
        self.spans: list[bool] = []
        self.headers: list[str | None] = []

    def step_ended(self, step: str, outcome: str, seconds: float) -> None:
        self.spans.append(otel.get_current_span().get_span_context().is_valid)
        self.headers.append(outgoing.get())

    def run_ended(self, workflow: str, outcome: str, seconds: float) -> None: ...
    def committed(self, changes: int) -> None: ...


def test_what_the_engine_does_after_a_step_is_in_no_span() -> None:
    """Else everything that it begins then would be below that step, for ever."""
    bystander = Bystander()

    async def main() -> None:
        app = engine(Seen())
        app.observation.observer = bystander
        async with app:
            await (await app.start(child, 1)).result()

    asyncio.run(main())
    assert (bystander.spans, bystander.headers) == ([False], [None])


class Broken(SpanProcessor):
    """A processor of the application's own, with a fault."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name in ("step traced.add", "action traced.pay"):
            raise ValueError("no room")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("gone")


def test_a_provider_that_fails_harms_no_run(caplog: pytest.LogCaptureFixture) -> None:
    """Neither at a start, nor at an attempt, a refusal or an end; each kind of failure is logged once."""
    broken = TracerProvider()
    broken.add_span_processor(Broken())

    async def main() -> None:
        async with Holdfast("memory://", workflows=FLOWS, tracing=broken) as app:
            assert await (await app.start(parent, "w", id="one")).result() == 3
            with pytest.raises(RunFailed):
                await (await app.start(paying, "b", id="two")).result()

    with caplog.at_level(logging.WARNING, "holdfast.tracing"):
        asyncio.run(main())
    said = [record.getMessage() for record in caplog.records if record.name == "holdfast.tracing"]
    assert 0 < len(said) <= 4
    assert all(line.startswith("nothing is traced here") for line in said)


WITHOUT = """
import asyncio, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
from holdfast import Holdfast, step, workflow
from holdfast.errors import ExtraMissing

@step
async def double(number: int) -> int:
    return 2 * number

@workflow
async def flow(number: int) -> int:
    return await double(number)

async def main() -> None:
    async with Holdfast("memory://") as app:
        print(await (await app.start(flow, 21)).result())
    try:
        Holdfast("memory://", tracing=True)
    except ExtraMissing as error:
        print(error)

asyncio.run(main())
"""


def test_without_the_library_everything_runs_and_tracing_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, env=dict(os.environ)
    )
    assert done.stdout.splitlines() == ["42", "traces need OpenTelemetry: pip install 'holdfast[otel]'."], done.stderr
