"""A person who has made a run act, or has decided what it does, does not approve it at tier high: by every way."""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from holdfast import Holdfast, WorkerOptions, action, workflow
from holdfast.gate.policy.policy import parse
from tests.scope import one_stays
from tests.unit.server.names.door import Door, Reply, opened

TENANT: Final = "acme"
HIGH: Final = parse(
    '{"version": 1, "rules": [{"name": "high", "when": "true", "effect": "needs_approval", "tier": "high"}]}',
    "high",
    clock=lambda: 0,
)


@action(connector="vault", operation="open", name="names.open")
async def open_vault(what: str) -> str:
    return f"opened {what}"


@workflow(name="names.vault")
async def vault(what: str = "it") -> str:
    return await open_vault(what)


@workflow(name="names.above")
async def above() -> str:
    return await vault()


@workflow(name="names.nothing")
async def nothing() -> None:
    return None


VAULT: Final = "names.vault"


class Office:
    """A server, and the people of a tenant who use it: Joe, Eve and Bob, each of level 5."""

    def __init__(self, app: Holdfast, door: Door, tokens: dict[str, str]) -> None:
        self.app = app
        self._door = door
        self._tokens = tokens

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> Reply:
        return await self._door.ask(self._tokens[who], method, path, body)

    async def must(self, who: str, method: str, path: str, body: Any = None) -> Any:
        """The body of the answer to a person who may."""
        reply = await self.ask(who, method, path, body)
        assert reply.status < 300, (who, method, path, reply)
        return reply.body

    async def post(self, who: str, path: str, **body: Any) -> Any:
        return await self.must(who, "POST", path, body)

    async def deliver(self, webhook: str, secret: str, id: str) -> Reply:
        body, now = b"{}", str(int(time.time()))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signature = base64.b64encode(hmac.digest(key, f"{id}.{now}.".encode() + body, "sha256")).decode()
        signed = {"webhook-id": id, "webhook-timestamp": now, "webhook-signature": f"v1,{signature}"}
        return await self._door.ask(None, "POST", f"/hooks/{TENANT}/{webhook}", body, signed)

    async def task(self, run: str) -> str:
        """The task of a run, or of its child, that waits for approval."""
        async with asyncio.timeout(30):
            while True:
                async for task in self.app.tasks.list(tenant=TENANT):
                    if task.run.partition("~")[0] == run:
                        return task.id
                await asyncio.sleep(0.01)

    async def started_by(self, prefix: str) -> str:
        """The run that something has started by itself."""
        async with asyncio.timeout(30):
            while True:
                async for run in self.app.list(tenant=TENANT):
                    if run.id.startswith(prefix) and run.parent is None:
                        return run.id
                await asyncio.sleep(0.01)

    async def is_at_rest(self, run: str) -> None:
        await self.app.run(run, tenant=TENANT).settled(timeout=30)


@asynccontextmanager
async def office() -> AsyncIterator[Office]:
    options = WorkerOptions(retention_days=None, webhooks=False)
    async with (
        Holdfast("memory://", workflows=[vault, above, nothing], policy=HIGH, options=options) as app,
        opened(app) as door,
    ):
        await app.tenants.create(TENANT)
        await app.users.create("ann", level=6, tenant=TENANT)
        tokens: dict[str, str] = {}
        for name in ("joe", "eve", "bob"):
            await app.users.create(name, level=5, tenant=TENANT)
            tokens[name] = (await app.tokens.mint(name, tenant=TENANT)).text
        tokens["ann"] = (await app.tokens.mint("ann", tenant=TENANT)).text
        yield Office(app, door, tokens)


# -- the ways ----------------------------------------------------------------------------------------------------------


async def changed_webhook(it: Office) -> str:
    """Eve changes what Joe's webhook does, and signs with the secret that she is shown."""
    await it.post("joe", "/v1/webhooks", id="w", does={"do": "emit", "event": "nothing"})
    await _template(it, "eve", "t")
    changed = await it.must("eve", "PATCH", "/v1/webhooks/w", {"does": {"do": "start", "template": "t"}})
    return str((await it.deliver("w", changed["secret"], "1")).body["runs"][0])


