"""The whole story of a tenant's templates: what people did, from the audit, and what the engine did, from the journals.

The order is one that the model of templates allows:

- What people did stands in the order of the audit, which is that of the commits.
- What an instance did stands in the order of its journals. An instance begins when it is admitted; before a template is
  paused or archived, those of its instances that wait begin first, because they were started before.
- All of it is merged by time. At one time, beginnings come last: what ends makes room for what begins.

Instances whose journals were deleted are read from the audit's own record of them.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.audit import records as r
from holdfast.audit.collector import entries_of
from holdfast.client.views.times import iso, moment
from holdfast.programs.definition.compiler.compiler import load
from holdfast.store import protocol as p
from holdfast.templates.steps import steps_of
from holdfast.templates.story import STARTS
from holdfast.templates.storyteller import tale_of

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

SYSTEM: Final = "system"
"""Who acts where the engine does."""

ABOUT_RUNS: Final = {
    "cancel": "request_cancel",
    "pause": "pause_workflow",
    "resume": "resume_workflow",
    "retry": "retry_workflow",
    "signal": "signal_workflow",
    "fork": "fork_workflow",
}
"""What people do to instances that is no action of the model, and how the export calls it. A cancellation is
``cancel_workflow`` where the instance's journal records it."""


QUEUED: Final = "queue_workflow"
"""The start of an instance that waits for its place: it has not begun."""


class ExportedAction(msgspec.Struct, frozen=True, kw_only=True):
    """One action. ``user`` is ``system`` where the engine acts. ``details`` are those of the audit's entry."""

    at: datetime
    user: str
    action: str
    tenant: str
    template: str | None = None
    instance: str | None = None
    step: str | None = None
    attempt: int | None = None
    generation: int = 0
    reason: str = ""
    details: dict[str, Any] = {}


def exported_record(action: ExportedAction) -> dict[str, Any]:
    """An action as a line of the export. The keys are stable."""
    return {
        "time": iso(action.at),
        "user": action.user,
        "action": action.action,
        "tenant": action.tenant,
        "template": action.template,
        "instance": action.instance,
        "step": action.step,
        "attempt": action.attempt,
        "generation": action.generation,
        "reason": action.reason,
        "details": action.details,
    }


class _InstanceStory(NamedTuple):
    """What is known of an instance: when it began, if it has, and what it did then."""

    begun_at: int | None
    actions: Sequence[r.StoryAction]


class _Instance:
    """An instance in the merge: its beginning, then its actions, each no earlier than the one before."""

    def __init__(
        self, number: int, start: ExportedAction, at: int, story: _InstanceStory, cancels: Sequence[str]
    ) -> None:
        self.number = number
        self.start = start
        self.has_begun = False
        self.at = at if story.begun_at is None else max(at, story.begun_at)
        self._actions = iter(story.actions)
        self._cancels = iter(cancels)
        self._next: r.StoryAction | None = None
        self._last = self.at
        self._generation = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Where its next action stands: by time, beginnings last, else in the order of the starts."""
        if not self.has_begun:
            return self.at, 1, self.number
        return self.at, 0, self.number

    def begin(self) -> ExportedAction:
        self.has_begun = True
        begun = msgspec.structs.replace(self.start, at=moment(self._last))
        self._advance()
        return begun

    def _advance(self) -> None:
        self._next = next(self._actions, None)
        if self._next is not None:
            self.at = self._last = max(self._last, self._next.at)

    @property
    def is_over(self) -> bool:
        return self.has_begun and self._next is None

    @property
    def is_before_retry(self) -> bool:
        """Whether its next action is of the generation that it is in."""
        return self._next is not None and self._next.generation == self._generation

    def take(self) -> ExportedAction:
        """Its next action."""
        action = self._next
        assert action is not None
        at, self._generation = self.at, action.generation
        self._advance()
        is_cancel = action.action == "cancel_workflow"
        return ExportedAction(
            at=moment(at),
            user=next(self._cancels, SYSTEM) if is_cancel else SYSTEM,
            action=action.action,
            tenant=self.start.tenant,
            template=self.start.template,
            instance=self.start.instance,
            step=action.step or None,
            attempt=action.attempt or None,
            generation=action.generation,
            reason=action.reason,
        )


async def exported(app: Holdfast, tenant: str) -> AsyncIterator[ExportedAction]:
    """The story of a tenant's templates, in one order."""
    merge = _Merge()
    reader = _Reader(app, tenant)
    last = 0
    async for entry in entries_of(app.store, p.AuditQuery(tenant, kind="operator")):
        act = reader.act_of(entry)
        if act is None:
            continue
        at = last = max(last, entry.at)  # clocks of workers differ: the order of commits counts
        for action in merge.until(at):
            yield action
        if act.action in STARTS:
            story = await reader.story(act, entry)
            if story.begun_at is not None:
                merge.add(act, at, story, await reader.cancels(act))
                continue
            act = msgspec.structs.replace(act, action=QUEUED)
        if act.action in ("pause_template", "archive_template"):
            for action in merge.begin_all(act.template):
                yield action
        if act.action == "retry_workflow":
            for action in merge.catch_up(act.instance, at):
                yield action
        yield await reader.completed(act, moment(at))
    for action in merge.until(None):
        yield action


