"""Acts of which nobody knows whether they were done: repeated where that is safe, looked up where they can be, and
else a matter for people."""

from __future__ import annotations

import asyncio
import logging
import urllib.error
from collections.abc import Callable, Coroutine
from email.message import Message
from types import SimpleNamespace
from typing import Any

import cbor2
import pytest

from holdfast import (
    ApprovalRejected,
    DidNotHappen,
    Happened,
    Holdfast,
    OutcomeUnknown,
    RetryPolicy,
    RunFailed,
    TerminalError,
    action,
    step_info,
    workflow,
)
from holdfast.audit import records as r
from holdfast.errors import InvalidRequest, TaskClosed, TaskForbidden
from holdfast.programs.function.decorators import Workflow
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground, asked, asking, kill, notes, policy_of, receipts, rested, until

DONE: list[str] = []
"""What was done outside, and by which attempt."""

DEADLY: list[Callable[[], None]] = []
"""What the next act does after it was done, and before its worker can say so."""

LOOKS: list[Any] = []
"""What the next probes say, or raise."""


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    DEADLY.clear()
    LOOKS.clear()


async def act(order: str) -> str:
    DONE.append(order)
    if DEADLY:
        DEADLY.pop(0)()
        await asyncio.get_running_loop().create_future()  # it is dead
    return f"{order} #{len(DONE)}"


async def look(order: str) -> Happened | DidNotHappen:
    said = LOOKS.pop(0)
    if isinstance(said, Exception):
        raise said
    return said  # type: ignore[no-any-return]


COMMON: dict[str, Any] = {"connector": "crm", "operation": "create", "target": "order {order}"}


@action(**COMMON, name="unknown.plain")
async def plain(order: str) -> str:
    return await act(order)


@action(**COMMON, safe_to_retry=True, name="unknown.safe")
async def safe(order: str) -> str:
    return await act(order)


@action(**COMMON, writes=False, name="unknown.reads")
async def reads(order: str) -> str:
    return await act(order)


@action(**COMMON, probe=look, name="unknown.probed")
async def probed(order: str) -> str:
    return await act(order)


def flow_of(definition: Any) -> Workflow[..., str]:
    @workflow(name="unknown.flow")
    async def flow(order: str) -> str:
        try:
            return await definition(order)  # type: ignore[no-any-return]
        except ApprovalRejected as error:
            return f"given up: {error}"

    return flow


async def killed_after_acting(ground: Ground, flow: Workflow[..., str]) -> None:
    """A worker dies after its act and before the receipt."""
    async with ground.engine(flow) as app:
        DEADLY.append(lambda: kill(app))
        await app.start(flow, "o-1", id="one", actor="ann")
        await until(app, lambda: len(DONE) == 1)


def taken_over(
    ground: Ground, definition: Any, then: Callable[[Holdfast], Coroutine[Any, Any, Any]] | None = None
) -> str:
    """What the run gives after another worker took it over, where ``then`` answers what it asks."""
    flow = flow_of(definition)

    async def main(ground: Ground) -> str:
        await killed_after_acting(ground, flow)
        async with ground.engine(flow) as app:
            if then is not None:
                await then(app)
            result: str = await app.run("one").result(30)
            return result

    return ground.play(main)


# -- people ------------------------------------------------------------------------------------------------------------


def test_people_are_asked_what_became_of_it_and_shown_what_is_known(ground: Ground) -> None:
    """It is not repeated; its receipt says unknown, and the question shows the act and who had begun it."""

    async def then(app: Holdfast) -> None:
        task = await asked(app, "one")
        details = cbor2.loads(task.details)
        assert (task.kind, details["action"], details["target"]) == ("outcome", "unknown.plain", "order o-1")
        assert "attempt 1 was begun at" in details["begun"]
        (row,) = await receipts(app)
        assert (row.state, row.id) == ("unknown", details["receipt"])
        assert "what became of unknown.plain" in await app.run("one").explain()
        with pytest.raises(InvalidRequest, match="'happened' or 'did not happen'"):
            await app.tasks.approve(task.id, by="bob")
        await app.tasks.happened(task.id, by="bob", result="o-1 as bob saw it", reason="it is in the list")
        with pytest.raises(TaskClosed):
            await app.tasks.did_not_happen(task.id, by="cid")

    assert taken_over(ground, plain, then) == "o-1 as bob saw it"
    assert DONE == ["o-1"]