async def rotated_webhook(it: Office) -> str:
    """Eve rotates the secret of Joe's webhook, and signs with the new one."""
    await _template(it, "joe", "t")
    await it.post("joe", "/v1/webhooks", id="w", does={"do": "start", "template": "t"})
    rotated = await it.post("eve", "/v1/webhooks/w/rotate")
    return str((await it.deliver("w", rotated["secret"], "1")).body["runs"][0])


async def enabled_webhook(it: Office) -> str:
    """Eve enables the webhook that Joe had disabled."""
    await _template(it, "joe", "t")
    await it.post("joe", "/v1/webhooks", id="w", does={"do": "start", "template": "t"})
    await it.must("joe", "PATCH", "/v1/webhooks/w", {"disabled": True})
    enabled = await it.must("eve", "PATCH", "/v1/webhooks/w", {"disabled": False})
    return str((await it.deliver("w", enabled["secret"], "1")).body["runs"][0])


async def resumed_schedule(it: Office) -> str:
    """Eve resumes the schedule that Joe had paused."""
    await it.post("joe", "/v1/schedules", id="s", workflow=VAULT, at="2026-01-01T00:00:00Z", paused=True)
    await it.post("eve", "/v1/schedules/s/resume")
    return await it.started_by("s@")


async def changed_schedule(it: Office) -> str:
    """Eve changes what Joe's schedule starts."""
    await it.post("joe", "/v1/schedules", id="s", workflow="names.nothing", at="2036-01-01T00:00:00Z")
    await it.must("eve", "PATCH", "/v1/schedules/s", {"workflow": VAULT, "at": "2026-01-01T00:00:00Z"})
    return await it.started_by("s@")


async def run_now(it: Office) -> str:
    """Eve runs Joe's schedule out of turn."""
    await it.post("joe", "/v1/schedules", id="s", workflow=VAULT, every=86_400)
    return str((await it.post("eve", "/v1/schedules/s/run"))["run"])


async def changed_template_of_a_schedule(it: Office) -> str:
    """Eve gives the template that Joe's schedule starts another program."""
    await _template(it, "joe", "t", program="names.nothing")
    await it.post("joe", "/v1/schedules", id="s", template="t", at="2026-01-01T00:00:00Z", paused=True)
    await it.post("eve", "/v1/templates/t/versions", program=VAULT)
    await it.post("joe", "/v1/schedules/s/resume")
    return await it.started_by("s@")


async def resumed_template_of_a_schedule(it: Office) -> str:
    """Eve resumes the paused template for which Joe's schedule waits."""
    await _template(it, "joe", "t")
    await it.post("joe", "/v1/schedules", id="s", template="t", at="2026-01-01T00:00:00Z", paused=True)
    await it.post("joe", "/v1/templates/t/pause")
    await it.post("joe", "/v1/schedules/s/resume")
    await it.post("eve", "/v1/templates/t/resume")
    return await it.started_by("s@")


async def changed_route(it: Office) -> str:
    """Eve gives Joe's template the route of another event, which Joe then emits."""
    await _template(it, "joe", "t", route={"event": "never"})
    await it.post("eve", "/v1/templates/t/versions", route={"event": "usual"})
    return str((await it.post("joe", "/v1/emit", event="usual", id="1"))["starts"][0]["run"])


async def emitted(it: Office) -> str:
    """Eve emits the event that starts Joe's template."""
    await _template(it, "joe", "t", route={"event": "usual"})
    return str((await it.post("eve", "/v1/emit", event="usual", id="1"))["starts"][0]["run"])


