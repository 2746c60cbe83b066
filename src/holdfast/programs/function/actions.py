"""Actions: steps that touch the outside world and declare their effect in advance."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from decimal import Decimal
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints, overload

import cbor2
import msgspec

from holdfast.errors import InvalidFunction, NotInWorkflow
from holdfast.gate.effects import Arguments, Cost, Intent, Performable
from holdfast.gate.proposals import Proposal, Risk, limited
from holdfast.gate.receipts import Receipt
from holdfast.journal.cbor import DEEPEST, canonical
from holdfast.journal.payload import ONCE, Payload, RetryPolicy
from holdfast.journal.secrecy import ACTION, leaves, marked, secrets_in
from holdfast.programs.function.decorators import STEPS, KnowsSecrets, Step, check_step
from holdfast.programs.function.loop import durable_loop
from holdfast.programs.function.placeholders import KeyTemplate, PlaceholderText
from holdfast.programs.function.secrets import Secrets, Shape
from holdfast.programs.function.values import encode
from holdfast.transports.http.refusals import is_refusal

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of an action's effect."""

    connector: str
    operation: str
    target: str = ""
    writes: bool = True
    risk: Risk | None = None
    idempotency_key: str | None = None
    key_once: bool = False
    reverse: Action[..., Any] | None = None
    cost: Callable[[Any], Cost] | None = None
    cost_estimate: float = 0.0
    safe_to_retry: bool | None = None
    not_done: Collection[int] = ()
    probe: Callable[..., Any] | None = None
    secret: Sequence[str] = ()


