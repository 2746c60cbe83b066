"""Governed runs as a whole: who they run for, what operators do to them, what is left of them as evidence."""

from __future__ import annotations

import asyncio
import io
import logging
import zipfile
from pathlib import Path

import pytest

from holdfast import Holdfast, RunCancelled, RunFailed, Trigger, WorkerOptions, action, continue_as_new, spawn, workflow
from holdfast.audit import records as r
from holdfast.audit.check.bundle import verify_bundle
from holdfast.errors import InvalidPolicy, RunConflict
from holdfast.store import protocol as p
from tests.unit.worker.ground import (
    FREE,
    OPTIONS,
    Ground,
    asked,
    asking,
    notes,
    policy_of,
    receipts,
    rested,
    until,
)

DONE: list[str] = []
FAILS: list[Exception] = []

EVIDENT = WorkerOptions(warm_limit=0, retention_days=None)


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()
    FAILS.clear()


@action(connector="crm", operation="note", name="runs.note")
async def note(word: str) -> str:
    DONE.append(word)
    if FAILS:
        raise FAILS.pop(0)
    return word


@workflow(name="runs.noting")
async def noting(word: str) -> str:
    return await note(word)


@workflow(name="runs.parent")
async def parent(word: str) -> str:
    return await noting(word)


@workflow(name="runs.rounds")
async def rounds(left: int) -> str:
    said = await note(f"round {left}")
    if left > 1:
        continue_as_new(left - 1)
    return said


@workflow(name="runs.spawning")
async def spawning(word: str) -> str:
    return await spawn(noting, word)


ALL = (noting, parent, rounds, spawning)


# -- who and where -----------------------------------------------------------------------------------------------------


def test_children_run_for_their_parents_actor_in_its_workspace(ground: Ground) -> None:
    """Awaited or spawned: policy judges their actions as the parent's, and the audit says so."""
    local = policy_of({"when": 'run.workspace == "ops" && actor.name == "ann"'})

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=local) as app:
            run = await app.start(parent, "x", id="one", actor="ann", workspace="ops")
            assert await run.result(30) == "x"
            spawned = await (await app.start(spawning, "y", id="two", actor="ann", workspace="ops")).result(30)
            assert await app.run(spawned).result(30) == "y"
            for id in ("one~0", spawned):
                row = await app.run(id).info()
                assert (row.actor, row.workspace, row.governed) == ("ann", "ops", True)
                (decision,) = await notes(app, r.Decided, id)
                assert decision.actor == "ann"
            with pytest.raises(RunFailed):
                await (await app.start(parent, "x", actor="bob", workspace="ops")).result(30)

    ground.play(main)
    assert DONE == ["x", "y"]


def test_each_generation_acts_for_itself(ground: Ground) -> None:
    """A run that continues as new has new calls: each is judged, done and receipted."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            run = await app.start(rounds, 3, id="one", actor="ann")
            assert await run.result(30) == "round 1"
            rows = await receipts(app, "one")
            assert sorted((row.state, row.actor) for row in rows) == [("succeeded", "ann")] * 3
            assert len({row.key for row in rows}) == 3
            ends = [(each.generation, each.standing) for each in await notes(app, r.Ended, "one")]
            assert ends == [(0, "continued"), (1, "continued"), (2, "completed")]

    ground.play(main)
    assert DONE == ["round 3", "round 2", "round 1"]


def test_the_same_trigger_finds_the_first_run_whatever_the_ids(ground: Ground) -> None:
    """G-02a: a webhook that is delivered twice starts one run; another reference, type or workflow starts another. A
    fork is not the trigger's run."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as app:
            hook = Trigger("webhook", "INC-1")
            first = await app.start(noting, "x", trigger=hook)
            await first.result(30)
            await first.fork(1, id="a-fork")
            for id in (None, "mine", first.id, "a-fork"):
                again = await app.start(noting, "x", id=id, trigger=hook)
                assert (again.id, again.is_new) == (first.id, False)
                assert await again.result(30) == "x"
                with pytest.raises(RunConflict, match=f"run '{first.id}' of tenant"):
                    await app.start(noting, "y", id=id, trigger=hook)
            others = [
                await app.start(noting, "y", trigger=Trigger("webhook", "INC-2")),
                await app.start(noting, "y", trigger=Trigger("mail", "INC-1")),
                await app.start(parent, "y", trigger=hook),
                await app.start(noting, "y", trigger=hook, tenant="acme"),
            ]
            assert len({(run.tenant, run.id) for run in (first, *others)}) == 5
            row = await first.info()
            assert row.trigger == Trigger("webhook", "INC-1")
            with pytest.raises(RunConflict):
                await app.start(noting, "y", id=first.id)
            mail = Trigger("mail", "INC-9")
            named = await app.start(noting, "z", id="mine", trigger=mail)
            assert (named.id, named.is_new) == ("mine", True)
            assert (await app.start(noting, "z", trigger=mail)).id == "mine"

    ground.play(main)


