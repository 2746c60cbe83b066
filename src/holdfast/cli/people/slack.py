"""``slack``: where a tenant's approvals are shown in Slack, which accounts are which users, and whether it works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.client.engine import Holdfast
from holdfast.client.views.slack import SlackAccountInfo, SlackInfo
from holdfast.errors import InvalidSettings

if TYPE_CHECKING:
    from holdfast.slack.checks import SlackFinding


@click.group()
def slack() -> None:
    """Show a tenant's approvals in Slack: the channel, which accounts are which users, and whether it works."""


@slack.command()
@options.tenant
@options.store
def show(tenant: str, store: str | None, as_json: bool) -> None:
    """Show a tenant's channel and its accounts."""

    async def work(app: Holdfast) -> SlackInfo:
        return await app.slack.show(tenant=tenant)

    _write(session.on_store(session.url_of(store), work), as_json)


@slack.command()
@click.argument("channel", required=False)
@click.option("--none", "stop", is_flag=True, help="Show no new approvals any more.")
@options.steered_by
@options.why
@options.tenant
@options.store
def use(channel: str | None, stop: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Show the tenant's approvals in CHANNEL, which is its id in Slack, such as C0123456789."""
    if (channel is None) != stop:
        raise click.UsageError("name the CHANNEL, or give --none.")

    async def work(app: Holdfast) -> SlackInfo:
        return await session.patiently(app, app.slack.use(channel, tenant=tenant, by=who, reason=reason))

    _write(session.on_store(session.url_of(store), work), as_json)


@slack.command("map")
@click.argument("account")
@click.argument("user")
@options.steered_by
@options.why
@options.tenant
@options.store
def map_account(account: str, user: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let ACCOUNT, a member id in Slack such as U0123456789, stand for USER. It counts at once."""

    async def work(app: Holdfast) -> SlackAccountInfo:
        change = app.slack.map(account, user, tenant=tenant, by=who, reason=reason)
        return await session.patiently(app, change)

    made = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(msgspec.to_builtins(made))
    else:
        output.say(f"Slack account {made.account} stands for {made.user} of tenant {made.tenant}")


@slack.command()
@click.argument("account")
@options.steered_by
@options.why
@options.tenant
@options.store
def unmap(account: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Let ACCOUNT stand for nobody from now on."""

    async def work(app: Holdfast) -> SlackAccountInfo:
        return await session.patiently(app, app.slack.unmap(account, tenant=tenant, by=who, reason=reason))

    made = session.on_store(session.url_of(store), work)
    if as_json:
        output.emit(msgspec.to_builtins(made))
    else:
        output.say(f"Slack account {made.account} stands for nobody in tenant {made.tenant}")


@slack.command()
@options.tenant
@options.store
def check(tenant: str, store: str | None, as_json: bool) -> int:
    """Check token, channel, presses and accounts with Slack; exit 1 if something is wrong. Nothing is posted."""
    from holdfast.slack.checks import findings
    from holdfast.slack.settings import BOT_TOKEN, settings_of

    settings = settings_of()
    if settings is None:
        raise InvalidSettings(f"{BOT_TOKEN} is not set: docs/slack.md says what the variables are.")

    async def work(app: Holdfast) -> list[SlackFinding]:
        return [finding async for finding in findings(app, settings, tenant)]

    found = session.on_store(session.url_of(store), work)
    good = all(each.good for each in found)
    if as_json:
        output.emit({"good": good, "checks": [msgspec.to_builtins(each) for each in found]})
    else:
        for each in found:
            colour, mark = ("red", "✗ ") if not each.good else ("yellow", "! ") if each.warning else ("green", "✓ ")
            output.say(output.TableCell(mark, colour), output.TableCell(f"{each.name:<9} ", "bold"), each.detail)
    return exits.GOOD if good else exits.NO


def _write(info: SlackInfo, as_json: bool) -> None:
    if as_json:
        output.emit(msgspec.to_builtins(info))
        return
    if info.channel is None:
        output.note(f"tenant {info.tenant} has no channel: `holdfast slack use CHANNEL` names one.")
    else:
        output.say(f"approvals of tenant {info.tenant} are shown in {info.channel}")
    if info.accounts:
        output.table(("account", "user"), [[each.account, each.user or ""] for each in info.accounts])
