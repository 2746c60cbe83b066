"""``tasks complete``, ``tasks fill``, ``tasks file``: the answers to forms, and the files that came with them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from holdfast.cli import exits, options, output, session
from holdfast.cli.governance.answers import give
from holdfast.cli.governance.filler import FormFiller, say, summary
from holdfast.cli.governance.tasks import write_form
from holdfast.client.engine import Holdfast
from holdfast.client.views.tasks import TaskInfo
from holdfast.runs.hints import command
from holdfast.tasks.fields import Schema, fields_of, is_file, parts_of, resolved
from holdfast.tasks.forms import cross_problems, holds_in


def has_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@click.command()
@click.argument("id")
@click.option(
    "--answer",
    "text",
    metavar="JSON",
    help="The answer: what the form asks for, as JSON, or @FILE with it. A file in it is written as @PATH. "
    "Without this a terminal asks field by field.",
)
@options.settle
@options.in_group
@options.done_by
def complete(
    id: str,
    text: str | None,
    settle: float | None,
    groups: tuple[str, ...],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> int:
    """Fill in the form of task ID: its run continues with the answer. An answer that does not fit leaves it open."""
    if text is None:
        return _fill(id, settle, groups, who, reason, tenant, store, as_json)
    value = _given(text)

    async def form_of(app: Holdfast) -> Schema:
        return (await app.tasks.get(id, tenant=tenant)).form or {}

    if _names_files(value):
        form = session.on_store(session.url_of(store), form_of)
        value = with_files(value, form, form)
    give(
        store,
        lambda all_: all_.complete(id, value, by=who, groups=groups, reason=reason, tenant=tenant),
        "complete",
        as_json,
        settle,
    )
    return exits.GOOD


@click.command()
@click.argument("id")
@options.settle
@options.in_group
@options.done_by
def fill(
    id: str,
    settle: float | None,
    groups: tuple[str, ...],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> int:
    """Fill in the form of task ID on the terminal, field by field. Nothing is sent before you agree."""
    return _fill(id, settle, groups, who, reason, tenant, store, as_json)


def _fill(
    id: str,
    settle: float | None,
    groups: Sequence[str],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> int:
    if not has_terminal():
        answering = command("tasks", "complete", id, "--answer", "JSON", "--by", who, tenant=tenant)
        raise click.UsageError(f"there is no terminal to ask on: give the answer as JSON, with `{answering}`.")

    async def read(app: Holdfast) -> TaskInfo:
        return await app.tasks.check(id, by=who, groups=groups, tenant=tenant)

    task = session.on_store(session.url_of(store), read)
    try:
        answer = _asked(task)
    except click.Abort:
        answer = None
    if answer is None:
        say("\nnothing was sent: the task is as it was.")
        return exits.NO
    given = answer[0]
    give(
        store,
        lambda all_: all_.complete(id, given, by=who, groups=groups, reason=reason, tenant=tenant),
        "fill",
        as_json,
        settle,
    )
    return exits.GOOD


def _asked(task: TaskInfo) -> tuple[Any] | None:
    """What a person fills in; None where they do not want it sent. Raises Abort."""
    write_form(task)
    filler = FormFiller(task.form or {}, lambda answer: cross_problems(task.details, answer))
    while True:
        answer = filler.ask()
        say("\nYour answer:")
        summary(answer)
        choice = click.prompt("Send it?", type=click.Choice(["yes", "no", "again"]), default="yes", err=True)
        if choice != "again":
            return (answer,) if choice == "yes" else None


@click.command("file")
@click.argument("id")
@click.argument("place", default="")
@click.option("-o", "--output", "to", metavar="FILE", help="Where to write it; by default under its own name.")
@options.tenant
@options.store
def write_file(id: str, place: str, to: str | None, tenant: str, store: str | None, as_json: bool) -> None:
    """Write a file that came with the answer to task ID. PLACE is where the answer has it, as /scan."""

    async def read(app: Holdfast) -> Any:
        return await app.tasks.file(id, place, tenant=tenant)

    file = session.on_store(session.url_of(store), read)
    path = Path(to if to is not None else Path(file.name).name or "file")
    if to is None and path.exists():
        raise click.UsageError(f"there is a file {path} here already: say where to write it with -o.")
    try:
        path.write_bytes(file.data)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error
    record = {"path": str(path), "name": file.name, "type": file.type, "size": len(file.data), "sha256": file.sha256}
    if as_json:
        output.emit({**record, "action": "file"})
    else:
        output.say(f"{path}: {len(file.data)} bytes, {file.type}, sha256 {file.sha256}")


# -- files in an answer ------------------------------------------------------------------------------------------------


def _given(text: str) -> Any:
    if not text.startswith("@"):
        return options.value_of(text)
    try:
        return options.value_of(Path(text[1:]).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"the answer cannot be read from {text[1:]}: {error}") from error


def _names_files(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_names_files, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and value.startswith("@")


def with_files(value: Any, schema: Schema, form: Schema) -> Any:
    """The answer with paths in place of ``@PATH``, wherever the form wants a file. Other texts stay what they are."""
    field = resolved(schema, form)
    holds = holds_in(form)
    if isinstance(value, str) and value.startswith("@") and is_file(field):
        return Path(value[1:]).expanduser()
    if isinstance(value, dict):
        fields = fields_of(field, form, value, holds)
        return {name: with_files(item, fields.get(name, {}), form) for name, item in value.items()}
    if isinstance(value, list):
        items: Schema = next((part["items"] for part in parts_of(field, form, value, holds) if "items" in part), {})
        return [with_files(item, items, form) for item in value]
    return value
