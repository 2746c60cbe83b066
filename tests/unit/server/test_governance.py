"""Tasks, definitions, receipts, audit and people over HTTP."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from holdfast import Holdfast, Receipt, action, ask, verify_evidence, workflow
from holdfast.gate.policy.policy import parse
from tests.serving import person, served, token_of

ASKS = """
version: 1
rules:
  - name: ask
    when: action.operation == "pay"
    effect: needs_approval
    candidates: [pia]
  - name: rest
    when: "true"
    effect: allow
"""


class Scan(msgspec.Struct):
    good: bool
    note: str = ""


@action(connector="bank", operation="refund", name="governed.refund")
async def refund(receipt: Receipt) -> str:
    return "refunded"


@action(connector="bank", operation="pay", reverse=refund, name="governed.pay")
async def pay(amount: int) -> str:
    return f"paid {amount}"


@workflow(name="governed.paying")
async def paying(amount: int) -> str:
    return await pay(amount)


@workflow(name="governed.asking")
async def asking() -> str:
    answer = await ask("good?", Scan, groups=["finance"])
    return answer.note


TEXT = """
holdfast: definition/1
name: served.ticket
version: {version}
steps:
  - wait: {{wait: go}}
  - {name}: {{end: {{}}}}
"""
WAIT = {"Prefer": "wait=10"}


class People(msgspec.Struct):
    """Clients of one tenant."""

    app: Holdfast
    starter: httpx.AsyncClient
    payer: httpx.AsyncClient
    ruler: httpx.AsyncClient


@asynccontextmanager
async def people(url: str = "memory://") -> AsyncIterator[People]:
    policy = parse(ASKS, "asks")
    async with Holdfast(url, workflows=[paying, asking], policy=policy) as app:
        tokens = [
            await token_of(app, "acme", "sam", 5),
            await token_of(app, "acme", "pia", 2, groups=["finance"]),
            await token_of(app, "acme", "rob", 6),
        ]
        async with (
            served(app) as address,
            person(address, tokens[0]) as starter,
            person(address, tokens[1]) as payer,
            person(address, tokens[2]) as ruler,
        ):
            yield People(app, starter, payer, ruler)


async def started(client: httpx.AsyncClient, workflow: str, *args: Any, id: str) -> Any:
    body = {"workflow": workflow, "args": args, "id": id}
    return (await client.post("/v1/runs", json=body, headers=WAIT)).json()["progress"]


def test_an_approval_is_given_by_whoever_may_and_leaves_receipt_audit_and_evidence() -> None:
    """The inbox of the candidate has it, nobody else's; the answer has the end of the run; all of it is proved."""

    async def main() -> None:
        async with people() as it:
            (task,) = (await started(it.starter, "governed.paying", 7, id="p"))["tasks"]
            assert (await it.starter.get("/v1/inbox")).json()["items"] == []
            (mine,) = (await it.payer.get("/v1/inbox")).json()["items"]
            assert mine == (await it.payer.get(f"/v1/tasks/{task['id']}")).json()
            refused = await it.starter.post(f"/v1/tasks/{task['id']}/approve", json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "task_forbidden")
            answered = await it.payer.post(f"/v1/tasks/{task['id']}/approve", json={"reason": "ok"}, headers=WAIT)
            assert answered.json()["progress"]["result"] == "paid 7"
            closed = await it.payer.post(f"/v1/tasks/{task['id']}/reject", json={})
            assert (closed.status_code, closed.json()["code"]) == (409, "task_closed")

            (receipt,) = (await it.payer.get("/v1/receipts", params={"run": "p"})).json()["items"]
            assert (receipt["state"], receipt["arguments"]) == ("succeeded", {"amount": 7})
            reversal = await it.starter.post(f"/v1/receipts/{receipt['id']}/reverse", json={}, headers=WAIT)
            assert reversal.json()["progress"]["run"]["status"] == "completed"
            assert (await it.payer.get("/v1/audit")).json()["code"] == "not_permitted"
            entries = (await it.ruler.get("/v1/audit", params={"run": "p", "limit": 100})).json()["items"]
            assert {"decision", "approval", "receipt", "operator"} <= {entry["kind"] for entry in entries}
            evidence = await it.ruler.get("/v1/runs/p/evidence", params={"anew": "true"})
            keys = await it.ruler.get("/v1/keys/public")
            assert verify_evidence(evidence.content, trusted=keys.content).good
            head = (await it.ruler.get("/v1/audit/head")).text
            verdict = await it.ruler.post("/v1/audit/verify", json={"trusted": keys.text, "head": head})
            assert (verdict.json()["good"], verdict.json()["trusted"]) == (True, True)

    asyncio.run(main())


