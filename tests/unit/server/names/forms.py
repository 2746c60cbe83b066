"""The answers that the search expects of the console's forms, written down: nothing here is read from the product.

A form does what a route of the API does, and its operation alone is judged: what it asks of the client is a part of
that. So a form that names the wrong operation would let people do what no route lets them. A form that is new fails the
search until it has its row here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.unit.server.names.table import CALLER, JOE, NEVER


class FormRow(NamedTuple):
    """Who may send a form, what is typed into it, and of what kind the thing of Joe's is that it is about: ``state`` is
    the route for which it is prepared, and ``whose`` in whose name it acts afterwards."""

    level: int
    needs: tuple[str, ...]
    typed: dict[str, str]
    kind: str = ""
    state: str = ""
    whose: str = ""


def _row(level: int, /, *needs: str, **typed: str) -> FormRow:
    return FormRow(level, needs, typed)


def _of(kind: str, state: str, whose: str, level: int, /, *needs: str, **typed: str) -> FormRow:
    return FormRow(level, needs, typed, kind, state, whose)


FORMS: Final[dict[str, FormRow]] = {
    "/bulk/runs/cancel": _row(4, "runs.cancel", filter="status=waiting"),
    "/bulk/runs/pause": _row(4, "runs.pause", filter="status=waiting"),
    "/bulk/runs/resume": _row(4, "runs.resume", filter="status=waiting"),
    "/bulk/runs/retry": _row(4, "runs.retry", filter="status=waiting"),
    "/runs/{run}/cancel": _of("run", "", JOE, 4, "runs.cancel"),
    "/runs/{run}/pause": _of("run", "", JOE, 4, "runs.pause"),
    "/runs/{run}/resume": _of("run", "runs.resume", JOE, 4, "runs.resume"),
    "/runs/{run}/signal": _of("run", "", JOE, 4, "runs.signal", name="go", value="1"),
    "/runs/{run}/retry": _row(4, "runs.retry"),
    "/runs/{run}/fork": _row(4, "runs.fork", sequence="1"),
    "/start/{workflow}": _row(4, "runs.start"),
    "/tasks/{task}/present": _row(2, "tasks.answer"),
    "/tasks/{task}/claim": _row(2, "tasks.answer"),
    "/tasks/{task}/release": _row(2, "tasks.answer"),
    "/tasks/{task}/approve": _row(2, "tasks.answer", proposal="0"),
    "/tasks/{task}/reject": _row(2, "tasks.answer", proposal="0"),
    "/tasks/{task}/complete": _row(2, "tasks.answer"),
    "/tasks/{task}/happened": _row(2, "tasks.answer"),
    "/tasks/{task}/did-not-happen": _row(2, "tasks.answer"),
    "/tasks/{task}/give-up": _row(2, "tasks.answer"),
    "/tasks/{task}/assign": _row(3, "tasks.assign", to="somebody"),
    "/tasks/{task}/delegate": _row(2, "tasks.answer", to="somebody"),
    "/receipts/{receipt}/reverse": _row(4, "receipts.reverse"),
    "/audit/verify": _row(3, "audit.see"),
    "/definitions/{name}/migrate": _row(4, "definitions.move", version="2"),
    "/templates": _row(5, "templates.change", id="fresh", program="permitted.leaf"),
    "/templates/{template}/versions": _of(
        "template", "", CALLER, 5, "templates.change", "templates.start", program="permitted.leaf", trigger="manual"
    ),
    "/templates/{template}/start": _of("template", "", JOE, 4, "templates.start", input="{}"),
    "/templates/{template}/activate": _of(
        "template", "templates.activate", CALLER, 5, "templates.change", "templates.start"
    ),
    "/templates/{template}/pause": _of("template", "", JOE, 5, "templates.change"),
    "/templates/{template}/resume": _of(
        "template", "templates.resume", CALLER, 5, "templates.change", "templates.start"
    ),
    "/templates/{template}/archive": _of("template", "", JOE, 5, "templates.change"),
    "/cells/{machine}/{key}/release": _row(4, "machines.release"),
    "/machines/redeliver": _row(4, "machines.redeliver", letter="permitted.counter:0:1:1"),
    "/schedules": _row(4, "schedules.change", "runs.start", id="fresh", starts="workflow:permitted.leaf", every="3600"),
    "/schedules/{schedule}/run": _of("schedule", "", JOE, 4, "schedules.change", "runs.start"),
    "/schedules/{schedule}/pause": _of("schedule", "", JOE, 4, "schedules.change"),
    "/schedules/{schedule}/resume": _of("schedule", "schedules.resume", CALLER, 4, "schedules.change", "runs.start"),
    "/schedules/{schedule}/backfill": _of(
        "schedule",
        "",
        JOE,
        4,
        "schedules.change",
        "runs.start",
        since="2026-01-01T00:00",
        until="2026-01-01T01:00",
        confirmed="yes",
    ),
    "/schedules/{schedule}/delete": _of("schedule", "", JOE, 4, "schedules.change"),
    "/webhooks/in": _row(5, "webhooks.change", "events.emit", id="fresh", does="emit", target="nothing"),
    "/webhooks/in/{webhook}/disable": _of("webhook", "", JOE, 5, "webhooks.change"),
    "/webhooks/in/{webhook}/enable": _of("webhook", "webhooks.enable", CALLER, 5, "webhooks.change", "events.emit"),
    "/webhooks/in/{webhook}/rotate": _of("webhook", "", CALLER, 5, "webhooks.change", "events.emit"),
    "/webhooks/out": _row(
        5, "subscriptions.change", "tasks.see", id="fresh", url="https://a.example/", events="task.reminded"
    ),
    "/webhooks/out/{subscription}/disable": _of("subscription", "", JOE, 5, "subscriptions.change"),
    "/webhooks/out/{subscription}/enable": _of(
        "subscription", "subscriptions.enable", CALLER, 5, "subscriptions.change", "tasks.see"
    ),
    "/webhooks/out/{subscription}/rotate": _of("subscription", "", CALLER, 5, "subscriptions.change", "tasks.see"),
    "/webhooks/out/{subscription}/ping": _of("subscription", "", JOE, 5, "subscriptions.change"),
    "/webhooks/out/{subscription}/resend": _of("subscription", "", JOE, 5, "subscriptions.change"),
    "/people": _row(6, "users.change", name="fresh", level="1"),
    "/people/{user}": _row(6, "users.change", level="2", groups="a"),
    "/people/{user}/tokens": _row(6, "tokens.change", days="1"),
    "/people/{user}/link": _row(6, "users.change", login="SOMEBODY"),
    "/people/{user}/unlink": _row(6, "users.change", login="SOMEBODY"),
    "/slack/channel": _row(6, "users.change", channel="C0123"),
    "/slack/accounts": _row(6, "users.change", "tasks.answer", account="UFRESH", user="somebody"),
    "/slack/accounts/{account}/unmap": _row(6, "users.change"),
    "/tokens/{token}/revoke": _of("token", "", JOE, 6, "tokens.change"),
    "/me/tokens/{token}/revoke": _row(1, "tokens.revoke_own"),
    "/tenants": _row(NEVER, "tenants.change", name="fresh", title="it"),
    "/tenants/{tenant}": _row(NEVER, "tenants.change", title="it"),
    "/workspaces": _row(6, "workspaces.change", name="fresh", title="it"),
    "/workspaces/{workspace}/caps": _row(6, "workspaces.change", weight="2"),
    "/workspaces/{workspace}/archive": _row(6, "workspaces.change"),
}
"""By the path of the form. Each says why, too."""
