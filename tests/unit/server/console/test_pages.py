"""What pages say: the same as each other, quickly in long runs, only to those it is for, and never too much unasked."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from holdfast import Holdfast, TerminalError, ask, receive, step, workflow
from holdfast.journal import events as e
from holdfast.journal.codec import encode_segment
from holdfast.journal.payload import ONCE, Ok
from holdfast.journal.promise import PromiseId
from holdfast.people.permissions import LEAST
from holdfast.programs.function.values import encode
from holdfast.server import Server, ServerSettings
from holdfast.server.operator import Operator
from holdfast.store import protocol as p
from holdfast.worker.options import WorkerOptions
from tests.serving import token_of
from tests.unit.cli.cli_machines import Poured, tank

HTML = {"Accept": "text/html"}
QUICK = ServerSettings(requests_per_second=1e6, requests_at_once=10**6)
ADDRESS = "http://127.0.0.1"


@workflow(name="pages.waiting")
async def waiting() -> str:
    return await receive("go", str)


@workflow(name="pages.failing")
async def failing() -> str:
    raise TerminalError("it does not work")


@workflow(name="pages.asking")
async def asking() -> str:
    return await ask("the colour?", str, groups=["painters"])


@step(name="pages.render", queue="nobody serves it")
async def render() -> None:
    return None


@workflow(name="pages.rendering")
async def rendering() -> None:
    await render()


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[Holdfast, dict[str, httpx.AsyncClient]]]:
    """An engine, and people at its console: bob of level 2, ann of level 6, and the operator."""
    async with Holdfast("memory://", workflows=[waiting, failing, asking, rendering], **options) as app:
        tokens = {"bob": await token_of(app, "acme", "bob", 2), "ann": await token_of(app, "acme", "ann", 6)}
        await app.tenants.create("bolt", title="a secret", by="root")
        served = httpx.ASGITransport(Server(app, settings=QUICK).asgi)
        root = Operator(app, "root", "acme")
        operator = httpx.ASGITransport(Server(app, settings=QUICK, authenticators=[root]).asgi)
        clients = {
            name: httpx.AsyncClient(
                transport=served, base_url=ADDRESS, headers={**HTML, "Authorization": f"Bearer {token}"}
            )
            for name, token in tokens.items()
        }
        headers = {**HTML, "Authorization": f"Bearer {root.key}"}
        clients["operator"] = httpx.AsyncClient(transport=operator, base_url=ADDRESS, headers=headers)
        yield app, clients
        for client in clients.values():
            await client.aclose()


async def page(client: httpx.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return answer.text


def chips(text: str) -> list[str]:
    return re.findall(r'class="chip [^"]*"><span aria-hidden="true">[^<]*</span> ([^<]*)</span>', text)


def test_the_list_never_disagrees_with_the_page_of_a_run() -> None:
    """In every status: the list, its tabs, and the run's own page say the same word."""

    async def main() -> None:
        async with opened() as (app, clients):
            runs = [await app.start(waiting, id=name, tenant="acme") for name in ("a", "b", "c", "d")]
            runs.append(await app.start(failing, id="f", tenant="acme"))
            for run in runs:
                await run.settled(timeout=60)
            await app.run("a", tenant="acme").signal("go", "now")
            await app.run("b", tenant="acme").cancel("enough")
            await app.run("c", tenant="acme").pause("tea")
            for name in ("a", "b"):
                await app.run(name, tenant="acme").settled(timeout=60)
            found = {}
            rows = re.findall(r"<tr data-row>.*?</tr>", await page(clients["bob"], "/runs"), re.DOTALL)
            for row in rows:
                (name,) = re.findall(r'href="/runs/(\w+)"', row)
                found[name] = chips(row)[0]
            assert found == {"a": "completed", "b": "cancelled", "c": "paused", "d": "waiting", "f": "failed"}
            for name, status in found.items():
                assert chips(await page(clients["bob"], f"/runs/{name}"))[0] == status
                listed = await page(clients["bob"], f"/runs?status={status}")
                assert re.findall(r'<td><a class="id" href="/runs/(\w+)"', listed) == [name]

    asyncio.run(main())


