"""``schedules list``, ``show`` and ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import click

from holdfast.cli import options, output, session
from holdfast.cli.pages import note_rest, read_list
from holdfast.cli.schedules.options import one_schedule
from holdfast.client.engine import Holdfast
from holdfast.client.schedules.explanation import outcome_words
from holdfast.client.views.overview import advice_record
from holdfast.client.views.schedules import ScheduleInfo, TickInfo, schedule_json
from holdfast.client.views.times import clock
from holdfast.client.views.values import compact
from holdfast.runs.advice import Advice
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.schedules.schedule import Status


@click.command("list")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only these. [all but the deleted ones]")
@options.limit
@options.after
@options.any_tenant
@options.store
def list_schedules(
    status: str | None, limit: int, after: str | None, tenant: str | None, store: str | None, as_json: bool
) -> None:
    """List the schedules, by tenant and id."""
    page = read_list(
        store,
        lambda app, size, place: app.schedules.page(status=status, limit=size, after=place, tenant=tenant),
        limit,
        after,
        schedule_json if as_json else None,
    )
    if as_json:
        return
    if not page.items:
        output.note("there are no schedules: `holdfast schedules create` makes one.")
        return
    show_tenant = tenant is None and any(info.tenant != DEFAULT_TENANT for info in page.items)
    rows: list[list[output.Part]] = [[*([info.tenant] if show_tenant else []), *_row(info)] for info in page.items]
    output.table([*(["tenant"] if show_tenant else []), "id", "status", "starts", "when", "next", "last"], rows)
    note_rest(page, limit, "the first")


def _row(info: ScheduleInfo) -> list[output.Part]:
    due = "" if info.due_at is None else clock(info.due_at)
    last = f"{info.last[-1].what} {clock(info.last[-1].tick)}" if info.last else ""
    return [info.id, output.status_cell(info.status), _target(info), info.timing, due, last]


def _target(info: ScheduleInfo) -> str:
    return f"template {info.template}" if info.template else info.workflow or ""


@click.command()
@one_schedule
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the schedule ID: its settings, what became of its last ticks, and its last and next ten times."""

    async def work(app: Holdfast) -> ScheduleInfo:
        return await app.schedules.show(id, tenant=tenant)

    info = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(schedule_json(info))
        return
    output.table([], _settings(info))
    _section("last ticks", [[outcome_words(each)] for each in info.last])
    _section("times before now", _ticks(info.previous))
    _section("next times", _ticks(info.next))


def _settings(info: ScheduleInfo) -> list[list[output.Part]]:
    arguments = [compact(each) for each in info.arguments]
    arguments += [f"{name}={compact(value)}" for name, value in info.named_arguments.items()]
    window = "any time" if info.catch_up_window_seconds is None else f"{info.catch_up_window_seconds:g} s"
    rows: list[tuple[str, str | None]] = [
        ("schedule", info.id),
        ("tenant", info.tenant),
        ("status", info.status),
        ("starts", f"{_target(info)}({', '.join(arguments)})"),
        ("when", info.timing),
        ("overlap", info.overlap),
        ("catch-up", f"{info.catch_up}, within {window}"),
        ("jitter", f"{info.jitter_seconds:g} s" if info.jitter_seconds else None),
        ("owner", info.owner),
        ("paused", info.paused_reason),
        ("over", info.over),
        ("waiting", ", ".join(map(clock, info.waiting)) or None),
        ("last run", info.last_run),
        ("due", None if info.due_at is None else clock(info.due_at)),
        ("problem", info.problem),
    ]
    return [[name, value] for name, value in rows if value]


def _ticks(ticks: Sequence[TickInfo]) -> list[list[output.Part]]:
    return [[clock(tick.at), tick.local, tick.clock_change or ""] for tick in ticks]


def _section(title: str, rows: list[list[output.Part]]) -> None:
    if rows:
        output.say("")
        output.say(f"{title}:")
        output.table([], rows, indent=2)


@click.command()
@one_schedule
def explain(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Say in words what the schedule ID does, why a tick was not started, and what comes next."""

    async def work(app: Holdfast) -> tuple[Sequence[str], Sequence[Advice]]:
        return await app.schedules.explain(id, tenant=tenant), await app.schedules.advice(id, tenant=tenant)

    sentences, advice = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit({"schedule": id, "explanation": list(sentences), "advice": advice_record(advice)})
        return
    for sentence in sentences:
        output.say(sentence)
