"""Effects: the interface of everything that acts on the outside world, for the gate and the performer.

An action (``programs/function/actions.py``) is one kind of effect. The gate knows only this interface. So the effect of
another kind of program passes it in the same way: it is proposed, judged, attempted and gets a receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeGuard

import msgspec

from holdfast.gate.proposals import Proposal, Risk
from holdfast.journal.payload import Failure, Payload
from holdfast.journal.secrecy import ACTION

Arguments = tuple[list[Any], dict[str, Any]]
"""The arguments of an attempt: positional and named."""


class Cost(msgspec.Struct, frozen=True):
    """The cost of an act, as its provider bills it."""

    provider: str
    amount: float
    model: str = ""
    currency: str = "USD"


class Happened(msgspec.Struct, frozen=True, tag=True):
    """A probe's answer: the act was done, and gave this value."""

    value: Any = None


class DidNotHappen(msgspec.Struct, frozen=True, tag=True):
    """A probe's answer: the act was not done, and may be done now.

    ``present`` says what is there now, by the names of the action's arguments: who is asked to approve sees it beside
    what the act would make of it.
    """

    present: Mapping[str, Any] | None = None


class Intent(msgspec.Struct, frozen=True, gc=False):
    """The intent of one call of an effect.

    ``arguments`` are its arguments by name as plain data, secrets included; ``attempt_arguments`` are
    the arguments for its attempt. The two share no objects, because an attempt may change its arguments. ``reverses``
    is the id of the receipt whose act it reverses.
    """

    proposal: Proposal
    arguments: Mapping[str, Any]
    attempt_arguments: Arguments
    reverses: str | None = None


class Performable(Protocol):
    """Something that the performer can attempt: a step, an effect, or an effect's probe.

    ``function`` is called with the arguments that ``read`` gives. It is awaited where it ``is_async``, and called in a
    thread otherwise. It ``is_plain`` where it is awaited and has no timeout of either kind.
    """

    @property
    def kind(self) -> str:
        """The kind of invocation that asks for it."""
        ...

    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> str | None:
        """The queue whose workers run it; None where the worker of its run does."""
        ...

    @property
    def concurrency(self) -> int | None:
        """How many attempts run at once in each worker that serves the queue."""
        ...

    @property
    def timeout(self) -> float | None: ...
    @property
    def heartbeat_timeout(self) -> float | None: ...
    @property
    def is_async(self) -> bool: ...
    @property
    def is_plain(self) -> bool: ...
    @property
    def writes(self) -> bool:
        """Whether an attempt changes something outside, so that it must not be done twice."""
        ...

    @property
    def not_done(self) -> Collection[int]:
        """The HTTP statuses by which the other side says that it did nothing."""
        ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def read(self) -> Callable[[Payload], Arguments]:
        """A call's recorded input as arguments of the function. Raises where it does not fit."""
        ...

    @property
    def write_result(self) -> Callable[[Any], Payload]:
        """The function's result as it is recorded. Raises where it cannot be recorded."""
        ...


class Effect(Performable, Protocol):
    """Something that acts on the outside world, through the gate."""

    @property
    def connector(self) -> str: ...
    @property
    def operation(self) -> str: ...
    @property
    def risk(self) -> Risk: ...
    @property
    def safe_to_retry(self) -> bool:
        """Whether an attempt of unknown outcome may be repeated without asking a person."""
        ...

    @property
    def key_once(self) -> bool:
        """Whether its key is used up with the first success, even if that is taken back."""
        ...

    @property
    def probe(self) -> Performable | None:
        """The probe that finds out whether an attempt was done, from the same input: Happened or DidNotHappen."""
        ...

    @property
    def secret_names(self) -> Collection[str]:
        """The arguments that are secret, or hold a secret."""
        ...

    def propose(self, input: Payload, name: str) -> Intent:
        """The intent of the call of this name. The same call gives the same. Raises where its input does not fit."""
        ...

    def keyed(self, given: Arguments, key: str) -> Arguments:
        """The arguments for an attempt, if its receipt has another key than the proposal: that of a later round."""
        ...

    def read_result(self, result: Payload) -> object:
        """A recorded result as a value. Raises where the effect cannot have given it."""
        ...

    def cost_of(self, result: Payload) -> Cost | None:
        """The cost of an act with this result; None where it has none. It may raise."""
        ...

    def has_key(self, key: str, arguments: Mapping[str, Any], name: str) -> bool:
        """Whether a call with these arguments of a receipt has this key; True where that cannot be computed."""
        ...

    def arguments(self, input: Payload) -> Mapping[str, Any]:
        """A call's arguments by name, secrets included. Raises where the input does not fit."""
        ...

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        """The failure without the secrets that it may quote."""
        ...

    def scrub_text(self, text: str, arguments: Mapping[str, Any]) -> str:
        """The text without the secrets that it may quote."""
        ...


class Effects:
    """Finds what a call asks for: what is registered under its name, else what the recorded call itself describes.

    ``describes`` is whether calls of a name describe themselves, ``described`` what such a call does.
    """

    def __init__(
        self,
        registered: Mapping[str, Performable],
        describes: Callable[[str], bool],
        described: Callable[[str, Payload], Performable | None],
    ) -> None:
        self._registered = registered
        self._describes = describes
        self._described = described

    def find(self, name: str, input: Payload) -> Performable | None:
        """What goes by this name, or what this call describes; None where nobody knows it here."""
        return self._registered.get(name) or self._described(name, input)

    def has(self, name: str) -> bool:
        """Whether calls of this name can be made here."""
        return name in self._registered or self._describes(name)


def is_effect(program: Performable | None) -> TypeGuard[Effect]:
    """Whether it is an effect, and not a step of the same name. Effects have the kind of an action."""
    return program is not None and program.kind == ACTION
