"""``define``: the beginning of a definition in Python, with what its nodes refer to. See ``dsl`` for the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.dsl import Document, Flow, Span, TaskSketch, plain, span_text, too_deep, without_none
from holdfast.programs.definition.model import FORMAT
from holdfast.programs.definition.schemas import members_of, schema_of


class Sketch(Flow):
    """A definition that is being written."""

    __slots__ = ("_head",)

    def __init__(self, head: Document) -> None:
        super().__init__()
        self._head = head

    def ask(
        self,
        name: str,
        title: Any,
        form: Any,
        *,
        groups: Any = (),
        users: Any = (),
        exclude: Any = (),
        show: Mapping[str, Any] | None = None,
        check: Sequence[Mapping[str, Any]] = (),
        due: Span | None = None,
        remind: Sequence[Span] = (),
        escalate: Mapping[str, Any] | None = None,
        expire: Span | None = None,
        description: str = "",
    ) -> Self:
        """Declare a task, which ``.task(node, name)`` asks. See ``task``."""
        made = task(
            name,
            title,
            form,
            groups=groups,
            users=users,
            exclude=exclude,
            show=show,
            check=check,
            due=due,
            remind=remind,
            escalate=escalate,
            expire=expire,
            description=description,
        )
        return self._headed("tasks", {**self._head.get("tasks", {}), name: made.declaration})

    def retrying(self, name: str, **policy: Any) -> Self:
        """Declare a retry, which nodes use by ``retry=name``."""
        written = {
            word: span_text(value) if word in ("first", "cap") else plain(value) for word, value in policy.items()
        }
        return self._headed("retries", {**self._head.get("retries", {}), name: written})

    def connector(self, name: str, **declaration: Any) -> Self:
        """Declare what ``http`` calls as ``name.operation``."""
        return self._headed("connectors", {**self._head.get("connectors", {}), name: declaration})

    def _headed(self, word: str, value: Any) -> Self:
        made = self._made(self._nodes)
        made._head = {**self._head, word: value}
        return made

    @property
    def document(self) -> Document:
        """The definition in the words of the format. Raises InvalidDefinition where two tasks have one name."""
        tasks = dict(self._head.get("tasks", {}))
        try:
            steps = _named_tasks(self.nodes, tasks)
        except RecursionError:
            raise too_deep() from None
        return {**self._head, **({"tasks": tasks} if tasks else {}), "steps": steps}

    @property
    def name(self) -> str:
        """What a run of it is started by, with its version."""
        return f"{self._head['name']}@{self._head['version']}"


def task(
    name: str,
    title: Any,
    form: Any,
    *,
    groups: Any = (),
    users: Any = (),
    exclude: Any = (),
    show: Mapping[str, Any] | None = None,
    check: Sequence[Mapping[str, Any]] = (),
    due: Span | None = None,
    remind: Sequence[Span] = (),
    escalate: Mapping[str, Any] | None = None,
    expire: Span | None = None,
    description: str = "",
) -> TaskSketch:
    """A task for people, which ``.task(node, …)`` asks. ``form`` is a type or a JSON Schema."""
    people = {"groups": plain(groups), "users": plain(users), "exclude": plain(exclude)}
    times = without_none(
        {
            "in": None if due is None else span_text(due),
            "remind": [span_text(span) for span in remind] or None,
            "escalate": plain(escalate),
            "expire": None if expire is None else span_text(expire),
        }
    )
    declared = {
        "title": plain(title),
        "description": description or None,
        "for": {word: value for word, value in people.items() if value} or None,
        "show": plain(show),
        "form": plain(form) if isinstance(form, Mapping) else schema_of(form),
        "check": [plain(each) for each in check] or None,
        "due": times or None,
    }
    return TaskSketch(name, without_none(declared))


def _named_tasks(value: Any, tasks: dict[str, Document]) -> Any:
    """The value with tasks replaced by their names, and declared in ``tasks``."""
    if isinstance(value, TaskSketch):
        if tasks.setdefault(value.name, value.declaration) != value.declaration:
            raise InvalidDefinition(f"two different tasks are called {value.name!r}: rename one")
        return value.name
    if isinstance(value, Mapping):
        return {name: _named_tasks(item, tasks) for name, item in value.items()}
    return [_named_tasks(item, tasks) for item in value] if isinstance(value, list) else value


def define(
    name: str,
    *,
    version: int,
    start: Any = None,
    state: Any = None,
    reference: Any = None,
    schedule: str | Mapping[str, Any] | None = None,
    cleanup_timeout: Span | None = None,
    title: str = "",
    description: str = "",
    language: str | None = None,
    uses: Mapping[str, Sequence[str]] | None = None,
    migrate: Mapping[int, Any] | None = None,
    tests: Sequence[Mapping[str, Any]] = (),
    inline: Mapping[str, Any] | None = None,
) -> Sketch:
    """Begin a definition. ``start`` and ``state`` are types (msgspec struct, dataclass, pydantic model) or schemas."""
    head = {
        "holdfast": FORMAT,
        "name": name,
        "version": version,
        "title": title or None,
        "description": description or None,
        "reference": plain(reference),
        "schedule": schedule,
        "cleanup_timeout": None if cleanup_timeout is None else span_text(cleanup_timeout),
        "start": None if start is None else schema_of(start),
        "state": None if state is None else members_of(state),
        "uses": None if uses is None else {word: list(names) for word, names in uses.items()},
        "migrate": None if migrate is None else {str(old): plain(rules) for old, rules in migrate.items()},
        "language": language,
        "tests": list(tests) or None,
        "inline": inline,
    }
    return Sketch(without_none(head))
