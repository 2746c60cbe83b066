"""Secrets of actions stay inside: nowhere that people look, and nothing that leaves the house, holds one."""

from __future__ import annotations

import io
import logging
import zipfile
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, OutcomeUnknown, Receipt, RunFailed, TerminalError, WorkerOptions, action, workflow
from holdfast.audit import records as r
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.collector import entries_of
from holdfast.client.views.journal import entry_record, journal_entry
from holdfast.client.views.mask import masked_entries
from holdfast.client.views.timeline import fold
from holdfast.journal import events as e
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import ONCE, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.render import line
from holdfast.journal.secrecy import marked, visible
from holdfast.kernel.commands import same
from holdfast.runs.journals import read, row_of
from holdfast.store import protocol as p
from tests.unit.worker.ground import Ground, asked, asking, notes, policy_of, receipts

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
    handle = app.run(run)
    hides(await handle.info())
    hides(await handle.explain())
    async for shown in handle.journal():
        hides(shown)
        hides(shown.text)
        hides(entry_record(shown))
    entries = [entry async for entry in masked_entries(app.store, await row_of(app.store, handle.key))]
    for entry in entries:
        hides(entry)
        hides(line(entry.event))
        for part in ("input", "result", "payload"):  # the bytes, too, whatever is made of them
            value = getattr(entry.event, part, None)
            hides(getattr(value, "data", b""))
    hides([msgspec.to_builtins(item) for item in fold(entries)])
    async for entry in read(app.store, await row_of(app.store, handle.key)):  # the journal as it is, for the act
        if isinstance(entry.event, e.InvokeScheduled):
            hides(line(entry.event))
            hides(entry_record(journal_entry(entry)))
            hides(entry)


def test_the_act_gets_its_secrets_and_nobody_else_does(ground: Ground) -> None:
    """Receipts, tasks, decisions: masked, and an argument that holds a secret is shown as one."""

    async def main(ground: Ground) -> None:
        async with ground.engine(entering, policy=asking()) as app:
            run = await app.start(entering, id="one")
            task = await asked(app, "one")
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(30) == "in"
            for decision in await notes(app, r.Decided, "one"):
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
            while (await run.info()).evidence_sha256 is None:
                await app.changed(1)
            data = await app.store.file(run.key, 0, p.EVIDENCE)
            assert data is not None
            (key,) = await app.store.signing_keys()
            assert verify_bundle(data, [key.public]).good
            return data

    data = virtual.play(main)
    with zipfile.ZipFile(io.BytesIO(data)) as bundle:
        for name in bundle.namelist():
            hides(bundle.read(name))


@workflow(name="secrecy.handed")
async def handed(password: str, token: str) -> str:
    """The secrets come from outside, and the workflow gives one back."""
    await enter(Login("ann", password), token=token)
    return f"entered with {token}"


def test_a_secret_is_masked_wherever_it_stands_in_its_journal(ground: Ground) -> None:
    """Also where it came in before the action that calls it secret, and in what comes out."""

    async def main(ground: Ground) -> None:
        async with ground.engine(handed, policy=policy_of({})) as app:
            run = await app.start(handed, PASSWORD, TOKEN, id="one")
            assert await run.result(30) == f"entered with {TOKEN}"
            shown = [entry async for entry in run.journal()]
            assert shown[0].text == "started('[secret]', '[secret]')"
            assert shown[-1].text == "completed → 'entered with [secret]'"
            hides([entry async for entry in run.tail()])
            hides(shown)
            (call,) = [each.text for each in shown if each.event == "InvokeScheduled"]
            text = "action secrecy.enter({'user': 'ann', 'password': '[secret]'}, token='[secret]') scheduled at #0"
            assert call == text

    ground.play(main)
    assert SEEN == [(PASSWORD, TOKEN)]


