"""A request for every route, about the things of a furnished tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from holdfast.server.route import Route
from holdfast.server.routes.table import ROUTES
from tests.unit.client.operations import SERVERLESS, Things, asking, leaf


class Example(msgspec.Struct):
    """What is sent: the variable parts of the path, the query, the body."""

    path: dict[str, str] = {}
    query: dict[str, Any] = {}
    body: dict[str, Any] | None = None


def _definition(things: Things) -> dict[str, Any]:
    end = {"done": {"end": {}}}
    return {"holdfast": "definition/1", "name": f"new.{things.tenant}", "version": 1, "steps": [end]}


def _run(body: dict[str, Any] | None = None, which: str = "waiting", **query: Any) -> Callable[[Things], Example]:
    return lambda it: Example({"run": getattr(it, which)}, query, body)


def _task(body: dict[str, Any] | None = None, **query: Any) -> Callable[[Things], Example]:
    return lambda it: Example({"task": it.task}, query, body)


def _named(body: dict[str, Any] | None = None, **query: Any) -> Callable[[Things], Example]:
    return lambda it: Example({"name": it.definition}, query, body)


def _plain(body: dict[str, Any] | None = None, **query: Any) -> Callable[[Things], Example]:
    return lambda it: Example({}, query, body)


def _template(body: dict[str, Any] | None = None) -> Callable[[Things], Example]:
    return lambda it: Example({"template": it.template}, body=body)


def _schedule(body: dict[str, Any] | None = None) -> Callable[[Things], Example]:
    """The schedules of tests have the ids of templates."""
    return lambda it: Example({"schedule": it.template}, body=body)


def _cell(body: dict[str, Any] | None = None) -> Callable[[Things], Example]:
    return lambda it: Example({"machine": "permitted.counter", "key": it.cell}, body=body)


def _webhook(body: dict[str, Any] | None = None) -> Callable[[Things], Example]:
    return lambda it: Example({"webhook": it.webhook}, body=body)


def _subscription(body: dict[str, Any] | None = None) -> Callable[[Things], Example]:
    return lambda it: Example({"subscription": it.subscription}, body=body)


def _delivery(body: dict[str, Any] | None = None) -> Callable[[Things], Example]:
    return lambda it: Example({"subscription": it.subscription, "message": it.message}, body=body)


EXAMPLES: dict[str, Callable[[Things], Example]] = {
    "runs.list_runs": _plain(status="waiting", limit=5),
    "runs.start": lambda it: Example(body={"workflow": leaf.name, "id": f"new {it.waiting}"}),
    "runs.count": _plain(),
    "runs.show": _run(),
    "runs.signal": _run({"name": "go", "value": 1}, "child"),
    "runs.cancel": _run({"reason": "enough"}, "defined"),
    "runs.pause": _run({}),
    "runs.resume": _run({}),
    "runs.retry": _run({"dry_run": True}, "paid"),
    "runs.fork": _run({"sequence": 1}, "paid"),
    "history.journal": _run(first=1, limit=2),
    "history.timeline": _run(which="paid"),
    "history.state": _run(which="defined"),
    "history.explain": _run(),
    "history.signals": _run(),
    "history.diagram": _run(which="defined", form="mmd"),
    "history.verify": _run(which="paid"),
    "history.evidence": _run(which="paid", anew="true"),
    "bulk.cancel_many": _plain({"filter": {"workflow": asking.name}, "dry_run": True}),
    "bulk.pause_many": _plain({"filter": {"status": "waiting"}, "dry_run": True}),
    "bulk.resume_many": _plain({"filter": {"workflow": asking.name}}),
    "bulk.retry_many": _plain({"all": True, "dry_run": True}),
    "tasks.list_tasks": _plain(status="requested"),
    "tasks.inbox": _plain(),
    "tasks.show": _task(),
    "tasks.file": _task(),
    "tasks.present": _task({}),
    "tasks.claim": _task({}),
    "tasks.release": _task({}),
    "tasks.assign": _task({"to": "somebody"}),
    "tasks.delegate": _task({"to": "somebody"}),
    "tasks.approve": _task({}),
    "tasks.reject": _task({}),
    "tasks.complete": _task({"answer": {"good": True}}),
    "tasks.happened": _task({}),
    "tasks.did_not_happen": _task({}),
    "tasks.give_up": _task({}),
    "definitions.list_definitions": _plain(),
    "definitions.publish": lambda it: Example(body={"documents": [_definition(it)]}),
    "definitions.check": lambda it: Example(body={"document": _definition(it)}),
    "definitions.import_serverless": _plain({"text": SERVERLESS}),
    "definitions.schema": _plain(),
    "definitions.show": _named(),
    "definitions.diagram": _named(form="json"),
    "definitions.text": _named(form="yaml"),
    "definitions.diff": _named(old="1", runs="true"),
    "definitions.migrate": _named({"dry_run": True}),
    "templates.list_templates": _plain(),
    "templates.create": lambda it: Example(body={"id": f"new {it.template}", "program": leaf.name}),
    "templates.show": _template(),
    "templates.new_version": _template({"name": "other"}),
    "templates.activate": _template({}),
    "templates.pause": _template({}),
    "templates.resume": _template({}),
    "templates.archive": _template({}),
    "templates.start": _template({"input": {}}),
    "templates.instances": _template(),
    "templates.instance": _run(which="instance"),
    "templates.emit": lambda it: Example(body={"event": "happened", "id": f"event {it.template}"}),
    "machines.list_machines": _plain(),
    "machines.split_machine": lambda it: Example({"machine": "permitted.counter"}, body={"lanes": 4}),
    "machines.send_event": lambda it: Example(body={"schema": "permitted/Heard@1", "event": {"key": f"new {it.cell}"}}),
    "machines.list_cells": _plain(machine="permitted.counter", where="is_bad=false"),
    "machines.show_cell": _cell(),
    "machines.trace_cell": _cell(),
    "machines.diagnose_cell": _cell(),
    "machines.follow_cell": _cell(),
    "machines.release_cell": _cell({"reason": "mended"}),
    "machines.list_dead_letters": _plain(),
    "machines.redeliver": lambda it: Example({"letter": it.letter}, body={}),
    "schedules.list_schedules": _plain(),
    "schedules.create": lambda it: Example(
        body={"id": f"new {it.template}", "workflow": leaf.name, "every": 3600, "paused": True}
    ),
    "schedules.show": _schedule(),
    "schedules.explain": _schedule(),
    "schedules.change": _schedule({"every": 7200}),
    "schedules.pause": _schedule({}),
    "schedules.resume": _schedule({}),
    "schedules.delete": _schedule({}),
    "schedules.run_now": _schedule({}),
    "schedules.backfill": _schedule(
        {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T01:00:00Z", "dry_run": True}
    ),
    "webhooks.list_webhooks": _plain(),
    "webhooks.create": lambda it: Example(
        body={"id": f"new {it.webhook}", "does": {"do": "start", "template": it.template}, "scheme": "github"}
    ),
    "webhooks.show": _webhook(),
    "webhooks.change": _webhook({"does": {"do": "signal", "run": "=payload.run", "signal": "go"}}),
    "webhooks.rotate": _webhook({}),
    "subscriptions.list_subscriptions": _plain(),
    "subscriptions.create": lambda it: Example(
        body={"id": f"new {it.subscription}", "url": "https://a.example/", "events": ["task.reminded"]}
    ),
    "subscriptions.show": _subscription(),
    "subscriptions.change": _subscription({"events": ["task.*"]}),
    "subscriptions.disable": _subscription({}),
    "subscriptions.enable": _subscription({}),
    "subscriptions.rotate": _subscription({"overlap_seconds": 60}),
    "subscriptions.ping": _subscription({}),
    "subscriptions.deliveries": _subscription(),
    "subscriptions.delivery": _delivery(),
    "subscriptions.resend": _delivery({}),
    "receipts.list_receipts": _plain(),
    "receipts.show": lambda it: Example({"receipt": it.receipt}),
    "receipts.reverse": lambda it: Example({"receipt": it.receipt}, body={"reason": "wrong"}),
    "audit.list_entries": _plain(kind="operator"),
    "audit.verify": _plain({}),
    "audit.head": _plain(),
    "audit.keys": _plain(),
    "audit.public_keys": _plain(),
    "audit.rotate_key": _plain({}),
    "people.list_users": _plain(),
    "people.create_user": lambda it: Example(body={"name": f"new {it.user}", "level": 1}),
    "people.show_user": lambda it: Example({"user": it.user}),
    "people.change_user": lambda it: Example({"user": it.user}, body={"groups": ["a"]}),
    "people.list_tokens": _plain(),
    "people.mint_token": lambda it: Example(body={"user": it.user, "level": 1}),
    "people.revoke_token": lambda it: Example({"token": it.token}, body={}),
    "people.own_tokens": _plain(),
    "people.revoke_own_token": lambda it: Example({"token": it.token}, body={}),
    "people.list_workspaces": _plain(),
    "people.create_workspace": lambda it: Example(body={"name": f"new {it.workspace}"}),
    "people.limit_workspace": lambda it: Example({"workspace": it.workspace}, body={"weight": 2}),
    "people.list_tenants": _plain(),
    "people.create_tenant": lambda it: Example(body={"name": f"new {it.tenant}"}),
    "people.change_tenant": lambda it: Example({"tenant": it.tenant}, body={"title": "other"}),
    "people.archive_workspace": lambda it: Example({"workspace": it.workspace}, body={}),
    "people.show_tenant": _plain(),
    "slack.show_slack": _plain(),
    "slack.use_channel": _plain({"channel": "C0123"}),
    "slack.map_account": lambda it: Example({"account": it.account}, body={"user": it.user}),
    "slack.unmap_account": lambda it: Example({"account": it.account}, body={}),
    "installation.me": _plain(),
    "installation.describe": _plain(),
    "installation.workers": _plain(),
    "installation.health": _plain(),
    "installation.parked": _plain(),
    "installation.retention": _plain(),
    "events.list_events": _plain(),
    "events.run_events": _run(which="paid"),
    "events.task_events": _plain(),
}


async def send(client: httpx.AsyncClient, route: Route, things: Things) -> httpx.Response:
    """Ask for a route; of a stream only its beginning is read."""
    example = EXAMPLES[route.name](things)
    path = route.path
    for name, value in example.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    request = client.build_request(route.method, path, params=example.query, json=example.body)
    response = await client.send(request, stream=True)
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        await response.aclose()
    else:
        await response.aread()
    return response


def route_named(name: str) -> Route:
    return next(route for route in ROUTES if route.name == name)
