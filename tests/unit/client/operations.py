"""Every public operation of the client, as a call on things of a tenant: for the tests of permissions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import Cell, Holdfast, Receipt, ask, machine, receive, workflow
from holdfast.client.definitions.app_definitions import AppDefinitions
from holdfast.client.governance.audit import Audit
from holdfast.client.governance.present import ProbedTasks
from holdfast.client.governance.receipts import Receipts
from holdfast.client.governance.tasks import Tasks
from holdfast.client.machines.app_machines import AppMachines
from holdfast.client.machines.cell_handle import CellFollower, CellHandle
from holdfast.client.machines.manifests import AppManifests
from holdfast.client.people.slack import SlackAccounts
from holdfast.client.people.tenants import Tenants, Workspaces
from holdfast.client.people.tokens import Tokens
from holdfast.client.people.users import Users
from holdfast.client.runs.handle import RunHandle
from holdfast.client.schedules.app_schedules import Schedules
from holdfast.client.templates.app_templates import AppTemplates
from holdfast.client.webhooks.app_subscriptions import Subscriptions
from holdfast.client.webhooks.app_webhooks import Webhooks
from holdfast.gate.policy.policy import parse
from holdfast.programs.function.actions import action
from holdfast.programs.function.decorators import Workflow
from holdfast.programs.machine.manifest import MachineManifest
from holdfast.programs.machine.schemas import schema
from holdfast.templates.template import EventRoute
from holdfast.webhooks.webhook import EmitEvent

CLASSES: list[type] = [
    Holdfast,
    RunHandle,
    AppDefinitions,
    Tasks,
    ProbedTasks,
    Receipts,
    Audit,
    Tenants,
    Workspaces,
    Users,
    Tokens,
    AppTemplates,
    AppManifests,
    Schedules,
    SlackAccounts,
    Webhooks,
    Subscriptions,
    AppMachines,
    CellHandle,
]

_DAY = datetime(2026, 1, 1, tzinfo=UTC)

FREE = parse('{"version": 1, "rules": [{"name": "all", "when": "true", "effect": "allow"}]}', "free", clock=lambda: 0)


class Review(msgspec.Struct):
    good: bool = True


@action(connector="bank", operation="refund", name="permitted.refund")
async def refund(receipt: Receipt) -> str:
    return "refunded"


@action(connector="bank", operation="pay", reverse=refund, name="permitted.pay")
async def pay(account: str) -> str:
    return "x" * 40_000  # so that its result is a blob


@workflow(name="permitted.leaf")
async def leaf() -> str:
    return await receive("go", str)


@workflow(name="permitted.paying")
async def paying() -> str:
    return await pay("a-1")


@workflow(name="permitted.asking")
async def asking() -> bool:
    _, answer = await asyncio.gather(leaf(), ask("good?", Review))
    return answer.good


WORKFLOWS: list[Workflow[..., Any]] = [leaf, paying, asking]


@schema("permitted/Heard@1")
class Heard(msgspec.Struct):
    key: str
    is_bad: bool = False
    note: str = ""


@schema("permitted/Told@1")
class Told(msgspec.Struct):
    key: str


@machine(key="key", emits=[Told], name="permitted.counter", lanes=1)
def counter(state: Heard | None, event: Heard, cell: Cell) -> Heard | None:
    if event.is_bad:
        raise ValueError("bad")
    if state is None:
        cell.emit(Told(cell.key))  # nobody hears it
    return event


class Things(msgspec.Struct, frozen=True):
    """Things of one tenant that operations are about."""

    tenant: str
    waiting: str = "waiting"
    paid: str = "paid"
    child: str = "waiting~0"
    defined: str = "defined"
    task: str = ""
    receipt: str = ""
    blob: str = ""
    token: str = ""
    definition: str = "kept.one"
    user: str = "somebody"
    workspace: str = "sales"
    template: str = "offered"
    instance: str = "instance"
    proposal: str = ""
    schedule: str = "yearly"
    account: str = "USOMEBODY"
    webhook: str = "incoming"
    subscription: str = "outgoing"
    message: str = ""
    cell: str = "parked"
    letter: str = ""


MISSING = {name: f"missing-{name}" for name in Things.__struct_fields__ if name not in ("tenant", "blob")}
MISSING["account"] = "UMISSING"
MISSING["letter"] = "permitted.counter:0:7:7"
"""The same of things that are not there."""

Call = Callable[[Holdfast, Things], "Awaitable[Any] | AsyncIterator[Any] | Any"]


def _run(app: Holdfast, things: Things, id: str | None = None) -> RunHandle[Any]:
    return app.run(id or things.waiting, tenant=things.tenant)


def _cell(app: Holdfast, things: Things) -> CellHandle[Any]:
    return app.cell(counter, things.cell, tenant=things.tenant)


async def _seen(app: Holdfast, things: Things) -> list[Any]:
    """The machines of which the tenant has anything: the machines themselves are the process's own."""
    return [each async for each in app.machines.list(tenant=things.tenant) if each.begun]