def test_a_difference_between_code_and_journal_tells_no_secret(virtual: Ground) -> None:
    """The run is parked with both calls in its reason; neither shows what is secret."""
    tokens = [TOKEN, "another-token"]

    @workflow(name="secrecy.moody")
    async def moody() -> str:
        return await enter(Login("ann", PASSWORD), tokens[0])

    async def main(ground: Ground) -> None:
        async with ground.engine(moody, policy=asking()) as app:
            run = await app.start(moody, id="one")
            task = await asked(app, "one")
            tokens.pop(0)
            await app.tasks.approve(task.id, by="bob")
            while (row := await run.info()).pause_reason is None:
                await app.changed(0.05)
            assert "[secret]" in row.pause_reason
            hides(row)
            assert tokens[0] not in row.pause_reason
            hides(await run.explain())

    virtual.play(main)


def test_a_call_that_an_older_version_recorded_shows_no_argument_and_is_the_same_call() -> None:
    """It does not say which are secret. Compared with what newer code asks for, what that says of them is no matter."""
    promise = PromiseId(b"r" * 32).child(0)
    before = e.InvokeScheduled(promise, "action", "enter", Payload(canonical([[TOKEN], {}])), ONCE)
    after = msgspec.structs.replace(before, input=marked(before.input, [(0, 0)]))
    for call in (before, after):
        hides(line(call))
        hides(visible(call))
        hides(entry_record(journal_entry(e.Entry(0, 0, call))))
    assert line(before) == "action enter('[not shown]') scheduled at #0"
    assert same(before, after)
    assert same(after, msgspec.structs.replace(after, input=marked(before.input, [])))
    assert not same(after, msgspec.structs.replace(after, input=marked(Payload(canonical([["other"], {}])), [(0, 0)])))
    step = msgspec.structs.replace(before, kind="step")
    assert line(step) == f"step enter({TOKEN!r}) scheduled at #0"


@action(connector="crm", operation="all", secret=["rest", "more.pin", "login.password"], name="secrecy.all")
async def everything_secret(login: list[Login], *rest: str, plain: str = "", **more: str) -> str:
    return "done"


def test_secrets_are_found_however_they_are_given() -> None:
    """By position or by name, in what takes the rest of either, in the items of a list."""

    @workflow(name="secrecy.giving")
    async def giving() -> str:
        return await everything_secret([Login("ann", PASSWORD)], TOKEN, TOKEN, plain="seen", pin=TOKEN, town="Ulm")

    async def main(ground: Ground) -> str:
        async with ground.engine(giving, policy=policy_of({})) as app:
            run = await app.start(giving, id="one")
            await run.result(30)
            await everything(app, "one")
            (call,) = [entry async for entry in run.journal() if entry.event == "InvokeScheduled"]
            return str(list(call.fields["input"].values()))

    ground = Ground(None)
    assert ground.play(main) == (
        "[[[{'user': 'ann', 'password': '[secret]'}], '[secret]', '[secret]'], "
        "{'pin': '[secret]', 'town': 'Ulm', 'plain': 'seen'}]"
    )


def test_what_a_workflow_raises_tells_no_secret_of_its_actions(ground: Ground) -> None:
    """It is in the row, in lists, in the exception of whoever waits, in the audit's entry of its end."""

    @workflow(name="secrecy.careless")
    async def careless(token: str) -> str:
        await enter(Login("ann", PASSWORD), token)
        raise ValueError(f"what now, {token} and {PASSWORD!r}?")

    async def main(ground: Ground) -> None:
        async with ground.engine(careless) as app:
            run = await app.start(careless, TOKEN, id="one")
            with pytest.raises(RunFailed, match=r"what now, \[secret\] and .\[secret\]") as raised:
                await run.result(30)
            hides(raised.value.failure)
            hides([row async for row in app.list()])
            await everything(app, "one")
            async for entry in read(app.store, await row_of(app.store, run.key)):
                if isinstance(entry.event, e.ExecutionFailed):
                    hides(entry)

    ground.play(main)