def test_pages_have_the_codes_of_advice() -> None:
    """Of a run, a cell and a schedule: for people who look the code up, and for programs that read pages."""

    async def main() -> None:
        async with opened() as (app, clients):
            await (await app.start(waiting, id="a", tenant="acme")).settled(timeout=60)
            sent = await app.emit(Poured(1, 1), tenant="acme")
            await app.cell(tank, 1, tenant="acme").state(after=sent.places[0])
            await app.schedules.create("daily", waiting, every=3600.0, tenant="acme", by="ann")
            await app.schedules.pause("daily", tenant="acme", by="ann", reason="tea")
            shown = {
                "/runs/a": ["send_signal"],
                "/cells/cli_tank/1": ["awaits_event"],
                "/schedules/daily": ["resume_schedule"],
            }
            for path, codes in shown.items():
                assert re.findall(r'data-code="([^"]*)"', await page(clients["ann"], path)) == codes, path
            await app.run("a", tenant="acme").signal("go", "now")
            await app.run("a", tenant="acme").settled(timeout=60)
            assert "data-code" not in await page(clients["ann"], "/runs/a")

    asyncio.run(main())


def test_the_numbers_of_the_list_are_those_of_runs_and_not_of_lanes() -> None:
    """A machine has many lanes, which its own page counts."""

    async def main() -> None:
        async with opened() as (app, clients):
            await (await app.start(waiting, id="a", tenant="acme")).settled(timeout=60)
            before = await page(clients["bob"], "/runs")
            sent = await app.emit(Poured(1, 1), tenant="acme")
            await app.cell(tank, 1, tenant="acme").state(after=sent.places[0])
            after = await page(clients["bob"], "/runs")
            assert re.findall(r'class="count">([^<]*)', before) == re.findall(r'class="count">([^<]*)', after)
            assert re.findall(r'class="lead">([^<]*)', before) == re.findall(r'class="lead">([^<]*)', after)
            assert "holdfast:lane" not in after
            assert "cli_tank" in await page(clients["bob"], "/runs?kind=machine")

    asyncio.run(main())


async def write_long_journal(app: Holdfast, count: int) -> None:
    """Give a run a journal of so many events, in segments of a hundred, as a worker would have written them."""
    key = p.Key("acme", "long")
    await app.start(waiting, id="long", tenant="acme")
    (claimed,) = (await app.store.claim("a worker", p.Serves(("pages.waiting",)), 1, app.clock.now())).runs
    at, version = claimed.updated_at, claimed.version
    root = PromiseId(claimed.root)
    parts = [encode_segment([(at, event) for event in fifty_calls(root, first)], at) for first in range(0, 200, 50)]
    while version < count:
        data = parts[version // 100 % 4]  # no window shows two of a kind
        segment = p.Segment(version, 100, data, hashlib.sha256(data + bytes(str(version), "ascii")).digest(), at)
        turn = p.Advance(key, 0, claimed.epoch, version, segment, p.Projection("waiting"), 0, release=False)
        (answer,) = await app.store.commit([turn])
        assert isinstance(answer, p.Advanced), answer
        version += 100


def fifty_calls(root: PromiseId, first: int) -> Iterator[e.Event]:
    for number in range(first, first + 50):
        call = root.child(number)
        yield e.InvokeScheduled(call, "step", "pages.render", encode(number, "the input"), ONCE)
        yield e.InvokeCompleted(call, Ok(encode("done", "the result")), 1)


def test_the_page_of_a_run_with_100_000_events_is_as_quick_as_any() -> None:
    """It shows a hundred of them, wherever that is, and neither replays nor draws the run unasked."""

    async def main() -> None:
        async with opened(worker=False) as (app, clients):
            await write_long_journal(app, 100_000)
            ann, spent = clients["ann"], []
            for query in ("", "?first=0", "?first=50000", "?at=77777"):
                begun = time.process_time()
                text = await page(ann, f"/runs/long{query}")
                spent.append(time.process_time() - begun)
                assert 0 < len(re.findall(r"<li data-row>", text)) <= 100, query
                assert "<img" not in text
                assert "draw it all the same" in text
            assert "events 50,001 to 50,100 of 100,0" in await page(ann, "/runs/long?first=50000")
            assert min(spent) < 0.5, spent  # to read it whole takes seconds

    asyncio.run(main())


def large(boxes: int) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{f"set{number}": {"set": {"state.x": number}}} for number in range(boxes)]
    return {
        "holdfast": "definition/1",
        "name": "pages.large",
        "version": 1,
        "state": {"x": {"type": "integer", "default": 0}},
        "steps": steps,
    }


def test_unavailable_definitions_are_shown_to_operators() -> None:
    """On the pages of definitions and of workers, and in the answer about the server."""
    bad = {"holdfast": "definition/1", "name": "pages.bad", "version": 2, "steps": [{"x": {"step": "pages.gone"}}]}

    async def main() -> None:
        async with opened(definitions=[bad], definitions_mode="warn") as (_, clients):
            problem = "pages.bad@2: pages.bad: x: there is no step &#39;pages.gone&#39;"
            for path in ("/definitions", "/workers"):
                assert problem in await page(clients["ann"], path), path
            described = (await clients["ann"].get("/v1/metadata")).json()
            (each,) = described["unavailable"]
            assert (each["name"], each["version"]) == ("pages.bad", 2)
            assert "pages.bad@2" not in described["definitions"]

    asyncio.run(main())


