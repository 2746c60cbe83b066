"""Definitions in Python: a fluent builder that gives the same document as YAML.

    approve = task("approve", "Approve " + D.start.claimNo, Decision, groups=["claims"])
    claims = (
        define("claims.settle", version=3, start=Claim, state=ClaimState)
        .step("score", fraud_score, items=D.start.items, into=D.state.score)
        .switch("route")
        .when(D.state.score > 0.5, lambda d: d.task("ask", approve, into=D.state.answer))
        .otherwise(lambda d: d.set("auto", {"state.answer": {"decision": "approve"}}))
        .end("done", status=D.state.answer.decision)
    )

Every call gives a new object, so the beginning of a definition can be used twice. What belongs to every node (``into``,
``when``, ``retry``, ``timeout``, ``on_failure`` and the like) is given by name beside the arguments of a step; a step
whose own argument has such a name gets its arguments by ``with_={…}``.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar, Unpack

import msgspec

from holdfast.errors import InvalidDefinition
from holdfast.programs.definition.compiler.words import TRANSPORT_WORDS
from holdfast.programs.definition.schemas import schema_of
from holdfast.programs.definition.spans import write_span
from holdfast.programs.definition.terms import Term, cel_of
from holdfast.programs.function.decorators import Step, Workflow

Document = dict[str, Any]
Span = str | datetime.timedelta | Term
Body = Callable[["Flow"], "Flow"]
F = TypeVar("F", bound="Flow")


class TaskSketch(msgspec.Struct, frozen=True):
    """A task for people, which nodes ask: ``task(…)`` makes it."""

    name: str
    declaration: Document


class NodeOptions(TypedDict, total=False):
    """What every node may have."""

    into: str | Term
    title: str
    only_if: Any
    retry: str | Mapping[str, Any]
    timeout: Span | Mapping[str, Span]
    on_success: Body
    on_failure: Body | None
    on_timeout: Body | None
    undo: Any
    needs: Sequence[str]
    after: Sequence[str]


class Flow:
    """A list of nodes."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: tuple[Document, ...] = ()) -> None:
        self._nodes = nodes

    def _with(self, name: str, body: Document, options: Mapping[str, Any]) -> Self:
        node = {name: {**body, **_common(name, options)}}
        return self._made((*self._nodes, node))

    def _made(self, nodes: tuple[Document, ...]) -> Self:
        made: Self = object.__new__(type(self))
        for slot in _slots(type(self)):
            setattr(made, slot, getattr(self, slot))
        made._nodes = nodes
        return made

    @property
    def nodes(self) -> list[Document]:
        """The nodes as the format has them."""
        return list(self._nodes)

    # -- verbs ---------------------------------------------------------------------------------------------------------

    def set(self, name: str, values: Mapping[str, Any], **options: Unpack[NodeOptions]) -> Self:
        """Write values to state: ``{"state.total": D.state.total + 1}``."""
        return self._with(name, {"set": {path: plain(value) for path, value in values.items()}}, options)

    def step(self, name: str, step: Step[..., Any] | str, /, **arguments: Any) -> Self:
        """Call a Python step."""
        return self._call(name, "step", step, arguments)

    def action(self, name: str, action: Step[..., Any] | str, /, **arguments: Any) -> Self:
        """Call a Python action."""
        return self._call(name, "action", action, arguments)

    def _call(self, name: str, kind: str, called: Any, arguments: Mapping[str, Any]) -> Self:
        options, given = _divided(arguments)
        more = given.pop("with_", {})
        return self._with(name, {kind: _name(called), **_with({**given, **more})}, options)

    def http(self, name: str, request: Mapping[str, Any], **options: Unpack[NodeOptions]) -> Self:
        """Make a request: ``{"get": "https://…"}`` or ``{"call": "bureau.report", "with": {…}}``."""
        return self.transport(name, "http", request, **options)

    def graphql(self, name: str, request: Mapping[str, Any], **options: Unpack[NodeOptions]) -> Self:
        """Ask a GraphQL service."""
        return self.transport(name, "graphql", request, **options)

    def transport(self, name: str, verb: str, request: Mapping[str, Any], **options: Unpack[NodeOptions]) -> Self:
        """Call the outside by any transport."""
        body = {verb: plain(request)} if verb in TRANSPORT_WORDS else {"transport": {verb: plain(request)}}
        return self._with(name, body, options)

    def task(self, name: str, task: TaskSketch | str, *, with_: Any = None, **options: Unpack[NodeOptions]) -> Self:
        """Ask people, by a task or the name of one that ``ask`` declares. It reads ``with_`` as ``D.input``."""
        return self._with(name, {"task": task, **without_none({"with": plain(with_)})}, options)

    def wait(
        self, name: str, signal: str, *, key: Any = None, match: Any = None, **options: Unpack[NodeOptions]
    ) -> Self:
        """Wait for a signal."""
        return self._with(name, {"wait": signal, **without_none({"key": plain(key), "match": plain(match)})}, options)

    def sleep(self, name: str, span: Span | None = None, *, until: Any = None, **options: Unpack[NodeOptions]) -> Self:
        """Wait for a while, or until a time."""
        return self._with(name, {"sleep": {"until": plain(until)} if span is None else span_text(span)}, options)

    def run(self, name: str, workflow: Workflow[..., Any] | Flow | str, /, **arguments: Any) -> Self:
        """Start a child run and wait for its end: of a function, of a definition, or by name, as ``letters@^2``."""
        return self._call(name, "run", workflow, arguments)

    def continue_with(
        self,
        name: str,
        workflow: Workflow[..., Any] | Flow | str,
        arguments: Mapping[str, Any] | None = None,
        *,
        id: Any = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Start another run, and wait for nothing."""
        body = {"continue": _name(workflow), **_with(arguments or {}), **without_none({"id": plain(id)})}
        return self._with(name, body, options)

    def send(
        self, name: str, to: Any, signal: str, value: Any = None, *, key: Any = None, **options: Unpack[NodeOptions]
    ) -> Self:
        """Send a signal to another run."""
        rest = without_none({"key": plain(key), "value": plain(value)})
        return self._with(name, {"send": {"to": plain(to), "signal": signal, **rest}}, options)

    def switch(self, name: str, **options: Unpack[NodeOptions]) -> Switch[Self]:
        """Do one of several cases: ``.when(condition, body)``, then ``.otherwise(body)``."""
        return Switch(self, name, _common(name, options), ())

    def repeat(
        self,
        name: str,
        body: Body,
        *,
        over: Any = None,
        times: Any = None,
        while_: Any = None,
        until: Any = None,
        most: int | None = None,
        item: str | None = None,
        index: str | None = None,
        at_once: int | None = None,
        keep_errors: bool = False,
        gives: Any = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Do nodes again: over items, some times, while or until something holds."""
        repeat = without_none(
            {
                "over": plain(over),
                "times": plain(times),
                "while": plain(while_),
                "until": plain(until),
                "most": most,
                "item": item,
                "index": index,
                "at_once": at_once,
                "errors": "keep" if keep_errors else None,
            }
        )
        return self._with(
            name, {"repeat": repeat, "do": _nodes(body), **without_none({"gives": plain(gives)})}, options
        )

    def fork(
        self,
        name: str,
        branches: Mapping[str, Body],
        *,
        join: str | int = "all",
        gives: Any = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Do branches side by side. ``gives`` is the value of each."""
        rest = without_none({"join": join, "gives": plain(gives)})
        return self._with(name, {"fork": {key: _nodes(body) for key, body in branches.items()}, **rest}, options)

    def pick(
        self, name: str, waits: Mapping[str, tuple[Body, Body | None] | Body], **options: Unpack[NodeOptions]
    ) -> Self:
        """Wait for several things, of which the first wins. Each is a body of one node, and perhaps one to do then."""
        found: Document = {}
        for key, option in waits.items():
            trigger, body = option if isinstance(option, tuple) else (option, None)
            (node,) = _nodes(trigger)
            found[key] = {**next(iter(node.values())), **({} if body is None else {"do": _nodes(body)})}
        return self._with(name, {"pick": found}, options)

    def graph(self, name: str, body: Body, **options: Unpack[NodeOptions]) -> Self:
        """Do nodes by their dependencies: each says what it ``needs``."""
        nodes = {key: node for each in _nodes(body) for key, node in each.items()}
        return self._with(name, {"graph": nodes}, options)

    def block(
        self, name: str, body: Body, *, let: Mapping[str, Any] | None = None, **options: Unpack[NodeOptions]
    ) -> Self:
        """Nodes as one, for a time-out or a handler around them. ``let`` binds names for them, read as ``D.name``."""
        return self._with(name, {"do": _nodes(body), **without_none({"let": plain(let)})}, options)

    def check(self, name: str, value: Any, schema: Any, **options: Unpack[NodeOptions]) -> Self:
        """Fail where a value does not fit a type or a JSON Schema."""
        return self._with(name, {"check": plain(value), "schema": schema_of(schema)}, options)

    def compensate(self, name: str, node: str, **options: Unpack[NodeOptions]) -> Self:
        """Undo what a node did."""
        return self._with(name, {"compensate": node}, options)

    def fail(
        self, name: str, code: Any, message: Any = "", details: Any = None, **options: Unpack[NodeOptions]
    ) -> Self:
        """Fail with an error of one's own."""
        rest = without_none({"message": plain(message) or None, "details": plain(details)})
        return self._with(name, {"raise": {"code": plain(code), **rest}}, options)

    def end(self, name: str, value: Any = None, /, **members: Any) -> Self:
        """End the run with a value, or with a map of these members; one with the name of an option is an option."""
        options, given = _divided(members)
        if given and value is not None:
            raise InvalidDefinition(f"node {name}: it ends with a value or with members, not with both")
        return self._with(name, {"end": plain(given) if given else plain(value)}, options)


class Switch(msgspec.Struct, Generic[F], frozen=True):
    """A switch under way. ``otherwise`` or ``done`` goes back to the flow."""

    flow: F
    name: str
    common: Document
    cases: tuple[Document, ...]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"the switch {self.name!r} is not over: write .otherwise(…) or .done() before .{name}(…)"
            )

    def when(self, condition: Any, body: Body) -> Switch[F]:
        """One more case."""
        return msgspec.structs.replace(self, cases=(*self.cases, {"when": plain(condition), "do": _nodes(body)}))

    def otherwise(self, body: Body) -> F:
        """What to do where no case fits."""
        return self._over((*self.cases, {"else": _nodes(body)}))

    def done(self) -> F:
        """Nothing is done where no case fits."""
        return self._over(self.cases)

    def _over(self, cases: tuple[Document, ...]) -> F:
        return self.flow._made((*self.flow.nodes, {self.name: {"switch": list(cases), **self.common}}))


class JqText(str):
    """An expression of a definition whose language is jq."""

    __slots__ = ()


def jq(text: str) -> JqText:
    """An expression in jq, for ``define(…, language="jq")``."""
    return JqText(text)


def plain(value: Any) -> Any:
    """A value as the format writes it: terms are expressions, a text that begins with ``=`` is that text."""
    if isinstance(value, Term):
        return f"={cel_of(value)}"
    if isinstance(value, JqText):
        return f"={value}"
    if isinstance(value, str):
        return f"={value}" if value.startswith("=") else value
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return span_text(value)
    return value


def _common(name: str, options: Mapping[str, Any]) -> Document:
    found: Document = {}
    for word, value in options.items():
        match word:
            case "into":
                found["as"] = cel_of(value) if isinstance(value, Term) else value
            case "only_if":
                found["when"] = plain(value)
            case "timeout":
                found["timeout"] = (
                    {w: span_text(v) for w, v in value.items()} if isinstance(value, Mapping) else span_text(value)
                )
            case "on_success" | "on_failure" | "on_timeout":
                found.setdefault("on", {})[word[3:]] = [] if value is None else _nodes(value)
            case "undo":
                found["undo"] = _name(value) if isinstance(value, Step | str) else plain(value)
            case "needs" | "after":
                found[word] = list(value)
            case "title" | "retry":
                found[word] = plain(value)
            case _:
                raise InvalidDefinition(f"node {name}: nobody knows the option {word!r}")
    return found


def _divided(members: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is given by name: the options of every node, and the rest."""
    options = {word: value for word, value in members.items() if word in NodeOptions.__annotations__}
    return options, {word: value for word, value in members.items() if word not in options}


def too_deep() -> InvalidDefinition:
    """Blocks in blocks, as deep as Python can go."""
    return InvalidDefinition("blocks stand too deep inside each other: make a child workflow of some")


def _nodes(body: Body) -> list[Document]:
    try:
        found: object = body(Flow())
    except RecursionError:
        raise too_deep() from None
    if not isinstance(found, Flow):
        example = "`lambda d: d.sleep('rest', '2h')`"
        raise InvalidDefinition(f"a body takes a flow and gives it back with nodes, as {example}, not {found!r:.60}")
    return found.nodes


def _name(called: Any) -> Any:
    """What a step or workflow goes by. A map names a definition with its version and digest."""
    if isinstance(called, str | Mapping):
        return called
    name = getattr(called, "name", None)
    if not isinstance(name, str):
        raise InvalidDefinition(f"it calls a step, an action or a workflow, or the name of one, not {called!r:.60}")
    return name


def _with(arguments: Mapping[str, Any]) -> Document:
    return {"with": plain(arguments)} if arguments else {}


def span_text(span: Span) -> str:
    if isinstance(span, datetime.timedelta):
        return write_span(span // datetime.timedelta(microseconds=1))
    return str(plain(span)) if isinstance(span, Term | JqText) else span


def without_none(members: Document) -> Document:
    return {name: value for name, value in members.items() if value is not None}


def _slots(kind: type) -> list[str]:
    return [slot for each in kind.__mro__ for slot in getattr(each, "__slots__", ())]