class Action(Step[P, R_co], Generic[P, R_co]):
    """A step that goes through the gate: judged, perhaps approved, done once, receipted. It is an ``Effect``."""

    kind = ACTION

    def __init__(
        self,
        function: Callable[P, Any],
        declaration: Declaration,
        *,
        name: str | None,
        retry: RetryPolicy,
        timeout: float | None,
        undo: Step[..., Any] | None,
        executor: str | None = None,
    ) -> None:
        super().__init__(
            function,
            name=name,
            retry=retry,
            timeout=timeout,
            heartbeat_timeout=None,
            queue=None,
            concurrency=None,
            undo=undo,
            executor=executor,
            repeatable=not declaration.writes,
        )
        self.connector = declaration.connector
        self.operation = declaration.operation
        self.writes = declaration.writes
        self.key_once = declaration.key_once
        self.risk: Risk = declaration.risk or ("med" if declaration.writes else "low")
        self.reverse = declaration.reverse
        self.cost = declaration.cost
        self.cost_estimate = float(declaration.cost_estimate)
        self.safe_to_retry = not self.writes if declaration.safe_to_retry is None else declaration.safe_to_retry
        self.not_done = frozenset(declaration.not_done)
        arguments = list(inspect.signature(function).parameters)
        kinds = get_type_hints(function, include_extras=True)
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:  # its annotation is that of each value
                kinds[parameter.name] = dict[str, kinds.get(parameter.name, Any)]  # type: ignore[misc]
        self.secrets = Secrets(declaration.secret, arguments, self.name, kinds)
        self.secret_names = self.secrets.names
        self.scrub = self.secrets.scrub
        self.scrub_text = self.secrets.scrub_text
        secrets = [*declaration.secret, *self.secrets.written]
        self.probe: Performable | None = None if declaration.probe is None else self._probing(declaration.probe)
        what = f"action {self.name}:"
        self._target = PlaceholderText(declaration.target, arguments, secrets, f"{what} target=")
        key = declaration.idempotency_key
        self._key = None if key is None else KeyTemplate(key, arguments, secrets, f"{what} idempotency_key=")
        self._defaults = _defaults(function)
        self._shape = _shape(function)
        self.takes_receipt = bool(arguments) and kinds.get(arguments[0]) is Receipt
        self.first_argument = arguments[0] if arguments else ""

    async def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        if durable_loop() is None:
            raise NotInWorkflow(
                f"{self.name} is an action: it goes through the gate, so only a workflow can call it. In a test of the "
                f"function alone, call {self.name}.function(…)."
            )
        return await super().begin(args, kwargs)

    def write_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], program: KnowsSecrets) -> Payload:
        """A call's arguments as they are recorded, with the secret ones marked."""
        secrets = self.secrets.places(self._shape, len(args), kwargs) if self.secrets else []
        call = marked(self.signature.write(args, kwargs), secrets)
        if secrets:
            program.secrets.update(leaves(secrets_in(call)))
        return call

    def arguments(self, input: Payload) -> dict[str, Any]:
        """A call's arguments by name, as plain data, with the defaults of those not given."""
        return self.with_defaults(self.signature.by_name(input))

    def with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, with the defaults of those not given."""
        return {**self._defaults, **given}

    def propose(self, input: Payload, name: str) -> Intent:
        """The intent of the call of this name. See ``Effect``."""
        by_name, given = self.signature.read_twice(input)
        arguments = self.with_defaults(by_name)
        reverses = None
        if self.takes_receipt:
            taken = arguments.get(self.first_argument)
            reverses = taken.get("id") if isinstance(taken, dict) else None
        return Intent(self.proposal_of(arguments, name, by_name), arguments, given, reverses)

    def cost_of(self, result: Payload) -> Cost | None:
        """The cost of this result, by the author's ``cost=``; None where there is none. It may raise."""
        if self.cost is None:
            return None
        cost: object = self.cost(self.read_result(result))
        if not isinstance(cost, Cost):
            raise TypeError(f"it gave {type(cost).__name__} instead of a Cost")
        return cost

    def proposal_of(self, arguments: dict[str, Any], promise: str, given: dict[str, Any] | None = None) -> Proposal:
        """The proposal of a call with these arguments.

        The default key is computed from the arguments that were ``given``, without defaults: newer code may have other
        defaults, and its attempt must find the receipt of the attempt before. The arguments are part of the key because
        a retried run may reach another call at the same position.
        """
        fields = self.secrets.mask(arguments)
        request = canonical(fields, DEEPEST - 1)  # a task shows them inside another map
        former = None
        if self._key is not None:
            key, former = self._key.render_key(arguments, promise)
        else:
            asked = request if given is None or len(given) == len(arguments) else canonical(self.secrets.mask(given))
            key = f"{self.connector}:{self.operation}:{promise}:{_sha256(asked)[:12]}"
        target = self._target.render(arguments, promise)
        if not key or "\0" in key or "\0" in target:  # every call would share an empty key, and no store can keep a NUL
            raise InvalidFunction(f"action {self.name}: its key is empty, or its key or target has a NUL in it")
        return Proposal(
            self.name,
            self.connector,
            self.operation,
            target,
            fields,
            request,
            self.writes,
            self.risk,
            limited(key),
            None if self.reverse is None else self.reverse.name,
            self.cost_estimate,
            former,
        )

    def keyed(self, given: Arguments, key: str) -> Arguments:
        """The same: an attempt has its key from ``step_info()``."""
        return given

    def has_key(self, key: str, arguments: Mapping[str, Any], name: str) -> bool:
        """Whether a call with these arguments, which a receipt recorded, would have this key. True where that is
        unknown, because they are the arguments of another action."""
        if self._key is None or not self._key.can_render(arguments):
            return True
        return self._key.render_key(arguments, name)[0] == key

    def _probing(self, probe: Callable[..., Any]) -> Step[..., Any]:
        """The probe in a form that the performer can run. No workflow can call it, and no journal names it."""
        if list(inspect.signature(probe).parameters) != list(inspect.signature(self.function).parameters):
            raise InvalidFunction(f"action {self.name}: probe= takes the same arguments as the action")
        return Step(
            probe,
            name=f"{self.name} (probe)",
            retry=ONCE,
            timeout=self.timeout,
            heartbeat_timeout=None,
            queue=None,
            concurrency=None,
            undo=None,
        )