def test_a_picture_of_over_300_boxes_is_drawn_when_it_is_asked_for() -> None:
    """Until then a sentence says how large it is, and where to press."""

    async def main() -> None:
        async with opened() as (app, clients):
            await app.definitions.publish(large(301), tenant="acme")
            path = "/definitions/pages.large/diagram?version=1"
            assert "press “Draw all of it”" in await page(clients["ann"], path)
            assert "press" not in await page(clients["ann"], f"{path}&whole=true")
            assert path in (await page(clients["ann"], "/definitions/pages.large")).replace("&amp;", "&")

    asyncio.run(main())


def test_a_page_says_why_somebody_cannot_answer() -> None:
    """And has no form for it."""

    async def main() -> None:
        async with opened() as (app, clients):
            await (await app.start(asking, id="asks", tenant="acme")).settled(timeout=60)
            (task,) = (await app.tasks.page(run="asks", tenant="acme")).items
            text = await page(clients["bob"], f"/tasks/{task.id}")
            assert "You cannot answer this." in text
            assert "painters" in text
            assert 'action="/tasks/' not in text
            await app.users.set_groups("bob", ["painters"], tenant="acme", by="root")
            assert f'action="/tasks/{task.id}/complete"' in await page(clients["bob"], f"/tasks/{task.id}")

    asyncio.run(main())


def test_health_names_what_waits_and_what_nobody_serves() -> None:
    """Ready runs, the lag, leases and queues; the size of the store is for the operator alone."""

    async def main() -> None:
        async with opened(options=WorkerOptions(queues={"mail": 1})) as (app, clients):
            await app.start(rendering, id="renders", tenant="acme")
            while not (await app.health(tenant="acme")).queues:
                await app.changed(0.1)
            text = await page(clients["bob"], "/workers")
            assert "Nobody serves the queue <strong>nobody serves it</strong>: 1 step waits." in text
            assert "1 worker is running" in text
            health = (await clients["bob"].get("/v1/health", headers={"Accept": "application/json"})).json()
            assert health["queues"][0] | {"oldest_at": ""} == {
                "queue": "nobody serves it",
                "waiting": 1,
                "leased": 0,
                "oldest_at": "",
                "workers": 0,
            }
        async with opened(worker=False) as (app, clients):
            await app.start(waiting, id="ready", tenant="acme")
            text = await page(clients["bob"], "/workers")
            assert "No worker is running" in text
            assert re.search(r"1 run is ready and waits for a worker, the oldest for ", text)

    asyncio.run(main())


def test_tenants_are_their_own_users_and_the_operators() -> None:
    """A user of level 6 sees their tenant and may not change its caps; the operator sees and changes all."""

    async def main() -> None:
        async with opened() as (app, clients):
            await app.workspaces.create("sales", tenant="acme", by="root")
            await app.workspaces.limit("sales", max_concurrency=7, tenant="acme", by="root")
            own, all_ = [await page(clients[name], "/tenants") for name in ("ann", "operator")]
            assert "7 at once" in own
            assert "a secret" not in own
            assert 'action="/tenants' not in own
            assert 'action="/workspaces/sales/caps"' in own
            assert "a secret" in all_
            assert 'action="/tenants/bolt"' in all_
            assert 'action="/workspaces' not in await page(clients["bob"], "/tenants")

    asyncio.run(main())


def test_a_users_page_lists_exactly_what_they_may_do() -> None:
    """Operation by operation; nothing where they are disabled. Tokens are shown to level 6."""

    async def main() -> None:
        async with opened() as (app, clients):
            await app.tokens.mint("bob", scope=["runs"], tenant="acme", by="root")
            text = await page(clients["ann"], "/people/bob")
            allowed = set(re.findall(r'class="good"[^>]*>✓</span> <code>([\w.]+)</code>', text))
            assert allowed == {name for name, least in LEAST.items() if least <= 2}
            assert "may do 1 things" in text or "may do 2 things" in text
            await app.users.disable("bob", tenant="acme", by="root")
            assert "may do nothing" in await page(clients["ann"], "/people/bob")

    asyncio.run(main())


