"""Every form of the console, sent as a browser sends it: what it says is done, with its reason in the audit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from html import unescape
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec

from holdfast import (
    DidNotHappen,
    Happened,
    Holdfast,
    OutcomeUnknown,
    Receipt,
    TerminalError,
    ask,
    receive,
    step_info,
    workflow,
)
from holdfast.client.runs.handle import RunHandle
from holdfast.client.views.tasks import TaskInfo
from holdfast.gate.policy.policy import parse
from holdfast.programs.function.actions import action
from holdfast.server import Server, ServerSettings
from holdfast.server.console.pages.table import FORMS
from holdfast.server.operator import Operator
from tests.serving import token_of
from tests.unit.cli.cli_machines import Poured, Tank, tank

HERE = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
QUICK = ServerSettings(requests_per_second=1e6, requests_at_once=10**6)
WHY = "because of a test"
POLICY = parse(
    """{"version": 1, "allowlist": ["bank/*"], "rules": [
        {"name": "huge", "when": "has(action.fields.amount) && action.fields.amount > 10000", "two_person": true,
         "effect": "needs_approval", "tier": "med", "expires_in": "2d"},
        {"name": "large", "when": "has(action.fields.amount) && action.fields.amount > 100", "effect": "needs_approval",
         "tier": "med"},
        {"name": "limits", "when": "action.operation == 'limit'", "effect": "needs_approval", "tier": "med",
         "candidates": ["ann", "cara"]},
        {"name": "rest", "when": "true", "effect": "allow"}]}""",
    "test",
    clock=lambda: 0,
)


@action(connector="bank", operation="recall", name="pressed.recall")
async def recall(receipt: Receipt) -> str:
    return "recalled"


@action(connector="bank", operation="pay", target="{to}", reverse=recall, name="pressed.pay")
async def pay(to: str, amount: int) -> str:
    if to == "nowhere":
        raise OutcomeUnknown("the line went dead")
    return f"{amount} to {to}"


@workflow(name="pressed.paying")
async def paying(to: str, amount: int = 1) -> str:
    return await pay(to, amount)


async def find(account: str, limit: int, pin: str) -> DidNotHappen | Happened:
    """The present of a limit; an account that hangs never answers, and the pin is quoted back."""
    LOOKED.append(step_info().key)
    if account == "hangs":
        raise ConnectionError("no answer")
    if account == "done":
        return Happened(limit)
    return DidNotHappen({"account": account, "limit": 100, "opened with": f"pin {pin}"})


LOOKED: list[str] = []


@action(connector="bank", operation="limit", target="{account}", probe=find, secret=["pin"], name="pressed.limit")
async def set_limit(account: str, limit: int, pin: str) -> int:
    return limit


@workflow(name="pressed.raising")
async def raising(account: str) -> int:
    return await set_limit(account, 500, "1234")


@workflow(name="pressed.waiting")
async def waiting() -> str:
    return await receive("go", str)


class Review(msgspec.Struct):
    good: bool
    note: str = ""


@workflow(name="pressed.asking")
async def asking() -> str:
    return (await ask("good?", Review)).note


@workflow(name="pressed.failing")
async def failing() -> str:
    raise TerminalError("it does not work")


class Desk:
    """An engine, a person of level 6 at its console, and the operator at another one."""

    def __init__(self, app: Holdfast, ann: httpx.AsyncClient, operator: httpx.AsyncClient) -> None:
        self.app, self.ann, self.operator = app, ann, operator
        self.sent: set[str] = set()

    async def press(self, path: str, *, expect: int = 303, operator: bool = False, **typed: Any) -> httpx.Response:
        """Send a form, with a reason unless it has one."""
        client = self.operator if operator else self.ann
        answer = await client.post(path, data={"reason": WHY, **typed}, headers=HERE)
        assert answer.status_code == expect, (path, answer.status_code, re.findall(r'role="alert">.*', answer.text))
        pattern = next(form.path for form in FORMS if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", form.path), path))
        self.sent.add(pattern)
        return answer

    async def start(self, work: Any, id: str, *args: Any, actor: str = "ben", **kwargs: Any) -> RunHandle[Any]:
        run = await self.app.start(work.bind(*args, **kwargs), id=id, tenant="acme", actor=actor)
        await run.settled(timeout=60)
        return run

    def run(self, id: str) -> RunHandle[Any]:
        return self.app.run(id, tenant="acme")

    async def task(self, run: str) -> TaskInfo:
        return (await self.app.tasks.page(run=run, status=None, tenant="acme")).items[-1]

    async def acts(self) -> list[tuple[str, str]]:
        """What the audit has of operators: act and reason, newest first."""
        page = await self.app.audit.page(tenant="acme", kind="operator", limit=1000)
        return [(each.record["act"], each.record.get("reason", "")) for each in page.items if each.record]


def led_to(answer: httpx.Response) -> str:
    """The id that a form led to."""
    return unquote(answer.headers["location"].rpartition("/")[2])


async def runs(desk: Desk) -> None:
    await desk.press("/start/pressed.waiting", id="r")
    await desk.run("r").settled(timeout=60)
    await desk.press("/runs/r/pause")
    assert await desk.run("r").status() == "paused"
    await desk.press("/runs/r/resume")
    assert (await desk.run("r").settled(timeout=60)).status == "waiting"
    await desk.press("/runs/r/fork", sequence="2", id="forked")
    await desk.press("/runs/r/signal", name="go", value='"now"')
    assert await desk.run("r").result(timeout=60) == "now"
    await desk.press("/runs/forked/cancel")
    assert (await desk.run("forked").settled(timeout=60)).status == "cancelled"
    await desk.start(failing, "f")
    plan = await desk.press("/runs/f/retry", expect=200)
    assert "Nothing has happened yet" in plan.text
    assert await desk.run("f").status() == "failed"
    await desk.press("/runs/f/retry", confirmed="yes")
    assert (await desk.run("f").settled(timeout=60)).status == "failed"
    assert (await desk.run("f").info()).generation == 1
    said = {act for act, why in await desk.acts() if why == WHY}
    assert {"pause", "resume", "fork", "signal", "cancel", "retry"} <= said


async def bulk(desk: Desk) -> None:
    for number in range(2):
        await desk.start(waiting, f"b{number}")
    filter = "workflow=pressed.waiting&status=waiting"
    for act, standing in (("pause", "paused"), ("resume", "waiting"), ("cancel", "cancelled"), ("retry", "waiting")):
        chosen = {"pause": filter, "resume": "status=paused", "cancel": filter, "retry": "status=cancelled"}[act]
        before = [await desk.run(f"b{number}").status() for number in range(2)]
        plan = await desk.press(f"/bulk/runs/{act}", expect=200, filter=chosen)
        assert "Nothing has happened yet" in plan.text
        assert [await desk.run(f"b{number}").status() for number in range(2)] == before, act
        await desk.press(f"/bulk/runs/{act}", expect=200, filter=chosen, confirmed="yes")
        for number in range(2):
            assert (await desk.run(f"b{number}").settled(timeout=60)).status == standing, act
    await desk.press("/bulk/runs/cancel", expect=200, filter=filter, confirmed="yes")


async def tasks(desk: Desk) -> None:
    for name in ("approve", "reject"):
        await desk.start(paying, f"t-{name}", "ann", 200)
        task = await desk.task(f"t-{name}")
        await desk.press(f"/tasks/{task.id}/claim")
        assert (await desk.task(f"t-{name}")).owner == "ann"
        await desk.press(f"/tasks/{task.id}/release")
        await desk.press(f"/tasks/{task.id}/{name}", proposal=task.proposal)
        assert (await desk.task(f"t-{name}")).answers[-1].reason == WHY
    assert [(await desk.task(f"t-{name}")).status for name in ("approve", "reject")] == ["approved", "rejected"]
    for name, verdict in (("happened", "happened"), ("did-not-happen", "did not happen"), ("give-up", "given up")):
        await desk.start(paying, f"t-{name}", "nowhere")
        task = await desk.task(f"t-{name}")
        await desk.press(f"/tasks/{task.id}/{name}", **({"result": '"it is there"'} if name == "happened" else {}))
        assert (await desk.app.tasks.get(task.id, tenant="acme")).answers[-1].verdict == verdict
    assert await desk.run("t-happened").result(timeout=60) == "it is there"
    await desk.start(asking, "t-form")
    task = await desk.task("t-form")
    await desk.press(f"/tasks/{task.id}/assign", to="bob")
    assert (await desk.task("t-form")).holder == "bob"
    await desk.press(f"/tasks/{task.id}/assign", to="ann")
    await desk.press(f"/tasks/{task.id}/delegate", to="bob")
    assert (await desk.task("t-form")).delegated_to == "bob"
    await desk.press(f"/tasks/{task.id}/assign", to="ann")
    await desk.press(f"/tasks/{task.id}/complete", **{"answer/good": "yes", "answer/note": "fine", "sent": "yes"})
    assert await desk.run("t-form").result(timeout=60) == "fine"


async def two_people(desk: Desk) -> None:
    """The first approval leaves the task open; its page names who has approved, the rule, and when it expires."""
    await desk.start(paying, "huge", "bob", 20_000)
    task = await desk.task("huge")
    led = await desk.press(f"/tasks/{task.id}/approve", proposal=task.proposal)
    assert led_to(led) == task.id
    text = (await desk.ann.get(f"/tasks/{task.id}", headers=HERE)).text
    assert "Two people must approve it: ann has, and somebody else must." in text
    assert "You cannot answer this." in text
    assert re.search(r"<dt>Rule</dt><dd>huge</dd>", text)
    assert re.search(r"<dt>Expires</dt><dd><time .*in 1 d 23 h", text)
    await desk.press(f"/tasks/{task.id}/approve", expect=403, proposal=task.proposal)
    await desk.app.tasks.approve(task.id, by="bob", tenant="acme")
    assert await desk.run("huge").result(timeout=60) == "20000 to bob"


async def present(desk: Desk) -> None:
    """The probe's finding is shown beside the proposal, without secrets, and only to who may approve it."""
    await desk.start(raising, "limit", "a-1")
    task = await desk.task("limit")
    assert "Compare with the present" in (await desk.ann.get(f"/tasks/{task.id}", headers=HERE)).text
    assert LOOKED == []  # showing a task reaches nothing
    shown = (await desk.press(f"/tasks/{task.id}/present", expect=200)).text
    assert re.search(r"<td>limit</td><td><del><code>100</code></del></td><td><ins><code>500</code></ins></td>", shown)
    assert re.search(r"<td>account</td>.*stays", shown)
    assert "opened with" in shown
    assert "1234" not in shown
    assert [key.partition(":")[0] for key in LOOKED] == ["bank"]
    bob = await desk.app.tokens.mint("bob", tenant="acme")
    refused = await desk.ann.post(
        f"/v1/tasks/{task.id}/present", headers={"Authorization": f"Bearer {bob.text}"}, json={}
    )
    assert (refused.status_code, len(LOOKED)) == (403, 1)
    await desk.press(f"/tasks/{task.id}/approve", proposal=task.proposal)
    assert await desk.run("limit").result(timeout=60) == 500
    await desk.press(f"/tasks/{task.id}/present", expect=409)
    for account, words in (("done", "It has happened already"), ("hangs", "Nothing was found out")):
        await desk.start(raising, f"limit-{account}", account)
        task = await desk.task(f"limit-{account}")
        assert words in (await desk.press(f"/tasks/{task.id}/present", expect=200)).text
    await desk.start(paying, "no-probe", "ann", 500)
    await desk.press(f"/tasks/{(await desk.task('no-probe')).id}/present", expect=400)


