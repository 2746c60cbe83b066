"""Secrets by name over HTTP: what authors of one tenant can have signed or sent with another's, or the installation's.

The helpers use nothing that came with the table of secrets, so the attacks at the top run on any version.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import Holdfast, workflow
from holdfast.client.items import Change, all_items, change_item
from holdfast.errors import InvalidSettings
from holdfast.server import OpenIdSettings, Server, ServerSettings
from holdfast.webhooks.signatures import signed_headers
from holdfast.webhooks.subscription import subscription_key
from tests.scope import one_stays
from tests.serving import person, served, token_of
from tests.unit.transports.server import Reply, Request, data
from tests.unit.transports.server import Server as Receiver
from tests.unit.worker.ground import FREE

OPENID = OpenIdSettings(
    issuer="https://id.example", client_id="holdfast", user="sub", tenant="acme", client_secret="OIDC"
)
MANY = ServerSettings(failures_per_minute=1e6)
ANY_STORE = pytest.mark.parametrize("url", one_stays(["sqlite", "memory", "postgres"]), indirect=True)


@workflow(name="named.idle")
async def idle() -> str:
    return "done"


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind = getattr(request, "param", "sqlite")
    if kind == "postgres":
        return str(request.getfixturevalue("postgres").schema_url())
    return "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may be called, and its workers have three secrets."""
    monkeypatch.setenv("HOLDFAST_PRIVATE_HOSTS", "127.0.0.1")
    for name in ("HOLDFAST_HTTP_HOSTS", "HOLDFAST_SECRETS", "HOLDFAST_SECRETS_TABLE", "HOLDFAST_KEY_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("BANK_HOOK", "BUREAU", "OIDC"):
        monkeypatch.setenv(f"HOLDFAST_SECRET_{name}", value_of(name))


def value_of(name: str) -> str:
    return f"the value of {name}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    found.behaviour = lambda _: Reply(204)
    yield found
    found.close()


class Tenancy:
    """Authors of level 5, each with a client of their own tenant."""

    def __init__(self, app: Holdfast, address: str) -> None:
        self.app = app
        self._address = address
        self._people: dict[str, httpx.AsyncClient] = {}

    async def author(self, tenant: str) -> httpx.AsyncClient:
        if tenant not in self._people:
            self._people[tenant] = person(self._address, await token_of(self.app, tenant, f"{tenant}-author", 5))
        return self._people[tenant]

    async def close(self) -> None:
        for each in self._people.values():
            await each.aclose()

    async def hook(self, tenant: str, name: str, id: str = "bank") -> None:
        """A webhook that checks with a secret of the server."""
        author = await self.author(tenant)
        body = {"id": id, "secret_name": name, "does": {"do": "emit", "event": "=payload.type"}}
        assert (await author.post("/v1/webhooks", json=body)).status_code == 201

    async def deliver(self, tenant: str, headers: Mapping[str, str], body: bytes) -> httpx.Response:
        """Send something to that webhook."""
        async with person(self._address, None) as sender:
            return await sender.post(f"/hooks/{tenant}/bank", content=body, headers=headers)

    async def signed(self, tenant: str, name: str, message: str = "m-1") -> httpx.Response:
        """The same, as the owner of the secret signs it."""
        body = b'{"type": "paid"}'
        at = self.app.clock.now() // 1_000_000
        return await self.deliver(tenant, signed_headers([value_of(name)], message, at, body), body)

    async def ping(self, tenant: str, receiver: Receiver, name: str, id: str = "out") -> str:
        """Have a subscription of this secret send something; gives why it could not, or nothing."""
        author = await self.author(tenant)
        body = {"id": id, "url": f"{receiver.url}/", "events": ["run.*"], "secret_name": name}
        assert (await author.post("/v1/subscriptions", json=body)).status_code == 201
        assert (await author.post(f"/v1/subscriptions/{id}/ping", json={})).status_code < 300
        return await self.problem(tenant, id)

    async def problem(self, tenant: str, id: str = "out") -> str:
        """Wait until all deliveries were tried; why the first that failed did so, or nothing."""
        author = await self.author(tenant)
        while True:
            found = (await author.get(f"/v1/subscriptions/{id}/deliveries")).json()
            if found and all(each["attempts"] for each in found):
                return next((each["last_problem"] for each in found if each["last_problem"]), "")
            await self.app.changed(0.05)

    async def publish(self, tenant: str, receiver: Receiver, name: str, **operation: Any) -> None:
        """A definition whose connector sends a secret to the receiver."""
        connector = {"base": receiver.url, "auth": {"bearer": name}, "operations": {"get": {"get": "/x", **operation}}}
        steps = [{"ask": {"http": {"call": "bureau.get"}}}, {"done": {"end": {}}}]
        document = {
            "holdfast": "definition/1",
            "name": "asking",
            "version": 1,
            "connectors": {"bureau": connector},
            "steps": steps,
        }
        answer = await (await self.author(tenant)).post("/v1/definitions", json={"documents": [document]})
        assert answer.status_code < 300, answer.text

    async def call(self, tenant: str, id: str = "one") -> dict[str, Any]:
        """Start a run of it, and wait for its end."""
        author = await self.author(tenant)
        answer = await author.post("/v1/runs", json={"workflow": "asking", "id": id}, headers={"Prefer": "wait=30"})
        assert answer.status_code == 201, answer.text
        return dict((await author.get(f"/v1/runs/{id}")).json()["run"])


@asynccontextmanager
async def tenancy(url: str, openid: OpenIdSettings | None = None, **more: Any) -> AsyncIterator[Tenancy]:
    async with Holdfast(url, workflows=[idle], policy=FREE, **more) as app:
        server = Server(app, settings=MANY, openid=openid)
        await server.open()
        async with served(app, server=server) as address:
            found = Tenancy(app, address)
            try:
                yield found
            finally:
                await found.close()


def play(work: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(work(), 120))


def bearers(receiver: Receiver) -> list[str | None]:
    return [request.headers.get("authorization") for request in receiver.seen]


# -- attacks: they succeed where names are everybody's -----------------------------------------------------------------


@ANY_STORE
def test_a_delivery_signed_for_one_tenant_is_not_accepted_by_anothers_webhook(url: str, receiver: Receiver) -> None:
    """Whoever may make subscriptions would have any delivery signed with any secret of the installation."""

    async def main() -> None:
        async with tenancy(url) as it:
            await it.hook("acme", "BANK_HOOK")
            problem = await it.ping("bolt", receiver, "BANK_HOOK")
            for request in receiver.seen:
                headers = {name: value for name, value in request.headers.items() if name.startswith("webhook")}
                assert (await it.deliver("acme", headers, request.body)).status_code != 200
            assert not receiver.seen
            assert "- {name: BANK_HOOK, tenant: bolt, use: subscription}" in problem

    play(main)


@ANY_STORE
def test_a_connector_of_one_tenant_sends_nobody_elses_secret(url: str, receiver: Receiver) -> None:
    """Nothing is sent, the run says which line is missing, and the act is not done."""

    async def main() -> None:
        async with tenancy(url) as it:
            await it.author("acme")
            await it.publish("bolt", receiver, "BUREAU")
            run = await it.call("bolt")
            assert not receiver.seen
            assert run["status"] == "failed"
            place = receiver.url.partition("://")[2]
            assert f'- {{name: BUREAU, tenant: bolt, use: connector, hosts: ["http://{place}"]}}' in run["error"]
            (receipt,) = (await (await it.author("bolt")).get("/v1/receipts")).json()["items"]
            assert receipt["state"] == "failed"

    play(main)


@pytest.mark.parametrize("name", ["OIDC", "oidc"])
def test_the_secret_of_logins_is_no_tenants_in_whichever_process(url: str, receiver: Receiver, name: str) -> None:
    """Also for the only tenant of a store, in any spelling that leads to it, and in a worker that has no provider."""

    async def main() -> None:
        async with tenancy(url, OPENID) as it:
            await it.publish("acme", receiver, name)
            assert "installation's own" in (await it.call("acme"))["error"]
            assert "installation's own" in await it.ping("acme", receiver, name)
        async with tenancy(url) as it:
            it._people["acme"] = person(it._address, (await it.app.tokens.mint("acme-author", tenant="acme")).text)
            assert "installation's own" in (await it.call("acme", "two"))["error"]
        assert not receiver.seen

    play(main)


def test_a_server_records_the_secret_of_its_logins_once(url: str) -> None:
    """When it opens: a server of its own, and one that is mounted."""

    async def main() -> None:
        async with Holdfast(url, worker=False) as app:
            server = Server(app, openid=OPENID)
            await server.open()
            await server.open()
            assert [row.id async for row in all_items(app, "login_secret")] == ["OIDC"]
            acts = [each.record["act"] async for each in app.audit.list(kind="operator") if each.record is not None]
            assert acts.count("reserve_secret") == 1
            await server.close()

    play(main)


@pytest.mark.parametrize("variable", ["HOLDFAST_METRICS_TOKEN", "HOLDFAST_KEY_PASSPHRASE", "HOLDFAST_SLACK_BOT_TOKEN"])
@pytest.mark.parametrize("by_file", [False, True])
def test_other_secrets_of_the_installation_are_no_tenants(
    url: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, by_file: bool
) -> None:
    """Under whichever name they can be found: the folder of secrets may have the file of such a variable."""
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "shared").write_text("xoxb-a-token\n")
    monkeypatch.setenv("HOLDFAST_SECRETS", str(folder))

    async def main() -> None:
        async with tenancy(url) as it:
            await it.publish("acme", receiver, "shared")
            monkeypatch.setenv(
                *((f"{variable}_FILE", str(folder / "shared")) if by_file else (variable, "xoxb-a-token"))
            )
            assert "installation's own" in (await it.call("acme"))["error"]
            assert not receiver.seen

    play(main)