def test_everybody_sees_and_ends_their_own_tokens() -> None:
    """From the link beside their name, whatever their level; nobody's else are there, and the operator has none."""

    async def main() -> None:
        async with opened(worker=False) as (app, clients):
            other = (await app.tokens.mint("bob", scope=["runs.see"], purpose="a lost phone", tenant="acme")).token
            anns = [each.id async for each in app.tokens.list(tenant="acme", user="ann")]
            text = await page(clients["bob"], "/me/tokens")
            assert 'href="/me/tokens" aria-current="page"' in text
            assert "2 of your 2 tokens are good" in text
            assert "a lost phone" in text
            assert "only runs.see · may do 2 things" in text
            assert "in use here" in text
            assert not any(id in text for id in anns)
            here = {"Sec-Fetch-Site": "same-origin"}
            refused = await clients["bob"].post(f"/me/tokens/{anns[0]}/revoke", data={"reason": "x"}, headers=here)
            assert (refused.status_code, "you have no token" in refused.text) == (404, True)
            ended = await clients["bob"].post(f"/me/tokens/{other.id}/revoke", data={"reason": "x"}, headers=here)
            assert (ended.status_code, ended.headers["location"]) == (303, "/me/tokens")
            assert "1 of your 2 tokens are good" in await page(clients["bob"], "/me/tokens")
            assert 'href="/me/tokens"' not in await page(clients["operator"], "/runs")
            assert "no token stands for you" in await page(clients["operator"], "/me/tokens")

    asyncio.run(main())


def test_the_page_of_a_template_leads_to_all_its_instances() -> None:
    """Thirty at a time, newest first."""

    async def main() -> None:
        async with opened(worker=False) as (app, clients):
            await app.templates.create("wait", waiting, tenant="acme", by="root")
            await app.templates.activate("wait", tenant="acme", by="root")
            for number in range(31):
                await app.templates.start("wait", id=f"w-{number}", tenant="acme", by="root")
            first = await page(clients["bob"], "/templates/wait")
            following = re.search(r'href="([^"]*after=[^"]*)" rel="next"', first)
            assert following is not None
            rest = await page(clients["bob"], following[1].replace("&amp;", "&"))
            shown = [re.findall(r'href="/runs/(w-\d+)"', text) for text in (first, rest)]
            assert [len(each) for each in shown] == [30, 1]
            assert {*shown[0], *shown[1]} == {f"w-{number}" for number in range(31)}
            assert "First page" in rest

    asyncio.run(main())


def test_the_audit_begins_with_what_is_newest() -> None:
    """However much there is: the last act is on the first page, and the cursor leads to older ones."""

    async def main() -> None:
        async with opened(worker=False) as (app, clients):
            for number in range(120):
                await app.users.set_groups("bob", [f"group-{number}"], tenant="acme", by=f"person-{number:03}")
            first = await page(clients["ann"], "/audit")
            shown = re.findall(r"by (person-\d+)", first)
            assert shown[0] == "person-119"
            older = re.search(r'href="([^"]*after=[^"]*)"', first)
            assert older is not None
            rest = re.findall(r"by (person-\d+)", await page(clients["ann"], older[1].replace("&amp;", "&")))
            assert [*shown, *rest] == [f"person-{number:03}" for number in range(119, -1, -1)]
            assert "not sealed into the chain yet" in first

    asyncio.run(main())


def test_no_number_of_other_peoples_tasks_hides_mine() -> None:
    """The inbox looks through all that are open; the number beside it, which is on every page, through some."""

    async def main() -> None:
        async with opened(worker=False) as (app, clients):
            await app.store.commit([p.PutTask(open_task(f"t-{number:05}", number, "eve")) for number in range(2600)])
            await app.store.commit([p.PutTask(open_task("mine", 5000, "bob"))])
            assert 'href="/tasks/mine"' in await page(clients["bob"], "/tasks")
            assert [each.id for each in (await app.tasks.inbox(by="bob", tenant="acme")).items] == ["mine"]
            some = await app.tasks.inbox(by="bob", tenant="acme", most_read=1000)
            assert (list(some.items), some.next is None) == ([], False)
            rest = await app.tasks.inbox(by="bob", tenant="acme", after=some.next)
            assert ([each.id for each in rest.items], rest.next) == (["mine"], None)
            assert "for you" not in await page(clients["bob"], "/runs")

    asyncio.run(main())


def open_task(id: str, at: int, candidate: str) -> p.TaskRow:
    return p.TaskRow(
        tenant="acme",
        id=id,
        run="r",
        generation=0,
        root=b"r" * 32,
        position=at,
        kind="outcome",
        status="requested",
        version=1,
        proposal=b"p" * 32,
        summary="pay",
        details=b"{}",
        tier="med",
        two_person=False,
        candidates=(candidate,),
        starter="zoe",
        policy="",
        rule="",
        created_at=at,
        expires_at=None,
    )