def test_the_word_that_it_happened_is_the_result_and_the_receipt_says_whose(ground: Ground) -> None:
    """The receipt has succeeded with that word, and names the task; another run of its key gets the same."""

    async def then(app: Holdfast) -> None:
        task = await asked(app, "one")
        await app.tasks.happened(task.id, by="bob", result="seen")
        await app.run("one").result(30)
        (row,) = await receipts(app)
        assert (row.state, row.task, row.result) == ("succeeded", task.id, cbor2.dumps("seen"))
        assert [each.verdict for each in await notes(app, r.Asked, "one")] == ["requested", "happened"]
        assert [each.state for each in await notes(app, r.Receipted, "one")] == ["unknown", "succeeded"]

    assert taken_over(ground, plain, then) == "seen"


def test_the_word_that_it_did_not_happen_lets_it_be_done(ground: Ground) -> None:
    """It goes through the gate again, and is done by the next attempt."""

    async def then(app: Holdfast) -> None:
        await app.tasks.did_not_happen((await asked(app, "one")).id, by="bob")
        await app.run("one").result(30)
        (row,) = await receipts(app)
        assert row.state == "succeeded"

    assert taken_over(ground, plain, then) == "o-1 #2"
    assert DONE == ["o-1", "o-1"]


def test_giving_it_up_fails_the_call_and_leaves_the_receipt_unknown(ground: Ground) -> None:
    """Nobody knows, and the record does not pretend that anybody does."""

    async def then(app: Holdfast) -> None:
        await app.tasks.give_up((await asked(app, "one")).id, by="bob", reason="the bank is closed")
        await app.run("one").result(30)
        (row,) = await receipts(app)
        assert row.state == "unknown"

    said = taken_over(ground, plain, then)
    assert "given up" in said
    assert "the bank is closed" in said
    assert DONE == ["o-1"]


def test_an_act_whose_outcome_was_left_open_is_asked_about_when_its_run_is_retried(virtual: Ground) -> None:
    """Retrying a run must not repeat what may have been done."""

    @workflow(name="unknown.bare")
    async def bare(order: str) -> str:
        return await plain(order)

    async def main(ground: Ground) -> str:
        await killed_after_acting(ground, bare)
        async with ground.engine(bare) as app:
            first = await asked(app, "one")
            await app.tasks.give_up(first.id, by="bob")
            with pytest.raises(RunFailed, match="bob gave it up"):
                await app.run("one").result(30)
            await app.run("one").retry(by="ann")
            second = await asked(app, "one")
            assert (second.kind, second.id == first.id) == ("outcome", False)
            await app.tasks.happened(second.id, by="cid", result="it was there")
            result: str = await app.run("one").result(30)
            return result

    assert virtual.play(main) == "it was there"
    assert DONE == ["o-1"]


def test_a_denial_does_not_hide_an_act_that_may_have_been_done(ground: Ground) -> None:
    """Taken over under a policy that denies it by now, the first question is still what became of it."""
    flow = flow_of(plain)

    async def main(ground: Ground) -> str:
        await killed_after_acting(ground, flow)
        async with ground.engine(flow, policy=policy_of({"effect": "deny"})) as app:
            await app.tasks.happened((await asked(app, "one")).id, by="bob", result="seen")
            result: str = await app.run("one").result(30)
            return result

    assert ground.play(main) == "seen"


