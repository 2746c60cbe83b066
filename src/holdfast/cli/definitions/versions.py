"""``def diff`` and ``def migrate``: two versions of a definition, and the live runs between them."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.apps import load_app
from holdfast.cli.definitions.files import compiled
from holdfast.cli.definitions.kept import is_file, published, source_of
from holdfast.client.engine import Holdfast
from holdfast.client.views.moves import MoveInfo, move_record
from holdfast.programs.definition.migration.differences import Difference, differences
from holdfast.programs.definition.model import Accepted

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "renamed": ">"}


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--runs", "with_runs", is_flag=True, help="Say of each live run of OLD whether it could move to NEW.")
@options.app
@options.tenant
@options.store
def diff(old: str, new: str, with_runs: bool, app: str | None, tenant: str, store: str | None, as_json: bool) -> int:
    """Show what the definition NEW has that OLD has not: files, or NAME@VERSION of published ones.

    With --runs exit 1 where a run could not move.
    """
    if with_runs or not (is_file(old) and is_file(new)):
        before, after, moves = session.on_store(_url(store, app), lambda engine: _looked(engine, old, new, tenant, app))
    else:
        before, after, moves = compiled(old, None)[0], compiled(new, None)[0], []
    _check_same(before, after)
    found = differences(before.definition, after.definition)
    if as_json:
        output.emit(
            {
                "name": after.definition.name,
                "old": {"version": before.definition.version, "digest": before.digest},
                "new": {"version": after.definition.version, "digest": after.digest},
                "differences": [msgspec.to_builtins(each) for each in found],
                **({"runs": [move_record(move) for move in moves]} if with_runs else {}),
            }
        )
    else:
        _write_differences(found)
        if with_runs:
            write_moves(moves, asked=False)
    return exits.NO if any(move.verdict == "blocked" for move in moves) else exits.GOOD


async def _looked(
    engine: Holdfast, old: str, new: str, tenant: str, app: str | None
) -> tuple[Accepted, Accepted, Sequence[MoveInfo]]:
    before, after = await named(engine, old, app, tenant), await named(engine, new, app, tenant)
    _check_same(before, after)
    return before, after, await engine.definitions.plan_moves(after, tenant=tenant, before=before)


def _check_same(before: Accepted, after: Accepted) -> None:
    names = before.definition.name, after.definition.name
    if names[0] != names[1]:
        raise click.ClickException(f"these are {names[0]} and {names[1]}: give two versions of one definition")


@click.command()
@click.argument("new")
@click.argument("runs", nargs=-1)
@click.option("--apply/--dry-run", "apply", default=None, help="Ask the runs to move, or only say which could.")
@options.steered_by
@options.why
@options.app
@options.tenant
@options.store
def migrate(
    new: str,
    runs: tuple[str, ...],
    apply: bool | None,
    who: str,
    reason: str,
    app: str | None,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> int:
    """Move live runs of the definition NEW (a file, or NAME@VERSION) to it: RUNS, or all of them.

    Exit 1 where one cannot move.
    """
    if apply is None:
        raise click.UsageError("say --dry-run to see which runs could move, or --apply to move them")

    async def work(engine: Holdfast) -> Sequence[MoveInfo]:
        to, chosen = await named(engine, new, app, tenant), runs or None
        if not apply:
            return await engine.definitions.plan_moves(to, tenant=tenant, runs=chosen)
        asked = engine.definitions.migrate(to, tenant=tenant, runs=chosen, by=who, reason=reason)
        return await session.patiently(engine, asked)

    moves = session.on_store(_url(store, app), work)
    if as_json:
        for move in moves:
            output.emit(move_record(move))
    else:
        write_moves(moves, asked=apply)
    return exits.NO if any(move.verdict == "blocked" for move in moves) else exits.GOOD


async def named(engine: Holdfast, subject: str, app: str | None, tenant: str) -> Accepted:
    """The definition in a file, or else the published one of that name."""
    if is_file(subject):
        return await engine.definitions.compile(source_of(subject), tenant=tenant, check_uses=app is not None)
    return (await published(engine, subject, tenant))[0]


def _url(store: str | None, app: str | None) -> str:
    return session.url_of(store, None if app is None else load_app(app))


def write_moves(moves: Sequence[MoveInfo], *, asked: bool) -> None:
    """A line for each run, and what keeps those that cannot move."""
    for move in moves:
        word = "asked to move" if move.asked else {"safe": "can move", "mapped": "can move, mapped"}.get(move.verdict)
        output.say(f"{move.run}  {move.before} → {move.after}  {word or 'BLOCKED'}")
        for reason in move.reasons:
            output.say(f"    {reason}")
    blocked = sum(move.verdict == "blocked" for move in moves)
    able = len(moves) - blocked
    if not moves:
        output.note("no live run of another version")
    elif asked:
        output.note(f"{able} asked to move, {blocked} blocked; they move when a worker takes them up")
    else:
        output.note(f"{able} can move, {blocked} blocked")


def _write_differences(found: Sequence[Difference]) -> None:
    for each in found:
        output.say(f"{_SIGNS[each.change]} {each.what}" + (f"  ({each.details})" if each.details else ""))
    if not found:
        output.note("nothing differs but the version")
