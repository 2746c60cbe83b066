"""The settings for Slack, its commands, and what they say of each other."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast
from holdfast.cli.main import main as command
from holdfast.errors import InvalidRequest, InvalidSettings, TenantNotFound, UserNotFound
from holdfast.slack.settings import SlackSettings, settings_of
from tests.slack_stand_in import APP_TOKEN, BOT_TOKEN, CHANNEL, SECRET, SlackStandIn

TOKEN = {"HOLDFAST_SLACK_BOT_TOKEN": BOT_TOKEN}


def test_without_variables_there_is_no_slack() -> None:
    """Nothing is started, and nothing is read."""
    assert settings_of({}) is None


def test_secrets_come_from_variables_or_files(tmp_path: Path) -> None:
    """A line's end behind a secret is no part of it, and no secret is in what a log would show."""
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    settings = settings_of(
        {**TOKEN, "HOLDFAST_SLACK_SIGNING_SECRET_FILE": str(file), "HOLDFAST_SLACK_CONSOLE": "https://a"}
    )
    assert settings == SlackSettings(bot_token=BOT_TOKEN, signing_secret=SECRET, console="https://a/")
    assert SECRET not in repr(settings)
    assert BOT_TOKEN not in f"{settings}"


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"HOLDFAST_SLACK_SIGNING_SECRET": SECRET}, "BOT_TOKEN"),
        ({"HOLDFAST_SLACK_APP_TOKEN": APP_TOKEN}, "BOT_TOKEN"),
        ({**TOKEN, "HOLDFAST_SLACK_SIGNING_SECRET": ""}, "SIGNING_SECRET"),
        ({**TOKEN, "HOLDFAST_SLACK_SIGNING_SECRET": "two words"}, "SIGNING_SECRET"),
        ({**TOKEN, "HOLDFAST_SLACK_SIGNING_SECRET_FILE": "/nowhere/at-all"}, "SIGNING_SECRET_FILE"),
        ({**TOKEN, "HOLDFAST_SLACK_BOT_TOKEN_FILE": "/x"}, "both"),
        ({"HOLDFAST_SLACK_BOT_TOKEN": APP_TOKEN}, "xoxb-"),
        ({**TOKEN, "HOLDFAST_SLACK_APP_TOKEN": BOT_TOKEN}, "xapp-"),
        ({**TOKEN, "HOLDFAST_SLACK_CONSOLE": "javascript:1"}, "HOLDFAST_SLACK_CONSOLE"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_at_the_start(variables: dict[str, str], named: str) -> None:
    """Half of them is a mistake, and an empty secret is not the same as none: else a route could be open to all."""
    with pytest.raises(InvalidSettings, match=named) as refused:
        settings_of(variables)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", ["", "a b", "xoxb-…", "a\n"])
def test_an_empty_or_garbled_secret_is_refused_in_python_too(value: str) -> None:
    """An empty signing secret would let everybody sign."""
    with pytest.raises(InvalidSettings, match="signing_secret"):
        SlackSettings(bot_token=BOT_TOKEN, signing_secret=value)


def test_channels_and_accounts_are_checked_and_noted() -> None:
    """Only ids of Slack, only users of the tenant; the same again is the same."""

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            await app.tenants.create("acme")
            await app.users.create("ann", level=2, tenant="acme")
            with pytest.raises(InvalidRequest, match="channel"):
                await app.slack.use("#approvals", tenant="acme")
            with pytest.raises(TenantNotFound):
                await app.slack.use(CHANNEL, tenant="nowhere")
            with pytest.raises(InvalidRequest, match="account"):
                await app.slack.map("ann@example.com", "ann", tenant="acme")
            with pytest.raises(UserNotFound):
                await app.slack.map("U1234", "eve", tenant="acme")
            with pytest.raises(UserNotFound):
                await app.slack.unmap("U1234", tenant="acme")
            await app.slack.use(CHANNEL, tenant="acme", by="root")
            assert (await app.slack.map("U1234", "ANN", tenant="acme", by="root")).user == "ann"
            info = await app.slack.show(tenant="acme")
            assert (info.channel, [(each.account, each.user) for each in info.accounts]) == (
                CHANNEL,
                [("U1234", "ann")],
            )
            assert (await app.slack.unmap("U1234", tenant="acme", by="root")).user is None
            assert (await app.slack.use(None, tenant="acme", by="root")).channel is None
            acts = [each.record["act"] async for each in app.audit.list(tenant="acme") if each.record is not None]
            assert acts[-4:] == ["set_slack_channel", "map_slack_account", "unmap_slack_account", "set_slack_channel"]

    asyncio.run(main())


@contextmanager
def slack_elsewhere() -> Iterator[SlackStandIn]:
    """The stand-in in a thread of its own: commands run their own loops."""
    stand_in = SlackStandIn()
    ready = threading.Event()
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    async def serve() -> None:
        async with stand_in.running():
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(60)
    try:
        yield stand_in
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(60)
        loop.close()


def test_the_commands_set_slack_up_and_check_it(tmp_path: Path) -> None:
    """`check` says of token, channel, presses and accounts whether they are good, and exits with 1 where one is not."""
    url = f"sqlite:///{tmp_path}/slack.db"

    def run(*args: str, **variables: str) -> tuple[int, str]:
        environment = {"HOLDFAST_STORE": url, "HOLDFAST_TENANT": "acme", **variables}
        result = CliRunner().invoke(command, args, env=environment, prog_name="holdfast")
        return result.exit_code, result.output

    assert run("init", "ann", "--tenant", "acme")[0] == 0
    assert run("users", "create", "bob", "--level", "1", "--as", "ann")[0] == 0
    with slack_elsewhere() as stand_in:
        slack = {**TOKEN, "HOLDFAST_SLACK_API": f"{stand_in.address}/api", "HOLDFAST_SLACK_APP_TOKEN": APP_TOKEN}
        code, text = run("slack", "check", **slack)
        assert (code, text.count("! ")) == (0, 2), text
        assert run("slack", "use", CHANNEL, "--as", "ann") == (0, f"approvals of tenant acme are shown in {CHANNEL}\n")
        assert (
            run("slack", "map", "U0ANN", "ann", "--as", "ann")[1]
            == "Slack account U0ANN stands for ann of tenant acme\n"
        )
        code, text = run("slack", "check", **slack)
        assert (code, text.count("✓ ")) == (0, 4), text
        assert run("slack", "map", "U0BOB", "bob", "--as", "ann")[0] == 0
        assert "U0BOB is bob, who has level 1" in run("slack", "check", **slack)[1]
        assert run("slack", "unmap", "U0BOB", "--as", "ann")[0] == 0
        stand_in.channels.clear()
        code, text = run("slack", "check", "--json", **slack)
        found = json.loads(text)
        assert (code, found["good"]) == (1, False)
        assert [each["name"] for each in found["checks"] if not each["good"]] == ["channel"]
        code, text = run("slack", "check", **{**slack, "HOLDFAST_SLACK_BOT_TOKEN": "xoxb-wrong"})
        assert (code, "invalid_auth" in text) == (1, True)
    assert "U0ANN" in run("slack", "show")[1]
    assert json.loads(run("slack", "use", "--none", "--as", "ann", "--json")[1])["channel"] is None
    assert "HOLDFAST_SLACK_BOT_TOKEN is not set" in run("slack", "check")[1]
    assert run("slack", "map", "U0X", "bob", "--as", "bob")[0] != 0