async def receipts_and_audit(desk: Desk) -> None:
    await desk.start(paying, "paid", "bob", 5)
    receipt = (await desk.app.receipts.page(run="paid", tenant="acme")).items[0]
    led = await desk.press(f"/receipts/{receipt.id}/reverse")
    assert (await desk.run(led_to(led)).settled(timeout=60)).status == "completed"
    assert (await desk.app.receipts.get(receipt.id, tenant="acme")).reversed_by is not None
    assert "Nothing is broken" in (await desk.press("/audit/verify", expect=200)).text


def _definition(version: int) -> dict[str, Any]:
    steps = [{"go": {"wait": "go"}}, {"done": {"end": {}}}]
    return {"holdfast": "definition/1", "name": "pressed.kept", "version": version, "steps": steps}


async def definitions(desk: Desk) -> None:
    await desk.app.definitions.publish(_definition(1), tenant="acme")
    run = await desk.app.start("pressed.kept", id="moves", tenant="acme")
    await run.settled(timeout=60)
    await desk.app.definitions.publish(_definition(2), tenant="acme")
    plan = await desk.press("/definitions/pressed.kept/migrate", expect=200, version="2")
    assert "Move 1 run to version 2?" in plan.text
    await desk.press("/definitions/pressed.kept/migrate", version="2", confirmed="yes")
    await run.signal("unheard", None)  # settles behind the move: a run takes its messages in order
    await run.settled(timeout=60)
    again = await desk.press("/definitions/pressed.kept/migrate", expect=200, version="2")
    assert "Move 0 runs to version 2?" in again.text


