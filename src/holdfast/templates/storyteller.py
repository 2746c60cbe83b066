"""The storyteller: what an instance of a template did, read off its journals; and kept when these are deleted.

A run that a template started is deleted only when its story is in the audit: the store itself looks for the entry. So
whatever dies between keeping and deleting, nothing is lost, and a story is kept once, by its id.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.audit.notes import note
from holdfast.audit.records import KeptStory, StoryAction
from holdfast.errors import StoreCorrupt
from holdfast.journal import events as e
from holdfast.programs.definition.interpreter.routine import Toolbox
from holdfast.runs.journals import read
from holdfast.runs.program_names import DEFINITION
from holdfast.store import protocol as p
from holdfast.templates.node_calls import NodeCalls, definition_calls, named_calls
from holdfast.templates.story import Story, story_of
from holdfast.templates.template import TEMPLATE

log = logging.getLogger("holdfast.pruner")

PART: Final = 1000
"""So many actions are in one entry of the audit."""


class InstanceTale(NamedTuple):
    """The actions of an instance over all its generations, and the steps of the last one."""

    actions: list[StoryAction]
    last: Story
    calls: NodeCalls


async def calls_of(store: p.Store, tools: Toolbox, row: p.Run, entries: Sequence[e.Entry]) -> NodeCalls:
    """Which step each call of a run belongs to."""
    if row.program_kind != DEFINITION or row.code_digest is None:
        return named_calls(entries)
    code = await store.code(row.key.tenant, [row.code_digest])
    if row.code_digest not in code:
        return named_calls(entries)
    return definition_calls(row.root, code[row.code_digest], tools, entries)


async def tale_of(store: p.Store, tools: Toolbox, row: p.Run, now: int) -> InstanceTale:
    """What an instance did, as it stands."""
    actions: list[StoryAction] = []
    story, calls = Story([], {}), NodeCalls({})
    for generation in range(row.generation + 1):
        first = 0
        if generation and not story.continued:  # a retry begins with a copy of what it goes on from
            (copied,) = await store.segments(row.key, generation, 0, 1) or [p.Segment(0, 0, b"", b"", 0)]
            first = copied.count
        entries = [entry async for entry in read(store, row, generation=generation)]
        calls = await calls_of(store, tools, row, entries)
        story = story_of(entries, calls, now, first, generation)
        actions += story.actions
    return InstanceTale(actions, story, calls)


async def delete_ended(store: p.Store, tools: Toolbox, ended_before: int, limit: int, now: int) -> int:
    """Delete up to ``limit`` runs that ended before then; gives how many. The stories of instances are kept first."""
    for row in await store.untold(ended_before, limit):
        try:
            tale = await tale_of(store, tools, row, now)
        except StoreCorrupt as error:
            log.warning("run %s of %s is kept: its story cannot be read (%s)", row.key.run, row.key.tenant, error)
            continue
        await store.commit(_notes(row, tale.actions, now))
    return await store.prune(ended_before, limit)


def _notes(row: p.Run, actions: Sequence[StoryAction], now: int) -> list[p.Note]:
    """The entries of a story. The last one has the id that the store looks for."""
    parts = [tuple(actions[at : at + PART]) for at in range(0, len(actions), PART)] or [()]
    notes = []
    for number, part in enumerate(parts):
        kept = KeptStory(now, row.key.run, row.attributes[TEMPLATE], row.begun_at, part, number)
        id = p.story_id(row) if number == len(parts) - 1 else f"part:{number}:{p.story_id(row)}"
        notes.append(msgspec.structs.replace(note(row.key.tenant, row.key.run, kept), id=id))
    return notes
