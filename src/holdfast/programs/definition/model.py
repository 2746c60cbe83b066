"""A definition as the engine has it: nodes, each with a name and one verb, and what they refer to.

Every way to write a definition (YAML, JSON, the Python DSL, canonical bytes from the store) ends in these structs.
``document.py`` writes them back in the words of the format.

A ``Value`` is plain data in which a text that begins with ``=`` is an expression; ``==x`` is the text ``=x``. A
``ConditionText`` is an expression without its ``=``. A ``Span`` is a duration in microseconds, or an expression for
one. A ``Path`` is a place that can be written to: ``("state", "total")``, ``("local", "x")`` or ``("reference",)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from holdfast.programs.definition.declared_schedule import ScheduleDeclaration

Value = Any
ConditionText = str
Span = int | str
Path = tuple[str, ...]
Schema = dict[str, Any]
Nodes = tuple["Node", ...]

FORMAT: Final = "definition/1"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a definition."""


# -- verbs -------------------------------------------------------------------------------------------------------------


class SetVerb(Part, frozen=True, kw_only=True):
    """Write values to state. All of them see the state before."""

    values: tuple[tuple[Path, Value], ...]


class CallVerb(Part, frozen=True, kw_only=True):
    """Call a registered Python step or action, with arguments by name."""

    kind: Literal["step", "action"]
    name: str
    arguments: Value = {}


class TransportVerb(Part, frozen=True, kw_only=True):
    """Call the outside by a transport (``http``, ``graphql`` or a package's own). ``request`` is in its words."""

    verb: str
    request: Value


class TaskVerb(Part, frozen=True, kw_only=True):
    """Ask people, by a task that the definition declares. ``arguments`` are what the declaration reads as ``input``."""

    task: str
    arguments: Value = {}


class WaitVerb(Part, frozen=True, kw_only=True):
    """Wait for a signal, or for one of this ``key``. What does not ``match`` is left for another wait."""

    signal: str
    key: Value = None
    match: ConditionText | None = None


class SleepVerb(Part, frozen=True, kw_only=True):
    """Wait for a span, or until a time."""

    span: Span | None = None
    at: Value = None


class Case(Part, frozen=True, kw_only=True):
    """One case of a switch; without a condition it is the last resort."""

    when: ConditionText | None
    do: Nodes


class SwitchVerb(Part, frozen=True, kw_only=True):
    """Do the first case whose condition holds; nothing where none does."""

    cases: tuple[Case, ...]


class RepeatVerb(Part, frozen=True, kw_only=True):
    """Do the nodes again: for each item, a number of times, while a condition holds or until it does.

    ``at_once`` iterations run beside each other. ``gives`` is the value of an iteration. With ``errors`` kept, a failed
    iteration is ``{"error": …}`` in the list and no failure of the node. ``most`` limits ``until`` and ``while_``.
    """

    do: Nodes
    over: Value = None
    times: Value = None
    while_: ConditionText | None = None
    until: ConditionText | None = None
    most: int | None = None
    item: str = "item"
    index: str = "index"
    at_once: int | None = None
    keep_errors: bool = False
    gives: Value = None


class Branch(Part, frozen=True, kw_only=True):
    """A named branch of a fork."""

    name: str
    do: Nodes


class ForkVerb(Part, frozen=True, kw_only=True):
    """Do the branches beside each other. ``join`` is how many must succeed; None means all. ``gives`` is the value of a
    branch; the result has those of the branches that succeeded, by name."""

    branches: tuple[Branch, ...]
    join: int | None = None
    gives: Value = None


class Option(Part, frozen=True, kw_only=True):
    """One way on of a pick: what it waits for, and what to do then."""

    trigger: Node
    do: Nodes = ()


class PickVerb(Part, frozen=True, kw_only=True):
    """Wait for several things. The first wins, the others are cancelled."""

    options: tuple[Option, ...]


class GraphVerb(Part, frozen=True, kw_only=True):
    """Do nodes by their dependencies, beside each other where these allow it."""

    nodes: Nodes


class BlockVerb(Part, frozen=True, kw_only=True):
    """Nodes as one, for a time-out or a handler around them. ``let`` are names that only they see."""

    do: Nodes
    let: dict[str, Value] = {}


class CheckVerb(Part, frozen=True, kw_only=True):
    """Fail where a value does not fit a JSON Schema."""

    value: Value
    schema: Schema


class RunVerb(Part, frozen=True, kw_only=True):
    """Start a child run and wait for its end. ``version`` and ``digest`` are what a range was resolved to."""

    workflow: str
    arguments: Value = {}
    version: int | None = None
    digest: str = ""


class ContinueVerb(Part, frozen=True, kw_only=True):
    """Start another run, and wait for nothing."""

    workflow: str
    arguments: Value = {}
    id: Value = None
    version: int | None = None
    digest: str = ""


class SendVerb(Part, frozen=True, kw_only=True):
    """Send a signal to another run."""

    to: Value
    signal: str
    key: Value = None
    value: Value = None


class EndVerb(Part, frozen=True, kw_only=True):
    """End the run with this result."""

    result: Value = None


class RaiseVerb(Part, frozen=True, kw_only=True):
    """Fail with an error of one's own."""

    code: Value
    message: Value = ""
    details: Value = None


class CompensateVerb(Part, frozen=True, kw_only=True):
    """Undo what a node did."""

    node: str


