"""People's acts on runs, tasks, definitions and items, with their notes: judged under locks, then made completely.

The acts of a set touch different runs, tasks and items, so they are judged and made together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence

from holdfast.store import protocol as p
from holdfast.store.items import item_fits, item_key
from holdfast.store.judgements import paused_otherwise, published_before
from holdfast.store.postgres import code
from holdfast.store.postgres.cell_roots import last_root, put_root
from holdfast.store.postgres.holding import holdable
from holdfast.store.postgres.writer import Place, Writer
from holdfast.store.sql_rows import item_columns

Versions = Mapping[p.ItemKey, int]


Make = Callable[[Writer, Sequence[p.Change], Sequence[Place]], Awaitable[list[p.Answer]]]


async def operate(writer: Writer, changes: Sequence[p.Operate], places: Sequence[Place], make: Make) -> list[p.Answer]:
    """Make the acts that are not refused."""
    answers = await _refusals(writer, changes)
    await _make_leading(writer, changes, places, answers, make)
    agreed = [index for index, answer in enumerate(answers) if answer is None]
    await _make_rows(writer, [changes[index] for index in agreed])
    rest: list[p.Change] = []
    below: list[Place] = []
    for index in agreed:
        others = [each for each in changes[index].changes if isinstance(each, p.Deliver | p.Renew | p.Hold)]
        rest += [*others, changes[index].note]
        below += [(*places[index], number + 1) for number in range(len(others) + 1)]
    await make(writer, rest, below)
    return [answer or p.OperatedOn() for answer in answers]


async def _make_leading(
    writer: Writer, changes: Sequence[p.Operate], places: Sequence[Place], answers: list[p.Answer | None], make: Make
) -> None:
    """Make the starts and the tasks of the acts that are not refused yet: a refused one makes nothing, and its answer
    is that of its act."""
    leading = [
        (index, each)
        for index, change in enumerate(changes)
        if answers[index] is None
        for each in change.changes
        if isinstance(each, p.Start | p.PutTask)
    ]
    made = await make(writer, [each for _, each in leading], [(*places[index], 0) for index, _ in leading])
    for (index, _), answer in zip(leading, made, strict=True):
        if not isinstance(answer, p.Started | p.Tasked):
            answers[index] = answer


async def _refusals(writer: Writer, changes: Sequence[p.Operate]) -> list[p.Answer | None]:
    """The reason why each may not be made, or None. Its rows stay locked, so the judgement holds until the commit.

    A ``Start`` or a ``PutTask`` is not judged here: it answers for itself when it is made.
    """
    acts = [act for change in changes for act in change.changes]
    # The lane of a dead letter is locked for it, too: of two that drop it one comes first, and the other sees that.
    keyed = p.Deliver | p.Pause | p.Unpause | p.Renew | p.DropDead | p.MarkSplit
    keys = sorted({act.key for act in acts if isinstance(act, keyed)})
    if keys:
        await writer.fetch_columns("lock_runs", keys, width=2)
    if any(isinstance(act, p.Publish) for act in acts):
        await writer.fetch("lock_definitions")
    noted = await _noted(writer, changes)
    versions = await _versions(writer, acts)
    found: list[p.Answer | None] = []
    for change in changes:
        if (change.note.tenant, change.note.id) in noted:
            found.append(p.Repeated())
            continue
        noted.add((change.note.tenant, change.note.id))  # the same act a second time in this set
        found.append(await _first_refusal(writer, change, versions))
    return found


async def _noted(writer: Writer, changes: Sequence[p.Operate]) -> set[tuple[str, str | None]]:
    """The notes among these that are there already, in the store or earlier in this batch."""
    names = sorted({(change.note.tenant, change.note.id or "") for change in changes})
    there = {(row[0], row[1]) for row in await writer.fetch_columns("are_noted", names, width=2)}
    return there | {(entry.tenant, entry.id) for _, entry in writer.noted if entry.id is not None}


async def _versions(writer: Writer, acts: Sequence[p.Act]) -> Versions:
    keys = sorted({item_key(act) for act in acts if isinstance(act, p.ItemChange)})
    rows = await writer.fetch_columns("versions_of_items", keys, width=3) if keys else []
    return {p.ItemKey(*row[:3]): row[3] for row in rows}


async def _first_refusal(writer: Writer, change: p.Operate, versions: Versions) -> p.Answer | None:
    for each in change.changes:
        if (answer := await _refusal(writer, each, versions)) is not None:
            return answer
    return None


async def _refusal(writer: Writer, change: p.Act, versions: Versions) -> p.Answer | None:
    if isinstance(change, p.Start | p.PutTask):
        return None
    if isinstance(change, p.Hold):
        return p.Fenced() if await holdable(writer, change) is None else None
    if isinstance(change, p.PutRoot):
        return None if await last_root(writer, change.row.key) == change.after else p.Fenced()
    if isinstance(change, p.ItemChange):
        return None if item_fits(change, versions.get(item_key(change))) else p.Fenced()
    if isinstance(change, p.DropDead):
        return None if await writer.fetch("is_buried", *change.key, change.version, change.number) else p.Fenced()
    if isinstance(change, p.Publish):
        present = await writer.fetch("definition", *change.row[:3])
        return published_before(change, p.DefinitionRow(*present[0]) if present else None)
    generation = await writer.fetch("generation_of", *change.key)
    found = tuple(generation[0]) if generation else None
    if isinstance(change, p.Renew):
        return None if found is not None and found[:2] == (change.generation, True) else p.Fenced()
    if found is None:
        return p.Unknown()
    if isinstance(change, p.Deliver) and await _is_delivered(writer, change):
        return p.Repeated()
    return p.Gone() if found[1] else paused_otherwise(change, found[2])


async def _is_delivered(writer: Writer, change: p.Deliver) -> bool:
    if change.message.id is None:
        return False
    return bool(await writer.fetch("is_delivered", *change.key, change.message.id))


async def mark_split(writer: Writer, changes: Sequence[p.MarkSplit]) -> list[p.Answer]:
    """Set the marks of runs. They are locked."""
    await writer.fetch_columns("mark_split", [(*change.key, change.split) for change in changes], width=3)
    return [p.Marked() for _ in changes]


async def tally(writer: Writer, changes: Sequence[p.Tally]) -> list[p.Answer]:
    """Raise the versions of items, each as often as it is named. They are locked."""
    counts = Counter(change.key for change in changes)
    due: dict[p.ItemKey, int] = {}
    for change in changes:
        due.setdefault(change.key, change.due_at)
    rows = [(*key, due[key], counts[key]) for key in sorted(counts)]
    found = {p.ItemKey(*row) for row in await writer.fetch_columns("tally_items", rows, width=5)}
    return [p.Tallied() if change.key in found else p.Unknown() for change in changes]


async def _make_rows(writer: Writer, changes: Sequence[p.Operate]) -> None:
    """Publish, put items, pause and resume, as these acts say."""
    acts = [act for change in changes for act in change.changes]
    items = sorted((act.item for act in acts if isinstance(act, p.PutItem)), key=lambda item: item.key)
    if items:
        await writer.fetch_columns("put_item", map(item_columns, items), width=8)
    if dropped := sorted(act.key for act in acts if isinstance(act, p.DropItem)):
        await writer.fetch_columns("drop_items", dropped, width=3)
    marked = sorted((*act.key, act.split) for act in acts if isinstance(act, p.MarkSplit))
    if marked:
        await writer.fetch_columns("mark_split", marked, width=3)
    for act in acts:
        if isinstance(act, p.Pause):
            await writer.fetch("pause", *act.key, act.reason, act.at)
        elif isinstance(act, p.Unpause):
            await writer.fetch_hint("unpause", *act.key, act.at)
        elif isinstance(act, p.DropDead):
            await writer.fetch("drop_dead", *act.key, act.version, act.number)
        elif isinstance(act, p.Publish):
            await code.keep(writer, [p.KeepCode(act.tenant, act.code)])
            await writer.fetch("publish", *act.row)
        elif isinstance(act, p.PutRoot):
            await put_root(writer, act)
