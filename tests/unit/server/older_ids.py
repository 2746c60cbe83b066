"""Runs and items whose ids no new one gets, as older versions stored them."""

from __future__ import annotations

import json

import msgspec

from holdfast import Holdfast
from holdfast.client.operators import operator_note
from holdfast.people.users import USER, user_key
from holdfast.programs.function.decorators import Workflow
from holdfast.runs.birth import Birth, Pin
from holdfast.store import protocol as p

RUNS = ("../runs/victim", "..", "a/../b", "./x")


async def older_run(app: Holdfast, workflow: Workflow[..., object], tenant: str, id: str, *args: object) -> None:
    """A run with any id."""
    payload = workflow.signature.write_checked(args, {})
    birth = Birth(key=p.Key(tenant, id), workflow=workflow.name, pin=Pin(digest=workflow.digest), input=payload)
    assert isinstance(await app.committer.commit(birth.start(app.clock.now())), p.Started)
    app.hint()


async def older_item(app: Holdfast, key: p.ItemKey, id: str) -> None:
    """A copy of an item under any id."""
    row = await app.store.item(key)
    assert row is not None
    body = json.loads(row.body)
    if "name" in body:
        body["name"] = id
    place = user_key(key.tenant, id) if key.kind == USER else p.ItemKey(key.tenant, key.kind, id)
    changed = {"tenant": place.tenant, "kind": place.kind, "id": place.id, "version": 1}
    copy = msgspec.structs.replace(row, **changed, body=json.dumps(body).encode())
    note = operator_note(app, key.tenant, "copy", "root", None, "", {})
    assert isinstance(await app.committer.commit(p.Operate(note, (p.PutItem(copy),))), p.OperatedOn)