class _ActionDecorator:
    """The type of ``action(…)``: async and plain functions both become actions of their result."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Action[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Action[P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        raise NotImplementedError


def _with_arguments(decorator: Callable[P, R]) -> Callable[P, R]:
    """The decorator, with an error for its use without arguments."""

    @functools.wraps(decorator)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if args:
            name = getattr(args[0], "__name__", args[0])
            raise InvalidFunction(
                f'action {name}: write @action(connector="…", operation="…") above it: an action declares its effect'
            )
        return decorator(*args, **kwargs)

    return checked


@_with_arguments
def action(
    *,
    connector: str,
    operation: str,
    target: str = "",
    writes: bool = True,
    risk: Risk | None = None,
    idempotency_key: str | None = None,
    key_once: bool = False,
    reverse: Action[..., Any] | None = None,
    cost: Callable[[Any], Cost] | None = None,
    cost_estimate: float = 0.0,
    safe_to_retry: bool | None = None,
    not_done: Collection[int] = (),
    probe: Callable[..., Any] | None = None,
    secret: Sequence[str] = (),
    name: str | None = None,
    retry: RetryPolicy | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    undo: Step[..., Any] | None = None,
    executor: str | None = None,
) -> _ActionDecorator:
    """Make a function an action.

    ``connector`` and ``operation`` name what it does, ``target`` the object; ``writes`` is whether it changes anything
    there, ``risk`` how much is at stake (low, med or high; by default low for reading, med for writing). ``target`` and
    ``idempotency_key`` are templates over the arguments; the default key contains the call's promise id. After an act
    was taken back, the next call under its key is a new act, unless ``key_once``. ``reverse`` is an action that takes
    this one's Receipt and undoes it. ``cost`` computes the Cost from the result; ``cost_estimate`` is a number that
    policy may judge in advance. An attempt whose outcome is unknown is repeated only if it is ``safe_to_retry`` (by
    default: reading is, writing is not), or after ``probe`` gave ``DidNotHappen()``: a function of the same arguments
    that only looks. ``not_done`` are HTTP statuses by which the service says that it did nothing. ``secret`` names
    arguments that no view, receipt, task or error shows. The rest is as for a step.
    """
    declaration = Declaration(
        connector=connector,
        operation=operation,
        target=target,
        writes=writes,
        risk=risk,
        idempotency_key=idempotency_key,
        key_once=key_once,
        reverse=reverse,
        cost=cost,
        cost_estimate=cost_estimate,
        safe_to_retry=safe_to_retry,
        not_done=not_done,
        probe=probe,
        secret=(secret,) if isinstance(secret, str) else tuple(secret),
    )

    def decorate(function: Callable[..., Any]) -> Action[..., Any]:
        check_step(function, retry, retries, timeout, None, None, None, undo, what="action")
        _check(function, declaration)
        policy = retry or (ONCE if retries is None else RetryPolicy(max_attempts=retries + 1))
        definition: Action[..., Any] = Action(
            function, declaration, name=name, retry=policy, timeout=timeout, undo=undo, executor=executor
        )
        STEPS.add(definition)
        return definition

    return decorate  # type: ignore[return-value]  # its type distinguishes async and plain functions


def _check(function: Callable[..., Any], declaration: Declaration) -> None:
    problem = None
    reverse: object = declaration.reverse
    risk: object = declaration.risk
    probe: object = declaration.probe
    not_done: object = declaration.not_done
    cost: object = declaration.cost
    estimate: object = declaration.cost_estimate
    key: object = declaration.idempotency_key
    if not declaration.connector or not declaration.operation:
        problem = "connector= and operation= say what it does: give both"
    elif risk not in (None, "low", "med", "high"):
        problem = f"risk is low, med or high, not {risk!r}"
    elif reverse is not None and not isinstance(reverse, Action):
        problem = "reverse= is an action: decorate it with @action"
    elif isinstance(reverse, Action) and not reverse.takes_receipt:
        problem = f"reverse= is an action whose first argument is a Receipt: {reverse.name} takes none"
    elif probe is not None and not callable(probe):
        problem = "probe= is a function of the same arguments"
    elif not isinstance(not_done, Collection) or not all(map(is_refusal, not_done)):
        problem = "not_done= lists HTTP statuses from 400 to 599, such as [503]"
    elif cost is not None and not callable(cost):
        problem = "cost= is a function of the result: write cost=lambda result: Cost(provider, amount)"
    elif not isinstance(estimate, int | float | Decimal) or not math.isfinite(estimate):
        problem = f"cost_estimate= is a number such as 0.03, not {estimate!r}"
    elif estimate < 0:
        problem = "cost_estimate= is 0 or more"
    elif key is not None and not (isinstance(key, str) and key.strip()):
        problem = 'idempotency_key= is a template such as "order:{order}": leave it out for a key of each call\'s own'
    if problem is not None:
        raise InvalidFunction(f"action {getattr(function, '__name__', function)}: {problem}")


def _shape(function: Callable[..., Any]) -> Shape:
    names: dict[Any, list[str]] = {}
    for parameter in inspect.signature(function).parameters.values():
        names.setdefault(parameter.kind, []).append(parameter.name)
    kinds = inspect.Parameter
    positional = [*names.get(kinds.POSITIONAL_ONLY, ()), *names.get(kinds.POSITIONAL_OR_KEYWORD, ())]
    rest, keywords = ("".join(names.get(kind, ())) for kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD))
    return Shape(positional, inspect.signature(function).parameters, rest, keywords)


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    return {
        parameter.name: cbor2.loads(encode(parameter.default).data)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is not parameter.empty
    }


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