def test_a_question_outlives_every_worker(virtual: Ground) -> None:
    """It is asked once, however many engines come and go before somebody answers."""
    flow = flow_of(plain)

    async def main(ground: Ground) -> str:
        await killed_after_acting(ground, flow)
        ids = set()
        for _ in range(3):
            async with ground.engine(flow) as app:
                ids.add((await asked(app, "one")).id)
                await rested(app, "one")
                await app.run("one").signal("wake up")
                await rested(app, "one")
        (id,) = ids
        async with ground.engine(flow) as app:
            await app.tasks.happened(id, by="bob", result="seen")
            result: str = await app.run("one").result()
            return result

    assert virtual.play(main) == "seen"
    assert DONE == ["o-1"]


def test_an_approved_act_of_unknown_outcome_needs_no_second_approval(virtual: Ground) -> None:
    """The approval was over exactly this proposal, and it was not used up: nothing was done."""
    flow = flow_of(plain)

    async def main(ground: Ground) -> None:
        async with ground.engine(flow, policy=asking()) as app:
            DEADLY.append(lambda: kill(app))
            await app.start(flow, "o-1", id="one")
            task = await asked(app, "one")
            await app.tasks.approve(task.id, by="bob")
            await until(app, lambda: len(DONE) == 1)
        async with ground.engine(flow, policy=asking()) as app:
            question = await asked(app, "one")
            assert question.kind == "outcome"
            await app.tasks.did_not_happen(question.id, by="bob")
            await app.run("one").result()
            (row,) = await receipts(app)
            assert row.task == task.id

    virtual.play(main)
    assert DONE == ["o-1", "o-1"]


def test_whoever_may_approve_it_says_what_became_of_it(virtual: Ground) -> None:
    """Their word may have it done once more, so it is not for everybody, nor for whoever started the run."""
    flow = flow_of(plain)
    policy = asking("high", candidates=["ann", "bob"])

    async def main(ground: Ground) -> None:
        async with ground.engine(flow, policy=policy) as app:
            DEADLY.append(lambda: kill(app))
            await app.start(flow, "o-1", id="one", actor="ann")
            await app.tasks.approve((await asked(app, "one")).id, by="bob")
            await until(app, lambda: len(DONE) == 1)
        async with ground.engine(flow, policy=policy) as app:
            question = await asked(app, "one")
            assert (question.kind, question.tier, question.candidates) == ("outcome", "high", ("ann", "bob"))
            for who in ("ann", "eve"):
                with pytest.raises(TaskForbidden):
                    await app.tasks.did_not_happen(question.id, by=who)
                with pytest.raises(TaskForbidden):
                    await app.tasks.happened(question.id, by=who)
            await app.tasks.happened(question.id, by="bob", result="seen")
            assert await app.run("one").result() == "seen"

    virtual.play(main)


def test_a_result_that_it_cannot_have_given_is_asked_for_again(ground: Ground) -> None:
    """With it the workflow could never go on; the next question says what was wrong."""

    async def then(app: Holdfast) -> None:
        first = await asked(app, "one")
        await app.tasks.happened(first.id, by="bob", result={"not": "a text"})
        second = await asked(app, "one", other_than=first.id)
        known = cbor2.loads(second.details)["known"]
        assert known.startswith("bob said that it happened, with a result that it cannot have given: Expected `str`")
        await app.tasks.happened(second.id, by="bob", result="seen")

    assert taken_over(ground, plain, then) == "seen"
    assert DONE == ["o-1"]


