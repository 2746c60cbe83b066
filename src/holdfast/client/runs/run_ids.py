"""The id that a new run gets: the one that is chosen, or the one that its trigger means.

Older versions took ids with a segment ``.`` or ``..``, which in a path lead to something else. A start that is repeated
still finds such a run; no other run gets such an id.
"""

from __future__ import annotations

from holdfast.runs.addresses import has_dots
from holdfast.runs.birth import Trigger, check_id, check_no_dots, former_run_id
from holdfast.store import protocol as p


async def chosen_run_id(store: p.Store, tenant: str, id: str) -> str:
    """The id that a caller chose. Raises InvalidRequest."""
    if has_dots(check_id(id, "the id")) and not await store.get([p.Key(tenant, id)]):
        check_no_dots(id, "the id")
    return id


async def triggered_run_id(store: p.Store, tenant: str, trigger: Trigger, workflow: str) -> str:
    """The id of the run that a trigger starts."""
    id, former = trigger.run_id(workflow), former_run_id(trigger, workflow)
    return former if id != former and await store.get([p.Key(tenant, former)]) else id
