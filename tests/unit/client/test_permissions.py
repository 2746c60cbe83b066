"""Every public operation has a level, is refused below it, and reaches no other tenant."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, WorkerOptions
from holdfast.client.actor import Actor
from holdfast.client.parts import Parts
from holdfast.client.people.tenant_store import TenantStore
from holdfast.errors import CallerError, HoldfastError, NotPermitted
from holdfast.people.permissions import LEAST
from holdfast.store import protocol as p
from tests.scope import one_stays
from tests.unit.client.operations import (
    CALLS,
    CLASSES,
    FREE,
    MISSING,
    TWO,
    WORKFLOWS,
    Things,
    furnish,
    outcome,
)
from tests.unit.people.levels import NEEDED

HARMLESS = {
    "AppDefinitions.accept_sources": "called when the engine opens; what it reads was given before",
    "AppDefinitions.as_written": "between the parts; a bound client's store is its tenant's",
    "AppDefinitions.bound_to": "between the parts",
    "AppDefinitions.check_name": "looks at the functions of the process",
    "AppDefinitions.get": "the definitions of the process, which it offers to every tenant, as its functions",
    "AppDefinitions.shared_with": "between engines that the process has made",
    "AppDefinitions.start_of": "between the parts",
    "AppDefinitions.to_start": "between the parts, inside of a start",
    "AppDefinitions.unavailable": "as get",
    "AppMachines.cell": "a handle, whose operations are judged",
    "AppMachines.named": "the machines of the process",
    "AppMachines.read_key": "the machines of the process",
    "CellHandle.lane_key": "what the handle was made with",
    "Holdfast.acting_as": "binds; a bound one refuses it",
    "Holdfast.adopt": "a bound one refuses it",
    "Holdfast.audit": "a part, whose operations are judged",
    "Holdfast.binding": "who is bound",
    "Holdfast.caller": "who is bound",
    "Holdfast.cell": "a handle, whose operations are judged",
    "Holdfast.changed": "waits for a hint",
    "Holdfast.check_open": "reads nothing",
    "Holdfast.close": "a bound one does nothing",
    "Holdfast.conditions": "between the parts, inside of an operation",
    "Holdfast.delivered": "a hint",
    "Holdfast.hint": "a hint",
    "Holdfast.is_open": "reads nothing",
    "Holdfast.machine_kind": "the machines of the process",
    "Holdfast.machines": "a part, whose operations are judged",
    "Holdfast.open": "a bound one does nothing",
    "Holdfast.person_of": "who is bound",
    "Holdfast.program_of": "between the parts; reads through the tenant's store",
    "Holdfast.catalogue": "programs that the process has",
    "Holdfast.definitions": "a part, whose operations are judged",
    "Holdfast.has_definitions": "what the process was given",
    "Holdfast.receipts": "a part, whose operations are judged",
    "Holdfast.run": "a handle, whose operations are judged",
    "Holdfast.schedules": "a part, whose operations are judged",
    "Holdfast.slack": "a part, whose operations are judged",
    "Holdfast.subscriptions": "a part, whose operations are judged",
    "Holdfast.webhooks": "a part, whose operations are judged",
    "Holdfast.store": "of a bound one, the tenant's own, and only inside of an operation",
    "Holdfast.tasks": "a part, whose operations are judged",
    "Holdfast.templates": "a part, whose operations are judged",
    "Holdfast.tenant_of": "who is bound",
    "Holdfast.tenants": "a part, whose operations are judged",
    "Holdfast.token": "a new id",
    "Holdfast.tokens": "a part, whose operations are judged",
    "Holdfast.users": "a part, whose operations are judged",
    "Holdfast.wake_sealer": "a hint",
    "Holdfast.whole_store": "between the parts, only inside of an operation",
    "Holdfast.workflow_named": "the functions of the process",
    "Holdfast.policy": "the policy of the process",
    "Holdfast.readers": "the processes that read what users send",
    "Holdfast.repairs": "between the parts",
    "Holdfast.retries": "between the parts",
    "Holdfast.starter": "between the parts",
    "Holdfast.workflows": "the functions of the process",
    "Holdfast.workspaces": "a part, whose operations are judged",
    "RunHandle.id": "what the handle was made with",
    "RunHandle.key": "what the handle was made with",
    "RunHandle.of_caller": "a handle, whose operations are judged",
    "RunHandle.tenant": "what the handle was made with",
}
"""What is public and no operation, each with the reason."""

CLOSED_TO_TENANTS = {
    *(
        "add_signing_key",
        "arrivals",
        "beat",
        "cell_node_names",
        "claim",
        "claim_work",
        "close",
        "commit",
        "decline",
        "due_cells",
        "due_items",
        "due_now",
    ),
    *(
        "evidence_due",
        "evidence_overdue",
        "facts",
        "forget_deliveries",
        "forget_orphans",
        "identity",
        "keep_files",
        "leased",
        "next_due_item",
        "next_wake",
        "oldest_due",
        "orphaned_receipts",
        "owners",
    ),
    *(
        "open",
        "pause",
        "prune",
        "register",
        "report_clock",
        "rescue",
        "seal",
        "signing_keys",
        "sweep",
        "twin",
        "unpause",
        "unregister",
    ),
    *("unsealed", "untold", "watch"),
}
"""What a bound client cannot ask of the store."""


def _members() -> dict[str, Any]:
    found = {}
    for kind in CLASSES:
        owners = (kind, Parts, Actor) if kind is Holdfast else (kind,)
        for owner in owners:
            for name, member in vars(owner).items():
                if not name.startswith("_"):
                    found[f"{kind.__name__}.{name}"] = member
    return found


OPERATIONS = {name: member.operation for name, member in _members().items() if hasattr(member, "operation")}


BUILDS = frozenset(f"AppDefinitions.{name}" for name in ("compile", "import_serverless", "plan_moves", "migrate"))
"""What makes its answer of what it is given."""


def test_everything_public_is_an_operation_or_harmless() -> None:
    """A method that is new must be given a level, or a reason why it needs none."""
    members = {name for name, member in _members().items() if callable(member) or not inspect.isclass(member)}
    assert members - OPERATIONS.keys() - HARMLESS.keys() == set()
    assert HARMLESS.keys() - members == set()


def test_every_operation_is_called_here() -> None:
    assert OPERATIONS.keys() == CALLS.keys()
    assert set(OPERATIONS.values()) <= LEAST.keys()
    assert list(LEAST) == sorted(LEAST)


def test_every_operation_of_the_store_is_open_to_tenants_or_not() -> None:
    """What is new in the store is closed to bound clients until somebody decides."""
    known = {name for name in dir(p.Store) if not name.startswith("_")}
    open_ = {name for name in vars(TenantStore) if not name.startswith("_")}
    assert (open_ | CLOSED_TO_TENANTS, open_ & CLOSED_TO_TENANTS) == (known, set())


@asynccontextmanager
async def furnished(url: str) -> AsyncIterator[tuple[Holdfast, Things, Things]]:
    options = WorkerOptions(retention_days=None, webhooks=False)
    async with Holdfast(url, workflows=WORKFLOWS, policy=FREE, options=options) as app:
        things = [await furnish(app, tenant) for tenant in ("acme", "bolt")]
        app.definitions.add(TWO)
        yield app, things[0], things[1]


@pytest.fixture(params=one_stays(["memory", "sqlite"]))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


def test_each_operation_needs_its_level(url: str) -> None:
    """Below it nothing happens but the refusal, which names it; from it on the answer is the operation's own."""

    async def main() -> None:
        async with furnished(url) as (app, acme, _):
            for name, operation in OPERATIONS.items():
                for level in range(1, 7):
                    client = app.acting_as(f"level {level}", tenant="acme")
                    await client.whoami()
                    refused: NotPermitted | None = None
                    try:
                        await outcome(client, name, acme)
                    except NotPermitted as error:
                        refused = error
                    except CallerError:
                        pass  # the operation's own: the task is answered already, say
                    needed = NEEDED[operation]
                    if name == "Audit.rotate_key" and level == 6:
                        assert refused is not None
                        assert "other tenants" in str(refused)
                        continue
                    assert (refused is not None) == (level < needed), (name, level, refused)
                    if refused is not None:
                        assert refused.operation == operation
                        asked = "operator of the installation" if needed == 7 else f"level {needed}"
                        assert asked in str(refused)

    asyncio.run(main())


