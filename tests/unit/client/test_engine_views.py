"""What an engine gives to its users: views with real types, in lists, in pages and one by one."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, SyncHoldfast, Trigger, WorkerOptions, action, workflow
from holdfast.errors import InvalidRequest
from holdfast.gate.policy.policy import parse
from holdfast.views import AnswerInfo, AuditInfo, Page, ReceiptInfo, RunInfo, TaskInfo, UnreadableValue, WaitInfo
from tests.unit.cli import cli_bank
from tests.unit.cli.gate_fixture import WORKFLOWS, asked
from tests.unit.worker.asking_people import anyone

LARGE = "x" * 100_000


@action(connector="office", operation="print", name="views.print")
async def print_all() -> str:
    return LARGE


@workflow(name="views.printing")
async def printing() -> int:
    return len(await print_all())


def play(main: Callable[[Holdfast], Awaitable[None]]) -> None:
    """On an engine that serves the bank and a form, under the bank's policy."""
    policy = parse(cli_bank.POLICY, "cli_bank")
    options = WorkerOptions(evidence=False, retention_days=None)

    async def whole() -> None:
        async with Holdfast(
            "memory://", workflows=[*WORKFLOWS, anyone, printing], policy=policy, options=options
        ) as app:
            await main(app)

    asyncio.run(whole())


def no_raw_values(view: Any) -> None:
    """No bytes, and no number that could only be a time of the store."""
    match view:
        case msgspec.Struct():
            for name in view.__struct_fields__:
                no_raw_values(getattr(view, name))
        case dict():
            for item in (*view.keys(), *view.values()):
                no_raw_values(item)
        case list() | tuple():
            for item in view:
                no_raw_values(item)
        case datetime.datetime():
            assert view.tzinfo is datetime.UTC
        case _:
            assert not isinstance(view, bytes)
            assert not isinstance(view, int) or view < 10**12, f"{view} looks like microseconds"


def test_a_run_is_given_as_a_view() -> None:
    """Its times are aware, what it waits for is a list, its trigger is a trigger."""

    async def main(app: Holdfast) -> None:
        run = await app.start(
            cli_bank.payment, "a-1", 10, id="one", actor="ann", workspace="ops", trigger=Trigger("mail", "7")
        )
        task = await asked(app, "one")
        while await run.status() != "waiting":
            await app.changed(0.05)
        info = await run.info()
        assert isinstance(info, RunInfo)
        no_raw_values(info)
        assert (info.id, info.tenant, info.workspace, info.actor) == ("one", "default", "ops", "ann")
        assert (info.workflow, info.program_kind) == ("cli_payment", "function")
        assert (info.status, info.state) == ("waiting", "waiting_approval")
        assert info.trigger == Trigger("mail", "7")
        assert info.waits == (WaitInfo("approval", "cli_pay", 0, None, task.id),)
        assert info.created_at <= info.updated_at <= datetime.datetime.now(datetime.UTC)
        assert info.ended_at is None
        assert [each async for each in app.list()] == [info]
        assert await app.page() == Page([info], None)
        assert info.events == len([entry async for entry in run.journal()])

    play(main)


def test_a_task_is_given_with_what_it_shows_and_what_was_said() -> None:
    """The proposed act and the answers as values; secret arguments are masked."""

    async def main(app: Holdfast) -> None:
        run = await app.start(cli_bank.payment, "a-1", 10, id="one")
        task = await asked(app, "one")
        assert isinstance(task, TaskInfo)
        no_raw_values(task)
        assert task.details["fields"] == {"account": "a-1", "amount": 10, "token": "[secret]"}
        assert (task.standing, task.who_may, task.form, task.answer) == ("requested", "anyone", None, None)
        approved = await app.tasks.approve(task.id, by="bob", reason="fine")
        assert approved.answers == (AnswerInfo("bob", "approved", "fine", approved.answers[0].at),)
        assert approved.closed_at == approved.answers[0].at
        assert await app.tasks.get(task.id) == approved
        await run.result(30)

    play(main)


def test_a_form_is_given_with_its_schema_and_its_answer() -> None:
    """As JSON Schema and as values."""

    async def main(app: Holdfast) -> None:
        run = await app.start(anyone, id="one")
        task = await asked(app, "one")
        assert task.form is not None
        assert task.form["$defs"]["Review"]["required"] == ["decision"]
        assert task.shown == {}
        done = await app.tasks.complete(task.id, {"decision": "yes"}, by="ann")
        assert (done.answer, done.standing) == ({"decision": "yes", "amount": 0}, "completed")
        assert await run.result(30) == "yes"

    play(main)


