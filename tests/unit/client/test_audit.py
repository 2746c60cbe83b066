"""The audit, its keys and evidence from the library."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from holdfast import Holdfast, SyncHoldfast, WorkerOptions, action, verify_evidence, workflow
from holdfast.client.operators import operator_note
from holdfast.errors import InvalidRequest, RunConflict, RunNotFound, StoreCorrupt
from holdfast.gate.policy.policy import parse
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore

POLICY = parse('version: 1\nrules: [{name: all is free, when: "true", effect: allow}]', "policy.yaml", clock=lambda: 0)


@action(connector="board", operation="note", target="{text}", name="audited.note")
async def put(text: str) -> str:
    return text.upper()


@workflow(name="audited.noting")
async def noting(text: str) -> str:
    return await put(text)


def on_engine(judge: Callable[[Holdfast], Awaitable[None]], options: WorkerOptions | None = None) -> None:
    async def main() -> None:
        async with Holdfast("memory://", workflows=[noting], policy=POLICY, options=options) as app:
            await (await app.start(noting, "hello", id="n-1")).result(60)
            await judge(app)

    asyncio.run(main())


async def sealed(app: Holdfast) -> None:
    """Wait until all that the audit has is sealed."""
    async with asyncio.timeout(60):
        while await app.store.unsealed(1):  # noqa: ASYNC110  # another role seals
            await asyncio.sleep(0.01)


def test_entries_are_listed_and_narrowed() -> None:
    """By run, by kind and by time."""

    async def judge(app: Holdfast) -> None:
        of_run = [entry async for entry in app.audit.list(run="n-1")]
        assert [entry.kind for entry in of_run] == ["decision", "receipt", "ended"]
        assert of_run[0].record["rule"] == "all is free"
        decided = [entry async for entry in app.audit.list(kind="decision")]
        assert decided == of_run[:1]
        tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
        assert [entry async for entry in app.audit.list(since=tomorrow)] == []
        assert [entry async for entry in app.audit.list(until=tomorrow, run="n-1")] == of_run
        assert [entry async for entry in app.audit.list(tenant="acme")] == []

    on_engine(judge)


def test_the_chain_is_verified_and_proved_where_a_key_is_trusted() -> None:
    """Without a key it is only consistent; the check reports its progress."""

    async def judge(app: Holdfast) -> None:
        await sealed(app)
        checked: list[int] = []
        alone = await app.audit.verify(advance=checked.append)
        assert (alone.good, alone.trusted) == (True, False)
        assert sum(checked) == len([entry async for entry in app.audit.list()])
        trusted = await app.audit.verify(trusted=await app.audit.public_keys())
        assert (trusted.good, trusted.trusted) == (True, True)
        with pytest.raises(InvalidRequest, match="PEM"):
            await app.audit.verify(trusted=b"no key")

    on_engine(judge)


def test_a_tenant_without_an_audit_is_an_error() -> None:
    """A mistyped name, or an audit that was deleted, must not pass for a good chain."""

    async def judge(app: Holdfast) -> None:
        await sealed(app)
        trusted = await app.audit.public_keys()
        problem = "tenant 'nosuch' has no audit: nothing was ever noted there, or all of it is gone; check the name"
        with pytest.raises(InvalidRequest, match=problem):
            await app.audit.verify(tenant="nosuch", trusted=trusted)
        assert isinstance(app.store, MemoryStore)
        with app.store._transaction() as tables:
            tables.audit.clear()
        verdict = await app.audit.verify(trusted=trusted)  # its blocks are left, so it is broken
        assert not verdict.good

    on_engine(judge)


def test_what_is_not_sealed_yet_is_vouched_for_by_nobody() -> None:
    """There is no signature yet: no key can prove anything."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            await app.committer.commit(operator_note(app, "acme", "pause", "ann", "n-1"))
            key = await app.audit.rotate_key(by="ann", tenant="acme")
            verdict = await app.audit.verify(tenant="acme", trusted=key.public)
            assert (verdict.good, verdict.trusted) == (True, False)
            assert [(claim.about, claim.state) for claim in verdict.claims] == [
                ("chain", "consistent"),
                *((about, "consistent") for about in ("receipts", "tasks", "runs", "evidence", "people")),
                ("unsealed", "not proved"),
                ("trust", "not proved"),
            ]

    asyncio.run(main())


def test_an_altered_entry_is_named() -> None:
    """The first that is broken."""

    async def judge(app: Holdfast) -> None:
        await sealed(app)
        assert isinstance(app.store, MemoryStore)
        entries = await app.store.entries(p.AuditQuery("default"), 100)
        with app.store._transaction() as tables:
            tables.audit[entries[1].sequence - 1] = msgspec.structs.replace(entries[1], body=b"{}")
        verdict = await app.audit.verify()
        assert not verdict.good
        (broken,) = [claim for claim in verdict.claims if claim.state == "broken"]
        assert broken.text.startswith("entry 1 ")

    on_engine(judge)


def test_a_key_is_rotated_on_the_record() -> None:
    """The entry comes with the key, and the new key signs what follows; no private half is given away."""

    async def judge(app: Holdfast) -> None:
        await sealed(app)
        before = await app.audit.public_keys()
        key = await app.audit.rotate_key(by="ann", reason="it is time")
        (_, second) = await app.audit.keys()
        assert (second, second.number) == (key, 2)
        assert b"PRIVATE" not in msgspec.json.encode(second)
        (noted,) = [entry async for entry in app.audit.list(kind="operator") if entry.record["act"] == "key"]
        assert (noted.record["who"], noted.record["reason"]) == ("ann", "it is time")
        assert noted.record["details"] == {"action": "rotate", "number": "2", "key": key.id}
        await sealed(app)
        assert (await app.store.blocks("default", -1, 1))[0].signer == key.id
        verdict = await app.audit.verify(trusted=before)  # the old key endorses the new one
        assert (verdict.good, verdict.trusted) == (True, True)

    on_engine(judge)