async def changed_template_of_a_webhook(it: Office) -> str:
    """Eve gives the template that Joe's webhook starts another program."""
    await _template(it, "joe", "t", program="names.nothing")
    made = await it.post("joe", "/v1/webhooks", id="w", does={"do": "start", "template": "t"})
    await it.post("eve", "/v1/templates/t/versions", program=VAULT)
    return str((await it.deliver("w", made["secret"], "1")).body["runs"][0])


async def published_schedule(it: Office) -> str:
    """Eve publishes the next version of a definition that has a schedule of Joe's."""
    await it.post("joe", "/v1/definitions", documents=[_scheduled(1, 3600)])
    await it.post("eve", "/v1/definitions", documents=[_scheduled(2, 1)])
    return await it.started_by("planned@")


async def resumed_run(it: Office) -> str:
    """Eve resumes the run that Joe had paused."""
    await it.post("joe", "/v1/runs", workflow=VAULT, id="r")
    await it.task("r")
    await it.post("joe", "/v1/runs/r/pause")
    await it.is_at_rest("r")
    await it.post("eve", "/v1/runs/r/resume")
    return "r"


async def resumed_parent(it: Office) -> str:
    """The same of the run above the one that acts."""
    await it.post("joe", "/v1/runs", workflow="names.above", id="r")
    await it.task("r")
    await it.post("joe", "/v1/runs/r/pause")
    await it.is_at_rest("r")
    await it.post("eve", "/v1/runs/r/resume")
    return "r"


async def retried_run(it: Office) -> str:
    """Eve retries the run of Joe's whose act was rejected."""
    await it.post("joe", "/v1/runs", workflow=VAULT, id="r")
    await it.post("bob", f"/v1/tasks/{await it.task('r')}/reject")
    await it.is_at_rest("r")
    await it.post("eve", "/v1/runs/r/retry")
    return "r"


async def moved_run(it: Office) -> str:
    """Eve moves Joe's run to another version of its definition."""
    await it.post("joe", "/v1/definitions", documents=[_moving(1), _moving(2)])
    await it.post("joe", "/v1/runs", workflow="moving@1", id="r")
    await it.is_at_rest("r")
    moved = await it.post("eve", "/v1/definitions/moving/migrate", version="2")
    assert [each["run"] for each in moved] == ["r"], moved
    await it.post("joe", "/v1/runs/r/signal", name="go", value=True)
    return "r"


async def forked_run(it: Office) -> str:
    """Eve forks Joe's run."""
    await it.post("joe", "/v1/runs", workflow=VAULT, id="r")
    await it.task("r")
    return str((await it.post("eve", "/v1/runs/r/fork", sequence=1, id="forked"))["id"])


async def _template(it: Office, who: str, id: str, program: str = VAULT, **more: Any) -> None:
    await it.post(who, "/v1/templates", id=id, program=program, **more)
    await it.post(who, f"/v1/templates/{id}/activate")


def _moving(version: int) -> dict[str, Any]:
    steps = [{"ready": {"wait": "go"}}, {"open": {"run": VAULT}}]
    return {"holdfast": "definition/1", "name": "moving", "version": version, "steps": steps}


def _scheduled(version: int, every: int) -> dict[str, Any]:
    steps = [{"open": {"run": VAULT}}]
    return {
        "holdfast": "definition/1",
        "name": "planned",
        "version": version,
        "schedule": {"every": f"{every}s"},
        "steps": steps,
    }


WAYS: Final[list[Callable[[Office], Awaitable[str]]]] = [
    changed_webhook,
    rotated_webhook,
    enabled_webhook,
    resumed_schedule,
    changed_schedule,
    run_now,
    changed_template_of_a_schedule,
    resumed_template_of_a_schedule,
    changed_route,
    emitted,
    changed_template_of_a_webhook,
    published_schedule,
    resumed_run,
    resumed_parent,
    retried_run,
    moved_run,
    forked_run,
]