async def templates(desk: Desk) -> None:
    show = desk.app.templates.show
    await desk.press("/templates", id="offer", program="pressed.paying", trigger="manual", max_concurrency="3")
    assert ((await show("offer", tenant="acme")).status, (await show("offer", tenant="acme")).caps.max_concurrency) == (
        "draft",
        3,
    )
    for act, status in (("activate", "active"), ("pause", "paused"), ("resume", "active")):
        await desk.press(f"/templates/offer/{act}")
        assert (await show("offer", tenant="acme")).status == status
    await desk.press("/templates/offer/versions", program="pressed.paying", trigger="event", event="sold", name="Pay")
    changed = await show("offer", tenant="acme")
    assert (changed.version, changed.name, changed.route and changed.route.event) == (2, "Pay", "sold")
    await desk.press("/templates/offer/start", id="from-it", **{"answer/to": "bob", "answer/amount": "7"})
    assert await desk.run("from-it").result(timeout=60) == "7 to bob"
    await desk.press("/templates/offer/archive")
    assert (await show("offer", tenant="acme")).status == "archived"
    said = [act for act, why in await desk.acts() if why == WHY]
    assert {"create_template", "activate_template", "new_version", "archive_template"} <= set(said)


async def schedules(desk: Desk) -> None:
    show = desk.app.schedules.show
    when = {"cron": "0 6 * * *", "overlap": "allow"}
    await desk.press("/schedules", id="daily", starts="workflow:pressed.paying", input='{"to": "bob"}', **when)
    made = await show("daily", tenant="acme")
    assert (made.workflow, made.overlap, made.cron) == ("pressed.paying", "allow", "0 6 * * *")
    led = await desk.press("/schedules/daily/run")
    assert await desk.run(led_to(led)).result(timeout=60) == "1 to bob"
    await desk.press("/schedules/daily/pause")
    assert (await show("daily", tenant="acme")).status == "paused"
    await desk.press("/schedules/daily/resume")
    times = {"since": "2026-01-01T00:00", "until": "2026-01-02T23:00"}
    plan = await desk.press("/schedules/daily/backfill", expect=200, **times)
    assert "Start 2 runs" in plan.text
    before = len((await desk.app.page(tenant="acme", limit=1000)).items)
    await desk.press("/schedules/daily/backfill", confirmed="yes", **times)
    assert len((await desk.app.page(tenant="acme", limit=1000)).items) == before + 2
    await desk.press("/schedules/daily/delete")
    assert [each.id async for each in desk.app.schedules.list(tenant="acme")] == []