def test_a_form_is_claimed_filled_in_badly_and_filled_in() -> None:
    """A bad answer is refused with every place and leaves the task open; what was claimed is the claimer's."""

    async def main() -> None:
        async with people() as it:
            (task,) = (await started(it.starter, "governed.asking", id="f"))["tasks"]
            path = f"/v1/tasks/{task['id']}"
            assert (await it.payer.post(f"{path}/claim", json={})).json()["task"]["owner"] == "pia"
            bad = await it.payer.post(f"{path}/complete", json={"answer": {"good": 3, "note": 4}})
            assert (bad.status_code, bad.json()["code"]) == (422, "invalid_answer")
            assert {each["pointer"] for each in bad.json()["problems"]} == {"/good", "/note"}
            assert (await it.payer.post(f"{path}/release", json={})).status_code == 200
            assigned = await it.ruler.post(f"{path}/assign", json={"to": "pia", "reason": "hers"})
            assert assigned.json()["task"]["owner"] == "pia"
            good = {"answer": {"good": True, "note": "fine"}}
            done = await it.payer.post(f"{path}/complete", json=good, headers=WAIT)
            assert done.json()["progress"]["result"] == "fine"
            found = (await it.payer.get("/v1/tasks", params={"status": "completed"})).json()["items"]
            assert [each["id"] for each in found] == [task["id"]]
            odd = {"answer": {"$base64": "?"}}
            assert (await it.payer.post(f"{path}/complete", json=odd)).json()["problems"][0]["pointer"] == "body/answer"
            file = {"$base64": base64.b64encode(b"x").decode(), "name": "a.txt"}
            late = await it.payer.post(f"{path}/complete", json={"answer": {"scan": file}})
            assert late.json()["code"] == "task_closed"

    asyncio.run(main())


def test_definitions_are_checked_published_shown_compared_and_moved() -> None:
    async def main() -> None:
        async with people() as it:
            bad = (await it.starter.post("/v1/checks/definition", json={"text": "name: x\nsteps: 3"})).json()
            assert (bad["valid"], bool(bad["problems"])) == (False, True)
            both = await it.starter.post("/v1/checks/definition", json={})
            assert (both.status_code, both.json()["code"]) == (400, "malformed_request")
            one, two = [TEXT.format(version=version, name=f"done{version}") for version in (1, 2)]
            good = (await it.starter.post("/v1/checks/definition", json={"text": one})).json()
            assert (good["valid"], good["name"], good["version"]) == (True, "served.ticket", 1)
            assert (await it.payer.post("/v1/definitions", json={"texts": [one]})).status_code == 403
            published = await it.starter.post("/v1/definitions", json={"texts": [one]})
            assert (published.status_code, published.json()[0]["digest"]) == (201, good["digest"])
            changed = await it.starter.post("/v1/definitions", json={"texts": [one.replace("done1", "other")]})
            assert (changed.status_code, changed.json()["code"]) == (422, "duplicate_name")

            progress = await started(it.starter, "served.ticket", id="t")
            assert progress["run"]["status"] == "waiting"
            await it.starter.post("/v1/definitions", json={"texts": [two]})
            path = "/v1/definitions/served.ticket"
            shown = (await it.payer.get(path, params={"version": "1"})).json()
            assert (shown["info"]["version"], shown["document"]["name"]) == (1, "served.ticket")
            assert (await it.payer.get(f"{path}/text", params={"form": "python"})).status_code == 200
            assert (await it.payer.get(f"{path}/diagram")).text.startswith("<svg")
            diff = (await it.payer.get(f"{path}/diff", params={"old": "1", "new": "2", "runs": "true"})).json()
            assert [(run["run"], run["verdict"]) for run in diff["runs"]] == [("t", "safe")]
            dry = (await it.starter.post(f"{path}/migrate", json={"dry_run": True})).json()
            assert [run["asked"] for run in dry] == [False]
            moved = (await it.starter.post(f"{path}/migrate", json={"runs": ["t"], "reason": "newer"})).json()
            assert [run["asked"] for run in moved] == [True]
            await it.app.run("t", tenant="acme").settled(timeout=60)
            state = (await it.payer.get("/v1/runs/t/state")).json()
            assert (state["version"], state["engine"]["wait"]) == (2, "signal")
            assert (await it.payer.get("/v1/schemas/definition")).json()["$schema"]
            assert (await it.payer.get("/v1/definitions/nothing")).json()["code"] == "workflow_unknown"

    asyncio.run(main())