def test_a_name_that_deliveries_are_checked_with_signs_none(url: str, receiver: Receiver) -> None:
    """Within the only tenant of a store, too, in any spelling; and no webhook takes the name of a subscription."""

    async def main() -> None:
        async with tenancy(url) as it:
            author = await it.author("acme")
            await it.hook("acme", "BANK_HOOK")
            body = {"id": "out", "url": receiver.url, "events": ["run.*"], "secret_name": "bank.hook"}
            refused = await author.post("/v1/subscriptions", json=body)
            assert (refused.status_code, "webhook bank" in refused.text) == (400, True)
            assert (await author.post("/v1/subscriptions", json={**body, "secret_name": "BUREAU"})).status_code == 201
            hook = {"id": "b", "secret_name": "bureau", "does": {"do": "emit", "event": "x"}}
            assert "subscription out" in (await author.post("/v1/webhooks", json=hook)).text

    play(main)


def test_of_a_name_that_was_given_to_both_before_neither_uses_it(url: str, receiver: Receiver) -> None:
    """An earlier version let a webhook and a subscription have one name."""

    async def main() -> None:
        async with tenancy(url) as it:
            await it.hook("acme", "BANK_HOOK")
            assert (await it.signed("acme", "BANK_HOOK")).status_code == 200
            before = await it.ping("acme", receiver, "BUREAU")
            assert (before, len(receiver.seen)) == ("", 1)

            def change(row: Any) -> Change:
                return Change(row.body.replace(b"BUREAU", b"BANK_HOOK"), row.status)

            key = subscription_key("acme", "out")
            await change_item(it.app, key, "change_subscription", change, by="ann")
            author = await it.author("acme")
            assert (await author.post("/v1/subscriptions/out/ping", json={})).status_code < 300
            assert "webhook bank" in await it.problem("acme")
            answer = await it.signed("acme", "BANK_HOOK", "m-2")
            assert (answer.status_code, "BANK" in answer.text) == (401, False)
            assert len(receiver.seen) == 1

    play(main)


