"""``tasks`` lists what people are asked; ``tasks show`` tells all that someone needs to decide."""

from __future__ import annotations

import time
from typing import Any, get_args

import cbor2
import click
import msgspec

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.output import Cell, Part
from holdfast.client.engine import Holdfast
from holdfast.client.views import records
from holdfast.client.views.times import clock, iso, span
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.hints import command
from holdfast.store.protocol import ReceiptRow, TaskAnswer, TaskRow, TaskStatus
from holdfast.tasks.answers import is_expired, standing_of
from holdfast.tasks.eligibility import describe_people, holder_of, is_unanswerable

STYLES = {
    "requested": "blue",
    "approved": "green",
    "completed": "green",
    "rejected": "red",
    "expired": "yellow",
    "cancelled": "magenta",
}


@click.group(cls=ListingGroup)
def tasks() -> None:
    """List what people are asked (`tasks`), show one task (`tasks show ID`), or say something to one.

    `tasks` is short for `tasks list`, which says more about its options.
    """


@tasks.command("list")
@click.option(
    "--status",
    type=click.Choice([*get_args(TaskStatus), "all"]),
    default="requested",
    show_default=True,
    help="Only tasks of this status.",
)
@click.option("--run", metavar="RUN", help="Only what this run asks.")
@options.limit
@options.any_tenant
@options.store
def list_tasks(status: str, run: str | None, limit: int, tenant: str | None, store: str | None, as_json: bool) -> None:
    """List tasks, oldest first; by default the open ones of all tenants."""
    wanted: Any = None if status == "all" else status

    async def work(app: Holdfast) -> list[TaskRow]:
        return [task async for task in app.tasks.list(tenant=tenant, status=wanted, run=run, limit=limit or None)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for task in found:
            output.emit(task_record(task))
    elif not found:
        output.note("nobody is asked anything." if status == "requested" else "no tasks match.")
    else:
        _write(found, show_tenant=tenant is None and any(task.tenant != DEFAULT_TENANT for task in found))
        if limit and len(found) == limit:
            output.note(f"these are the oldest {limit}; --limit 0 shows all.")


def _write(found: list[TaskRow], *, show_tenant: bool) -> None:
    headers = [*(["tenant"] if show_tenant else []), "id", "age", "run", "status", "tier", "who", "expires", "summary"]
    now = _now()
    output.table(headers, [_row(task, show_tenant, now) for task in found])


def _row(task: TaskRow, show_tenant: bool, now: int) -> list[Part]:
    return [
        *([task.tenant] if show_tenant else []),
        task.id,
        span(now - task.created_at),
        task.run,
        status_cell(task, now),
        task.tier if task.kind == "approval" else "",
        who_may(task),
        _expiry(task, now),
        output.one_line(task.summary),
    ]


def status_cell(task: TaskRow, now: int) -> Cell:
    """Its status; one whose time is over has expired, though no worker has noted that yet."""
    if is_expired(task, now):
        return Cell("expired", STYLES["expired"])
    return Cell(standing_of(task), STYLES[task.status])


def who_may(task: TaskRow) -> str:
    """Who may answer."""
    if (holder := holder_of(task)) is not None:
        return f"{holder} ({'delegated' if task.delegated_to else 'owner'})"
    if is_unanswerable(task):
        return f"nobody ({describe_people(task) or 'all'} may not)"
    return describe_people(task) or "anyone"


def _expiry(task: TaskRow, now: int) -> str:
    if task.expires_at is None or task.status != "requested":
        return ""
    left = task.expires_at - now
    return f"in {span(left)}" if left > 0 else "now"


def _now() -> int:
    return time.time_ns() // 1000


def task_record(task: TaskRow) -> dict[str, Any]:
    """A task as ``--json`` writes it."""
    return {
        "id": task.id,
        "tenant": task.tenant,
        "run": task.run,
        "kind": task.kind,
        "status": task.status,
        "version": task.version,
        "summary": task.summary,
        "details": _details(task),
        "tier": task.tier,
        "two_person": task.two_person,
        "candidates": list(task.candidates),
        "groups": list(task.groups),
        "excluded": list(task.excluded),
        "owner": task.owner,
        "delegated_to": task.delegated_to,
        "starter": task.starter,
        "rule": task.rule,
        "policy": task.policy,
        "proposal": task.proposal.hex(),
        "promise_id": str(PromiseId(task.root).child(task.position)),
        "generation": task.generation,
        "created_at": iso(task.created_at),
        "due_at": iso(task.due_at),
        "reminders": [iso(time) for time in task.reminders],
        "reminded_at": iso(task.reminded_at),
        "escalation": None if task.escalation is None else msgspec.to_builtins(task.escalation),
        "escalated_at": iso(task.escalated_at),
        "expires_at": iso(task.expires_at),
        "closed_at": iso(task.closed_at),
        "answers": [_said(said) for said in task.answers],
        "form": _form(task),
    }


def _form(task: TaskRow) -> Any:
    """The form's JSON Schema, None where it has none."""
    try:
        return records.plain(cbor2.loads(task.form)) if task.form else None
    except (cbor2.CBORError, ValueError):
        return None


def _said(said: TaskAnswer) -> dict[str, Any]:
    value = None if said.value is None else records.payload_value(Payload(said.value))
    return {"who": said.who, "verdict": said.verdict, "reason": said.reason, "at": iso(said.at), "value": value}


def _details(task: TaskRow) -> dict[str, Any]:
    try:
        found = records.plain(cbor2.loads(task.details))
    except (cbor2.CBORError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


@tasks.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show all that a person needs to answer task ID."""

    async def work(app: Holdfast) -> tuple[TaskRow, ReceiptRow | None]:
        task = await app.tasks.get(id, tenant=tenant)
        receipt = _details(task).get("receipt")
        return task, None if receipt is None else await app.store.receipt(tenant, str(receipt))

    task, receipt = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**task_record(task), "commands": commands(task)})
    else:
        _show(task, receipt)


def _show(task: TaskRow, receipt: ReceiptRow | None) -> None:
    details = _details(task)
    rows: list[tuple[str, Part]] = _question(task)
    rows += _shown(task, details) if task.kind == "form" else [*_proposal(details), *_reasons(task, details)]
    if task.kind == "outcome":
        rows += _facts(details, receipt)
    rows += [("said", _quoted(said)) for said in task.answers]
    output.table([], [[Cell(name, "bold"), safe(text)] for name, text in rows])
    if task.status == "requested" and not is_expired(task, _now()):
        output.say("")
        for command in commands(task):
            output.say(f"  {command}")


def safe(part: Part) -> Part:
    """A part that cannot pass for several: what people decide by is not to be forged by a line break."""
    return records.shown(part) if isinstance(part, str) else part


def _quoted(said: TaskAnswer) -> str:
    reason = f" ({said.reason})" if said.reason else ""
    return f"{clock(said.at)} {said.who}: {said.verdict}{reason}"


def _question(task: TaskRow) -> list[tuple[str, Part]]:
    now = _now()
    expires = "never" if task.expires_at is None else f"{clock(task.expires_at)} {_bracketed(task, now)}".strip()
    asked = f"{clock(task.created_at)} ({span(now - task.created_at)} ago)"
    return [
        ("task", task.id),
        ("asks", task.summary),
        ("status", status_cell(task, now)),
        ("tenant", task.tenant),
        ("run", f"{task.run}, started by {task.starter}" if task.starter else task.run),
        ("asked", asked),
        ("expires", expires),
        ("who", who_may(task) + _conditions(task)),
    ]


def _bracketed(task: TaskRow, now: int) -> str:
    left = _expiry(task, now)
    return f"({left})" if left else ""


def _conditions(task: TaskRow) -> str:
    two = "; two different people must approve" if task.two_person else ""
    other = f"; not {task.starter}" if task.tier == "high" and task.starter else ""
    excluded = f"; not {', '.join(task.excluded)}" if task.excluded else ""
    return two + other + excluded


def _proposal(details: dict[str, Any]) -> list[tuple[str, Part]]:
    """The act itself, field by field."""
    told = ["writes" if details.get("writes") else "reads", f"risk {details.get('risk', 'unknown')}"]
    told.append(f"reversed by {details['reverse']}" if details.get("reverse") else "no reverse")
    rows: list[tuple[str, Part]] = [
        ("action", f"{details.get('action', '')} ({', '.join(told)})"),
        ("does", f"{details.get('connector', '')} {details.get('operation', '')}"),
        ("target", str(details.get("target") or "none")),
    ]
    fields = details.get("fields")
    for name, value in fields.items() if isinstance(fields, dict) else ():
        rows.append((f"  {records.shown(name)}", records.shown(value)))
    return rows


def _shown(task: TaskRow, details: dict[str, Any]) -> list[tuple[str, Part]]:
    """What a form shows, what it asks for, and the times that it has."""
    rows: list[tuple[str, Part]] = []
    if details.get("problem"):
        rows.append(("asked again", str(details["problem"])))
    shown = details.get("shown")
    for name, value in shown.items() if isinstance(shown, dict) else ():
        rows.append((f"  {records.shown(name)}", records.shown(value)))
    rows.append(("form", msgspec.json.encode(_form(task)).decode()))
    if task.due_at is not None:
        rows.append(("due", clock(task.due_at)))
    if task.reminded_at is not None:
        rows.append(("reminded", clock(task.reminded_at)))
    if task.escalated_at is not None:
        rows.append(("escalated", clock(task.escalated_at)))
    return rows


def _reasons(task: TaskRow, details: dict[str, Any]) -> list[tuple[str, Part]]:
    if task.kind != "approval":
        return []
    rule = "no rule" if task.rule is None else f"rule {task.rule!r}"
    return [
        ("tier", task.tier),
        ("why", str(details.get("why", ""))),
        ("policy", f"{rule} of {task.policy}"),
        ("proposal", f"sha256:{task.proposal.hex()}"),
    ]


def _facts(details: dict[str, Any], receipt: ReceiptRow | None) -> list[tuple[str, Part]]:
    """What was begun, and what is known of it: the two things between which a person must decide."""
    begun = str(details.get("begun", ""))
    if receipt is not None:
        begun = f"attempt {receipt.attempt} at {clock(receipt.opened_at)}, idempotency key {receipt.key}"
    return [
        ("begun", begun),
        ("known", str(details.get("known", ""))),
        ("receipt", str(details.get("receipt", ""))),
    ]


def commands(task: TaskRow) -> list[str]:
    """The answers that the task may get, as commands."""
    answers = {
        "approval": ["approve", "reject"],
        "outcome": ["resolve --happened --result JSON", "resolve --did-not-happen", "resolve --give-up"],
        "form": ["tasks complete --answer JSON"],
    }[task.kind]
    words = [answer.split() for answer in [*answers, "tasks claim", "delegate --to NAME"]]
    return [_command(task, first, rest) for first, *rest in words]


def _command(task: TaskRow, first: str, rest: list[str]) -> str:
    verb, rest = ([first, *rest[:1]], rest[1:]) if first == "tasks" else ([first], rest)
    return command(*verb, task.id, *rest, "--as", "YOU", tenant=task.tenant)