async def webhooks(desk: Desk) -> None:
    """Both kinds are made, paused, and given a new secret; what failed is sent again, and no page shows a secret."""
    app, seen = desk.app, []
    where = {"id": "hub", "does": "emit", "target": "pushed", "scheme": "hmac", "header": "X-Signed"}
    await desk.press("/webhooks/in", expect=400, **{**where, "does": "nothing"})
    made = await desk.press("/webhooks/in", expect=200, **where, filter="=payload.ref == 'main'")
    seen += re.findall(r'id="secret">([^<]+)', made.text)
    for act, status in (("disable", "disabled"), ("enable", "active")):
        await desk.press(f"/webhooks/in/hub/{act}")
        assert (await app.webhooks.show("hub", tenant="acme")).status == status
    seen += re.findall(r'id="secret">([^<]+)', (await desk.press("/webhooks/in/hub/rotate", expect=200)).text)
    assert "no longer as" not in (await desk.ann.get("/webhooks/in/hub", headers=HERE)).text
    await app.users.create("dora", level=5, tenant="acme")
    await app.acting_as("dora", tenant="acme").webhooks.change("hub", filter="=true", disabled=True)
    assert (await app.webhooks.show("hub", tenant="acme")).user == "dora"
    kept = await desk.press("/webhooks/in/hub/rotate", expect=200, user="dora")
    taken = await desk.press("/webhooks/in/hub/enable", expect=200)  # the page shows the secret that ann's webhook has
    assert (await app.webhooks.show("hub", tenant="acme")).user == "ann"
    for shown in (kept, taken):
        seen += re.findall(r'id="secret">([^<]+)', shown.text)
    narrow = (await app.tokens.mint("dora", scope=["webhooks"], tenant="acme")).text
    headers = {**HERE, "Authorization": f"Bearer {narrow}", "Cookie": ""}
    refused = await desk.ann.post("/webhooks/in/hub/rotate", data={"reason": WHY}, headers=headers)
    assert refused.status_code == 403
    assert "use a token that has events.emit in its scope, too" in unescape(refused.text)
    made = await desk.press("/webhooks/out", expect=200, id="ops", url="http://10.9.8.7/", events="run.failed task.*")
    seen += re.findall(r'id="secret">([^<]+)', made.text)
    await desk.press("/webhooks/out/ops/ping")
    await desk.press("/webhooks/out/ops/disable")
    assert (await app.subscriptions.show("ops", tenant="acme")).disabled == WHY
    while not (failed := await app.subscriptions.deliveries("ops", status="failed", tenant="acme")):
        await app.changed(0.1)
    text = (await desk.ann.get("/webhooks/out/ops", headers=HERE)).text
    assert re.search(r"It is told nothing:</strong> because of a test", text)
    await desk.press("/webhooks/out/ops/enable")
    text = (await desk.ann.get("/webhooks/out/ops", headers=HERE)).text
    assert "1 delivery failed" in text
    assert f'name="message" value="{failed[0].id}"' in text
    await desk.press("/webhooks/out/ops/resend", message=failed[0].id)
    while not (await app.subscriptions.delivery("ops", failed[0].id, tenant="acme")).last_problem.count("10.9.8.7"):
        await app.changed(0.1)
    await desk.press("/webhooks/out/ops/resend")
    made = await desk.press("/webhooks/out/ops/rotate", expect=200, now="on")
    seen += re.findall(r'id="secret">([^<]+)', made.text)
    assert len(set(seen)) == 6
    for path in ("/webhooks", "/webhooks/in/hub", "/webhooks/out/ops"):
        text = (await desk.ann.get(path, headers=HERE)).text
        assert not any(secret in text for secret in seen), path
    said = {act for act, why in await desk.acts() if why == WHY}
    assert {"create_webhook", "change_webhook", "rotate_webhook", "resend_delivery", "rotate_subscription"} <= said


