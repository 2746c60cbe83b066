"""Triage of an incident: its actions on the outside world, and the workflow that calls them.

Each action has a declaration by which ``policy.yaml`` judges it: reading and summarising are free, a change of the
incident needs a person's approval, a note is allowed. ``holdfast worker examples/incident/actions.py`` serves it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from desk import ask

from holdfast import Cost, DidNotHappen, Happened, Holdfast, Receipt, action, step_info, workflow

SERVICE_TOKEN = "INCIDENT_TOKEN"
"""The environment variable with the token of the service's own account, in whose name reversals are made."""


class Change(msgspec.Struct):
    """The fields before and after an update: enough to reverse it."""

    before: dict[str, str]
    after: dict[str, str]


class Summary(msgspec.Struct):
    """The model's summary of a text, and its charge."""

    summary: str
    usd: float


@action(connector="desk", operation="incident.get", target="{incident}", writes=False, retries=3)
def read_incident(incident: str) -> dict[str, Any]:
    """Read an incident."""
    answer: dict[str, Any] = ask("GET", f"/incidents/{incident}")
    return answer


@action(
    connector="model",
    operation="summarise",
    target="small-1",
    writes=False,
    retries=3,
    cost_estimate=0.01,
    cost=lambda summary: Cost("local", summary.usd, model="small-1"),
)
def summarise(text: str) -> Summary:
    """Have the model shorten a text; its answer has the cost."""
    return msgspec.convert(ask("POST", "/model/summarise", {"text": text}), Summary)


@action(connector="desk", operation="incident.restore", target="{receipt.target}")
def restore_incident(receipt: Receipt) -> dict[str, str]:
    """Reverse an update: restore the fields before it, which are in the receipt of the update."""
    before: dict[str, str] = receipt.result["before"]
    ask("PATCH", f"/incidents/{receipt.target}", before, token=os.environ[SERVICE_TOKEN], key=step_info().key)
    return before


def was_updated(incident: str, fields: dict[str, str], token: str) -> Happened | DidNotHappen:
    """Look in the incident's history whether its last change is this one. It changes nothing."""
    history = ask("GET", f"/incidents/{incident}", token=token)["history"]
    if history and history[-1]["after"] == fields:
        return Happened({"before": history[-1]["before"], "after": fields})
    return DidNotHappen()


@action(
    connector="desk",
    operation="incident.update",
    target="{incident}",
    idempotency_key="desk:incident.update:{incident}:{fields_hash}:{promise}",
    reverse=restore_incident,
    probe=was_updated,
    secret="token",
)
def update_incident(incident: str, fields: dict[str, str], token: str) -> Change:
    """Change fields of an incident, in the name of the token's owner."""
    answer = ask("PATCH", f"/incidents/{incident}", fields, token=token, key=step_info().key)
    return msgspec.convert(answer, Change)


@action(connector="desk", operation="note.post", target="{incident}", risk="low", secret="token")
def post_note(incident: str, text: str, token: str) -> int:
    """Leave a note on an incident; gives its number."""
    number: int = ask("POST", f"/incidents/{incident}/notes", {"text": text}, token=token, key=step_info().key)[
        "number"
    ]
    return number


@workflow
async def triage(incident: str, token: str) -> str:
    """Read and summarise the incident, change its priority, and leave a note."""
    report = await read_incident(incident)
    short = await summarise(f"{report['title']}. {report['text']}")
    await update_incident(incident, {"priority": "1", "team": "payments"}, token)
    await post_note(incident, f"Raised to priority 1 for payments: {short.summary}", token)
    return short.summary


app = Holdfast(
    os.environ.get("HOLDFAST_STORE", "sqlite:///incident.db"), policy=Path(__file__).with_name("policy.yaml")
)
