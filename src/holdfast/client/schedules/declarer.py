"""The declarer: makes and follows the schedules that are declared in code and in definitions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.client.items import Change, change_item
from holdfast.client.views.schedules import timing_words
from holdfast.errors import HoldfastError
from holdfast.programs.definition.model import Accepted
from holdfast.programs.function.values import encode as encode_value
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.program_names import DEFINITION
from holdfast.schedules.declarations import DeclaredSchedule, declared, is_older
from holdfast.schedules.notes import noted_outcomes
from holdfast.schedules.schedule import KIND, Input, check_schedule, decode, due_at, encode, offset_of
from holdfast.schedules.timing import Cron, Interval, Timing
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

log = logging.getLogger("holdfast.scheduler")

CODE: Final = "code"
"""Who acts in the audit, where a worker follows what its code declares."""


class _Unchanged(Exception):
    """The schedule stays as it is."""


async def declare_all(app: Holdfast) -> None:
    """Make or change the schedules that the workflows and definitions of this engine declare, for the default tenant.

    Any number of workers may do this at once. A declaration that cannot be followed is logged, and the others are.
    """
    for declaration in _declarations(app):
        key = p.ItemKey(DEFAULT_TENANT, KIND, declaration.name)
        try:
            await _declare(app, key, declaration)
        except _Unchanged:
            await _remark(app, key, declaration)
        except HoldfastError as error:
            log.warning("the schedule of %s cannot be made: %s", declaration.name, error)


def _declarations(app: Holdfast) -> Iterator[DeclaredSchedule]:
    for workflow in app.workflows.values():
        if workflow.scheduled is not None:
            yield workflow.scheduled
    newest: dict[str, Accepted] = {}
    for each in app.definitions:
        known = newest.get(each.definition.name)
        if known is None or known.definition.version < each.definition.version:
            newest[each.definition.name] = each
    yield from (found for each in newest.values() if (found := declaration_of(each)).timing is not None)


async def _declare(app: Holdfast, key: p.ItemKey, declaration: DeclaredSchedule) -> None:
    async def change(present: p.ItemRow | None) -> Change:
        found = _next(key, present, declaration, None, await app.store.now())
        if found is None:
            raise _Unchanged
        row, details = found
        return Change(row.body, row.status, row.due_at, details)

    await change_item(app, key, "schedule_workflow", change, by=CODE)


async def _remark(app: Holdfast, key: p.ItemKey, declaration: DeclaredSchedule) -> None:
    """Say that the code of this worker is not what is followed."""
    row = await app.store.item(key)
    if row is None:
        return
    present = decode(row.body, row.id)
    if not present.declared:
        log.warning("schedule %s was made by a person, and not as its workflow declares it: it stays so", key.id)
    elif not declaration.version and is_older(present, declaration):
        log.warning("schedule %s follows newer code than this worker's, and stays so", key.id)


def _next(
    key: p.ItemKey, present: p.ItemRow | None, declaration: DeclaredSchedule, owner: str | None, now: int
) -> tuple[p.ItemRow, dict[str, str]] | None:
    """The next version of the schedule's item, and details for its note; None where it stays as it is."""
    before = None if present is None else decode(present.body, key.id)
    offset = 0 if before is None else offset_of(key.tenant, key.id, before)
    found = declared(before, declaration, now, offset, owner)
    if found is None:
        return None
    after, outcomes = found
    check_schedule(key.id, after)
    due = due_at(after, offset_of(key.tenant, key.id, after))
    version = 1 if present is None else present.version + 1
    words = "none" if declaration.timing is None else timing_words(declaration.timing)
    details = {"timing": words, "target": after.target, **noted_outcomes(outcomes)}
    return p.ItemRow(*key, version, encode(after), after.status, due, now), details


# -- definitions -------------------------------------------------------------------------------------------------------


def declaration_of(accepted: Accepted) -> DeclaredSchedule:
    """What a definition says of its schedule."""
    definition = accepted.definition
    said = definition.schedule
    if said is None:
        return DeclaredSchedule(name=definition.name, timing=None, program=DEFINITION, version=definition.version)
    timing: Timing = Interval(said.every, 0) if said.every else Cron(said.cron, said.timezone)
    payload = encode_value([[{} if said.input is None else said.input], {}], "the input")
    return DeclaredSchedule(
        name=definition.name,
        timing=timing,
        program=DEFINITION,
        version=definition.version,
        input=Input(payload.data, payload.codec),
        overlap=said.overlap,
        catch_up=said.catch_up,
        window=said.catch_up_window,
        jitter=said.jitter,
    )


async def published_schedule(
    app: Holdfast, accepted: Accepted, tenant: str, owner: str | None
) -> tuple[p.ItemRow, dict[str, str]] | None:
    """The schedule's item with the publication of a definition, and details for its note; None where it stays."""
    key = p.ItemKey(tenant, KIND, accepted.definition.name)
    return _next(key, await app.store.item(key), declaration_of(accepted), owner, await app.store.now())