async def machines(desk: Desk) -> None:
    for number, litres in ((1, 120), (3, -1), (3, 7)):
        sent = await desk.app.emit(Poured(number, litres), tenant="acme")
        cell = desk.app.cell(tank, number, tenant="acme")
        await cell.state(after=sent.places[0])
    shown = await desk.ann.get("/cells/cli_tank/3", headers=HERE)
    assert "a tank cannot be emptied" in shown.text
    assert "2 held" in shown.text
    await desk.press("/cells/cli_tank/3/release", drop="yes")
    async with asyncio.timeout(60):
        while (await cell.show()).status == "parked":
            await desk.app.changed(0.05)
    assert (await cell.show()).state == Tank(7)
    listed = await desk.ann.get("/cells?machine=cli_tank&where=litres%3D7", headers=HERE)
    assert re.findall(r'href="/cells/cli_tank/(\d+)"', listed.text) == ["3"]
    (letter,) = [each async for each in desk.app.machines.dead_letters(tenant="acme")]
    assert letter.schema in (await desk.ann.get("/machines", headers=HERE)).text
    refused = await desk.press("/machines/redeliver", expect=400, letter=letter.id)
    assert "nobody hears tank/Full@1 still" in refused.text
    assert ("drop_event", WHY) in await desk.acts()


