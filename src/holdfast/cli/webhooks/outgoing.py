"""``holdfast subscriptions``: addresses that are told of what happens, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, get_args

import click

from holdfast.cli import options, output, session
from holdfast.cli.groups import ListingGroup
from holdfast.cli.webhooks.options import (
    given_secret,
    overlap,
    record,
    secret_file,
    secret_name,
    write,
    write_secret,
)
from holdfast.client.engine import Holdfast
from holdfast.client.views.times import clock
from holdfast.client.views.webhooks import DeliveryInfo, MadeSubscription, SubscriptionInfo
from holdfast.webhooks.subscription import DeliveryStatus


@click.group(cls=ListingGroup)
def subscriptions() -> None:
    """Tell others of runs and tasks. `subscriptions` alone lists the subscriptions."""


@subscriptions.command("list")
@options.tenant
@options.store
def list_subscriptions(tenant: str, store: str | None, as_json: bool) -> None:
    """List a tenant's subscriptions, without their secrets."""

    async def work(app: Holdfast) -> list[SubscriptionInfo]:
        return [each async for each in app.subscriptions.list(tenant=tenant)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for info in found:
            output.emit(record(info))
    elif not found:
        output.note("there are no subscriptions: `holdfast subscriptions create` makes one.")
    else:
        rows: list[list[output.Part]] = [
            [each.id, output.status_cell(each.status), ", ".join(each.events), each.url] for each in found
        ]
        output.table(("id", "status", "events", "url"), rows)


@subscriptions.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the subscription ID."""

    async def work(app: Holdfast) -> SubscriptionInfo:
        return await app.subscriptions.show(id, tenant=tenant)

    info = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(record(info))
    else:
        said = {
            name: ", ".join(value) if isinstance(value, tuple | list) else value for name, value in record(info).items()
        }
        output.table([], [[name.replace("_", " "), str(value)] for name, value in said.items() if value])


@subscriptions.command()
@click.argument("id")
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    required=True,
    metavar="TYPE",
    help="As run.failed or 'task.*'; may be repeated.",
)
@click.option(
    "--workflow", "workflows", multiple=True, metavar="NAME", help="Of these alone, as 'claims.*'; may be repeated."
)
@click.option("--name", default="", metavar="TEXT", help="Its name for people.")
@secret_file
@secret_name
@options.steered_by
@options.why
@options.tenant
@options.store
def create(
    id: str,
    url: str,
    events: tuple[str, ...],
    secret_file: Any,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Tell URL of events, as the subscription ID, and print its secret. It is shown only now."""
    secret = given_secret(secret_file)

    async def work(app: Holdfast) -> MadeSubscription:
        made = app.subscriptions.create(id, url, events, secret=secret, tenant=tenant, by=who, reason=reason, **said)
        return await session.patiently(app, made)

    made = session.on_store(session.url_of(store), work)
    write_secret(made.subscription, made.secret, f"subscription {id} is told from ten seconds on", as_json)


@subscriptions.command()
@click.argument("id")
@click.option("--url", metavar="URL", help="The new address.")
@click.option("--event", "events", multiple=True, metavar="TYPE", help="In place of all before; may be repeated.")
@click.option("--workflow", "workflows", multiple=True, metavar="NAME", help="In place of all before; may be repeated.")
@click.option("--name", metavar="TEXT", help="Its name for people.")
@options.steered_by
@options.why
@options.tenant
@options.store
def change(
    id: str,
    events: tuple[str, ...],
    workflows: tuple[str, ...],
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Change what is given of the subscription ID; the rest stays."""

    async def work(app: Holdfast) -> SubscriptionInfo:
        made = app.subscriptions.change(
            id, events=events or None, workflows=workflows or None, tenant=tenant, by=who, reason=reason, **said
        )
        return await session.patiently(app, made)

    write(session.on_store(session.url_of(store), work), f"subscription {id} is changed", as_json)


def _steered(
    store: str | None,
    work: Callable[[Holdfast], Coroutine[Any, Any, SubscriptionInfo | DeliveryInfo]],
    sentence: str,
    as_json: bool,
) -> None:
    async def patiently(app: Holdfast) -> SubscriptionInfo | DeliveryInfo:
        return await session.patiently(app, work(app))

    write(session.on_store(session.url_of(store), patiently), sentence, as_json)


@subscriptions.command()
@click.argument("id")
@options.steered_by
@options.why
@options.tenant
@options.store
def disable(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Tell the subscription ID nothing more. What waits to be delivered fails."""
    _steered(
        store,
        lambda app: app.subscriptions.disable(id, tenant=tenant, by=who, reason=reason),
        f"subscription {id} is disabled",
        as_json,
    )


@subscriptions.command()
@click.argument("id")
@options.steered_by
@options.why
@options.tenant
@options.store
def enable(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Tell the subscription ID of what happens from now on."""
    _steered(
        store,
        lambda app: app.subscriptions.enable(id, tenant=tenant, by=who, reason=reason),
        f"subscription {id} is enabled",
        as_json,
    )


@subscriptions.command()
@click.argument("id")
@options.steered_by
@options.tenant
@options.store
def ping(id: str, who: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Send the subscription ID an event of the type ping. A worker does so within seconds."""
    _steered(
        store, lambda app: app.subscriptions.ping(id, tenant=tenant, by=who), f"a ping for {id} is on its way", as_json
    )


@subscriptions.command()
@click.argument("id")
@secret_file
@overlap
@options.steered_by
@options.why
@options.tenant
@options.store
def rotate(
    id: str,
    secret_file: Any,
    overlap_seconds: float,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Give the subscription ID a new secret and print it. For the overlap both sign."""
    secret = given_secret(secret_file)

    async def work(app: Holdfast) -> MadeSubscription:
        made = app.subscriptions.rotate(
            id, secret=secret, overlap_seconds=overlap_seconds, tenant=tenant, by=who, reason=reason
        )
        return await session.patiently(app, made)

    made = session.on_store(session.url_of(store), work)
    write_secret(made.subscription, made.secret, f"subscription {id} has a new secret", as_json)


@subscriptions.command()
@click.argument("id")
@click.option("--status", type=click.Choice(get_args(DeliveryStatus)), help="Only these.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True, help="At most so many.")
@click.option("--after", metavar="MESSAGE", help="Go on behind this one.")
@options.tenant
@options.store
def deliveries(
    id: str,
    status: DeliveryStatus | None,
    limit: int,
    after: str | None,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """List the deliveries of the subscription ID, the newest first, with the last answer to each."""

    async def work(app: Holdfast) -> list[DeliveryInfo]:
        found = app.subscriptions.deliveries(id, status=status, limit=limit, after=after, tenant=tenant)
        return list(await found)

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for info in found:
            output.emit(record(info))
    elif not found:
        output.note("there are no deliveries.")
    else:
        output.table(("id", "type", "status", "tries", "due", "last answer"), [_row(each) for each in found])


def _row(info: DeliveryInfo) -> list[output.Part]:
    due = "" if info.due_at is None else clock(info.due_at)
    last = info.last_problem or ("" if info.last_status is None else str(info.last_status))
    return [info.id, info.type, output.status_cell(info.status), str(info.attempts), due, last]


@subscriptions.command()
@click.argument("id")
@click.argument("message")
@options.steered_by
@options.why
@options.tenant
@options.store
def resend(id: str, message: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Send the delivery MESSAGE of the subscription ID again, with the same id and body."""
    _steered(
        store,
        lambda app: app.subscriptions.resend(id, message, tenant=tenant, by=who, reason=reason),
        f"delivery {message} is on its way",
        as_json,
    )
