"""A document, which is plain data in the words of the format, read into the model. All that is wrong is collected.

``words.py`` has the words. The reader looks at shapes alone; whether names, types and paths make sense, the checks say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.programs.definition import model as m
from holdfast.programs.definition.compiler.faults import FaultList, Trail, shown
from holdfast.programs.definition.compiler.node_reader import NodeReader
from holdfast.programs.definition.compiler.shape_reader import ShapeReader
from holdfast.programs.definition.compiler.words import SCHEDULE_WORDS, TASK_WORDS, TOP_WORDS
from holdfast.programs.definition.declared_schedule import ScheduleDeclaration
from holdfast.schedules.schedule import CATCH_UPS, OVERLAPS

LARGEST_VERSION: Final = 1_000_000_000


def read_document(data: Any, faults: FaultList) -> m.Definition | None:
    """The definition of a document; None where it is none at all. What is wrong is added to ``faults``."""
    return _DocumentReader(faults).definition(data)


class _DocumentReader(ShapeReader):
    """Reads what stands at the top, and the declarations that nodes refer to."""

    def definition(self, data: Any) -> m.Definition | None:
        if not isinstance(data, Mapping):
            self.faults.add((), f"a definition is a map that begins with `holdfast: {m.FORMAT}`, not {shown(data)}")
            return None
        self.words(data, (), TOP_WORDS)
        if data.get("holdfast") != m.FORMAT:
            self.faults.add(("holdfast",), f"it must say `holdfast: {m.FORMAT}`, not {shown(data.get('holdfast'))}")
        nodes = NodeReader(self.faults)
        return m.Definition(
            name=self.name(data, "name"),
            version=self._version(data),
            steps=nodes.nodes(data.get("steps"), ("steps",)),
            title=self.text(data, "title", ()),
            description=self.text(data, "description", ()),
            language=self.choice(data, "language", (), ("cel", "jq"), "cel"),
            reference=data.get("reference"),
            schedule=self._schedule(data.get("schedule")),
            start=self._schema(data.get("start", {}), ("start",)),
            state=self._members(data, "state", self._schema),
            uses=self._uses(data.get("uses") or {}),
            retries=self._members(data, "retries", nodes.retry_policy),
            tasks=self._members(data, "tasks", self._task),
            connectors=dict(self.mapping(data.get("connectors") or {}, ("connectors",))),
            cleanup_timeout=self._cleanup_timeout(data.get("cleanup_timeout")),
            migrate={str(name): each for name, each in self.mapping(data.get("migrate") or {}, ("migrate",)).items()},
            inline=dict(self.mapping(data.get("inline") or {}, ("inline",))),
        )

    def _version(self, data: Mapping[str, Any]) -> int:
        version = data.get("version")
        if type(version) is int and 1 <= version <= LARGEST_VERSION:
            return version
        self.faults.add(("version",), f"a version is a whole number from 1 on, not {shown(version)}")
        return 1

    def _cleanup_timeout(self, data: Any) -> int | None:
        if data is None:
            return None
        found = self.fixed_span(data, ("cleanup_timeout",), 1)
        if found <= 0:
            self.faults.add(("cleanup_timeout",), f"it is a duration of more than nothing, not {shown(data)}")
        return found

    def _schedule(self, data: Any) -> ScheduleDeclaration | None:
        if data is None:
            return None
        trail: Trail = ("schedule",)
        found = {"cron": data} if isinstance(data, str) else self.mapping(data, trail)
        self.words(found, trail, SCHEDULE_WORDS)
        window = found.get("catch_up_window")
        return ScheduleDeclaration(
            cron=self.text(found, "cron", trail),
            timezone=self.text(found, "timezone", trail) or "UTC",
            every=self.fixed_span(found.get("every"), (*trail, "every"), 0),
            input=found.get("input"),
            overlap=self.choice(found, "overlap", trail, OVERLAPS, "skip"),
            catch_up=self.choice(found, "catch_up", trail, CATCH_UPS, "latest"),
            catch_up_window=None if window is None else self.fixed_span(window, (*trail, "catch_up_window"), 0),
            jitter=self.fixed_span(found.get("jitter"), (*trail, "jitter"), 0),
        )

    def _members(self, data: Mapping[str, Any], name: str, read: Callable[[Any, Trail], Any]) -> dict[str, Any]:
        found = self.mapping(data.get(name) or {}, (name,))
        return {str(key): read(found[key], (name, key)) for key in sorted(found, key=str)}

    def _schema(self, data: Any, trail: Trail) -> m.Schema:
        if isinstance(data, str):  # `total: number`
            return {"type": data}
        return dict(self.mapping(data or {}, trail))

    def _uses(self, data: Any) -> m.Uses:
        found = self.mapping(data, ("uses",))
        self.words(found, ("uses",), m.Uses.__struct_fields__)
        return m.Uses(**{name: self.names(found.get(name), ("uses", name)) for name in m.Uses.__struct_fields__})

    def _task(self, data: Any, trail: Trail) -> m.TaskDeclaration:
        found = self.mapping(data, trail)
        self.words(found, trail, TASK_WORDS)
        form = found.get("form")
        return m.TaskDeclaration(
            title=found.get("title", trail[-1]),
            audience=self._audience(found.get("for") or {}, (*trail, "for")),
            show=found.get("show", {}),
            form={"type": "object"} if form is None else dict(self.mapping(form, (*trail, "form"))),
            check=tuple(self._check(each, (*trail, "check", at)) for at, each in self.items(found, "check", trail)),
            deadlines=self._deadlines(found.get("due"), (*trail, "due")),
            description=self.text(found, "description", trail),
        )

    def _audience(self, data: Any, trail: Trail) -> m.Audience:
        found = self.mapping(data, trail)
        self.words(found, trail, ("groups", "users", "exclude"))
        return m.Audience(
            **{
                name: self._people(found.get(name), (*trail, name))
                for name in found.keys() & {"groups", "users", "exclude"}
            }
        )

    def _people(self, data: Any, trail: Trail) -> Any:
        if isinstance(data, str):
            return data if data.startswith("=") and not data.startswith("==") else (data,)
        if isinstance(data, list):
            return tuple(data)
        self.faults.add(trail, f"people are a list of names, or an expression for one, not {shown(data)}")
        return ()

    def _check(self, data: Any, trail: Trail) -> m.CrossCheck:
        found = self.mapping(data, trail)
        self.words(found, trail, ("when", "say", "at"))
        for word in ("when", "say"):
            if word not in found:
                self.faults.add(trail, f"a check says `{word}`: `{{when: =payload.n > 9, say: Too many, at: /n}}`")
        when = self.condition(found.get("when"), (*trail, "when"))
        at = self.text(found, "at", trail)
        if at and not at.startswith("/"):
            self.faults.add((*trail, "at"), f"the place of a field is written as /decision, not {shown(at)}")
        return m.CrossCheck(when=when or "false", say=self.text(found, "say", trail), at=at)

    def _deadlines(self, data: Any, trail: Trail) -> m.Deadlines:
        if data is None:
            return m.Deadlines()
        if not isinstance(data, Mapping):
            return m.Deadlines(due=self.span(data, trail))
        self.words(data, trail, ("in", "remind", "escalate", "expire"))
        escalate = data.get("escalate")
        return m.Deadlines(
            due=self.span(data.get("in"), (*trail, "in")),
            remind=self._reminders(data.get("remind"), (*trail, "remind")),
            escalate=None if escalate is None else self._audience(escalate, (*trail, "escalate")),
            expire=self.span(data.get("expire"), (*trail, "expire")),
        )

    def _reminders(self, data: Any, trail: Trail) -> tuple[m.Span, ...]:
        spans = data if isinstance(data, list) else [] if data is None else [data]
        found = [self.span(each, (*trail, at)) for at, each in enumerate(spans)]
        return tuple(sorted((each for each in found if each is not None), key=str))