async def _lanes(app: Holdfast, things: Things) -> list[str]:
    return list(await app.machines.lane_counts(tenant=things.tenant))


async def _cells_of(app: Holdfast, things: Things) -> list[str]:
    found = await app.machines.show(counter, tenant=things.tenant)
    return [*found.cells, *found.paused] + ["begun"] * found.begun


async def _items(app: Holdfast, things: Things) -> list[Any]:
    return (await _cell(app, things).trace()).items


async def _causes(app: Holdfast, things: Things) -> list[Any]:
    return [
        each for each in (await _cell(app, things).diagnose()).causes if each.code not in ("missing", "start_worker")
    ]


async def _tail(app: Holdfast, things: Things) -> list[Any]:
    """The first item; nothing where none comes."""
    try:
        async with asyncio.timeout(0.05), aclosing(_cell(app, things).tail(first=0)) as items:
            return [await anext(items)]
    except TimeoutError:
        return []


SERVERLESS = """
document: {dsl: 1.0.0, namespace: tests, name: greeting, version: 1.0.0}
do:
  - hello: {set: {text: hello}}
"""


def _definition(things: Things) -> dict[str, Any]:
    end = {"done": {"end": {}}}
    return {"holdfast": "definition/1", "name": f"new.{things.tenant}", "version": 1, "steps": [end]}


async def _moves(app: Holdfast, things: Things, *, plan: bool) -> Any:
    to = app.definitions.get("kept.one@2")
    assert to is not None
    if plan:
        return await app.definitions.plan_moves(to, tenant=things.tenant, runs=[things.defined])
    return await app.definitions.migrate(to, tenant=things.tenant, runs=[things.defined])


async def _manifest(app: Holdfast, things: Things) -> Any:
    return (await app.machines.manifest(tenant=things.tenant)).manifest


async def _migrated(app: Holdfast, things: Things) -> Any:
    return list((await app.machines.migrate(counter, tenant=things.tenant)).cells)