# -- without a table ---------------------------------------------------------------------------------------------------


@ANY_STORE
def test_names_resolve_for_the_only_tenant_until_there_is_a_second(url: str, receiver: Receiver) -> None:
    """It is noticed at the next attempt, in the same process."""

    async def main() -> None:
        async with tenancy(url) as it:
            await it.hook("acme", "BANK_HOOK")
            await it.publish("acme", receiver, "BUREAU")
            receiver.behaviour = lambda _: data({})
            assert (await it.call("acme"))["status"] == "completed"
            assert bearers(receiver) == [f"Bearer {value_of('BUREAU')}"]
            assert (await it.signed("acme", "BANK_HOOK")).status_code == 200
            await it.app.tenants.create("bolt")
            assert "several tenants" in (await it.call("acme", "two"))["error"]
            assert len(receiver.seen) == 1
            assert (await it.signed("acme", "BANK_HOOK", "m-2")).status_code == 401

    play(main)


def test_a_run_is_enough_to_be_a_tenant(url: str, receiver: Receiver) -> None:
    """Programs of the operator start runs of tenants that nobody made."""

    async def main() -> None:
        async with tenancy(url) as it:
            await it.publish("acme", receiver, "BUREAU")
            await it.app.start(idle, tenant="bolt")
            assert "several tenants" in (await it.call("acme"))["error"]

    play(main)


# -- with a table ------------------------------------------------------------------------------------------------------