class Euros:
    """A type of the author's own, which refuses values in its own way."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    @classmethod
    def model_validate(cls, data: object) -> Euros:
        return cls({"one": 1}[str(data)])

    def model_dump(self, mode: str) -> str:
        return "one"


@action(**COMMON, probe=look, name="unknown.euros")
async def euros(order: str) -> Euros:
    DONE.append(order)
    if len(DONE) == 1:
        raise OutcomeUnknown("no answer")
    return Euros(1)


@workflow(name="unknown.paying")
async def paying_euros() -> int:
    return (await euros("o-1")).cents


def test_a_result_that_the_authors_own_type_refuses_is_asked_for_again_too(
    virtual: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """From a probe, and from a person; whatever it raises."""
    LOOKS.append(Happened("many"))

    async def main(ground: Ground) -> int:
        async with ground.engine(paying_euros) as app:
            run = await app.start(paying_euros, id="one")
            first = await asked(app, "one")
            await app.tasks.happened(first.id, by="bob", result="many")
            second = await asked(app, "one", other_than=first.id)
            await app.tasks.happened(second.id, by="bob", result="one")
            return await run.result()

    with caplog.at_level(logging.WARNING, "holdfast.gate"):
        assert virtual.play(main) == 1
    assert "what the probe of unknown.euros found cannot be read: 'many'" in caplog.text


# -- what is safe, and probes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", [safe, reads], ids=["safe_to_retry", "reading"])
def test_what_is_safe_to_repeat_is_repeated(ground: Ground, definition: Any) -> None:
    """Nobody is asked."""

    async def then(app: Holdfast) -> None:
        await app.run("one").result(30)
        assert [each async for each in app.tasks.list(status=None)] == []
        # That it was begun twice is on the record.
        assert [each.state for each in await notes(app, r.Receipted, "one")] == ["unknown", "succeeded"]
        assert (await app.run("one").info()).writes == int(definition.writes)

    assert taken_over(ground, definition, then) == "o-1 #2"
    assert DONE == ["o-1", "o-1"]


def test_a_probe_that_found_it_done_gives_its_result(ground: Ground) -> None:
    """It is not repeated, and nobody is asked."""
    LOOKS.append(Happened("found"))

    async def then(app: Holdfast) -> None:
        await app.run("one").result(30)
        assert [each async for each in app.tasks.list(status=None)] == []
        (row,) = await receipts(app)
        assert (row.state, row.result) == ("succeeded", cbor2.dumps("found"))

    assert taken_over(ground, probed, then) == "found"
    assert DONE == ["o-1"]


def test_a_probe_that_found_nothing_lets_it_be_done(ground: Ground) -> None:
    """The probe's word is enough: nobody is asked."""
    LOOKS.append(DidNotHappen())

    async def then(app: Holdfast) -> None:
        await app.run("one").result(30)
        assert [each async for each in app.tasks.list(status=None)] == []
        assert [each.state for each in await notes(app, r.Receipted, "one")] == ["failed", "succeeded"]
        assert (await app.run("one").info()).writes == 1  # all attempts of a call are one

    assert taken_over(ground, probed, then) == "o-1 #2"
    assert DONE == ["o-1", "o-1"]


@pytest.mark.parametrize("said", [ConnectionError("nobody answers"), "perhaps", None], ids=str)
def test_a_probe_that_cannot_tell_leaves_it_to_people(
    ground: Ground, said: object, caplog: pytest.LogCaptureFixture
) -> None:
    """An error, or an answer that is none: the act is not repeated."""
    LOOKS.append(said)

    async def then(app: Holdfast) -> None:
        task = await asked(app, "one")
        assert task.kind == "outcome"
        await app.tasks.happened(task.id, by="bob", result="seen")

    with caplog.at_level(logging.WARNING, "holdfast.gate"):
        assert taken_over(ground, probed, then) == "seen"
    assert "the probe of unknown.probed could not tell" in caplog.text
    assert DONE == ["o-1"]


# -- acts that cannot tell themselves ----------------------------------------------------------------------------------


class ReadTimeout(Exception):
    """As the HTTP libraries call it."""


class Answered(Exception):
    """An HTTP library's error: httpx and requests tell the status in the response, others in a field of their own."""

    def __init__(self, status: int, field: str = "response") -> None:
        super().__init__(f"status {status} by {field}")
        setattr(self, field, SimpleNamespace(status_code=status, headers={}) if field == "response" else status)


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