async def _everything(app: Holdfast, tenant: str) -> dict[str, Any]:
    """What can be seen of a tenant from outside. Its runs wait, so nothing of it moves by itself."""
    store = app.store
    return {
        "runs": [
            (run.key, run.version, run.pause, run.standing, run.arrived)
            for run in await store.find(p.Query(tenant=tenant), 99)
        ],
        "tasks": await store.tasks(p.TaskQuery(tenant), 99),
        "receipts": await store.receipts(p.ReceiptQuery(tenant), 99),
        "definitions": await store.definitions(tenant, 99),
        "items": [
            row
            for kind in (
                "user",
                "token",
                "token_use",
                "tenant",
                "workspace",
                "template",
                "manifest",
                "manifest_proposal",
                "route",
                "event",
                "cap",
                "schedule",
                "slack_account",
                "slack_channel",
                "webhook",
                "webhook_secret",
                "subscription",
                "delivery",
            )
            for row in await store.items(kind, 99, tenant=tenant)
        ],
        "cells": await store.find_cells(p.CellQuery(tenant, "permitted.counter"), 99),
        "dead letters": await store.dead_letters(tenant, 99),
        "audit": [entry.body for entry in await store.entries(p.AuditQuery(tenant), 999)],
    }


def _comparable(value: Any, *things: Things) -> str:
    """What somebody was told, with the names of things for the things themselves."""
    fields = [field for field in Things.__struct_fields__ if field not in ("tenant", "blob")]
    names = {getattr(each, field): f"<{fields.index(field)}>" for each in things for field in fields}
    text = repr(value)
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text


