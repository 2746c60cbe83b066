"""``@machine``: a pure function of state and event, with its declaration read off its annotations."""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import cbor2
import msgspec

from holdfast.errors import InvalidFunction
from holdfast.journal.cbor import canonical
from holdfast.programs.function.declared import source_digest
from holdfast.programs.function.decorators import Step, Workflow
from holdfast.programs.function.registry import Registry
from holdfast.programs.machine.declarations import MachineDeclaration, declare
from holdfast.programs.machine.executors import ExecutorKeys, executor_entries
from holdfast.programs.machine.guard import guarded
from holdfast.programs.machine.handle import Cell, TurnContext
from holdfast.programs.machine.key_fields import path_of
from holdfast.programs.machine.manifest import EffectEntry, MachineLimits
from holdfast.programs.machine.occurrences import ENGINE_EVENTS
from holdfast.programs.machine.schemas import ValueSchema

S = TypeVar("S")

LANES: Final = 64
"""How many lanes a keyed machine has, unless it says otherwise: so many runs share its keys."""

_KEYS_KEPT: Final = 8192

Effectable = Step[..., Any] | Workflow[..., Any]
"""What a machine can ask for: an action, a step, or a child run."""

Migration = Callable[[Any, int], Any]
"""Brings the plain data of an older state, and its version, up to the present type."""


class EffectRequest(msgspec.Struct, frozen=True, gc=False):
    """A call of an effect that an event led to."""

    effect: Effectable
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sequence: int = 0
    issuer: str | None = None

    @property
    def name(self) -> str:
        """The name of what is called."""
        return self.effect.name


class Timer(msgspec.Struct, frozen=True, gc=False):
    """An event that a cell sends to itself for later."""

    wake_at: int
    event: Any


class Transition(msgspec.Struct, Generic[S], frozen=True, gc=False):
    """What one event made of a cell: its new state, and what it asks for. ``status`` is ``running`` until it ends."""

    state: S | None
    events: tuple[Any, ...] = ()
    effects: tuple[EffectRequest, ...] = ()
    timers: tuple[Timer, ...] = ()
    status: str = "running"
    reason: str = ""
    annotation: Any = None


class Machine(Generic[S]):
    """A keyed, deterministic machine. Calling ``step`` tries one event without an engine."""

    def __init__(
        self,
        function: Callable[..., S | None],
        *,
        name: str | None,
        key: str | Mapping[type, str] | None,
        effects: Sequence[Effectable],
        emits: Sequence[type],
        executors: Mapping[str, ExecutorKeys] | None = None,
        version: int,
        lanes: int,
        limits: MachineLimits,
        migrate: Migration | None,
        digest: str | None = None,
    ) -> None:
        self.function = function
        self.name = name or function.__name__
        self.module, self.qualname = function.__module__, function.__qualname__
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__wrapped__ = function
        self.version = version
        self.limits = limits
        self.migrate = migrate
        given: Sequence[object] = effects
        for each in given:
            if not isinstance(each, Step | Workflow):
                raise InvalidFunction(
                    f"machine {self.name}: effects= are actions, steps and workflows, not {each!r:.60}"
                )
        self.effects = {each.name: each for each in effects}
        self.lanes = lanes if key is not None else 1
        self.key = key
        state, events = _annotations(function, self.name)
        self.engine_events = tuple(each for each in events if each in ENGINE_EVENTS)
        self._check(events)
        self.declaration = MachineDeclaration(
            name=self.name,
            state=state,
            events=events,
            version=version,
            key=key,
            effects=tuple(EffectEntry(name=each.name, executor=getattr(each, "executor", None)) for each in effects),
            executors=executor_entries(self.name, effects, executors or {}),
            emits=tuple(emits),
            implementation=self.qualname,  # without its module, whose name depends on how it is run
            limits=limits,
            hash=digest or source_digest(function),
        )
        manifest, schemas = declare([self.declaration])
        (entry,) = manifest.machines
        self.state = schemas[entry.state]
        self.events = {name: schemas[name] for name in entry.events if name in schemas}
        self.emits = {name: schemas[name] for name in entry.emits}
        self.by_type = {schema.kind: schema for schema in (*self.emits.values(), *self.events.values())}
        self.key_schema = None if entry.key is None else schemas[entry.key]
        self._key_paths = {each.event: path_of(each.key_field) for each in manifest.subscriptions if each.key_field}
        self._keys: dict[bytes, Any] = {}
        self.hash = hashlib.sha256(canonical(msgspec.to_builtins(entry))).hexdigest()

    @property
    def is_keyed(self) -> bool:
        return self.key is not None

    def accepts(self, kind: type) -> bool:
        """Whether events of the engine of this type are delivered to it."""
        return kind in self.engine_events

    def step(
        self,
        state: S | None,
        event: Any,
        *,
        key: Any = None,
        where: TurnContext = TurnContext(),  # noqa: B008  # immutable
        first: int = 0,
        mark: bytes = b"",
    ) -> Transition[S]:
        """Handle one event, without an engine: what becomes of the state, and what is asked for.

        Raises InvalidFunction where the handler asks for what the machine does not declare, or gives another type.
        """
        if key is None and self.is_keyed and type(event) in self.by_type:
            key = self.key_of(event)
        cell = Cell(key, where, self.limits, first, "keyed" if self.is_keyed else "unkeyed", mark)
        given = guarded(self.function, state, event, cell)
        asked, events, timers, ending, annotation = cell.close()
        status, reason = ending or ("running", "")
        return Transition(
            given,
            tuple(self._known(each, self.emits, "emits") for each in events),
            tuple([self._allowed(each.effect, each.args, each.kwargs, each.sequence, each.issuer) for each in asked]),
            tuple(Timer(wake_at, self._known(each, self.events, "hears")) for wake_at, each in timers),
            status,
            reason,
            annotation,
        )

    def read_state(self, data: bytes, version: int) -> S:
        """A kept state, brought up to this version. Raises InvalidFunction where nothing can do that."""
        if version == self.version:
            state: S = self.state.decode(data)
            return state
        if self.migrate is None:
            raise InvalidFunction(
                f"the state is of version {version}, and machine {self.name} of version {self.version}: give it "
                "migrate=."
            )
        migrated: S = self.migrate(cbor2.loads(data), version)
        return migrated

    def read_key(self, key: bytes) -> Any:
        """The key of a cell, as its type. Those that were asked for last are kept."""
        if self.key_schema is None:
            return None
        known = self._keys.get(key)
        if known is None:
            if len(self._keys) >= _KEYS_KEPT:
                self._keys.clear()
            known = self._keys[key] = self.key_schema.decode(key)
        return known

    def key_of(self, event: Any) -> Any:
        """The key in an event. Raises InvalidFunction where it has none."""
        value = event
        for part in self._key_paths[self.by_type[type(event)].name]:
            value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
        if value is None:
            raise InvalidFunction(f"an event for machine {self.name} has no key: {event!r:.100}")
        return value

    def _allowed(
        self, effect: Any, args: tuple[Any, ...], kwargs: dict[str, Any], sequence: int, issuer: str | None
    ) -> EffectRequest:
        known = self.effects.get(getattr(effect, "name", ""))
        if known is None or known is not effect:
            asked = getattr(effect, "name", getattr(effect, "__name__", repr(effect)))
            declared = ", ".join(sorted(self.effects)) or "none"
            raise InvalidFunction(
                f"machine {self.name} asks for {asked}, which it does not declare (it declares {declared}): add it to "
                "effects=[…]."
            )
        return EffectRequest(known, args, kwargs, sequence, issuer)

    def _known(self, event: Any, among: Mapping[str, ValueSchema], verb: str) -> Any:
        schema = self.by_type.get(type(event))
        if schema is None or schema.name not in among:
            known = ", ".join(sorted(among)) or "nothing"
            raise InvalidFunction(f"machine {self.name} {verb} {known}, not {type(event).__name__}: declare it.")
        return event

    def _check(self, events: tuple[type, ...]) -> None:
        problem = None
        if not 1 <= self.lanes <= 4096:
            problem = "lanes= is between 1 and 4,096"
        elif self.version < 1:
            problem = "version= is 1 or more"
        elif not events:
            problem = "it hears no event: annotate its second argument with the events"
        if problem is not None:
            raise InvalidFunction(f"machine {self.name}: {problem}")

    def __repr__(self) -> str:
        return f"<machine {self.name}>"


