"""Messages for inboxes: in order, each once where it has an id, and to the heirs of runs that were split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from holdfast.store import protocol as p
from holdfast.store.postgres.writer import Writer


async def deliver(writer: Writer, changes: Sequence[p.Deliver | p.FinishWork]) -> list[p.Answer]:
    """One statement delivers all. Where some go to heirs, it is given again, until each is addressed to who gets it."""
    getters = [_getter(change, writer.marks) for change in changes]
    while True:
        rows = [_message_row(change, getter) for change, getter in zip(changes, getters, strict=True)]
        found = await writer.fetch_hinting("deliver", rows, width=8)
        moved = [(row[0] - 1, row[3]) for row in found if row[3] is not None]
        if not moved:
            break
        writer.marks = {**writer.marks, **{getters[index]: mark for index, mark in moved}}
        getters = [_getter(change, writer.marks) for change in changes]
    answers: list[p.Answer] = [p.Unknown() for _ in changes]
    for ordinal, gone, position, *_ in found:
        index = ordinal - 1
        if gone:
            answers[index] = p.Gone()
        elif position is None:
            answers[index] = p.Repeated()
        else:
            heir = None if getters[index] == changes[index].key else getters[index].run
            answers[index] = p.Delivered(position, heir)
    for change, answer in zip(changes, answers, strict=True):
        if isinstance(change, p.Deliver) and change.unpauses and isinstance(answer, p.Delivered):
            await writer.fetch_hint("unpause", *change.key, change.message.at)
    return answers


def heirs_of(changes: Iterable[p.Change | p.Act], marks: Mapping[p.Key, str]) -> Iterator[p.Key]:
    """The heirs that these changes send to, as far as it is known."""
    if not marks:
        return
    for change in changes:
        if isinstance(change, p.Deliver):
            if (getter := _getter(change, marks)) != change.key:
                yield getter
        elif isinstance(change, p.Operate):
            yield from heirs_of(change.changes, marks)
        elif isinstance(change, p.Advance | p.Start):
            yield from heirs_of(change.attached, marks)


def _getter(change: p.Deliver | p.FinishWork, marks: Mapping[p.Key, str]) -> p.Key:
    key = change.key
    while (heir := p.heir_of(key, marks.get(key), _place(change))) is not None:
        key = heir
    return key


def _message_row(change: p.Deliver | p.FinishWork, getter: p.Key) -> tuple[Any, ...]:
    message = change.message
    return (*getter, message.kind, message.body, message.at, message.id, _place(change), change.key.run)


def _place(change: p.Deliver | p.FinishWork) -> int | None:
    return change.place if isinstance(change, p.Deliver) else None