SILENT = [OutcomeUnknown("no answer"), TimeoutError("slow"), ConnectionResetError("cut"), ReadTimeout("late")]
OPEN = [
    *(Answered(status) for status in (408, 500, 501, 502, 503, 504, 520)),
    Answered(502, "status"),
    Answered(504, "code"),
    urllib.error.HTTPError("http://desk", 503, "busy", Message(), None),
    caused(ValueError("wrapped"), Answered(500)),
    caused(TerminalError("in trouble"), ConnectionResetError("cut")),
    caused(TerminalError("in trouble"), Answered(504)),
]
"""What leaves open whether something was written."""
CLEAR = [
    *(Answered(status) for status in (400, 404, 409, 429)),
    Answered(429, "status"),
    Answered(422, "code"),
    TerminalError("no"),
    caused(TerminalError("no"), Answered(409)),
]
"""What says that nothing was."""


@pytest.mark.parametrize("error", [*SILENT, *OPEN], ids=repr)
def test_an_act_that_cannot_tell_is_asked_about_and_not_retried(virtual: Ground, error: Exception) -> None:
    """Whatever its retry policy: what was sent may have arrived."""

    @action(**COMMON, retry=RetryPolicy(max_attempts=5, initial=1), name="unknown.silent")
    async def silent(order: str) -> str:
        DONE.append(order)
        raise error

    flow = flow_of(silent)

    async def main(ground: Ground) -> str:
        async with ground.engine(flow) as app:
            run = await app.start(flow, "o-1", id="one")
            task = await asked(app, "one")
            assert str(error) in cbor2.loads(task.details)["known"]
            await app.tasks.happened(task.id, by="bob", result="seen")
            return await run.result()

    assert virtual.play(main) == "seen"
    assert DONE == ["o-1"]


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (Answered(503), 3),
        (Answered(503, "status_code"), 3),
        (Answered(502), 1),
        (caused(ValueError("wrapped"), Answered(503)), 1),
        (caused(Answered(503), ReadTimeout("late")), 1),
    ],
    ids=repr,
)
def test_an_action_says_by_which_answers_nothing_was_done(virtual: Ground, error: Exception, tries: int) -> None:
    """G-34a: only if the answer itself has the status. That of a cause may be about another request."""

    @action(**COMMON, not_done=[503], retry=RetryPolicy(max_attempts=3, initial=1), name="unknown.not_done")
    async def refused(order: str) -> str:
        DONE.append(order)
        raise error

    flow = flow_of(refused)

    async def main(ground: Ground) -> str:
        async with ground.engine(flow) as app:
            run = await app.start(flow, "o-1", id="one")
            if tries == 1:
                await app.tasks.happened((await asked(app, "one")).id, by="bob", result="seen")
                return await run.result()
            with pytest.raises(RunFailed):
                await run.result(60)
            return "failed"

    assert virtual.play(main) == ("seen" if tries == 1 else "failed")
    assert len(DONE) == tries


def test_the_time_in_which_people_are_asked_does_not_count_to_the_deadline(virtual: Ground) -> None:
    """G-36a: an approval takes an hour; the retries have their minute after it."""

    policy = RetryPolicy(max_attempts=9, initial=20, jitter=0, deadline=60)

    @action(**COMMON, not_done=[503], retry=policy, name="unknown.late")
    async def late(order: str) -> str:
        DONE.append(order)
        raise Answered(503)

    flow = flow_of(late)

    async def main(ground: Ground) -> None:
        async with ground.engine(flow, policy=asking()) as app:
            run = await app.start(flow, "o-1", id="one", actor="ann")
            task = await asked(app, "one")
            await asyncio.sleep(3600)
            await app.tasks.approve(task.id, by="bob")
            with pytest.raises(RunFailed, match="the deadline of 60 s ended the retries"):
                await run.result(600)

    virtual.play(main)
    assert len(DONE) == 3  # at 0, 20 and 59 s


CUT = caused(TerminalError("no"), ConnectionResetError("cut"))


@pytest.mark.parametrize(
    ("writes", "error"), [*((True, error) for error in CLEAR), (False, Answered(503)), (False, CUT)], ids=repr
)
def test_an_act_that_was_refused_has_failed_and_nobody_is_asked(
    virtual: Ground, writes: bool, error: Exception
) -> None:
    """A limit of how often, an invalid request, and an author's own word: the receipt says failed.

    For one that only reads, any answer is one: whether it was carried out makes no difference.
    """

    @action(**COMMON, writes=writes, name="unknown.refused_for_good")
    async def clear(order: str) -> str:
        raise error

    flow = flow_of(clear)

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(flow) as app:
            with pytest.raises(RunFailed):
                await (await app.start(flow, "o-1", id="one")).result()
            return [each.state for each in await notes(app, r.Receipted)]

    assert virtual.play(main) == ["failed"]


