"""Which tenants are told of their runs' lives, as this worker knows it, and the notes that tell them.

A note is committed with the turn that it is about. Where no tenant has a subscription, a turn costs one comparison
more. Knowledge that was not renewed for some time counts for nothing: then everything is noted, so nothing that a
subscription waits for is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from holdfast.journal import events as e
from holdfast.store import protocol as p
from holdfast.webhooks.occurrences import run_note
from holdfast.worker.held import Held

FRESH_SECONDS: Final = 10.0
"""A subscription is told of what happens from this long after it was made: before, some worker may not know of it."""

_ENDS: Final[dict[type[e.Event], str]] = {
    e.ExecutionCompleted: "completed",
    e.ExecutionFailed: "failed",
    e.ExecutionCancelled: "cancelled",
}


class Lifecycle:
    """What the worker's parts ask when a run begins, ends or is parked."""

    def __init__(self) -> None:
        self._tenants: frozenset[str] = frozenset()
        self._known_until = 0.0

    def learn(self, tenants: Iterable[str]) -> None:
        """The tenants that have a subscription to events of runs, as of now."""
        self._tenants = frozenset(tenants)
        self._known_until = asyncio.get_running_loop().time() + FRESH_SECONDS

    def is_noted(self, tenant: str) -> bool:
        """Whether what a tenant's run does is noted."""
        return tenant in self._tenants or asyncio.get_running_loop().time() > self._known_until

    def begun(self, held: Held, at: int) -> p.Note:
        return _note(held, "started", at)

    def ended(self, held: Held, ending: e.Event, at: int) -> p.Note:
        error = {"error": ending.error.type} if isinstance(ending, e.ExecutionFailed) else {}
        return _note(held, _ENDS[type(ending)], at, **error)

    def parked(self, held: Held, at: int) -> p.Note:
        return _note(held, "parked", at)


def _note(held: Held, event: str, at: int, **more: str) -> p.Note:
    row = held.row
    said = {"run": row.key.run, "workflow": row.workflow, "generation": str(held.generation)}
    if row.parent is not None:
        said["parent"] = row.parent
    if held.reference is not None:
        said["reference"] = held.reference
    if row.trigger_type is not None:
        said |= {"trigger": row.trigger_type, "trigger_ref": row.trigger_ref or ""}
    return run_note(row.key.tenant, event, at, {**said, **more})
