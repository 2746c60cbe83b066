"""``holdfast webhooks``: addresses at which others tell us something."""

from __future__ import annotations

from typing import Any, get_args

import click
import msgspec

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
from holdfast.client.views.webhooks import ChangedWebhook, MadeWebhook, WebhookInfo
from holdfast.errors import InvalidRequest
from holdfast.webhooks.signatures import Scheme
from holdfast.webhooks.webhook import EmitEvent, SignalRun, StartTemplate, WebhookAct


@click.group(cls=ListingGroup)
def webhooks() -> None:
    """Let others start templates and signal runs. `webhooks` alone lists the webhooks."""


@webhooks.command("list")
@options.tenant
@options.store
def list_webhooks(tenant: str, store: str | None, as_json: bool) -> None:
    """List a tenant's webhooks, without their secrets."""

    async def work(app: Holdfast) -> list[WebhookInfo]:
        return [each async for each in app.webhooks.list(tenant=tenant)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for info in found:
            output.emit(record(info))
    elif not found:
        output.note("there are no webhooks: `holdfast webhooks create` makes one.")
    else:
        rows: list[list[output.Part]] = [
            [each.id, output.status_cell(each.status), each.scheme, _does(each), each.user] for each in found
        ]
        output.table(("id", "status", "scheme", "does", "as"), rows)


def _does(info: WebhookInfo) -> str:
    parts: dict[str, str] = msgspec.to_builtins(info.does)
    return " ".join([parts.pop("do"), *(f"{name} {text}" for name, text in parts.items() if text)])


@webhooks.command()
@click.argument("id")
@options.tenant
@options.store
def show(id: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the webhook ID."""

    async def work(app: Holdfast) -> WebhookInfo:
        return await app.webhooks.show(id, tenant=tenant)

    info = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(record(info))
    else:
        said = {**record(info), "does": _does(info)}
        output.table([], [[name.replace("_", " "), str(value)] for name, value in said.items() if value])


def _acts(function: options.F) -> options.F:
    for option in (
        click.option("--key", default="", metavar="TEXT", help="With --signal: the key that a definition waits for."),
        click.option(
            "--with", "value", default="", metavar="=EXPR", help="Its data, input or value. [the whole payload]"
        ),
        click.option("--run", metavar="TEXT", help="With --signal: the run, as =payload.order."),
        click.option("--signal", metavar="NAME", help="Send this signal to a run."),
        click.option("--start", metavar="TEMPLATE", help="Start an instance of this template."),
        click.option("--emit", metavar="EVENT", help="Tell templates of this event, as app.emit does."),
    ):
        function = option(function)
    return function


def _act(emit: str | None, start: str | None, signal: str | None, run: str | None, value: str, key: str) -> WebhookAct:
    if sum(each is not None for each in (emit, start, signal)) != 1 or (run is None) != (signal is None):
        raise InvalidRequest("say one of --emit EVENT, --start TEMPLATE, and --signal NAME with --run RUN")
    if emit is not None:
        return EmitEvent(emit, value)
    if start is not None:
        return StartTemplate(start, value)
    return SignalRun(run or "", signal or "", value, key)


@webhooks.command()
@click.argument("id")
@_acts
@click.option("--user", metavar="NAME", help="In whose name it acts: a user of level 4 or more. [your own]")
@click.option(
    "--scheme", type=click.Choice(get_args(Scheme)), default="standard", show_default=True, help="Who signs how."
)
@click.option("--header", default="", metavar="NAME", help="With --scheme hmac: the header that has the signature.")
@click.option("--id-header", default="", metavar="NAME", help="Believe the id in this header, which is not signed.")
@click.option("--filter", default="", metavar="=EXPR", help="Do something only where this holds.")
@click.option("--name", default="", metavar="TEXT", help="Its name for people.")
@secret_file
@secret_name
@options.steered_by
@options.why
@options.tenant
@options.store
def create(
    id: str,
    secret_file: Any,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
    **said: Any,
) -> None:
    """Make the webhook ID and print its secret. It is shown only now.

    Texts that begin with = are expressions over `payload`, `headers` and `delivery`.
    """
    does = _act(*(said.pop(name) for name in ("emit", "start", "signal", "run", "value", "key")))
    secret = given_secret(secret_file)

    async def work(app: Holdfast) -> MadeWebhook:
        made = app.webhooks.create(id, does, secret=secret, tenant=tenant, by=who, reason=reason, **said)
        return await session.patiently(app, made)

    made = session.on_store(session.url_of(store), work)
    write_secret(made.webhook, made.secret, f"webhook {id} takes deliveries at {made.webhook.path}", as_json)


@webhooks.command()
@click.argument("id")
@_acts
@click.option("--user", metavar="NAME", help="In whose name it acts.")
@click.option("--filter", metavar="=EXPR", help="Do something only where this holds.")
@click.option("--name", metavar="TEXT", help="Its name for people.")
@click.option("--disable/--enable", "disabled", default=None, help="Whether it refuses everything.")
@options.steered_by
@options.why
@options.tenant
@options.store
def change(id: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool, **said: Any) -> None:
    """Change what is given of the webhook ID; the rest stays.

    A user who changes what it does, its filter, or enables it, is in whose name it acts from then on. If what it does
    or its user changes, its secret ends, and a new one is printed. It is shown only now.
    """
    acts = [said.pop(name) for name in ("emit", "start", "signal", "run", "value", "key")]
    does = _act(*acts) if any(acts) else None

    async def work(app: Holdfast) -> ChangedWebhook:
        made = app.webhooks.change(id, does=does, tenant=tenant, by=who, reason=reason, **said)
        return await session.patiently(app, made)

    changed = session.on_store(session.url_of(store), work)
    sentence = f"webhook {id} is changed, and acts as {changed.user}"
    if changed.secret is None:
        write(changed, sentence, as_json)
    else:
        write_secret(changed, changed.secret, f"{sentence}; its secret before has ended", as_json)


@webhooks.command()
@click.argument("id")
@secret_file
@overlap
@click.option("--user", metavar="NAME", help="In whose name it acts from now on. [your own]")
@options.steered_by
@options.why
@options.tenant
@options.store
def rotate(
    id: str,
    secret_file: Any,
    overlap_seconds: float,
    user: str | None,
    who: str,
    reason: str,
    tenant: str,
    store: str | None,
    as_json: bool,
) -> None:
    """Give the webhook ID a new secret and print it. It is shown only now.

    It acts in your name from then on. The secret before it ends at once if that is another user than before.
    """
    secret = given_secret(secret_file)

    async def work(app: Holdfast) -> MadeWebhook:
        made = app.webhooks.rotate(
            id, secret=secret, user=user, overlap_seconds=overlap_seconds, tenant=tenant, by=who, reason=reason
        )
        return await session.patiently(app, made)

    made = session.on_store(session.url_of(store), work)
    write_secret(made.webhook, made.secret, f"webhook {id} has a new secret, and acts as {made.webhook.user}", as_json)
