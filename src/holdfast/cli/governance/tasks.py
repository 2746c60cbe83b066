"""``tasks`` lists the tasks of people; ``tasks show`` shows all that a person needs to decide."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime, timedelta
from typing import Any, get_args

import click
import msgspec

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.output import Part, TableCell
from holdfast.cli.pages import note_rest, read_pages
from holdfast.client.engine import Holdfast
from holdfast.client.people.permission import operating
from holdfast.client.views.cursors import Page
from holdfast.client.views.forms import field_lines
from holdfast.client.views.receipts import ReceiptInfo, receipt_info
from holdfast.client.views.tasks import AnswerInfo, TaskInfo, task_record
from holdfast.client.views.times import clock, present, span
from holdfast.client.views.values import plain, quoted
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.hints import command
from holdfast.store.protocol import TaskStatus

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
    """List the tasks of people (`tasks`), show one task (`tasks show ID`), or answer one.

    `tasks` is short for `tasks list`, whose help has its options.
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
@click.option("--reference", metavar="REFERENCE", help="Only of runs with this business reference.")
@options.limit
@options.after
@options.any_tenant
@options.store
def list_tasks(
    status: str,
    run: str | None,
    reference: str | None,
    limit: int,
    after: str | None,
    tenant: str | None,
    store: str | None,
    as_json: bool,
) -> None:
    """List tasks, oldest first; by default the open ones of all tenants."""
    wanted: Any = None if status == "all" else status

    async def work(app: Holdfast) -> Page[TaskInfo]:
        def read(size: int, place: str | None) -> Awaitable[Page[TaskInfo]]:
            return app.tasks.page(tenant=tenant, status=wanted, run=run, reference=reference, limit=size, after=place)

        return await read_pages(read, limit, after)

    page = session.on_store(session.url_of(store), work)
    if as_json:
        for task in page.items:
            output.emit(task_record(task))
    elif not page.items:
        output.note("nobody is asked anything." if status == "requested" else "no tasks match.")
    else:
        _write(page.items, show_tenant=tenant is None and any(task.tenant != DEFAULT_TENANT for task in page.items))
        note_rest(page, limit, "the oldest")


def _write(found: list[TaskInfo], *, show_tenant: bool) -> None:
    show_reference = any(task.reference is not None for task in found)
    first = [*(["tenant"] if show_tenant else []), "id", "age", "run", *(["reference"] if show_reference else [])]
    now = present()
    rows = [_row(task, show_tenant, show_reference, now) for task in found]
    output.table([*first, "status", "tier", "who", "expires", "summary"], rows)


def _row(task: TaskInfo, show_tenant: bool, show_reference: bool, now: datetime) -> list[Part]:
    return [
        *([task.tenant] if show_tenant else []),
        task.id,
        span(now - task.created_at),
        task.run,
        *([task.reference or ""] if show_reference else []),
        status_cell(task, now),
        task.tier if task.kind == "approval" else "",
        task.who_may,
        _expiry(task, now),
        output.one_line(task.summary),
    ]


def status_cell(task: TaskInfo, now: datetime) -> TableCell:
    """Its status. A task whose time is over is shown as expired, even before a worker has noted that."""
    if task.is_expired(now):
        return TableCell("expired", STYLES["expired"])
    return TableCell(task.standing, STYLES[task.status])


def _expiry(task: TaskInfo, now: datetime) -> str:
    if task.expires_at is None or task.status != "requested":
        return ""
    left = task.expires_at - now
    return f"in {span(left)}" if left > timedelta() else "now"