async def _described(app: Holdfast, name: str, things: Things) -> Any:
    try:
        return await outcome(app, name, things)
    except HoldfastError as error:
        return type(error), str(error)


OWN = {"Holdfast.whoami", "Holdfast.workers", "Audit.keys", "Audit.public_keys", "Tenants.list", "Tokens.own"}
"""Operations that name no tenant."""


def test_no_operation_reaches_another_tenant(url: str) -> None:
    """Whatever the level: what is there is missing exactly like what is not, and nothing there changes."""

    async def main() -> None:
        async with furnished(url) as (app, _, bolt):
            nothing = msgspec.structs.replace(bolt, **MISSING)
            before = await _everything(app, "bolt")
            for level in (1, 4, 6):
                client = app.acting_as(f"level {level}", tenant="acme")
                await client.whoami()
                for name in OPERATIONS.keys() - OWN:
                    there, nowhere = await _described(client, name, bolt), await _described(client, name, nothing)
                    assert _comparable(there, bolt, nothing) == _comparable(nowhere, bolt, nothing), name
                    is_empty = there in (None, [], ()) or getattr(there, "items", None) == []
                    is_lane = name == "CellHandle.present_lane" and there[0] == "bolt"  # as the handle was made
                    is_refused = isinstance(there, tuple) and not is_lane and issubclass(there[0], CallerError)
                    builds = name in BUILDS
                    shows_workers = name == "Holdfast.health" and not there.runs and there.store_bytes is None
                    assert is_empty or is_refused or builds or shows_workers or is_lane, (name, there)
            assert await _everything(app, "bolt") == before
            assert [each.name async for each in app.acting_as("level 6", tenant="acme").tenants.list()] == ["acme"]

    asyncio.run(main())