def table(file: Path, *lines: str) -> Path:
    file.write_text("\n".join(["version: 1", "secrets:", *(f"  - {{{line}}}" for line in lines)]) + "\n")
    return file


@ANY_STORE
def test_each_tenant_uses_what_its_lines_say(url: str, receiver: Receiver, tmp_path: Path) -> None:
    """For that use, and towards those hosts; a changed file counts at once, and a broken one changes nothing."""
    bank, bureau = "name: BANK_HOOK, tenant: acme, use: webhook", "name: BUREAU, tenant: bolt, use: connector"
    hosts = f"hosts: ['{receiver.url}']"
    file = table(tmp_path / "secrets.yaml", bank, f"{bureau}, {hosts}")

    async def main() -> None:
        async with tenancy(url, secrets=file) as it:
            await it.hook("acme", "BANK_HOOK")
            assert (await it.signed("acme", "BANK_HOOK")).status_code == 200
            assert "tenant 'bolt'" in await it.ping("bolt", receiver, "BANK_HOOK")
            await it.publish("bolt", receiver, "BUREAU")
            assert (await it.call("bolt"))["status"] == "completed"
            assert bearers(receiver) == [f"Bearer {value_of('BUREAU')}"]
            await it.publish("acme", receiver, "BUREAU")
            assert "tenant 'acme'" in (await it.call("acme"))["error"]
            file.write_text("version: 2")
            assert (await it.call("bolt", "two"))["status"] == "completed"
            table(file, bank, f"{bureau}, hosts: ['http://127.0.0.1', '*.example', '127.0.0.1']")
            assert "- {name: BUREAU, tenant: bolt" in (await it.call("bolt", "three"))["error"]
            assert len(receiver.seen) == 2
            table(file, "name: BANK_HOOK, tenant: acme, use: subscription")
            assert (await it.signed("acme", "BANK_HOOK", "m-2")).status_code == 401

    receiver.behaviour = lambda _: data({})
    play(main)


def test_a_run_whose_secret_was_refused_is_done_once_it_has_a_line(
    url: str, receiver: Receiver, tmp_path: Path
) -> None:
    """Its act is not done, its journal is whole, and retrying it does the rest."""
    file = table(tmp_path / "secrets.yaml", "name: OTHER, tenant: acme, use: webhook")
    receiver.behaviour = lambda _: data({})

    async def main() -> None:
        async with tenancy(url, secrets=file) as it:
            await it.publish("acme", receiver, "BUREAU")
            assert (await it.call("acme"))["status"] == "failed"
            table(file, f"name: BUREAU, tenant: '*', use: connector, hosts: ['{receiver.url}']")
            author = await it.author("acme")
            assert (await author.post("/v1/runs/one/retry", json={})).status_code == 200
            assert await it.app.run("one", tenant="acme").result(60) == {}
            assert (await author.get("/v1/runs/one/verification")).json()["good"] is True
            assert bearers(receiver) == [f"Bearer {value_of('BUREAU')}"]

    play(main)


def test_a_redirect_takes_the_secret_to_no_other_host(
    url: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even to one that the table lists, since the call named another; and not back again."""
    monkeypatch.setattr("holdfast.transports.http.network.is_public_address", lambda _: True)
    other = Receiver()
    file = table(
        tmp_path / "s.yaml", f"name: BUREAU, tenant: acme, use: connector, hosts: ['{receiver.url}', '{other.url}']"
    )

    def lead(request: Request) -> Reply:
        return Reply(302, b"", {"Location": f"{other.url}/y"}) if request.path == "/x" else data({})

    async def main() -> None:
        async with tenancy(url, secrets=file) as it:
            await it.publish("acme", receiver, "BUREAU", redirect=True)
            assert (await it.call("acme"))["status"] == "completed"
            assert bearers(receiver) == [f"Bearer {value_of('BUREAU')}", None]
            assert bearers(other) == [None]

    receiver.behaviour = lead
    other.behaviour = lambda _: Reply(302, b"", {"Location": f"{receiver.url}/z"})
    try:
        play(main)
    finally:
        other.close()


def test_a_line_for_the_secret_of_logins_keeps_the_server_from_starting(tmp_path: Path) -> None:
    """With its place in the file."""
    file = table(tmp_path / "s.yaml", "name: oidc, tenant: acme, use: connector, hosts: [b.example]")
    app = Holdfast("memory://", secrets=file)
    with pytest.raises(InvalidSettings, match=r"s\.yaml:3:12: oidc is a secret of the installation"):
        Server(app, openid=OPENID)
