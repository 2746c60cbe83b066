"""Effects: what the gate and the performer need of anything that acts on the outside world.

An action (``programs/function/actions.py``) is one kind of effect. The gate knows only what is said here, so that a
transport call or a machine's effect passes it in the same way: it proposes, is judged, is attempted and is receipted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeGuard

import msgspec

from holdfast.gate.proposals import Proposal, Risk
from holdfast.journal.payload import Failure, Payload
from holdfast.journal.secrecy import ACTION

Arguments = tuple[list[Any], dict[str, Any]]
"""What an attempt is called with: positional and named arguments."""


class Cost(msgspec.Struct, frozen=True):
    """What an act cost, as its provider bills it."""

    provider: str
    amount: float
    model: str = ""
    currency: str = "USD"


class Happened(msgspec.Struct, frozen=True, tag=True):
    """A probe's answer: the act was done, and gave this."""

    value: Any = None


class DidNotHappen(msgspec.Struct, frozen=True, tag=True):
    """A probe's answer: the act was not done, and may be done now."""


class Intent(msgspec.Struct, frozen=True, gc=False):
    """What one call of an effect would do.

    ``arguments`` are its arguments by name as plain data, secrets included; ``given`` is what its attempt is called
    with. The two share nothing: an attempt may change what it is given. ``reverses`` is the id of the receipt whose act
    it takes back.
    """

    proposal: Proposal
    arguments: Mapping[str, Any]
    given: Arguments
    reverses: str | None = None


class Performable(Protocol):
    """Something that the performer can attempt: a step, an effect, or an effect's probe.

    ``function`` is called with what ``read`` gives. It is awaited where it ``is_async``, and called in a thread
    otherwise. It ``is_plain`` where it is awaited and has no timeout of either kind.
    """

    @property
    def kind(self) -> str:
        """The kind of invocation that asks for it."""
        ...

    @property
    def name(self) -> str: ...
    @property
    def queue(self) -> str | None:
        """The queue whose workers run it; None where it runs beside its run."""
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
        """Whether an attempt does something outside that must not be done twice."""
        ...

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def read(self) -> Callable[[Payload], Arguments]:
        """A call's recorded input, as what the function is called with. Raises where it does not fit."""
        ...

    @property
    def write_result(self) -> Callable[[Any], Payload]:
        """What the function returned, as it is recorded. Raises where it cannot be."""
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
        """Whether an attempt of unknown outcome may be repeated without asking."""
        ...

    @property
    def probe(self) -> Performable | None:
        """What looks whether an attempt was done: it is given the same input, and gives Happened or DidNotHappen."""
        ...

    @property
    def secret_names(self) -> Collection[str]:
        """The arguments that are secret, or hold a secret."""
        ...

    def propose(self, input: Payload, name: str) -> Intent:
        """What the call of this name would do. The same call proposes the same. Raises where its input does not fit."""
        ...

    def read_result(self, result: Payload) -> object:
        """What a recorded result means. Raises where the effect cannot have given it."""
        ...

    def cost_of(self, result: Payload) -> Cost | None:
        """What an act with this result cost; None where nothing is said of it. It may raise."""
        ...

    def has_key(self, key: str, arguments: Mapping[str, Any], name: str) -> bool:
        """Whether a call with these arguments, which a receipt recorded, has this key; True where nobody can tell."""
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


def is_effect(found: Performable | None) -> TypeGuard[Effect]:
    """Whether what goes by the name of an effect is one. What passes the gate has the kind of an action."""
    return found is not None and found.kind == ACTION