Verb = (
    SetVerb
    | CallVerb
    | TransportVerb
    | TaskVerb
    | WaitVerb
    | SleepVerb
    | SwitchVerb
    | RepeatVerb
    | ForkVerb
    | PickVerb
    | GraphVerb
    | BlockVerb
    | CheckVerb
    | RunVerb
    | ContinueVerb
    | SendVerb
    | EndVerb
    | RaiseVerb
    | CompensateVerb
)


# -- nodes -------------------------------------------------------------------------------------------------------------


class NodeRetry(Part, frozen=True, kw_only=True):
    """How often a node is tried. ``max`` counts attempts; ``on`` are the classes of errors that are tried again;
    without any all are that another attempt may mend."""

    max: int = 5
    first: int = 1_000_000
    factor: float = 2.0
    cap: int = 60_000_000
    jitter: float = 0.1
    on: tuple[str, ...] = ()


class Timeout(Part, frozen=True, kw_only=True):
    """Limits: of one attempt, of the node with all its attempts, or a time at which it is over."""

    attempt: Span | None = None
    whole: Span | None = None
    at: Value = None


class Handlers(Part, frozen=True, kw_only=True):
    """What is done when a node is over. None means there is no handler; no nodes mean that it is ignored."""

    success: Nodes | None = None
    failure: Nodes | None = None
    timeout: Nodes | None = None


class UndoCall(Part, frozen=True, kw_only=True):
    """What takes back a node that has succeeded. Without ``arguments`` it is called as a function's ``undo=`` is."""

    verb: CallVerb | TransportVerb
    inherits: bool = False


class Node(Part, frozen=True, kw_only=True):
    """A named element with one verb. ``needs`` and ``after`` are for nodes of a graph."""

    name: str
    verb: Verb
    title: str = ""
    when: ConditionText | None = None
    into: Path | None = None
    retry: str | NodeRetry | None = None
    timeout: Timeout | None = None
    on: Handlers = Handlers()
    undo: UndoCall | None = None
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


# -- what nodes refer to -----------------------------------------------------------------------------------------------


class Audience(Part, frozen=True, kw_only=True):
    """Who may answer a task. Each is a list of names, or an expression for one."""

    groups: Value = ()
    users: Value = ()
    exclude: Value = ()


class CrossCheck(Part, frozen=True, kw_only=True):
    """What a form's schema cannot say: where ``when`` holds, the answer is refused with ``say``, at a JSON pointer."""

    when: ConditionText
    say: str
    at: str = ""


class Deadlines(Part, frozen=True, kw_only=True):
    """By when a task is due, when people are reminded, who may answer as well from then on, and when it is over."""

    due: Span | None = None
    remind: tuple[Span, ...] = ()
    escalate: Audience | None = None
    expire: Span | None = None


class TaskDeclaration(Part, frozen=True, kw_only=True):
    """A task that nodes ask people."""

    title: Value
    audience: Audience = Audience()
    show: Value = {}
    form: Schema = {}
    check: tuple[CrossCheck, ...] = ()
    deadlines: Deadlines = Deadlines()
    description: str = ""


class Uses(Part, frozen=True, kw_only=True):
    """What a definition needs from outside, as it was found when the definition was accepted."""

    steps: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ()
    transports: tuple[str, ...] = ()


class Definition(Part, frozen=True, kw_only=True):
    """A workflow as data. ``inline`` are the canonical documents of definitions that it calls, by name and version."""

    name: str
    version: int
    steps: Nodes
    title: str = ""
    description: str = ""
    language: Literal["cel", "jq"] = "cel"
    reference: Value = None
    schedule: ScheduleDeclaration | None = None
    start: Schema = {}
    state: dict[str, Schema] = {}
    uses: Uses = Uses()
    retries: dict[str, NodeRetry] = {}
    tasks: dict[str, TaskDeclaration] = {}
    connectors: dict[str, Any] = {}
    cleanup_timeout: int | None = None  # in microseconds
    migrate: Mapping[str, Any] = {}
    inline: Mapping[str, Any] = {}


class Accepted(Part, frozen=True, kw_only=True):
    """A definition with its digest and the canonical bytes that it is kept by.

    ``order`` is how its author has ordered the branches, options or nodes of a node, where that is not by name. Only
    pictures and texts have it: the digest does not depend on it, and neither does anything that a run does.
    """

    definition: Definition
    digest: str
    canonical: bytes
    order: Mapping[str, tuple[str, ...]] = {}

    @property
    def reference(self) -> str:
        """How exactly this version is meant: ``name@version``."""
        return f"{self.definition.name}@{self.definition.version}"


def children_of(verb: Verb) -> list[tuple[str, Nodes]]:
    """The lists of nodes inside a verb, each with the part of a name path that leads to it ("" for none)."""
    match verb:
        case SwitchVerb(cases=cases):
            return [("", case.do) for case in cases]
        case RepeatVerb(do=do) | BlockVerb(do=do):
            return [("", do)]
        case ForkVerb(branches=branches):
            return [(branch.name, branch.do) for branch in branches]
        case PickVerb(options=options):
            return [(option.trigger.name, (option.trigger, *option.do)) for option in options]
        case GraphVerb(nodes=nodes):
            return [("", nodes)]
        case _:
            return []


def lists_of(node: Node) -> list[tuple[str, Nodes]]:
    """All lists of nodes inside a node: those of its verb, then its handlers as ``on.failure`` and the like."""
    handlers = [
        (f"on.{name}", nodes)
        for name in ("success", "failure", "timeout")
        if (nodes := getattr(node.on, name)) is not None
    ]
    return [*children_of(node.verb), *handlers]
