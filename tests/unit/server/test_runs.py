"""Runs over HTTP: started once, found, waited for, steered, repaired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import Holdfast, TerminalError, receive, step, workflow
from tests.serving import person, served, token_of

BROKEN = [True]


@step(name="served.add")
async def add(a: int, b: int) -> int:
    return a + b


@workflow(name="served.total")
async def total(a: int, b: int = 1, *, tag: str = "") -> int:
    return await add(a, b)


@workflow(name="served.waiting")
async def waiting(name: str = "") -> Any:
    return await receive("go")


@step(name="served.break")
async def fail() -> str:
    if BROKEN[0]:
        raise TerminalError("broken")
    return "mended"


@workflow(name="served.failing")
async def failing() -> str:
    return await fail()


WORKFLOWS = [total, waiting, failing]
WAIT = {"Prefer": "wait=10"}


@asynccontextmanager
async def acme(url: str = "memory://") -> AsyncIterator[tuple[Holdfast, httpx.AsyncClient]]:
    async with Holdfast(url, workflows=WORKFLOWS) as app:
        token = await token_of(app, "acme", "ann", 4)
        async with served(app) as address, person(address, token) as client:
            yield app, client


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_start_is_done_once_by_its_id_or_its_key(store: str, tmp_path: Path) -> None:
    """The same id finds the same run; other arguments are a conflict; the person who starts it is its actor."""

    async def main() -> None:
        url = "memory://" if store == "memory" else f"sqlite:///{tmp_path}/store.db"
        async with acme(url) as (_, client):
            body = {"workflow": "served.total", "args": [2], "kwargs": {"b": 3, "tag": "id"}, "id": "sum/1"}
            first = await client.post("/v1/runs", json=body, headers=WAIT)
            assert (first.status_code, first.headers["location"]) == (201, "/v1/runs/sum%2F1")
            assert first.headers["preference-applied"] == "wait=10"
            assert first.json()["progress"]["result"] == 5
            again = await client.post("/v1/runs", json=body)
            assert (again.status_code, again.json()) == (201, {"id": "sum/1", "tenant": "acme", "progress": None})
            other = await client.post("/v1/runs", json={**body, "args": [9]})
            assert (other.status_code, other.json()["code"]) == (409, "run_conflict")
            shown = (await client.get("/v1/runs/sum%2F1")).json()
            assert (shown["run"]["actor"], shown["result"], shown["at_rest"]) == ("ann", 5, True)

            keyed = {"workflow": "served.total", "args": [1]}
            key = {"Idempotency-Key": "k-1"}
            one, two = [(await client.post("/v1/runs", json=keyed, headers={**key, **WAIT})).json() for _ in range(2)]
            assert one["id"] == two["id"] == "k-1"
            assert one["progress"]["at_rest"]  # else the counts below would be those of a run under way
            both = await client.post("/v1/runs", json={**keyed, "id": "x"}, headers=key)
            assert both.json()["problems"][0]["pointer"] == "header/Idempotency-Key"
            assert (await client.get("/v1/counts/runs")).json() == [
                {"tenant": "acme", "status": "completed", "count": 2}
            ]

    asyncio.run(main())


def test_what_cannot_be_started_is_refused_before_anything_is_written() -> None:
    async def main() -> None:
        async with acme() as (_, client):
            for body, status, code in (
                ({"workflow": "served.nobody"}, 404, "workflow_unknown"),
                ({"workflow": "served.total"}, 400, "invalid_arguments"),
                ({"workflow": "served.total", "args": ["x"]}, 400, "invalid_arguments"),
                ({"workflow": "served.total", "args": [1], "id": "a~b"}, 400, "invalid_request"),
                ({"workflow": "served.nobody@3"}, 404, "workflow_unknown"),
            ):
                refused = await client.post("/v1/runs", json=body)
                assert (refused.status_code, refused.json()["code"]) == (status, code), body
            assert (await client.get("/v1/runs")).json() == {"items": [], "next": None}
            text = await client.post("/v1/runs", content="{}", headers={"Content-Type": "text/plain"})
            assert (text.status_code, text.json()["code"]) == (415, "unsupported_media")

    asyncio.run(main())


def test_lists_have_filters_and_cursors() -> None:
    """All filters hold together; a cursor goes on where its page ended; one of another list is refused."""

    async def main() -> None:
        async with acme() as (_, client):
            for number in range(5):
                attributes = {"parity": "even" if number % 2 == 0 else "odd", "eq=": "a=b"}
                body = {"workflow": "served.waiting", "id": f"w{number}", "attributes": attributes, "workspace": "x"}
                assert (await client.post("/v1/runs", json=body, headers=WAIT)).status_code == 201
            page = (await client.get("/v1/runs", params={"limit": 2, "status": "waiting"})).json()
            rest = (
                await client.get("/v1/runs", params={"limit": 9, "status": "waiting", "after": page["next"]})
            ).json()
            assert [run["id"] for run in page["items"] + rest["items"]] == ["w4", "w3", "w2", "w1", "w0"]
            assert rest["next"] is None
            query = {"attribute": ["parity=even"], "workflow": "served.waiting", "actor": "ann", "workspace": "x"}
            assert len((await client.get("/v1/runs", params=query)).json()["items"]) == 3
            wrong = await client.get("/v1/tasks", params={"after": page["next"]})
            assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_request")
            odd = await client.get("/v1/runs", params={"state": "nonsense"})
            assert (odd.status_code, odd.json()["code"]) == (400, "invalid_request")
            assert (await client.get("/v1/runs", params={"limit": 1001})).status_code == 400

    asyncio.run(main())


def test_a_run_is_steered_and_the_audit_says_by_whom() -> None:
    """Signal, pause, resume and cancel: each is noted for the person of the token."""

    async def main() -> None:
        async with acme() as (app, client):
            run = "/v1/runs/r"
            await client.post("/v1/runs", json={"workflow": "served.waiting", "id": "r"}, headers=WAIT)
            assert (await client.post(f"{run}/pause", json={"reason": "lunch"})).json()["run"] == "r"
            assert (await client.get(run)).json()["run"]["pause_reason"] == "paused by request: lunch"
            assert (await client.post(f"{run}/resume", json={})).status_code == 200
            value = {"bytes": {"$base64": "AP8="}, "large": 2**70}
            sent = await client.post(f"{run}/signal", json={"name": "go", "value": value, "id": "s1"}, headers=WAIT)
            assert sent.json()["progress"]["result"] == value
            assert await app.run("r", tenant="acme").result() == {"bytes": b"\x00\xff", "large": 2**70}
            ended = await client.post(f"{run}/cancel", json={})
            assert (ended.status_code, ended.json()["code"]) == (409, "run_ended")
            acts = [each.record for each in [e async for e in app.audit.list(tenant="acme", run="r")] if each.record]
            steered = [(act["act"], act["who"]) for act in acts if act["kind"] == "operator"]
            assert steered == [("start", "ann"), ("pause", "ann"), ("resume", "ann"), ("signal", "ann")]

            await client.post("/v1/runs", json={"workflow": "served.waiting", "id": "c"}, headers=WAIT)
            stopped = await client.post("/v1/runs/c/cancel", json={"reason": "enough"}, headers=WAIT)
            assert stopped.json()["progress"]["run"]["status"] == "cancelled"

    asyncio.run(main())


def test_a_failed_run_is_retried_and_forked() -> None:
    async def main() -> None:
        BROKEN[0] = True
        async with acme() as (_, client):
            await client.post("/v1/runs", json={"workflow": "served.failing", "id": "f"}, headers=WAIT)
            plan = (await client.post("/v1/runs/f/retry", json={"dry_run": True})).json()
            nothing: dict[str, list[str]] = {"kept": [], "slept": [], "children": []}
            assert plan == {"run": "f", "dry_run": True, "again": ["served.break"], **nothing}
            assert (await client.get("/v1/runs/f")).json()["run"]["status"] == "failed"
            BROKEN[0] = False
            assert (await client.post("/v1/runs/f/retry", json={})).status_code == 200
            forked = await client.post("/v1/runs/f/fork", json={"sequence": 1, "id": "g"}, headers=WAIT)
            assert forked.json()["progress"]["result"] == "mended"
            refused = await client.post("/v1/runs/f/fork", json={"sequence": 10**9})
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request")

    asyncio.run(main())


def test_many_runs_are_steered_by_a_filter() -> None:
    """A dry run counts and changes nothing; everything must be confirmed; a limit leaves the rest."""

    async def main() -> None:
        async with acme() as (_, client):
            for number in range(4):
                await client.post("/v1/runs", json={"workflow": "served.waiting", "id": f"w{number}"}, headers=WAIT)
            bulk, chosen = "/v1/bulk/runs/cancel", {"workflow": "served.waiting"}
            assert (await client.post(bulk, json={})).json()["problems"][0]["pointer"] == "body/filter"
            dry = (await client.post(bulk, json={"filter": chosen, "dry_run": True})).json()
            assert (dry["count"], dry["more"], dry["refused"]) == (4, False, [])
            some = (await client.post(bulk, json={"filter": chosen, "limit": 3, "reason": "all"})).json()
            assert (some["count"], some["runs"], some["more"]) == (3, ["w3", "w2", "w1"], True)
            assert (await client.post("/v1/bulk/runs/pause", json={"all": True})).json()["count"] >= 1
            retried = (await client.post("/v1/bulk/runs/retry", json={"filter": {"status": "paused"}})).json()
            assert (retried["count"], retried["refused"][0]["code"]) == (0, "invalid_request")

    asyncio.run(main())


def test_the_past_of_a_run_comes_in_windows() -> None:
    async def main() -> None:
        async with acme() as (_, client):
            await client.post("/v1/runs", json={"workflow": "served.total", "args": [1], "id": "t"}, headers=WAIT)
            whole = (await client.get("/v1/runs/t/journal")).json()
            part = (await client.get("/v1/runs/t/journal", params={"first": 1, "limit": 2})).json()
            assert part["entries"] == whole["entries"][1:3]
            assert (part["next"], whole["next"], whole["events"]) == (3, None, len(whole["entries"]))
            timeline = (await client.get("/v1/runs/t/timeline", params={"first": 1, "limit": 1})).json()
            assert (timeline["items"][0]["name"], timeline["next"]) == ("served.add", 2)
            state = await client.get("/v1/runs/t/state")
            assert (state.status_code, state.json()["code"]) == (400, "invalid_request")
            for form, start in (("svg", "<svg"), ("mmd", "---"), ("json", "{")):
                picture = await client.get("/v1/runs/t/diagram", params={"form": form, "at": 2})
                assert picture.text.startswith(start)
            assert (await client.get("/v1/runs/t/diagram", params={"form": "png"})).content[:4] == b"\x89PNG"
            late = await client.get("/v1/runs/t/diagram", params={"at": 99})
            assert late.status_code == 400

    asyncio.run(main())