async def people(desk: Desk) -> None:
    users = desk.app.users
    await desk.press("/people", name="cleo", level="3", groups="claims, desk")
    assert (await users.get("cleo", tenant="acme")).groups == ("claims", "desk")
    await desk.press("/people/cleo", level="4", groups="desk", disabled="on")
    cleo = await users.get("cleo", tenant="acme")
    assert (cleo.level, cleo.groups, cleo.disabled) == (4, ("desk",), True)
    await desk.press("/people/cleo", level="4", groups="desk")
    shown = await desk.press("/people/cleo/tokens", expect=200, days="7", purpose="a robot", scope="runs.see, tasks")
    text = re.search(r"hf_\w+", shown.text)
    assert text is not None
    (token,) = [each async for each in desk.app.tokens.list(tenant="acme", user="cleo")]
    assert (token.purpose, token.scope) == ("a robot", ("runs.see", "tasks"))
    await desk.press("/slack/channel", channel="C0123")
    assert (await desk.app.slack.show(tenant="acme")).channel == "C0123"
    await desk.press("/slack/accounts", account="U0CLEO", user="cleo")
    for path in ("/people", "/people/cleo"):
        assert 'action="/slack/accounts/U0CLEO/unmap"' in (await desk.ann.get(path, headers=HERE)).text
    await desk.press("/slack/accounts/U0CLEO/unmap")
    assert (await desk.app.slack.show(tenant="acme")).accounts == []
    await desk.press("/slack/accounts/U0CLEO/unmap", expect=404)
    await desk.press("/people/cleo/link", issuer="https://id.example", subject="0815")
    page = (await desk.ann.get("/people/cleo", headers=HERE)).text
    assert "0815" in page
    assert 'action="/people/cleo/unlink"' in page
    await desk.press("/people/cleo/unlink")
    assert await users.identity("cleo", tenant="acme") is None
    assert "0815" not in (await desk.ann.get("/people/cleo", headers=HERE)).text
    await desk.press(f"/tokens/{token.id}/revoke")
    (token,) = [each async for each in desk.app.tokens.list(tenant="acme", user="cleo")]
    assert token.revoked
    mine = (await desk.app.tokens.mint("ann", tenant="acme", purpose="an old laptop")).token
    await desk.press(f"/me/tokens/{mine.id}/revoke")
    assert [each.id async for each in desk.app.tokens.list(tenant="acme", user="ann") if each.revoked] == [mine.id]


async def tenants(desk: Desk) -> None:
    await desk.press("/tenants", operator=True, name="bolt", title="Bolt AG", max_concurrency="9", sent="tenant")
    assert (await desk.app.tenants.get("bolt")).max_concurrency == 9
    await desk.press("/tenants/bolt", operator=True, title="Bolt SE", weight="2")
    bolt = await desk.app.tenants.get("bolt")
    assert (bolt.title, bolt.max_concurrency, bolt.weight) == ("Bolt SE", None, 2)
    await desk.press("/workspaces", name="sales", title="Sales", sent="workspace")
    await desk.press("/workspaces/sales/caps", max_runs_per_min="60")
    assert (await desk.app.workspaces.get("sales", tenant="acme")).max_runs_per_min == 60
    await desk.press("/workspaces/sales/archive")
    assert (await desk.app.workspaces.get("sales", tenant="acme")).archived


ALL: tuple[Callable[[Desk], Awaitable[None]], ...] = (
    runs,
    bulk,
    tasks,
    two_people,
    present,
    receipts_and_audit,
    definitions,
    templates,
    schedules,
    webhooks,
    machines,
    people,
    tenants,
)


def test_every_form_does_what_it_says() -> None:
    """Each form of the table is sent once at least, and what the store has afterwards is what was asked for."""

    async def main() -> None:
        kinds = [paying, waiting, asking, failing, raising]
        async with Holdfast("memory://", workflows=kinds, policy=POLICY) as app:
            token = await token_of(app, "acme", "ann", 6)
            await app.users.create("bob", level=2, tenant="acme")
            served = httpx.ASGITransport(Server(app, settings=QUICK).asgi)
            root = Operator(app, "root", "acme")
            own = httpx.ASGITransport(Server(app, settings=QUICK, authenticators=[root]).asgi)
            by_key = {"Authorization": f"Bearer {root.key}"}
            headers = {"Authorization": f"Bearer {token}"}
            address = "http://127.0.0.1"
            async with (
                httpx.AsyncClient(transport=served, base_url=address, headers=headers) as ann,
                httpx.AsyncClient(transport=own, base_url=address, headers=by_key) as operator,
            ):
                desk = Desk(app, ann, operator)
                for subject in ALL:
                    await subject(desk)
                assert desk.sent == {form.path for form in FORMS}

    asyncio.run(main())
