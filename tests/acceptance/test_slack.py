"""Approvals in Slack with real processes: a worker and a server, set up by the environment alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from holdfast import Holdfast
from holdfast.slack.cards import APPROVE
from tests.slack_stand_in import APP_TOKEN, BOT_TOKEN, CHANNEL, SECRET, SlackStandIn

APP = """
from holdfast import Holdfast, action, workflow

app = Holdfast("sqlite:///paid.db", policy="policy.yaml")


@action(connector="bank", operation="pay", target="{account}")
async def pay(account: str) -> str:
    return f"paid {account}"


@workflow
async def paying(account: str) -> str:
    return await pay(account)
"""
POLICY = {"version": 1, "rules": [{"name": "people", "when": "true", "effect": "needs_approval", "tier": "med"}]}
SECONDS = 60.0


class Process:
    """One process of Holdfast that was told of Slack."""

    def __init__(self, folder: Path, *command: str, **variables: str) -> None:
        self.log = folder / f"{command[0]}.log"
        environment = {**os.environ, "HOLDFAST_SLACK_BOT_TOKEN": BOT_TOKEN, **variables}
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *command, "--json"],
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        assert self.process.stdout is not None
        self.ready = json.loads(self.process.stdout.readline())

    def stop(self) -> tuple[int, str]:
        """End it in order; gives its exit code and what it logged."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=SECONDS)
        return self.process.returncode, self.log.read_text()


async def prepare(app: Holdfast) -> None:
    await app.tenants.create("acme")
    await app.users.create("ann", level=2, tenant="acme")
    await app.slack.use(CHANNEL, tenant="acme")
    await app.slack.map("UANN", "ann", tenant="acme")
    for account in ("DE1", "DE2"):
        await app.start("paying", account, id=account, tenant="acme")


def test_a_worker_by_socket_mode_and_a_server_by_signed_requests_show_and_take_approvals(tmp_path: Path) -> None:
    """Each approval has one card though both processes post; a press is taken either way; no log has a secret in it."""
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "policy.yaml").write_text(json.dumps(POLICY))

    async def main() -> list[tuple[int, str]]:
        stand_in = SlackStandIn()
        async with stand_in.running(), Holdfast(f"sqlite:///{tmp_path}/paid.db", worker=False) as app:
            await prepare(app)
            api = {"HOLDFAST_SLACK_API": f"{stand_in.address}/api/"}
            worker, server = await asyncio.gather(
                asyncio.to_thread(Process, tmp_path, "worker", "app.py", HOLDFAST_SLACK_APP_TOKEN=APP_TOKEN, **api),
                asyncio.to_thread(
                    lambda: Process(
                        tmp_path,
                        *("serve", "app.py", "--no-worker", "--port", "0"),
                        HOLDFAST_SLACK_SIGNING_SECRET=SECRET,
                        **api,
                    )
                ),
            )
            address = server.ready["address"].rstrip("/")
            one, two = await stand_in.card("DE1"), await stand_in.card("DE2")
            assert (await stand_in.send(address, stand_in.press_of(one, APPROVE, "UANN"))).status_code == 200
            assert await stand_in.deliver(stand_in.press_of(two, APPROVE, "UANN")) == {"envelope_id": "e1"}
            results = [await app.run(id, tenant="acme").result(timeout=SECONDS) for id in ("DE1", "DE2")]
            assert results == ["paid DE1", "paid DE2"]
            await stand_in.card("*Approved* by ann")
            assert stand_in.calls["chat.postMessage"] == 2
            return [await asyncio.to_thread(process.stop) for process in (worker, server)]

    (worker_code, worker_log), (server_code, server_log) = asyncio.run(main())
    assert (worker_code, server_code) == (0, 0)
    assert "presses come through Socket Mode" in worker_log
    assert "presses come signed to /slack/actions" in server_log
    assert not any(secret in worker_log + server_log for secret in (BOT_TOKEN, APP_TOKEN, SECRET))