CALLS: dict[str, Call] = {
    "Holdfast.whoami": lambda app, it: app.whoami(),
    "Holdfast.start": lambda app, it: app.start(leaf, id=f"new {it.waiting}", tenant=it.tenant),
    "Holdfast.list": lambda app, it: app.list(tenant=it.tenant),
    "Holdfast.page": lambda app, it: app.page(tenant=it.tenant),
    "Holdfast.counts": lambda app, it: app.counts(tenant=it.tenant),
    "Holdfast.workers": lambda app, it: app.workers(),
    "Holdfast.health": lambda app, it: app.health(tenant=it.tenant),
    "RunHandle.details": lambda app, it: _run(app, it).details(),
    "RunHandle.picture": lambda app, it: _run(app, it, it.defined).picture(),
    "RunHandle.timeline": lambda app, it: _run(app, it, it.paid).timeline(),
    "RunHandle.unreceived": lambda app, it: _run(app, it).unreceived(),
    "RunHandle.timeline_window": lambda app, it: _run(app, it, it.paid).timeline_window(),
    "RunHandle.window": lambda app, it: _run(app, it, it.paid).window(),
    "Tasks.inbox": lambda app, it: app.tasks.inbox(tenant=it.tenant),
    "RunHandle.info": lambda app, it: _run(app, it).info(),
    "RunHandle.status": lambda app, it: _run(app, it, it.child).status(),
    "RunHandle.result": lambda app, it: _run(app, it, it.paid).result(timeout=60),
    "RunHandle.settled": lambda app, it: _run(app, it, it.paid).settled(timeout=60),
    "RunHandle.state": lambda app, it: _run(app, it, it.defined).state(),
    "RunHandle.overview": lambda app, it: _run(app, it).overview(),
    "RunHandle.instance": lambda app, it: _run(app, it, it.defined).instance(),
    "RunHandle.signal": lambda app, it: _run(app, it, it.child).signal("go", "now"),
    "RunHandle.journal": lambda app, it: _run(app, it, it.paid).journal(),
    "RunHandle.tail": lambda app, it: _run(app, it, it.paid).tail(),
    "RunHandle.explain": lambda app, it: _run(app, it, it.child).explain(),
    "RunHandle.advice": lambda app, it: _run(app, it, it.child).advice(),
    "RunHandle.verify": lambda app, it: _run(app, it, it.paid).verify(),
    "RunHandle.evidence": lambda app, it: _run(app, it, it.paid).evidence(values=True, anew=True),
    "RunHandle.children": lambda app, it: _run(app, it).children(),
    "RunHandle.pause": lambda app, it: _run(app, it, it.child).pause(),
    "RunHandle.resume": lambda app, it: _run(app, it, it.child).resume(),
    "RunHandle.retry": lambda app, it: _run(app, it, it.paid).retry(),
    "RunHandle.plan_retry": lambda app, it: _run(app, it, it.paid).plan_retry(),
    "RunHandle.fork": lambda app, it: _run(app, it, it.paid).fork(1),
    "AppDefinitions.give": lambda app, it: app.definitions.give([_definition(it)], "warn"),
    "AppDefinitions.add": lambda app, it: app.definitions.add(_definition(it)),
    "AppDefinitions.publish": lambda app, it: app.definitions.publish(_definition(it), tenant=it.tenant),
    "AppDefinitions.publish_all": lambda app, it: app.definitions.publish_all([_definition(it)], tenant=it.tenant),
    "AppDefinitions.compile": lambda app, it: app.definitions.compile(_definition(it), tenant=it.tenant),
    "AppDefinitions.import_serverless": lambda app, it: app.definitions.import_serverless(SERVERLESS, tenant=it.tenant),
    "AppDefinitions.list": lambda app, it: app.definitions.list(tenant=it.tenant),
    "AppDefinitions.load": lambda app, it: app.definitions.load(it.definition, tenant=it.tenant),
    "AppDefinitions.info": lambda app, it: app.definitions.info(it.definition, tenant=it.tenant),
    "AppDefinitions.plan_moves": lambda app, it: _moves(app, it, plan=True),
    "AppDefinitions.migrate": lambda app, it: _moves(app, it, plan=False),
    "Tasks.list": lambda app, it: app.tasks.list(tenant=it.tenant),
    "Tasks.page": lambda app, it: app.tasks.page(tenant=it.tenant),
    "Tasks.get": lambda app, it: app.tasks.get(it.task, tenant=it.tenant),
    "Tasks.approve": lambda app, it: app.tasks.approve(it.task, tenant=it.tenant),
    "Tasks.reject": lambda app, it: app.tasks.reject(it.task, tenant=it.tenant),
    "Tasks.happened": lambda app, it: app.tasks.happened(it.task, tenant=it.tenant),
    "Tasks.did_not_happen": lambda app, it: app.tasks.did_not_happen(it.task, tenant=it.tenant),
    "Tasks.give_up": lambda app, it: app.tasks.give_up(it.task, tenant=it.tenant),
    "Tasks.refusal": lambda app, it: app.tasks.refusal(it.task, tenant=it.tenant),
    "ProbedTasks.present": lambda app, it: app.tasks.present(it.task, tenant=it.tenant),
    "Tasks.check": lambda app, it: app.tasks.check(it.task, tenant=it.tenant),
    "Tasks.file": lambda app, it: app.tasks.file(it.task, tenant=it.tenant),
    "Tasks.claim": lambda app, it: app.tasks.claim(it.task, tenant=it.tenant),
    "Tasks.release": lambda app, it: app.tasks.release(it.task, tenant=it.tenant),
    "Tasks.assign": lambda app, it: app.tasks.assign(it.task, to=it.user, tenant=it.tenant),
    "Tasks.delegate": lambda app, it: app.tasks.delegate(it.task, to=it.user, tenant=it.tenant),
    "Tasks.complete": lambda app, it: app.tasks.complete(it.task, {"good": True}, tenant=it.tenant),
    "Receipts.list": lambda app, it: app.receipts.list(tenant=it.tenant),
    "Receipts.page": lambda app, it: app.receipts.page(tenant=it.tenant),
    "Receipts.get": lambda app, it: app.receipts.get(it.receipt, tenant=it.tenant),
    "Receipts.reverse": lambda app, it: app.receipts.reverse(it.receipt, tenant=it.tenant),
    "Audit.list": lambda app, it: app.audit.list(tenant=it.tenant),
    "Audit.page": lambda app, it: app.audit.page(tenant=it.tenant),
    "Audit.verify": lambda app, it: app.audit.verify(tenant=it.tenant),
    "Audit.head": lambda app, it: app.audit.head(tenant=it.tenant),
    "Audit.keys": lambda app, it: app.audit.keys(),
    "Audit.public_keys": lambda app, it: app.audit.public_keys(),
    "Audit.rotate_key": lambda app, it: app.audit.rotate_key(tenant=it.tenant),
    "Audit.export": lambda app, it: app.audit.export(tenant=it.tenant),
    "AppMachines.send": lambda app, it: app.machines.send(Heard(f"new {it.cell}"), tenant=it.tenant),
    "AppMachines.send_data": lambda app, it: app.machines.send_data(
        "permitted/Heard@1", {"key": f"new {it.cell}"}, tenant=it.tenant
    ),
    "AppMachines.list": lambda app, it: _seen(app, it),
    "AppMachines.show": lambda app, it: _cells_of(app, it),
    "AppMachines.lane_counts": lambda app, it: _lanes(app, it),
    "AppMachines.cells": lambda app, it: app.machines.cells(counter, tenant=it.tenant),
    "AppMachines.cells_page": lambda app, it: app.machines.cells_page(counter, tenant=it.tenant),
    "AppMachines.dead_letters": lambda app, it: app.machines.dead_letters(tenant=it.tenant),
    "AppMachines.dead_letters_page": lambda app, it: app.machines.dead_letters_page(tenant=it.tenant),
    "AppMachines.fork": lambda app, it: app.machines.fork(counter, f"beside {it.tenant}", tenant=it.tenant),
    "AppMachines.verify": lambda app, it: app.machines.verify(counter, tenant=it.tenant),
    "AppMachines.split": lambda app, it: app.machines.split(counter, 4 * counter.lanes, tenant=it.tenant),
    "AppMachines.redeliver": lambda app, it: app.machines.redeliver(it.letter, tenant=it.tenant),
    "CellHandle.state": lambda app, it: _cell(app, it).state(),
    "CellHandle.record": lambda app, it: _cell(app, it).record(),
    "CellHandle.show": lambda app, it: _cell(app, it).show(),
    "CellHandle.trace": lambda app, it: _items(app, it),
    "CellHandle.tail": lambda app, it: _tail(app, it),
    "CellHandle.read_on": lambda app, it: _cell(app, it).read_on(CellFollower(0)),
    "CellHandle.diagnose": lambda app, it: _causes(app, it),
    "CellHandle.proof": lambda app, it: _cell(app, it).proof(),
    "CellHandle.present_lane": lambda app, it: _cell(app, it).present_lane(),
    "CellHandle.release": lambda app, it: _cell(app, it).release(),
    "Holdfast.emit": lambda app, it: app.emit("happened", {}, id=f"event {it.template}", tenant=it.tenant),
    "AppTemplates.show": lambda app, it: app.templates.show(it.template, tenant=it.tenant),
    "AppTemplates.list": lambda app, it: app.templates.list(tenant=it.tenant),
    "AppTemplates.page": lambda app, it: app.templates.page(tenant=it.tenant),
    "AppTemplates.instances": lambda app, it: app.templates.instances(it.template, tenant=it.tenant),
    "AppTemplates.instances_page": lambda app, it: app.templates.instances_page(it.template, tenant=it.tenant),
    "AppTemplates.instance": lambda app, it: app.templates.instance(it.instance, tenant=it.tenant),
    "AppTemplates.start": lambda app, it: app.templates.start(it.template, id=f"new {it.instance}", tenant=it.tenant),
    "AppTemplates.create": lambda app, it: app.templates.create(f"new {it.template}", leaf, tenant=it.tenant),
    "AppTemplates.activate": lambda app, it: app.templates.activate(f"new {it.template}", tenant=it.tenant),
    "AppTemplates.new_version": lambda app, it: app.templates.new_version(it.template, name="other", tenant=it.tenant),
    "AppTemplates.pause": lambda app, it: app.templates.pause(it.template, tenant=it.tenant),
    "AppTemplates.resume": lambda app, it: app.templates.resume(it.template, tenant=it.tenant),
    "Schedules.show": lambda app, it: app.schedules.show(it.schedule, tenant=it.tenant),
    "Schedules.list": lambda app, it: app.schedules.list(tenant=it.tenant),
    "Schedules.page": lambda app, it: app.schedules.page(tenant=it.tenant),
    "Schedules.advice": lambda app, it: app.schedules.advice(it.schedule, tenant=it.tenant),
    "Schedules.explain": lambda app, it: app.schedules.explain(it.schedule, tenant=it.tenant),
    "Schedules.create": lambda app, it: app.schedules.create(
        f"new {it.schedule}", leaf, cron="0 3 * * *", tenant=it.tenant
    ),
    "Schedules.change": lambda app, it: app.schedules.change(it.schedule, cron="0 4 * * *", tenant=it.tenant),
    "Schedules.run_now": lambda app, it: app.schedules.run_now(it.schedule, tenant=it.tenant),
    "Schedules.backfill": lambda app, it: app.schedules.backfill(
        it.schedule, _DAY, _DAY + timedelta(days=2), tenant=it.tenant
    ),
    "Schedules.pause": lambda app, it: app.schedules.pause(it.schedule, tenant=it.tenant),
    "Schedules.resume": lambda app, it: app.schedules.resume(it.schedule, tenant=it.tenant),
    "Schedules.delete": lambda app, it: app.schedules.delete(it.schedule, tenant=it.tenant),
    "AppManifests.manifest": _manifest,
    "AppManifests.proposals": lambda app, it: app.machines.proposals(tenant=it.tenant),
    "AppManifests.proposal": lambda app, it: app.machines.proposal(it.proposal, tenant=it.tenant),
    "AppManifests.migrate": _migrated,
    "AppManifests.recording": lambda app, it: app.machines.recording(counter, tenant=it.tenant),
    "AppManifests.propose": lambda app, it: app.machines.propose(MachineManifest(), tenant=it.tenant),
    "AppManifests.shadow": lambda app, it: app.machines.shadow(it.proposal, tenant=it.tenant),
    "AppManifests.approve": lambda app, it: app.machines.approve(it.proposal, tenant=it.tenant),
    "AppManifests.apply": lambda app, it: app.machines.apply(it.proposal, tenant=it.tenant),
    "AppManifests.reject": lambda app, it: app.machines.reject(it.proposal, tenant=it.tenant),
    "AppTemplates.archive": lambda app, it: app.templates.archive(it.template, tenant=it.tenant),
    "Workspaces.limit": lambda app, it: app.workspaces.limit(it.workspace, weight=2, tenant=it.tenant),
    "Tenants.list": lambda app, it: app.tenants.list(),
    "Tenants.get": lambda app, it: app.tenants.get(it.tenant),
    "Tenants.create": lambda app, it: app.tenants.create(f"new {it.tenant}"),
    "Tenants.change": lambda app, it: app.tenants.change(it.tenant, title="other"),
    "Workspaces.get": lambda app, it: app.workspaces.get(it.workspace, tenant=it.tenant),
    "Workspaces.list": lambda app, it: app.workspaces.list(tenant=it.tenant),
    "Workspaces.create": lambda app, it: app.workspaces.create(f"new {it.workspace}", tenant=it.tenant),
    "Workspaces.archive": lambda app, it: app.workspaces.archive(it.workspace, tenant=it.tenant),
    "Users.list": lambda app, it: app.users.list(tenant=it.tenant),
    "Users.page": lambda app, it: app.users.page(tenant=it.tenant),
    "Users.get": lambda app, it: app.users.get(it.user, tenant=it.tenant),
    "Users.create": lambda app, it: app.users.create(f"new {it.user}", level=1, tenant=it.tenant),
    "Users.set_level": lambda app, it: app.users.set_level(it.user, 1, tenant=it.tenant),
    "Users.set_groups": lambda app, it: app.users.set_groups(it.user, ["desk"], tenant=it.tenant),
    "Users.disable": lambda app, it: app.users.disable(it.user, tenant=it.tenant),
    "Users.enable": lambda app, it: app.users.enable(it.user, tenant=it.tenant),
    "Users.identity": lambda app, it: app.users.identity(it.user, tenant=it.tenant),
    "Users.link": lambda app, it: app.users.link(it.user, issuer="https://id.example", subject="1", tenant=it.tenant),
    "Users.unlink": lambda app, it: app.users.unlink(it.user, tenant=it.tenant),
    "SlackAccounts.show": lambda app, it: app.slack.show(tenant=it.tenant),
    "SlackAccounts.use": lambda app, it: app.slack.use("C0123", tenant=it.tenant),
    "SlackAccounts.map": lambda app, it: app.slack.map(it.account, it.user, tenant=it.tenant),
    "SlackAccounts.unmap": lambda app, it: app.slack.unmap(it.account, tenant=it.tenant),
    "Tokens.list": lambda app, it: app.tokens.list(tenant=it.tenant),
    "Tokens.page": lambda app, it: app.tokens.page(tenant=it.tenant),
    "Tokens.own": lambda app, it: app.tokens.own(),
    "Tokens.revoke_own": lambda app, it: app.tokens.revoke_own(it.token),
    "Tokens.mint": lambda app, it: app.tokens.mint(it.user, tenant=it.tenant),
    "Tokens.revoke": lambda app, it: app.tokens.revoke(it.token, tenant=it.tenant),
    "Webhooks.show": lambda app, it: app.webhooks.show(it.webhook, tenant=it.tenant),
    "Webhooks.list": lambda app, it: app.webhooks.list(tenant=it.tenant),
    "Webhooks.create": lambda app, it: app.webhooks.create(f"new {it.webhook}", EmitEvent("x"), tenant=it.tenant),
    "Webhooks.change": lambda app, it: app.webhooks.change(it.webhook, name="other", tenant=it.tenant),
    "Webhooks.rotate": lambda app, it: app.webhooks.rotate(it.webhook, secret="x" * 40, tenant=it.tenant),
    "Webhooks.receive": lambda app, it: app.webhooks.receive(it.tenant, it.webhook, {}, b"{}"),
    "Subscriptions.show": lambda app, it: app.subscriptions.show(it.subscription, tenant=it.tenant),
    "Subscriptions.list": lambda app, it: app.subscriptions.list(tenant=it.tenant),
    "Subscriptions.create": lambda app, it: app.subscriptions.create(
        f"new {it.subscription}", "https://a.example/", ["task.reminded"], tenant=it.tenant
    ),
    "Subscriptions.change": lambda app, it: app.subscriptions.change(it.subscription, name="other", tenant=it.tenant),
    "Subscriptions.rotate": lambda app, it: app.subscriptions.rotate(
        it.subscription, secret="x" * 40, tenant=it.tenant
    ),
    "Subscriptions.ping": lambda app, it: app.subscriptions.ping(it.subscription, tenant=it.tenant),
    "Subscriptions.deliveries": lambda app, it: app.subscriptions.deliveries(it.subscription, tenant=it.tenant),
    "Subscriptions.delivery": lambda app, it: app.subscriptions.delivery(it.subscription, it.message, tenant=it.tenant),
    "Subscriptions.resend": lambda app, it: app.subscriptions.resend(it.subscription, it.message, tenant=it.tenant),
    "Subscriptions.disable": lambda app, it: app.subscriptions.disable(it.subscription, tenant=it.tenant),
    "Subscriptions.enable": lambda app, it: app.subscriptions.enable(it.subscription, tenant=it.tenant),
    "RunHandle.cancel": lambda app, it: _run(app, it).cancel(),
}
"""How each operation is called; those that end something come last in their class."""