def test_evidence_is_made_and_verified_without_a_store() -> None:
    """Where none was kept it is made now; any change of the file is found."""

    async def judge(app: Holdfast) -> None:
        made = await app.run("n-1").evidence()
        assert (made.stored, made.ended, made.unsealed) == (False, True, 0)
        trusted = await app.audit.public_keys()
        verdict = await asyncio.to_thread(verify_evidence, made.data, trusted=trusted)
        assert (verdict.good, verdict.trusted) == (True, True)
        assert not verify_evidence(made.data).trusted
        assert not verify_evidence(made.data[:-1]).good
        with pytest.raises(RunNotFound, match="no evidence of one was kept"):
            await app.run("nobody").evidence()
        with pytest.raises(InvalidRequest, match="generations 0 to 0"):
            await app.run("n-1").evidence(generation=3)

    on_engine(judge, WorkerOptions(evidence=False))


def test_kept_evidence_is_given_as_it_was_kept() -> None:
    """The worker makes it at the run's end; with values it is made when it is asked for."""

    async def judge(app: Holdfast) -> None:
        run = app.run("n-1")
        async with asyncio.timeout(60):
            while (await run.info()).evidence_sha256 is None:  # noqa: ASYNC110  # the archivist makes it
                await asyncio.sleep(0.01)
        kept = await run.evidence()
        assert kept.stored
        assert kept.sha256 == (await run.info()).evidence_sha256
        with_values = await run.evidence(values=True)
        assert not with_values.stored
        assert verify_evidence(with_values.data, trusted=await app.audit.public_keys()).trusted

    on_engine(judge)


async def proved(app: Holdfast, run: str = "n-1") -> str:
    """Wait until the archivist has made the evidence; gives its hash."""
    async with asyncio.timeout(60):
        while (found := (await app.run(run).info()).evidence_sha256) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found


def test_evidence_is_made_anew_where_that_is_asked_for() -> None:
    """Whatever was kept stays as it is."""

    async def judge(app: Holdfast) -> None:
        digest = await proved(app)
        anew = await app.run("n-1").evidence(anew=True)
        assert (anew.stored, anew.ended, anew.generation) == (False, True, 0)
        assert verify_evidence(anew.data, trusted=await app.audit.public_keys()).trusted
        assert (await app.run("n-1").evidence()).sha256 == digest

    on_engine(judge)


def test_kept_evidence_is_given_only_where_the_row_shows_it() -> None:
    """Entries written since are in no kept bundle: until the next is kept, each call makes one."""

    async def judge(app: Holdfast) -> None:
        await proved(app)
        assert isinstance(app.store, MemoryStore)
        with app.store._transaction() as tables:
            (row,) = [run for run in tables.runs.values() if run.key.run == "n-1"]
            tables.put(msgspec.structs.replace(row, evidence=b"another"))
        made = await app.run("n-1").evidence()
        assert not made.stored
        assert verify_evidence(made.data, trusted=await app.audit.public_keys()).trusted

    on_engine(judge)


def test_altered_evidence_is_not_given() -> None:
    """The error says what to do: make it again while the run is there; after that only a backup has it."""

    async def judge(app: Holdfast) -> None:
        await proved(app)
        assert isinstance(app.store, MemoryStore)
        with app.store._transaction() as tables:
            (files,) = tables.files.values()
            ((place, file),) = files.items()
            files[place] = msgspec.structs.replace(file, data=file.data[:-1] + b"x")
        with pytest.raises(StoreCorrupt, match="Make it anew: holdfast evidence n-1 --anew -o FILE"):
            await app.run("n-1").evidence()
        assert verify_evidence((await app.run("n-1").evidence(anew=True)).data).good
        assert await app.store.prune(2**62, 10) == 1
        with pytest.raises(StoreCorrupt, match="Restore the database from a backup"):
            await app.run("n-1").evidence()

    on_engine(judge)


def test_evidence_of_a_deleted_run_is_what_was_kept() -> None:
    """No other can be made, and its id is not used again."""

    async def judge(app: Holdfast) -> None:
        digest = await proved(app)
        assert await app.store.prune(2**62, 10) == 1
        kept = await app.run("n-1").evidence()
        assert (kept.stored, kept.sha256) == (True, digest)
        for options in ({"anew": True}, {"values": True}):
            with pytest.raises(RunNotFound, match="'n-1' was deleted: there is only its kept evidence"):
                await app.run("n-1").evidence(**options)
        with pytest.raises(RunConflict, match="run id 'n-1' was used before, and its evidence is kept"):
            await app.start(noting, "hello", id="n-1")

    on_engine(judge)


def test_all_of_it_without_await() -> None:
    """A script or a web handler that knows no event loop."""
    with SyncHoldfast("memory://", workflows=[noting], policy=POLICY) as app:
        run = app.start(noting, "hello")
        assert run.result(60) == "HELLO"
        assert [entry.kind for entry in app.audit.list(run=run.id)] == ["decision", "receipt", "ended"]
        bundle = run.evidence(anew=True)
        assert not bundle.stored
        assert verify_evidence(bundle.data, trusted=app.audit.public_keys()).trusted
        assert app.audit.rotate_key(by="ann").number == 2
        assert len(app.audit.keys()) == 2
        assert app.audit.verify(trusted=app.audit.public_keys()).good