def test_two_starts_of_a_trigger_at_once_make_one_run(ground: Ground) -> None:
    """With other ids, on two engines: the store decides."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL) as one, ground.engine(*ALL) as two:
            hook = Trigger("webhook", "INC-1")
            runs = await asyncio.gather(
                *(app.start(noting, "x", id=f"n-{at}", trigger=hook) for at, app in enumerate([one, two] * 4))
            )
            assert len({run.id for run in runs}) == 1
            assert [run.is_new for run in runs].count(True) == 1
            assert [run.id async for run in one.list()] == [runs[0].id]

    ground.play(main)


# -- operators ---------------------------------------------------------------------------------------------------------


def test_what_operators_do_is_told_with_their_names(virtual: Ground) -> None:
    """Cancel, pause, resume, retry and fork, in order, each with who and why; nobody named is unnamed."""

    async def main(ground: Ground) -> list[tuple[str, str, str | None, str]]:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(noting, "x", id="one")
            await asked(app, "one")
            await rested(app, "one")
            await run.pause("lunch", by="ann")
            await run.resume(by="bob")
            fork = await run.fork(1, id="two", by="cid")
            await run.cancel("enough", by="dan")
            with pytest.raises(RunCancelled):
                await run.result()
            await run.retry(by="eve")
            await fork.cancel("and this")
            operated = [each for each in await notes(app, r.Operated) if each.act != "policy"]
            return [(each.act, each.who, each.run, each.reason) for each in operated]

    assert virtual.play(main) == [
        ("pause", "ann", "one", "lunch"),
        ("resume", "bob", "one", ""),
        ("fork", "cid", "one", ""),
        ("cancel", "dan", "one", "enough"),
        ("retry", "eve", "one", ""),
        ("cancel", "unnamed", "two", "and this"),
    ]


def test_a_paused_run_acts_when_it_is_resumed(virtual: Ground) -> None:
    """An approval that comes while it is paused is kept, and used then."""

    async def main(ground: Ground) -> str:
        async with ground.engine(*ALL, policy=asking()) as app:
            run = await app.start(noting, "x", id="one")
            task = await asked(app, "one")
            await rested(app, "one")
            await run.pause("lunch", by="ann")
            await app.tasks.approve(task.id, by="bob")
            await asyncio.sleep(600)
            assert DONE == []
            await run.resume(by="ann")
            return await run.result()

    assert virtual.play(main) == "x"
    assert DONE == ["x"]


def text(effect: str) -> str:
    return f'version: 1\nrules:\n  - {{name: all, when: "true", effect: {effect}}}\n'


def test_a_changed_policy_file_is_taken_over_and_told(virtual: Ground, tmp_path: Path) -> None:
    """By itself, within seconds; the audit says which policy was in force from when on."""
    file = tmp_path / "policy.yaml"
    file.write_text(text("allow"), encoding="utf-8")

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=file) as app:
            await asyncio.sleep(1)
            before = app.policy.current.hash
            await (await app.start(noting, "x")).result()
            file.write_text(text("deny"), encoding="utf-8")
            await asyncio.sleep(5)
            with pytest.raises(RunFailed, match="denies it"):
                await (await app.start(noting, "y")).result()
            changes = [each.details for each in await notes(app, r.Operated)]
            assert [(each["policy"], each["before"]) for each in changes] == [
                (before, ""),
                (app.policy.current.hash, before),
            ]

    virtual.play(main)
    assert DONE == ["x"]


@pytest.mark.parametrize("broken", ["version: 1\nrules: [", "", "version: 2\nrules: []\n"], ids=["cut", "empty", "new"])
def test_a_broken_policy_file_changes_nothing_and_is_told(
    virtual: Ground, tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    """A half-written file must neither stop the engine nor open it; the mended one is taken over."""
    file = tmp_path / "policy.yaml"
    file.write_text(text("allow"), encoding="utf-8")

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=file) as app:
            file.write_text(broken, encoding="utf-8")
            await asyncio.sleep(60)
            assert await (await app.start(noting, "x")).result() == "x"
            assert app.policy.trouble is not None
            file.write_text(text("deny"), encoding="utf-8")
            await asyncio.sleep(5)
            with pytest.raises(RunFailed, match="denies it"):
                await (await app.start(noting, "y")).result()

    with caplog.at_level(logging.ERROR, "holdfast.policy"):
        virtual.play(main)
    assert len(caplog.records) == 1
    assert "stays in force" in caplog.text


@pytest.mark.parametrize("content", [None, "version: 1\nrules: ["], ids=["no file", "broken"])
def test_no_engine_begins_under_a_policy_that_cannot_be_read(tmp_path: Path, content: str | None) -> None:
    """The mistake is found at the start, and says where it is."""
    file = tmp_path / "policy.yaml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidPolicy, match=r"policy\.yaml"):
        Holdfast("memory://", policy=file)


# -- evidence ----------------------------------------------------------------------------------------------------------


async def evidence(app: Holdfast, run: str, generation: int = 0) -> bytes:
    """Wait until a run has its evidence."""
    while (await app.run(run).info()).evidence_sha256 is None:
        await app.changed(0.5)
    data = await app.store.file(p.Key("default", run), generation, p.EVIDENCE)
    assert data is not None
    return data


@pytest.mark.parametrize("how", ["completed", "failed", "denied", "cancelled"])
def test_a_governed_run_leaves_evidence_that_verifies(ground: Ground, how: str) -> None:
    """By itself, however it ended: nobody must remember to ask for it."""
    policy = {"denied": policy_of({"effect": "deny"}), "cancelled": asking()}.get(how, FREE)
    if how == "failed":
        FAILS.append(ValueError("refused"))

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, policy=policy, options=EVIDENT) as app:
            run = await app.start(noting, "x", id="one", actor="ann")
            if how == "cancelled":
                await asked(app, "one")
                await run.cancel("enough", by="ann")
            if how == "completed":
                await run.result(30)
            else:
                with pytest.raises((RunFailed, RunCancelled)):
                    await run.result(30)
            data = await evidence(app, "one")
            (key,) = await app.store.signing_keys()
            verdict = verify_bundle(data, [key.public])
            assert [claim.text for claim in verdict.claims if claim.state == "broken"] == []
            assert verdict.trusted

    ground.play(main)


def test_a_retried_run_gets_new_evidence(virtual: Ground) -> None:
    """Of its next end; that of the first stays."""
    FAILS.append(ValueError("refused"))

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, options=EVIDENT) as app:
            run = await app.start(noting, "x", id="one")
            with pytest.raises(RunFailed):
                await run.result()
            first = await evidence(app, "one")
            await run.retry(by="ann")
            await run.result()
            second = await evidence(app, "one", 1)
            (key,) = await app.store.signing_keys()
            assert first != second
            assert all(verify_bundle(data, [key.public]).good for data in (first, second))

    virtual.play(main)


def test_a_worker_may_leave_evidence_to_others(virtual: Ground) -> None:
    """With evidence=False it makes none; the next that does finds what is due."""

    async def main(ground: Ground) -> None:
        async with ground.engine(*ALL, options=OPTIONS) as app:
            run = await app.start(noting, "x", id="one")
            await run.result()
            await asyncio.sleep(600)
            assert (await run.info()).evidence_sha256 is None
            assert await app.store.files(run.key) == []
        async with ground.engine(*ALL, options=EVIDENT) as app:
            await evidence(app, "one")

    virtual.play(main)


def test_a_run_without_actions_leaves_no_evidence_and_no_audit(virtual: Ground) -> None:
    """It is not governed, and costs nothing."""

    @workflow(name="runs.plain")
    async def plain() -> str:
        return "done"

    async def main(ground: Ground) -> None:
        async with ground.engine(plain, options=EVIDENT) as app:
            run = await app.start(plain, id="one")
            await run.result()
            await asyncio.sleep(600)
            row = await run.info()
            assert (row.governed, row.evidence_sha256) == (False, None)
            assert await notes(app, r.Record, "one") == []  # type: ignore[type-var]  # of any kind

    virtual.play(main)


def test_evidence_does_not_hide_an_act_that_outlives_its_run(virtual: Ground) -> None:
    """A run that was cancelled while it acted has ended, and the act has not: its evidence says that the outcome is not
    known, and the receipt and the audit say in the end what came of it."""

    async def main(ground: Ground) -> None:
        begun, door = asyncio.Event(), asyncio.Event()

        @action(connector="crm", operation="note", name="runs.long")
        async def long() -> str:
            begun.set()
            await door.wait()
            DONE.append("long")
            return "done"

        @workflow(name="runs.longing")
        async def longing() -> str:
            return await long()

        async with ground.engine(longing, options=EVIDENT) as app:
            run = await app.start(longing, id="one")
            await begun.wait()
            await run.cancel("enough")
            await asyncio.sleep(60)
            door.set()
            await until(app, lambda: bool(DONE))
            await asyncio.sleep(60)
            data = await evidence(app, "one")
            (row,) = await receipts(app)
            assert row.state == "succeeded"
            (key,) = await app.store.signing_keys()
            assert verify_bundle(data, [key.public]).good
            with zipfile.ZipFile(io.BytesIO(data)) as bundle:
                assert b"unknown" in bundle.read("entries.jsonl")
            assert [each.state for each in await notes(app, r.Receipted, "one")] == ["unknown", "succeeded"]

    virtual.play(main)