def test_a_person_is_asked_about_a_safe_act_if_no_attempt_is_left(virtual: Ground) -> None:
    """``retries=`` says how often it is tried. Then its probe looks once, and a person decides what became of it."""

    @action(**COMMON, safe_to_retry=True, probe=look, name="unknown.safe_once")
    async def once(order: str) -> str:
        DONE.append(order)
        raise OutcomeUnknown("no answer")

    flow = flow_of(once)

    async def main(ground: Ground) -> list[str]:
        async with ground.engine(flow) as app:
            run = await app.start(flow, "o-1", id="one")
            await app.tasks.give_up((await asked(app, "one")).id, by="ben")
            assert "ben gave it up" in await run.result()
            assert await app.store.orphaned_receipts(9) == []
            return [each.state for each in await notes(app, r.Receipted)]

    assert virtual.play(main) == ["unknown", "unknown"]
    assert DONE == ["o-1"]


def test_a_safe_act_is_looked_for_before_it_is_tried_again(virtual: Ground) -> None:
    """A probe that finds it done spares the second attempt."""
    LOOKS.append(Happened("found"))

    @action(**COMMON, safe_to_retry=True, probe=look, retries=1, name="unknown.safe_probed")
    async def twice(order: str) -> str:
        DONE.append(order)
        raise OutcomeUnknown("no answer")

    flow = flow_of(twice)

    async def main(ground: Ground) -> str:
        async with ground.engine(flow) as app:
            return await (await app.start(flow, "o-1", id="one")).result()

    assert virtual.play(main) == "found"
    assert DONE == ["o-1"]


@pytest.mark.parametrize("error", SILENT, ids=lambda error: type(error).__name__)
def test_a_safe_act_that_cannot_tell_is_retried_as_any_other(virtual: Ground, error: Exception) -> None:
    """As often as its retry policy says, under the same key."""
    keys: set[str] = set()

    @action(**COMMON, safe_to_retry=True, retry=RetryPolicy(max_attempts=3, initial=1), name="unknown.silent_safe")
    async def silent_safe(order: str) -> str:
        DONE.append(order)
        keys.add(step_info().key)
        if len(DONE) < 3:
            raise error
        return "done"

    flow = flow_of(silent_safe)

    async def main(ground: Ground) -> str:
        async with ground.engine(flow) as app:
            result = await (await app.start(flow, "o-1", id="one")).result()
            assert [each.state for each in await notes(app, r.Receipted)] == ["unknown", "unknown", "succeeded"]
            return result

    assert virtual.play(main) == "done"
    assert len(DONE) == 3
    assert len(keys) == 1


def test_a_timeout_leaves_the_outcome_open(virtual: Ground) -> None:
    """What took too long may have been done all the same."""

    @action(**COMMON, timeout=5.0, retries=3, name="unknown.slow")
    async def slow(order: str) -> str:
        DONE.append(order)
        await asyncio.sleep(60)
        return "late"

    flow = flow_of(slow)

    async def main(ground: Ground) -> str:
        async with ground.engine(flow) as app:
            run = await app.start(flow, "o-1", id="one")
            task = await asked(app, "one")
            assert "longer than 5.0 s" in cbor2.loads(task.details)["known"]
            await app.tasks.give_up(task.id, by="bob")
            return await run.result()

    assert "given up" in virtual.play(main)
    assert DONE == ["o-1"]