MACHINES: Registry[Machine[Any]] = Registry("machine")


def machine(
    *,
    key: str | Mapping[type, str] | None = None,
    effects: Sequence[Effectable] = (),
    emits: Sequence[type] = (),
    executors: Mapping[str, ExecutorKeys] | None = None,
    name: str | None = None,
    version: int = 1,
    lanes: int = LANES,
    limits: MachineLimits = MachineLimits(),  # noqa: B008  # immutable
    migrate: Migration | None = None,
) -> Callable[[Callable[[Any, Any, Cell], S | None]], Machine[S]]:
    """Make a function ``(state, event, cell) → state`` a machine.

    ``key`` is the field of its events that names the cell (``"order_id"``, ``"order.id"``), or one for each type of
    event; without one, the machine has a single cell. ``effects`` are the actions, steps and workflows that it may ask
    for, ``emits`` the types of domain events that it may emit. ``executors`` are the public keys, as PEM, of those who
    sign what came of effects that name an ``executor``. ``version`` is that of its state: ``migrate`` gets the plain
    data and the version of an older state and gives the present state. Raises InvalidFunction.
    """

    def decorate(function: Callable[[Any, Any, Cell], S | None]) -> Machine[S]:
        made = Machine(
            function,
            name=name,
            key=key,
            effects=effects,
            emits=emits,
            executors=executors,
            version=version,
            lanes=lanes,
            limits=limits,
            migrate=migrate,
        )
        MACHINES.add(made)
        return made

    return decorate


def _annotations(function: Callable[..., Any], name: str) -> tuple[Any, tuple[type, ...]]:
    """The state's type without None, and the types of the events."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 3 or inspect.iscoroutinefunction(function):
        raise InvalidFunction(f"machine {name}: write a plain function of (state, event, cell)")
    try:
        hints = get_type_hints(function)
    except Exception as error:
        raise InvalidFunction(
            f"the annotations of machine {name!r} cannot be resolved ({error}): define or import every name they use "
            "at module level, outside TYPE_CHECKING."
        ) from error
    state = [each for each in _arms(hints.get(parameters[0])) if each is not type(None)]
    if len(state) != 1:
        raise InvalidFunction(f"machine {name}: annotate its state with one type and None, such as Order | None")
    return state[0], tuple(_arms(hints.get(parameters[1])))


def _arms(annotation: Any) -> tuple[Any, ...]:
    if annotation is None:
        return ()
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
