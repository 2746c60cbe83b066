"""A definition made ready to be interpreted: its values compiled, its nodes indexed. All runs of a digest share one."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol

import cbor2
import msgspec

from holdfast.errors import StepMissing
from holdfast.expressions.shapes import fitted, shape_of
from holdfast.journal.payload import Payload, RetryPolicy
from holdfast.kernel.program import Scribe
from holdfast.programs.definition.interpreter.templates import ROOTS, Templates, expressions_in
from holdfast.programs.definition.model import (
    BlockVerb,
    CallVerb,
    Definition,
    Node,
    NodeRetry,
    Nodes,
    Part,
    Path,
    RepeatVerb,
    TransportVerb,
    lists_of,
)
from holdfast.programs.definition.schema_values import fit, has_default
from holdfast.programs.definition.walks import CONDITIONS, all_nodes, members_of_state
from holdfast.tasks.forms import filled

if TYPE_CHECKING:
    from holdfast.programs.function.decorators import Step
    from holdfast.transports.protocol import Transport

ROOT: Final = ""
INPUT: Final = "input"
"""What a task's declaration reads of the node that asks it."""


class Toolbox(Protocol):
    """What definitions call that is not in them."""

    def step(self, name: str) -> Step[..., Any] | None:
        """The Python step or action of that name."""
        ...

    def names(self) -> Collection[str]:
        """The steps and actions that there are."""
        ...

    def transport(self, verb: str) -> Transport | None:
        """The transport that this verb calls."""
        ...


class NodePlace(msgspec.Struct, frozen=True):
    """Where a node stands: in which list, at which index, inside which node (the root is "")."""

    node: Node
    nodes: Nodes
    at: int
    inside: str


class Routine:
    """A definition, ready to run."""

    def __init__(self, definition: Definition, digest: str, tools: Toolbox) -> None:
        self.definition = definition
        self.digest = digest
        self.tools = tools
        self.root = Node(name=ROOT, verb=BlockVerb(do=definition.steps))
        self.inlined: dict[str, Routine] = {}  # definitions that it runs, as far as they were played here
        self.places: dict[str, NodePlace] = {}
        self._index(self.root)
        self._start_shape = shape_of(definition.start)
        self._fills_start = has_default(definition.start)
        names, state = frozenset(_bound_names(definition.steps)), members_of_state(definition)
        self.templates = Templates(names, definition.language, state)
        reads = [read for text in texts_of(definition) for read in self.templates.formula(text).reads]
        self.names_read = frozenset(read[0] for read in reads)
        if "run" in self.names_read:
            self.names_read |= {"task", "signal", "token"}
        self.nodes_read = self._nodes_read(reads)
        self.reads_start_time = any(read in (("run",), ("run", "startedAt")) for read in (each[:2] for each in reads))
        self.reads_own_id = any(read in (("run",), ("run", "id")) for read in (each[:2] for each in reads))

    def with_tools(self, tools: Toolbox) -> Routine:
        """The same with other tools. Nothing is compiled again."""
        other = copy.copy(self)
        other.tools, other.inlined = tools, {}
        return other

    def _index(self, inside: Node) -> None:
        for _, nodes in lists_of(inside):
            for at, node in enumerate(nodes):
                self.places[node.name] = NodePlace(node, nodes, at, inside.name)
                self._index(node)

    def is_part_of(self, name: str, whole: str) -> bool:
        """Whether a node is another one, or inside it."""
        while name != whole and name in self.places:
            name = self.places[name].inside
        return name == whole

    def _nodes_read(self, reads: list[tuple[str, ...]]) -> frozenset[str]:
        found = [read for read in reads if read[0] == "nodes"]
        if any(len(read) == 1 for read in found):  # which ones is known when it is evaluated
            return frozenset(self.places)
        return frozenset(read[1] for read in found)

    def retry(self, node: Node) -> NodeRetry | None:
        """How often a node is tried; None where it does not say."""
        return self.definition.retries[node.retry] if isinstance(node.retry, str) else node.retry

    def is_tried_by_kernel(self, verb: Part) -> bool:
        """Whether the kernel makes the attempts of this verb's call itself."""
        return isinstance(verb, CallVerb | TransportVerb)

    def step(self, name: str) -> Step[..., Any]:
        """The step or action of that name. Raises StepMissing, which parks the run until there is one again."""
        found = self.tools.step(name)
        if found is None:
            raise StepMissing(name)
        return found

    def fit(self, path: Path, value: Any) -> Any:
        """A value as the schema of its place in state wants it. Raises CannotEvaluate."""
        if path[0] != "state":
            return value
        schema: Any = {"properties": self.definition.state}
        for name in path[1:]:
            schema = schema.get("properties", {}).get(name)
            if not isinstance(schema, dict):
                return value
        return fit(value, schema, path)

    def fit_start(self, start: Any, edition: int) -> Any:
        """The start payload with the defaults of its schema, its numbers as the schema has them."""
        if self._fills_start and edition >= 2:
            start = filled(self.definition.start, start)
        return fitted(start, self._start_shape)

    def fit_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """The first state, as its schemas want it."""
        return {name: self.fit(("state", name), value) for name, value in state.items()}

    def read(self, payload: Payload) -> Any:
        """A recorded value."""
        return cbor2.loads(payload.data)


def kernel_policy(retry: NodeRetry) -> RetryPolicy:
    """A node's retry as the kernel has it."""
    return RetryPolicy(retry.max, retry.first / 1e6, retry.factor, retry.cap / 1e6, retry.jitter, on=retry.on)


def delay_of(retry: NodeRetry, attempt: int, scribe: Scribe) -> int:
    """How long to rest after a failed attempt, in microseconds. Chance is recorded."""
    entropy = int.from_bytes(scribe.random(7)) / (1 << 56) if retry.jitter else 0.5
    return round(kernel_policy(retry).delay_seconds(attempt, entropy) * 1e6)


def functions_of(definition: Definition) -> tuple[str, ...]:
    """The functions that its expressions call."""
    names, state = frozenset(_bound_names(definition.steps)), members_of_state(definition)
    templates = Templates(names, definition.language, state)
    return tuple(sorted({name for text in texts_of(definition) for name in templates.formula(text).functions}))


def texts_of(definition: Definition) -> Iterator[str]:
    """All expressions of a definition that are evaluated while it runs."""
    yield from expressions_in(definition.reference)
    for node in all_nodes(definition.steps):
        yield from texts_in(node)
    for task in definition.tasks.values():
        yield from texts_in(task)


def texts_in(part: Any) -> Iterator[str]:
    """The expressions of a part, without those of nodes inside it."""
    if isinstance(part, tuple):
        for item in part:
            yield from () if isinstance(item, Node) else texts_in(item)
    elif not isinstance(part, Part):
        yield from expressions_in(part)
    else:
        for name in part.__struct_fields__:
            value = getattr(part, name)
            if name in CONDITIONS:
                yield from () if value is None else (value,)
            elif not isinstance(value, Node):
                yield from texts_in(value)


def _bound_names(nodes: Nodes) -> Iterator[str]:
    """The names that repeats, blocks and tasks bind, beside those that every expression has."""
    yield INPUT
    for node in all_nodes(nodes):
        if isinstance(node.verb, RepeatVerb):
            yield from {node.verb.item, node.verb.index} - set(ROOTS)
        elif isinstance(node.verb, BlockVerb):
            yield from node.verb.let.keys() - set(ROOTS)
