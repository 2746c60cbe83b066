"""Tasks and receipts without ``await``."""

from __future__ import annotations

import threading
import time

import pytest
from msgspec.structs import replace

from holdfast import OutcomeUnknown, Receipt, RunFailed, SyncHoldfast, SyncRunHandle, action, workflow
from holdfast.errors import InvalidRequest, ReceiptNotFound, TaskClosed, TaskForbidden, TaskNotFound
from holdfast.gate.policy.policy import parse
from holdfast.views import TaskInfo
from tests.unit.worker.asking_people import anyone

POLICY = parse(
    """
version: 1
rules:
  - {name: payments want a person, when: action.operation == "pay", effect: needs_approval, tier: med}
  - {name: the rest is free, when: "true", effect: allow}
""",
    "policy.yaml",
    clock=lambda: 0,
)


@action(connector="bank", operation="refund", name="sync.refund")
def refund(receipt: Receipt) -> str:
    return f"refunded {receipt.result}"


@action(connector="bank", operation="pay", target="{account}", reverse=refund, name="sync.pay")
def pay(account: str) -> str:
    return f"paid {account} in {threading.current_thread().name.split('_')[0]}"


@action(connector="bank", operation="wire", target="{account}", name="sync.wire")
def wire(account: str) -> str:
    raise OutcomeUnknown("the line broke")


@workflow(name="sync.paying")
async def paying(account: str) -> str:
    return await pay(account)


@workflow(name="sync.wiring")
async def wiring(account: str) -> str:
    return await wire(account)


def engine() -> SyncHoldfast:
    return SyncHoldfast("memory://", workflows=[paying, wiring], policy=POLICY)


def asked(app: SyncHoldfast, run: SyncRunHandle[str], before: TaskInfo | None = None) -> TaskInfo:
    """Wait until the run asks something, or something else than before."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for task in app.tasks.list(run=run.id):
            if before is None or task.id != before.id:
                return task
        time.sleep(0.01)
    raise AssertionError("it asked nothing")


def test_an_action_is_approved_receipted_and_taken_back_without_a_loop() -> None:
    """What the async client can do, the sync one can, through the same code; plain functions run in threads."""
    with engine() as app:
        run = app.start(paying, "a-1", id="one", actor="ann")
        task = asked(app, run)
        assert app.tasks.get(task.id) == task
        delegated = app.tasks.delegate(task.id, by="bob", to="cid", reason="she knows")
        assert delegated.delegated_to == "cid"
        with pytest.raises(TaskForbidden):
            app.tasks.approve(task.id, by="bob")
        assert app.tasks.approve(task.id, by="cid", reason="fine").status == "approved"
        assert run.result(timeout=30) == "paid a-1 in holdfast-step"
        (receipt,) = app.receipts.list(run="one")
        assert app.receipts.get(receipt.id) == replace(receipt, holders={"one": "kept"})
        reversing = app.receipts.reverse(receipt.id, by="ann", reason="a mistake")
        assert app.run(reversing).result(timeout=30) == "refunded paid a-1 in holdfast-step"
        assert app.receipts.get(receipt.id).reversed_by is not None
        assert list(app.tasks.list()) == []
        assert [each.status for each in app.tasks.list(status=None)] == ["approved"]


def test_a_rejection_reaches_the_run() -> None:
    """Errors come out as they are."""
    with engine() as app:
        run = app.start(paying, "a-1", id="one")
        task = asked(app, run)
        assert app.tasks.reject(task.id, by="bob", reason="no").status == "rejected"
        with pytest.raises(RunFailed, match="bob rejected it"):
            run.result(timeout=30)
        with pytest.raises(TaskClosed):
            app.tasks.approve(task.id, by="cid")


def test_outcomes_are_answered_without_a_loop() -> None:
    """Each of the three answers."""
    with engine() as app:
        first, second = (app.start(wiring, account, id=account) for account in ("a-1", "a-2"))
        assert app.tasks.happened(asked(app, first).id, by="bob", result="seen").status == "approved"
        assert first.result(timeout=30) == "seen"
        one = asked(app, second)
        assert app.tasks.did_not_happen(one.id, by="bob").status == "approved"
        again = asked(app, second, before=one)
        assert app.tasks.give_up(again.id, by="bob", reason="enough").status == "rejected"
        with pytest.raises(RunFailed, match="bob gave it up: enough"):
            second.result(timeout=30)


def test_what_is_not_there_is_said() -> None:
    """No wrapper hides what went wrong, and nothing works on an engine that is not open."""
    with engine() as app:
        with pytest.raises(TaskNotFound, match="there is no task 'a-0'"):
            app.tasks.get("a-0")
        with pytest.raises(TaskNotFound):
            app.tasks.approve("a-0", by="bob")
        with pytest.raises(ReceiptNotFound, match="there is no receipt 'r-0'"):
            app.receipts.get("r-0")
        with pytest.raises(ReceiptNotFound):
            app.receipts.reverse("r-0", by="bob")
        tasks = app.tasks
    with pytest.raises(InvalidRequest):
        _ = app.tasks
    with pytest.raises(InvalidRequest):
        _ = app.receipts
    with pytest.raises(InvalidRequest, match="closed"):
        tasks.get("a-0")


def test_a_form_without_await() -> None:
    """Claimed, given back, assigned, passed on and completed."""
    with SyncHoldfast("memory://", workflows=[anyone]) as app:
        run = app.start(anyone, id="one")
        (task,) = app.tasks.list(kind="form")
        assert app.tasks.claim(task.id, by="ann").owner == "ann"
        assert app.tasks.release(task.id, by="ann").owner is None
        assert app.tasks.assign(task.id, by="lea", to="bob").owner == "bob"
        assert [each.id for each in app.tasks.list(owner="bob")] == [task.id]
        assert app.tasks.delegate(task.id, by="bob", to="cy").delegated_to == "cy"
        with pytest.raises(TaskForbidden):
            app.tasks.complete(task.id, {"decision": "no"}, by="bob")
        assert app.tasks.complete(task.id, {"decision": "yes"}, by="cy").status == "completed"
        assert run.result(30) == "yes"