def test_users_and_tokens_are_kept_by_the_ruler_of_the_tenant() -> None:
    """What is changed counts from the next request on."""

    async def main() -> None:
        async with people() as it:
            new = await it.ruler.post("/v1/users", json={"name": "tim", "level": 1})
            assert (new.status_code, new.json()["tenant"]) == (201, "acme")
            minted = (await it.ruler.post("/v1/tokens", json={"user": "tim", "scope": ["runs"], "days": 3})).json()
            async with person(str(it.ruler.base_url), minted["text"]) as tim:
                assert (await tim.get("/v1/runs")).status_code == 200
                assert (await tim.get("/v1/inbox")).json()["code"] == "not_permitted"
                raised = await it.ruler.patch("/v1/users/tim", json={"level": 4, "groups": ["x"]})
                assert (raised.json()["level"], raised.json()["groups"]) == (4, ["x"])
                (listed,) = (await it.ruler.get("/v1/tokens", params={"user": "tim"})).json()["items"]
                assert listed["id"] == minted["token"]["id"]
                other = (await it.ruler.post("/v1/tokens", json={"user": "tim", "scope": ["tokens"]})).json()
                async with person(str(it.ruler.base_url), other["text"]) as same:
                    own = {each["id"] for each in (await same.get("/v1/me/tokens")).json()}
                    assert own == {minted["token"]["id"], other["token"]["id"]}
                    assert (await same.post(f"/v1/tokens/{minted['token']['id']}/revoke", json={})).status_code == 403
                    revoke = f"/v1/me/tokens/{minted['token']['id']}/revoke"
                    assert (await same.post(revoke, json={"reason": "over"})).json()["revoked"] is True
                gone = await tim.get("/v1/runs")
                assert (gone.status_code, gone.json()["code"]) == (401, "invalid_token")
            last = await it.ruler.patch("/v1/users/rob", json={"disabled": True})
            assert (last.status_code, last.json()["code"]) == (409, "last_ruler")
            page = (await it.ruler.get("/v1/users", params={"limit": 2})).json()
            rest = (await it.ruler.get("/v1/users", params={"limit": 100, "after": page["next"]})).json()
            names = [each["name"] for each in (*page["items"], *rest["items"])]
            assert (len(page["items"]), rest["next"], names) == (2, None, sorted(set(names)))
            assert (await it.ruler.post("/v1/workspaces", json={"name": "north"})).status_code == 201
            assert (await it.ruler.post("/v1/workspaces/north/archive", json={})).json()["archived"] is True

    asyncio.run(main())


def test_a_template_is_made_started_by_hand_and_by_an_event_and_scheduled() -> None:
    """Its instances show their steps; an event that is sent twice starts one; a schedule tells when it comes next."""

    async def main() -> None:
        async with people() as it:
            route = {"event": "opened", "filter": "event.data.good"}
            text = TEXT.format(version=1, name="done")
            body = {"id": "ticket", "text": text, "trigger": "event", "route": route}
            made = await it.starter.post("/v1/templates", json=body)
            assert (made.status_code, made.json()["status"]) == (201, "draft"), made.text
            early = await it.starter.post("/v1/templates/ticket/start", json={})
            assert (early.status_code, early.json()["code"]) == (409, "template_conflict")
            assert (await it.starter.post("/v1/templates/ticket/activate", json={})).json()["status"] == "active"
            event = {"event": "opened", "id": "e-1", "data": {"good": True}}
            one, two = [(await it.starter.post("/v1/emit", json=event)).json() for _ in range(2)]
            assert (one["repeated"], two["repeated"]) == (False, True)
            assert one["starts"] == two["starts"]
            (instance,) = (await it.payer.get("/v1/templates/ticket/instances")).json()["items"]
            shown = (await it.payer.get(f"/v1/instances/{instance['id']}")).json()
            assert (shown["template"], shown["id"]) == ("ticket", one["starts"][0]["run"])
            assert (await it.payer.post("/v1/templates/ticket/pause", json={})).json()["code"] == "not_permitted"

            schedule = {
                "id": "nightly",
                "workflow": "governed.asking",
                "cron": "0 3 * * *",
                "timezone": "Europe/Berlin",
            }
            new = await it.starter.post("/v1/schedules", json=schedule)
            assert (new.status_code, len(new.json()["next"]) >= 5) == (201, True), new.text
            bad = await it.starter.post("/v1/schedules", json={**schedule, "id": "x", "cron": "nonsense"})
            assert bad.status_code == 400
            changed = await it.starter.patch("/v1/schedules/nightly", json={"overlap": "allow"})
            assert (changed.json()["overlap"], changed.json()["cron"]) == ("allow", "0 3 * * *")
            now = (await it.starter.post("/v1/schedules/nightly/run", json={})).json()["run"]
            assert (await it.payer.get(f"/v1/runs/{now}")).json()["run"]["workflow"] == "governed.asking"
            assert (await it.payer.get("/v1/schedules/nightly/explanation")).json()["sentences"]
            assert (await it.starter.post("/v1/schedules/nightly/pause", json={})).json()["status"] == "paused"
            assert (await it.starter.post("/v1/schedules/nightly/delete", json={})).json()["status"] == "deleted"

    asyncio.run(main())