async def outcome(app: Holdfast, name: str, things: Things) -> Any:
    """What a call gives; of a list its items."""
    found = CALLS[name](app, things)
    if isinstance(found, AsyncIterator):
        return [each async for each in found]
    return await found if isinstance(found, Awaitable) else found


async def furnish(app: Holdfast, tenant: str) -> Things:
    """Make a tenant with users of every level and one of everything."""
    await app.tenants.create(tenant)
    for level in range(1, 7):
        await app.users.create(f"level {level}", level=level, tenant=tenant)
    await app.users.create("somebody", level=2, tenant=tenant)
    await app.workspaces.create("sales", tenant=tenant)
    token = await app.tokens.mint("somebody", tenant=tenant)
    await app.slack.use("C0123", tenant=tenant)
    await app.slack.map("USOMEBODY", "somebody", tenant=tenant)
    await app.start(asking, id="waiting", tenant=tenant)
    await app.run("waiting", tenant=tenant).settled(timeout=30)
    await app.run("waiting~0", tenant=tenant).settled(timeout=30)
    await (await app.start(paying, id="paid", tenant=tenant)).result(timeout=30)
    await app.definitions.publish(ONE, tenant=tenant)
    await (await app.start("kept.one", id="defined", tenant=tenant)).settled(timeout=30)
    await app.templates.create("offered", leaf, route=EventRoute("happened", "", "{}"), tenant=tenant)
    await app.templates.activate("offered", tenant=tenant)
    await app.schedules.create("yearly", leaf, cron="0 3 1 1 *", tenant=tenant)
    await (await app.templates.start("offered", id="instance", tenant=tenant)).settled(timeout=30)
    task = await anext(app.tasks.list(tenant=tenant))
    receipt = await anext(app.receipts.list(tenant=tenant))
    await app.webhooks.create("incoming", EmitEvent("happened"), user="level 4", tenant=tenant)
    await app.subscriptions.create("outgoing", "https://a.example/", ["task.reminded"], tenant=tenant)
    await app.subscriptions.disable("outgoing", tenant=tenant)  # nothing is sent from here
    ping = await app.subscriptions.ping("outgoing", tenant=tenant)
    proposal = await app.machines.propose(MachineManifest(), tenant=tenant)
    await app.emit(Heard("parked"), tenant=tenant)
    sent = await app.emit(Heard("parked", True), tenant=tenant)
    await app.cell(counter, "parked", tenant=tenant).state(after=sent.places[0])
    letter = await anext(app.machines.dead_letters(tenant=tenant))
    made = {"task": task.id, "receipt": receipt.id, "token": token.token.id, "message": ping.id}
    return Things(tenant, letter=letter.id, proposal=proposal.id, **made)


def _one(version: int) -> dict[str, Any]:
    steps = [{"go": {"wait": "go"}}, {"done": {"end": {}}}]
    return {"holdfast": "definition/1", "name": "kept.one", "version": version, "steps": steps}


ONE, TWO = _one(1), _one(2)
