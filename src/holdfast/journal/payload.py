"""The values that the journal carries without looking inside: payloads, failures, outcomes and retry policies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Generic, TypeVar, cast

import msgspec

CBOR: Final = "cbor"
CONTINUED: Final = "continued"
"""The codec of a completion that hands over to the run's next generation: its data are the new arguments."""
SIGNALS: Final = "holdfast signals"
"""The codec of the signals that a generation carries: its data are their number and the root of a tree."""


class Payload(msgspec.Struct, frozen=True, gc=False):
    """Opaque bytes and the name of their codec. With ``blob`` set the bytes live in the store under that digest."""

    data: bytes
    codec: str = CBOR
    blob: bytes | None = None

    def __repr__(self) -> str:
        """The usual form of a struct, but without the bytes of a call that marks arguments as secret."""
        data = repr(self.data) if ";" not in self.codec else f"<{len(self.data)} bytes>"
        return f"Payload(data={data}, codec={self.codec!r}, blob={self.blob!r})"


NOTHING: Final = Payload(b"\xf6")
"""The payload of ``None``."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """An error as data: the exception's qualified name, its message, and where it was raised.

    ``details`` is a JSON object of what programs may read of it, such as the status of an answer; see
    ``error_classes``. It is written only where there is one.
    """

    type: str
    message: str
    trace: str = ""
    details: str = ""

    def fields(self) -> list[str]:
        """Its members as they are written, in their order for ever."""
        fields = [self.type, self.message, self.trace]
        return [*fields, self.details] if self.details else fields

    def __str__(self) -> str:
        name = self.type.rpartition(":")[2]
        return f"{name}: {self.message}" if self.message else name


T = TypeVar("T")


class Ok(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An invocation that gave a value: a payload in the journal, the value itself for who is told of it."""

    value: T


class Err(msgspec.Struct, frozen=True, gc=False):
    """An invocation that gave an error, for good."""

    failure: Failure


Outcome = Ok[Payload] | Err


PolicyField = int | float | list[str] | None


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
    """How often a step is tried, and after which delays.

    The delay after attempt n is ``initial * factor ** (n - 1)``, at most ``maximum`` seconds, moved by up to
    ``jitter`` (a fraction) either way. No attempt begins later than ``deadline`` seconds after the step was scheduled,
    not counting time in which people are asked about it; the delay is shortened so that the last one has its time.
    ``on`` are the classes of errors after which another attempt is made, such as ``("timeout", "transport")``; without
    any, after all that another attempt may mend. ``attempt_timeout`` is the limit of one attempt in seconds, instead of
    the step's own.
    """

    max_attempts: int = 5
    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    jitter: float = 0.1
    deadline: float | None = None
    on: tuple[str, ...] = ()
    attempt_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts is 1 or more")
        if self.initial < 0 or self.maximum < 0 or self.factor < 1:
            raise ValueError("initial and maximum are 0 or more, factor is 1 or more")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter is between 0 and 1")
        if self.deadline is not None and self.deadline <= 0:
            raise ValueError("deadline is more than 0 seconds")
        given: object = self.on
        if not isinstance(given, tuple) or not all(isinstance(each, str) and each for each in given):
            raise ValueError('on is a tuple of classes of errors, such as ("timeout", "transport")')
        if self.attempt_timeout is not None and not 0 < self.attempt_timeout < math.inf:
            raise ValueError("attempt_timeout is more than 0 seconds")

    def delay_seconds(self, attempt: int, entropy: float) -> float:
        """The wait after the given failed attempt; ``entropy`` in [0, 1) decides the jitter."""
        exponent = min(attempt - 1, 64)
        plain = min(self.initial * self.factor**exponent, self.maximum)
        return max(0.0, plain * (1.0 + self.jitter * (2.0 * entropy - 1.0)))


def policy_fields(policy: RetryPolicy) -> list[PolicyField]:
    """A policy's members as they are written: the first six always, the younger ones where one of them is set."""
    fields: list[PolicyField] = [
        policy.max_attempts,
        policy.initial,
        policy.factor,
        policy.maximum,
        policy.jitter,
        policy.deadline,
    ]
    return [*fields, list(policy.on), policy.attempt_timeout] if says_more(policy) else fields


def says_more(policy: RetryPolicy) -> bool:
    """Whether it says more of an attempt than how often and how patiently."""
    return bool(policy.on) or policy.attempt_timeout is not None


def policy_of(fields: Sequence[PolicyField]) -> RetryPolicy:
    """The policy that was written so."""
    first = cast("tuple[int, float, float, float, float, float | None]", tuple(fields[:6]))
    if len(fields) == 6:  # nearly always
        return RetryPolicy(*first)
    on, attempt_timeout = cast("tuple[list[str], float | None]", tuple(fields[6:]))
    return RetryPolicy(*first, tuple(on), attempt_timeout)


ONCE: Final = RetryPolicy(max_attempts=1)
"""The policy of a step that names none: it is tried once."""