@pytest.mark.parametrize("way", one_stays(WAYS, 4), ids=lambda way: str(way.__name__))
def test_eve_does_not_approve_what_she_had_a_part_in(way: Callable[[Office], Awaitable[str]]) -> None:
    """Not herself, not after claiming it, not by delegation; the refusal says what to do. Another person approves."""

    async def main() -> None:
        async with office() as it:
            task = await it.task(await way(it))
            for path in ("approve", "claim"):
                refused = await it.ask("eve", "POST", f"/v1/tasks/{task}/{path}", {})
                assert (refused.status, refused.code) == (403, "task_forbidden"), refused
                assert "another person must" in refused.body["detail"], refused
            passed = await it.ask("bob", "POST", f"/v1/tasks/{task}/delegate", {"to": "eve"})
            assert (passed.status, passed.code) == (403, "task_forbidden"), passed
            assert await it.app.acting_as("eve", tenant=TENANT).tasks.refusal(task) is not None
            assert (await it.post("bob", f"/v1/tasks/{task}/approve"))["task"]["status"] == "approved"

    asyncio.run(main())


def test_eve_approves_what_she_had_no_part_in() -> None:
    """The control: Joe's own start, and a start by hand of a template that Eve has written."""

    async def main() -> None:
        async with office() as it:
            await it.post("joe", "/v1/runs", workflow=VAULT, id="r")
            assert (await it.post("eve", f"/v1/tasks/{await it.task('r')}/approve"))["task"]["status"] == "approved"
            await _template(it, "eve", "t")
            await it.post("joe", "/v1/templates/t/start", id="by-hand")
            assert (await it.post("eve", f"/v1/tasks/{await it.task('by-hand')}/approve"))["task"][
                "status"
            ] == "approved"

    asyncio.run(main())


# -- webhooks and their secrets ----------------------------------------------------------------------------------------


def test_the_secret_of_a_webhook_ends_with_what_it_did_and_with_its_user() -> None:
    """Who takes a webhook over is shown a new secret, once; the one before it is refused at once, whatever overlap is
    asked for. Who rotates their own keeps the overlap."""

    async def main() -> None:
        async with office() as it:
            first = (await it.post("joe", "/v1/webhooks", id="w", does={"do": "emit", "event": "a"}))["secret"]
            own = (await it.post("joe", "/v1/webhooks/w/rotate"))["secret"]
            assert [(await it.deliver("w", each, f"1{each}")).status for each in (first, own)] == [200, 200]
            taken = await it.post("eve", "/v1/webhooks/w/rotate", overlap_seconds=3600)
            assert taken["webhook"]["user"] == "eve"
            new = taken["secret"]
            assert [(await it.deliver("w", each, f"2{each}")).status for each in (first, own, new)] == [401, 401, 200]
            changed = await it.must("eve", "PATCH", "/v1/webhooks/w", {"does": {"do": "emit", "event": "b"}})
            assert changed["user"] == "eve"
            last = changed["secret"]
            assert [(await it.deliver("w", each, f"3{each}")).status for each in (new, last)] == [401, 200]
            named = await it.must("joe", "PATCH", "/v1/webhooks/w", {"name": "a name", "disabled": True})
            assert (named["user"], named["secret"]) == ("eve", None)
            assert "secret" not in await it.must("joe", "GET", "/v1/webhooks/w")

    asyncio.run(main())


def test_level_6_says_in_whose_name_a_webhook_acts() -> None:
    """Below it no user names another; at it, the webhook acts as the named user, else as the caller."""

    async def main() -> None:
        async with office() as it:
            await it.post("ann", "/v1/webhooks", id="w", user="joe", does={"do": "emit", "event": "a"})
            refused = await it.ask("eve", "POST", "/v1/webhooks/w/rotate", {"user": "joe"})
            assert refused.is_refused
            assert "Leave the user out" in refused.body["detail"]
            kept = await it.post("ann", "/v1/webhooks/w/rotate", user="joe")
            assert kept["webhook"]["user"] == "joe"
            assert (await it.post("ann", "/v1/webhooks/w/rotate"))["webhook"]["user"] == "ann"

    asyncio.run(main())