class _Merge:
    """The instances that are under way in the export."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int, int], _Instance]] = []
        self._numbers = itertools.count()

    def add(self, start: ExportedAction, at: int, story: _InstanceStory, cancels: Sequence[str]) -> None:
        instance = _Instance(next(self._numbers), start, at, story, cancels)
        heapq.heappush(self._heap, (instance.place, instance))

    def until(self, at: int | None) -> Iterator[ExportedAction]:
        """All that instances did before this time; None is for ever."""
        while self._heap and (at is None or self._heap[0][0][0] < at):
            _, instance = heapq.heappop(self._heap)
            yield instance.take() if instance.has_begun else instance.begin()
            if not instance.is_over:
                heapq.heappush(self._heap, (instance.place, instance))

    def catch_up(self, instance: str | None, at: int) -> Iterator[ExportedAction]:
        """What an instance did until it is retried: the end of its last generation comes first."""
        for each in [each for _, each in self._heap if each.start.instance == instance]:
            if not each.has_begun:
                yield each.begin()
            while each.at <= at and each.is_before_retry:
                yield each.take()
        self._rebuild()

    def begin_all(self, template: str | None) -> Iterator[ExportedAction]:
        """The beginnings of a template's instances that still wait, in the order of their starts."""
        waiting = [each for _, each in self._heap if not each.has_begun and each.start.template == template]
        for instance in sorted(waiting, key=lambda each: each.number):
            yield instance.begin()
        self._rebuild()

    def _rebuild(self) -> None:
        self._heap = [(each.place, each) for _, each in self._heap if not each.is_over]
        heapq.heapify(self._heap)


class _Reader:
    """Reads acts from entries of the audit, and what instances did from their journals or the audit."""

    def __init__(self, app: Holdfast, tenant: str) -> None:
        self._app = app
        self._tenant = tenant
        self._templates: dict[str, str] = {}  # of instances
        self._steps: dict[str, dict[str, Any]] = {}

    def act_of(self, entry: p.AuditEntry) -> ExportedAction | None:
        """The act of an entry; None where it is about no template."""
        record = r.decode(entry.body)
        if not isinstance(record, r.Operated):
            return None
        template, action = record.details.get("template"), record.act
        if template is None:
            template = self._templates.get(record.run or "")
            action = ABOUT_RUNS.get(action, action)
        if template is None:
            return None
        if action in STARTS and record.run is not None:
            self._templates[record.run] = template
        return ExportedAction(
            at=moment(entry.at),
            user=record.who,
            action=action,
            tenant=entry.tenant,
            template=template,
            instance=record.run,
            reason=record.reason,
            details=dict(record.details),
        )

    async def story(self, start: ExportedAction, entry: p.AuditEntry) -> _InstanceStory:
        """What the instance did that this entry started."""
        store = self._app.store
        key = p.Key(self._tenant, start.instance or "")
        parts: list[r.KeptStory] = []
        async for each in entries_of(store, p.AuditQuery(self._tenant, key.run, "story")):
            if isinstance(record := r.decode(each.body), r.KeptStory) and each.sequence > entry.sequence:
                if record.part == 0 and parts:
                    break  # of a later run of this id
                parts.append(record)
        rows = await store.get([key])
        if rows and not parts:
            tale = await tale_of(store, self._app.definitions.tools, rows[0], self._app.clock.now())
            return _InstanceStory(rows[0].begun_at, tale.actions)
        if not parts:
            return _InstanceStory(None, ())
        return _InstanceStory(parts[0].begun_at, [action for part in parts for action in part.actions])

    async def cancels(self, start: ExportedAction) -> list[str]:
        """Who asked to cancel the instance, in order."""
        found = []
        async for each in entries_of(self._app.store, p.AuditQuery(self._tenant, start.instance, "operator")):
            record = r.decode(each.body)
            if isinstance(record, r.Operated) and record.act in ("cancel", "cancel_workflow"):
                found.append(record.who)
        return found

    async def completed(self, act: ExportedAction, at: datetime) -> ExportedAction:
        """The act with what else is known: the steps of the template that was made."""
        details = act.details
        digest = details.get("digest")
        if act.action in ("create_template", "new_version") and digest is not None:
            details = {**details, **await self._plan(digest)}
        return msgspec.structs.replace(act, at=at, details=details)

    async def _plan(self, digest: str) -> dict[str, Any]:
        if digest not in self._steps:
            code = await self._app.store.code(self._tenant, [bytes.fromhex(digest)])
            plans = [plan for each in code.values() for plan in steps_of(load(each.data))]
            self._steps[digest] = {
                "steps": [plan.name for plan in plans],
                "dependencies": {plan.name: list(plan.needs) for plan in plans},
            }
        return self._steps[digest]