async def _paid(app: Holdfast, count: int = 1, account: str = "a-1") -> list[ReceiptInfo]:
    for number in range(count):
        run = await app.start(cli_bank.payment, account, 10, id=f"run-{number}")
        await app.tasks.approve((await asked(app, run.id)).id, by="bob")
        await run.result(30)
    return [receipt async for receipt in app.receipts.list()]


def test_a_receipt_is_given_with_arguments_and_result() -> None:
    """As values, secrets masked; when it was opened and closed as times."""

    async def main(app: Holdfast) -> None:
        (receipt,) = await _paid(app)
        no_raw_values(receipt)
        assert receipt.arguments == {"account": "a-1", "amount": 10, "token": "[secret]"}
        assert receipt.result == {"payment": "p-10"}
        assert receipt.closed_at is not None
        assert receipt.opened_at <= receipt.closed_at
        assert await app.receipts.get(receipt.id) == replace(receipt, holders={receipt.run: "kept"})

    play(main)


def test_entries_of_the_audit_are_given_with_times_and_a_sentence() -> None:
    """Whatever their kind."""

    async def main(app: Holdfast) -> None:
        (receipt,) = await _paid(app)
        entries = [entry async for entry in app.audit.list(run="run-0")]
        no_raw_values(entries)
        assert all(isinstance(entry, AuditInfo) and entry.record["at"] == entry.at for entry in entries)
        (done,) = [entry for entry in entries if entry.kind == "receipt"]
        assert (done.record["receipt"], done.text) == (receipt.id, "cli_pay on account a-1 succeeded")

    play(main)


@pytest.mark.parametrize("kind", ["tasks", "receipts", "audit"])
def test_every_list_has_pages(kind: str) -> None:
    """All items, each once, in the order of the list; with and without ``await``."""

    async def main(app: Holdfast) -> None:
        await _paid(app, 3)
        part: Any = getattr(app, kind)
        chosen: dict[str, Any] = {"status": None} if kind == "tasks" else {}
        whole = [item async for item in part.list(**chosen)]
        assert len(whole) >= 3
        items: list[Any] = []
        after = None
        while True:
            page = await part.page(limit=2, after=after, **chosen)
            assert len(page.items) <= 2
            items += page.items
            if (after := page.next) is None:
                break
        assert [_named(item) for item in items] == [_named(item) for item in whole]
        first = await part.page(limit=2, **chosen)
        rest = [item async for item in part.list(after=first.next, limit=1, **chosen)]
        assert [_named(item) for item in rest] == [_named(item) for item in whole[2:3]]
        with pytest.raises(InvalidRequest, match="a page has one item at least"):
            await part.page(limit=0)
        with pytest.raises(InvalidRequest, match="this cursor is of a list of"):
            await app.page(after=first.next)

    play(main)


def _named(item: Any) -> Any:
    """The fields that stay the same when an entry of the audit is sealed between two reads."""
    return (item.run, item.kind, item.at) if isinstance(item, AuditInfo) else item


@pytest.mark.parametrize("kind", ["tasks", "receipts", "audit"])
def test_pages_without_await(kind: str) -> None:
    """They are the same pages."""
    policy = parse(cli_bank.POLICY, "cli_bank")
    with SyncHoldfast("memory://", workflows=WORKFLOWS, policy=policy) as app:
        for number in range(3):
            run = app.start(cli_bank.wiring, "a-1", id=f"run-{number}", actor="ann")
            assert len(run.settled(timeout=60).tasks) == 1
        part: Any = getattr(app, kind)
        first = part.page(limit=2)
        rest = list(part.list(after=first.next))
        assert [_named(item) for item in [*first.items, *rest]] == [_named(item) for item in part.list()]


def test_a_large_result_is_read_only_where_it_is_wanted() -> None:
    """A list that leaves results out names them by their hash."""

    async def main(app: Holdfast) -> None:
        await (await app.start(printing, id="one")).result(30)
        (whole,) = [each async for each in app.receipts.list()]
        (short,) = (await app.receipts.page(results=False)).items
        assert whole.result == LARGE
        assert isinstance(short.result, UnreadableValue)
        assert short.result.blob is not None
        assert await app.receipts.get(whole.id) == replace(whole, holders={whole.run: "kept"})

    play(main)