def test_a_plain_refusal_is_known_and_retried(virtual: Ground) -> None:
    """The counterpart: an error that says no leaves nothing open."""

    @action(**COMMON, retries=1, name="unknown.refused")
    async def refused(order: str) -> str:
        DONE.append(order)
        if len(DONE) == 1:
            raise ValueError("come back later")
        return "done"

    flow = flow_of(refused)

    async def main(ground: Ground) -> str:
        async with ground.engine(flow) as app:
            return await (await app.start(flow, "o-1", id="one")).result()

    assert virtual.play(main) == "done"


# -- acts that outlive their run's worker ------------------------------------------------------------------------------


async def acting(ground: Ground, door: asyncio.Event) -> tuple[Workflow[..., str], asyncio.Event]:
    begun = asyncio.Event()

    @action(**COMMON, name="unknown.long")
    async def long(order: str) -> str:
        DONE.append(order)
        begun.set()
        await door.wait()
        return f"{order} in the end"

    return flow_of(long), begun


def test_an_act_under_way_is_not_cut_off_by_a_cancellation(virtual: Ground) -> None:
    """The run ends at once; the act goes on to its end, and its receipt says what came of it."""

    async def main(ground: Ground) -> p.ReceiptRow:
        door = asyncio.Event()
        flow, begun = await acting(ground, door)
        async with ground.engine(flow) as app:
            run = await app.start(flow, "o-1", id="one")
            await begun.wait()
            await run.cancel("enough")
            await until(app, lambda: app.worker is not None and not app.worker.advancer.held)
            door.set()
            while True:
                (row,) = await receipts(app)
                if row.state == "succeeded":
                    return row
                await app.changed(0.05)

    assert virtual.play(main).result == cbor2.dumps("o-1 in the end")


def test_a_stopping_engine_waits_for_its_acts(virtual: Ground) -> None:
    """Within the grace time an act ends, and its receipt and its run's completion are kept."""

    async def main(ground: Ground) -> str:
        door = asyncio.Event()
        flow, begun = await acting(ground, door)
        async with ground.engine(flow) as app:
            await app.start(flow, "o-1", id="one")
            await begun.wait()
            asyncio.get_running_loop().call_later(1.0, door.set)
            await app.close(30)
            (row,) = await ground.store.receipts(p.ReceiptQuery(), 10)
            assert row.state == "succeeded"
        async with ground.engine(flow) as app:
            result: str = await app.run("one").result()
            return result

    assert virtual.play(main) == "o-1 in the end"
    assert DONE == ["o-1"]


def test_a_late_end_of_an_act_answers_the_question_about_it(virtual: Ground) -> None:
    """A worker that was taken for dead, and was not, says in the end what came of its act: nobody need be asked any
    more, and the run goes on with that."""

    async def main(ground: Ground) -> str:
        door = asyncio.Event()
        flow, begun = await acting(ground, door)
        async with ground.engine(flow) as first, ground.engine(flow) as second:
            await first.start(flow, "o-1", id="one")
            await begun.wait()
            assert first.worker is not None
            await first.worker._pulse.stop()  # its heart stands still, and it goes on acting
            await asked(second, "one")
            door.set()
            result: str = await second.run("one").result(600)
            assert [each async for each in second.tasks.list()] == []
            return result

    assert virtual.play(main) == "o-1 in the end"
    assert DONE == ["o-1"]


SAW: list[bool] = []


@action(**COMMON, name="unknown.looks", safe_to_retry=True)
async def looks(order: str) -> str:
    SAW.append(step_info().begun_before)
    return await act(order)


@workflow(name="unknown.run_looks")
async def run_looks(order: str) -> str:
    return await looks(order)


def test_an_act_that_repeats_an_attempt_of_unknown_outcome_can_tell(virtual: Ground) -> None:
    """``step_info().begun_before`` says so, and only then."""
    SAW.clear()

    async def main(ground: Ground) -> None:
        async with ground.engine(run_looks) as first:
            DEADLY.append(lambda: kill(first))
            await first.start(run_looks, "7", id="one")
            await until(first, lambda: bool(DONE))
        async with ground.engine(run_looks) as second:
            assert await second.run("one").result(60) == "7 #2"
        assert SAW == [False, True]

    virtual.play(main)
