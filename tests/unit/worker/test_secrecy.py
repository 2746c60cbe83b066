"""Secrets of actions stay inside: nowhere that people look, and nothing that leaves the house, holds one."""

from __future__ import annotations

import io
import logging
import zipfile
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, OutcomeUnknown, Receipt, RunFailed, TerminalError, WorkerOptions, action, workflow
from holdfast.gate import records as r
from holdfast.gate.verifying import verify_bundle
from holdfast.store import protocol as p
from holdfast.worker.gathering import entries_of
from tests.unit.worker.ground import Ground, asked, asking, policy_of, receipts, told

TOKEN, PASSWORD = "tok-4f9a1c", "pass'word\n77"
HIDDEN = (TOKEN, PASSWORD, repr(PASSWORD)[1:-1])
FAILS: list[BaseException] = []
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    FAILS.clear()
    SEEN.clear()


class Login(msgspec.Struct):
    user: str
    password: str


@action(connector="crm", operation="forget", name="secrecy.forget")
async def forget(receipt: Receipt) -> str:
    SEEN.append(receipt)
    return "forgotten"


@action(
    connector="crm",
    operation="login",
    target="user {login.user}",
    secret=["token", "login.password"],
    reverse=forget,
    name="secrecy.enter",
)
async def enter(login: Login, token: str) -> str:
    SEEN.append((login.password, token))
    if FAILS:
        raise FAILS.pop(0)
    return "in"


@workflow(name="secrecy.entering")
async def entering() -> str:
    return await enter(Login("ann", PASSWORD), TOKEN)


@workflow(name="secrecy.confused")
async def confused() -> str:
    return await enter({"user": 7, "password": PASSWORD}, TOKEN)  # type: ignore[arg-type]  # the mistake


def hides(text: object) -> None:
    """No secret is in it, as it is or as ``repr`` shows it."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    for secret in HIDDEN:
        assert secret not in shown, shown


async def everything(app: Holdfast, run: str) -> None:
    """Every place that people look at."""
    for row in await receipts(app):
        hides(row.request)
        hides(row)
    for task in await app.store.tasks(p.TaskQuery(), 100):
        hides(task.details)
        hides(task)
    async for entry in entries_of(app.store, p.AuditQuery("default")):
        hides(entry.body)
    row = await app.run(run).info()
    hides(row)
    hides(await app.run(run).explain())


def test_the_act_gets_its_secrets_and_nobody_else_does(ground: Ground) -> None:
    """Receipts, tasks, decisions: masked, and an argument that holds a secret is told as one."""

    async def main(ground: Ground) -> None:
        async with ground.engine(entering, policy=asking()) as app:
            run = await app.start(entering, id="one")
            task = await asked(app, "one")
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(30) == "in"
            for decision in await told(app, r.Decided, "one"):
                assert decision.fields == {"login": "secret", "token": "secret"}
            (receipt,) = [each async for each in app.receipts.list()]
            assert receipt.arguments == {
                "login": {"user": "ann", "password": "[secret]"},
                "token": "[secret]",
            }
            await everything(app, "one")

    ground.play(main)
    assert SEEN == [(PASSWORD, TOKEN)]


@pytest.mark.parametrize(
    "error",
    [
        TerminalError(f"login of {PASSWORD!r} with {TOKEN} failed"),
        ValueError(f"{PASSWORD}"),
        KeyError(TOKEN),
        OutcomeUnknown(f"sent {TOKEN}"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_acts_do_not_tell(virtual: Ground, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """The failure in the workflow, its trace, the receipt, the question to people, the logs."""
    FAILS.append(error)

    async def main(ground: Ground) -> None:
        async with ground.engine(entering) as app:
            run = await app.start(entering, id="one")
            if isinstance(error, OutcomeUnknown):
                await app.tasks.give_up((await asked(app, "one")).id, by="bob")
            with pytest.raises(RunFailed) as raised:
                await run.result()
            hides(raised.value)
            hides(raised.value.failure)
            await everything(app, "one")
            async for entry in run.journal():
                if "InvokeScheduled" not in repr(entry):  # the call's own input: the act must get it after a crash
                    hides(entry)

    with caplog.at_level(logging.DEBUG):
        virtual.play(main)
    hides(caplog.text)


def test_arguments_that_do_not_fit_are_not_quoted_where_they_are_secret(
    virtual: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """The error shows what was stored, but for what is secret of it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(confused) as app:
            run = await app.start(confused, id="one")
            with pytest.raises(RunFailed, match=r"argument 'login' of secrecy\.enter") as raised:
                await run.result()
            hides(raised.value)
            await everything(app, "one")

    with caplog.at_level(logging.DEBUG):
        virtual.play(main)
    hides(caplog.text)
    assert SEEN == []


def test_a_denied_call_tells_no_secret(virtual: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """Policy sees masks: no rule, and no error of a rule, can tell what is under them."""
    curious = policy_of({"when": "action.fields.token == '[secret]' && action.fields.nothing", "effect": "allow"})

    async def main(ground: Ground) -> None:
        async with ground.engine(entering, policy=curious) as app:
            with pytest.raises(RunFailed) as raised:
                await (await app.start(entering, id="one")).result()
            hides(raised.value)
            await everything(app, "one")

    with caplog.at_level(logging.DEBUG):
        virtual.play(main)
    hides(caplog.text)


def test_a_reversal_gets_masks(virtual: Ground) -> None:
    """The receipt that it is given is the one that everyone sees."""

    async def main(ground: Ground) -> None:
        async with ground.engine(entering) as app:
            await (await app.start(entering, id="one")).result()
            (row,) = await receipts(app)
            await (await app.receipts.reverse(row.id, by="bob")).result()
            await everything(app, f"reverse:{row.id}")

    virtual.play(main)
    hides(SEEN[1])


def test_evidence_holds_no_secret_and_no_value(virtual: Ground) -> None:
    """It leaves the house: hashes and types are in it, and neither secrets nor what the act was given or gave."""

    async def main(ground: Ground) -> bytes:
        async with ground.engine(entering, options=WorkerOptions(retention_days=None)) as app:
            run = await app.start(entering, id="one")
            await run.result()
            while (await run.info()).evidence is None:
                await app.changed(1)
            data = await app.store.artefact(run.key, 0, p.EVIDENCE)
            assert data is not None
            (key,) = await app.store.signing_keys()
            assert verify_bundle(data, [key.public]).good
            return data

    data = virtual.play(main)
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        for name in bundle.namelist():
            hides(bundle.read(name))
