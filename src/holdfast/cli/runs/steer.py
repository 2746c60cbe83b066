"""``signal``, ``cancel``, ``pause``, ``resume``: moving one run from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import click

from holdfast.cli import options, output, session
from holdfast.cli.runs.show import refuse_ended
from holdfast.cli.selection import Steered, choice, one_or_many, steer
from holdfast.client.engine import Holdfast
from holdfast.client.runs.handle import RunHandle
from holdfast.client.runs.pauses import PAUSED, by_request
from holdfast.client.views.runs import RunInfo, run_record
from holdfast.runs.signals import keyed

Act = Callable[[RunHandle[Any]], Awaitable[None]]


def _steer(url: str, key: tuple[str, str], act: Act | None) -> RunInfo:
    """Do something to a run (nothing in a dry run), and give the run as it is then."""

    async def work(app: Holdfast) -> RunInfo:
        tenant, run = key
        handle = app.run(run, tenant=tenant)
        if act is not None:
            await session.patiently(app, act(handle))
        return await handle.info()

    return session.on_store(url, work, waits=True)


def write(run: RunInfo, action: str, sentence: str, as_json: bool, *, dry_run: bool = False, **more: Any) -> None:
    """Write what was done, or would be."""
    if as_json:
        output.emit({**run_record(run), "action": action, "dry_run": dry_run, **more})
    else:
        output.say(sentence)


@click.command()
@options.one_run
@click.argument("name")
@click.argument("value", required=False)
@click.option("--key", metavar="KEY", help="Only a wait for this key gets it.")
@click.option("--id", "id", metavar="ID", help="An id of your choice: the same one is delivered once.")
@click.option("--expected-version", type=int, metavar="N", help="Send it only to a run that is still at version N.")
@click.option("--wait-token", metavar="TOKEN", help="Send it only while the run waits where this token is of.")
@options.steered_by
def signal(
    run: str,
    tenant: str,
    store: str | None,
    as_json: bool,
    name: str,
    value: str | None,
    key: str | None,
    id: str | None,
    expected_version: int | None,
    wait_token: str | None,
    who: str,
) -> None:
    """Send signal NAME with VALUE (JSON, or plain text; nothing if left out) to a run."""
    content = None if value is None else options.value_of(value)
    # A key is a text, so 1e3 stays 1e3; only an object or a list has more than one spelling.
    chosen = options.value_of(key) if key and key[0] in "{[" else key

    async def send(handle: RunHandle[Any]) -> None:
        await handle.signal(
            name, content, key=chosen, id=id, expected_version=expected_version, wait_token=wait_token, by=who
        )

    info = _steer(session.url_of(store), (tenant, run), send)
    write(info, "signal", f"signal {keyed(name, chosen)!r} sent to run {run}", as_json)


@click.command()
@one_or_many
@click.option("--reason", default="cancelled by request", show_default=True, help="Kept in the journal.")
@click.option("--leave-children", is_flag=True, help="Do not wait for its children to end; its end names those left.")
@options.steered_by
@options.dry_run
def cancel(
    reason: str, leave_children: bool, who: str, dry_run: bool, store: str | None, as_json: bool, **chosen: Any
) -> int:
    """Ask RUN, or each run that the filters choose, to stop; its cleanup runs first."""
    chosen_runs = choice(**chosen)

    async def act(handle: RunHandle[Any]) -> Steered:
        if dry_run:
            refuse_ended(await handle.info(), "cancelled")
            return Steered(f"run {handle.id} would be cancelled")
        await handle.cancel(reason, by=who, leave_children=leave_children)
        return Steered(f"run {handle.id} was asked to stop")

    return steer(session.url_of(store), chosen_runs, None, act, "cancel", dry_run, as_json)


@click.command()
@options.one_run
@click.option("--reason", help="Shown while it is paused.")
@options.steered_by
def pause(run: str, tenant: str, store: str | None, as_json: bool, reason: str | None, who: str) -> None:
    """Stop a run until `holdfast resume`: steps that have begun may end first."""
    why = PAUSED if reason is None else by_request(reason)
    info = _steer(session.url_of(store), (tenant, run), lambda handle: handle.pause(why, by=who))
    write(info, "pause", f"run {run} is paused", as_json)


@click.command()
@one_or_many
@options.steered_by
@options.dry_run
def resume(who: str, dry_run: bool, store: str | None, as_json: bool, **chosen: Any) -> int:
    """Let RUN, or each run that the filters choose, continue after it was paused or parked."""
    chosen_runs = choice(**chosen)

    async def act(handle: RunHandle[Any]) -> Steered:
        if dry_run:
            refuse_ended(await handle.info(), "resumed")
            return Steered(f"run {handle.id} would go on")
        await handle.resume(by=who)
        return Steered(f"run {handle.id} goes on")

    return steer(session.url_of(store), chosen_runs, "paused", act, "resume", dry_run, as_json)