@tasks.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show all that a person needs to answer task ID."""

    async def work(app: Holdfast) -> tuple[TaskInfo, ReceiptInfo | None]:
        task = await app.tasks.get(id, tenant=tenant)
        receipt = task.details.get("receipt")
        async with operating(app, "receipts.see", tenant):
            row = None if receipt is None else await app.store.receipt(tenant, str(receipt))
        return task, None if row is None else receipt_info(row)

    task, receipt = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({**task_record(task), "commands": commands(task)})
    else:
        _show(task, receipt)


def _show(task: TaskInfo, receipt: ReceiptInfo | None) -> None:
    rows: list[tuple[str, Part]] = _question(task)
    rows += _form_lines(task) if task.kind == "form" else [*_proposal(task.details), *_reasons(task)]
    if task.kind == "outcome":
        rows += _facts(task.details, receipt)
    rows += [("said", _answer_line(answer)) for answer in task.answers]
    output.table([], [[TableCell(name, "bold"), safe(text)] for name, text in rows])
    if task.status == "requested" and not task.is_expired(present()):
        output.say("")
        for command in commands(task):
            output.say(f"  {command}")


def write_form(task: TaskInfo) -> None:
    """What a person sees before they fill a form in, on stderr: the question, what is shown, and by when."""
    output.note(f"{quoted(task.summary)} (task {task.id}, run {task.run})")
    if help := (task.form or {}).get("description"):
        output.note(str(help))
    for name, value in [*value_lines(task.shown), *_times(task)]:
        output.note(f"  {name.strip()}: {value if isinstance(value, str) else value.text}")
    output.note("Enter takes the default, or leaves an optional field out; Ctrl-C sends nothing.\n")


def safe(part: Part) -> Part:
    """A part on one line: a line break in a text must not forge a line that people decide by."""
    return quoted(part) if isinstance(part, str) else part


def value_lines(values: Any) -> list[tuple[str, Part]]:
    """Named values, a line each; none where they cannot be read."""
    named = plain(values) if isinstance(values, dict) else {}
    return [(f"  {quoted(name)}", quoted(value)) for name, value in named.items()]


def _answer_line(answer: AnswerInfo) -> str:
    reason = f" ({answer.reason})" if answer.reason else ""
    return f"{clock(answer.at)} {answer.who}: {answer.verdict}{reason}"


def _question(task: TaskInfo) -> list[tuple[str, Part]]:
    now = present()
    expires = "never" if task.expires_at is None else f"{clock(task.expires_at)} {_bracketed(task, now)}".strip()
    asked = f"{clock(task.created_at)} ({span(now - task.created_at)} ago)"
    return [
        ("task", task.id),
        ("asks", task.summary),
        ("status", status_cell(task, now)),
        ("tenant", task.tenant),
        ("run", f"{task.run}, started by {task.starter}" if task.starter else task.run),
        *([("reference", task.reference)] if task.reference is not None else []),
        ("asked", asked),
        ("expires", expires),
        ("who", task.who_may + _conditions(task)),
    ]


def _bracketed(task: TaskInfo, now: datetime) -> str:
    left = _expiry(task, now)
    return f"({left})" if left else ""


def _conditions(task: TaskInfo) -> str:
    two = "; two different people must approve" if task.two_person else ""
    other = f"; not {task.starter}" if task.tier == "high" and task.starter else ""
    excluded = f"; not {', '.join(task.excluded)}" if task.excluded else ""
    return two + other + excluded


def _proposal(details: dict[str, Any]) -> list[tuple[str, Part]]:
    """The proposed act, field by field."""
    traits = ["writes" if details.get("writes") else "reads", f"risk {details.get('risk', 'unknown')}"]
    traits.append(f"reversed by {details['reverse']}" if details.get("reverse") else "no reverse")
    return [
        ("action", f"{details.get('action', '')} ({', '.join(traits)})"),
        ("does", f"{details.get('connector', '')} {details.get('operation', '')}"),
        ("target", str(details.get("target") or "none")),
        *value_lines(details.get("fields")),
        *([("key", str(details["key"]))] if "key" in details else []),
        *_earlier(details.get("earlier")),
    ]


def _earlier(earlier: Any) -> list[tuple[str, Part]]:
    """What was asked for under the same key before."""
    if not isinstance(earlier, dict):
        return []
    what = f"under this key, receipt {earlier.get('receipt')} of run {earlier.get('run')}: {earlier.get('state')}"
    return [("before", what), *value_lines(earlier.get("fields"))]


def _form_lines(task: TaskInfo) -> list[tuple[str, Part]]:
    """What a form shows, what it asks for, and the times that it has."""
    rows: list[tuple[str, Part]] = []
    if task.details.get("problem"):
        rows.append(("asked again", str(task.details["problem"])))
    rows += value_lines(task.shown)
    return [*rows, *_fields(task.form or {}), *_times(task)]


def _times(task: TaskInfo) -> list[tuple[str, Part]]:
    """By when it is due, and what time has done to it."""
    times = (("due", task.due_at), ("reminded", task.reminded_at), ("escalated", task.escalated_at))
    return [(name, clock(time)) for name, time in times if time is not None]


def _fields(form: dict[str, Any]) -> list[tuple[str, Part]]:
    """The fields of a form, a line each, with what they want and why; a form without fields as it is."""
    lines = field_lines(form)
    if not lines:
        return [("form", msgspec.json.encode(plain(form)).decode())]
    rows: list[tuple[str, Part]] = [("form", str(form.get("description", "")))]
    for line in lines:
        words = [line.wants, "" if line.required else "optional", line.when]
        help = f": {quoted(line.help)}" if line.help else ""
        rows.append((f"{'  ' * (line.depth + 1)}{quoted(line.name)}", quoted(", ".join(filter(None, words)) + help)))
    return rows


def _reasons(task: TaskInfo) -> list[tuple[str, Part]]:
    if task.kind != "approval":
        return []
    rule = "no rule" if task.rule is None else f"rule {task.rule!r}"
    return [
        ("tier", task.tier),
        ("why", str(task.details.get("why", ""))),
        ("policy", f"{rule} of {task.policy}"),
        ("proposal", f"sha256:{task.proposal}"),
    ]


def _facts(details: dict[str, Any], receipt: ReceiptInfo | None) -> list[tuple[str, Part]]:
    """What was begun, and what is known of its outcome: a person must decide by these."""
    begun = str(details.get("begun", ""))
    if receipt is not None:
        begun = f"attempt {receipt.attempt} at {clock(receipt.opened_at)}, idempotency key {receipt.key}"
    return [
        ("begun", begun),
        ("known", str(details.get("known", ""))),
        ("receipt", str(details.get("receipt", ""))),
    ]


def commands(task: TaskInfo) -> list[str]:
    """The possible answers to the task, as commands."""
    answers = {
        "approval": ["approve", "reject"],
        "outcome": ["resolve --happened --result JSON", "resolve --did-not-happen", "resolve --give-up"],
        "form": ["tasks fill", "tasks complete --answer JSON"],
    }[task.kind]
    words = [answer.split() for answer in [*answers, "tasks claim", "delegate --to NAME"]]
    return [_command(task, first, rest) for first, *rest in words]


def _command(task: TaskInfo, first: str, rest: list[str]) -> str:
    verb, rest = ([first, *rest[:1]], rest[1:]) if first == "tasks" else ([first], rest)
    group = ("--group", task.groups[0]) if task.groups and task.kind == "form" else ()
    return command(*verb, task.id, *rest, "--as", "YOU", *group, tenant=task.tenant)
