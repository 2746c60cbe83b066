"""What the journal carries without looking inside: payloads, failures, outcomes and retry policies."""

from __future__ import annotations

from typing import Final

import msgspec

CBOR: Final = "cbor"
CONTINUED: Final = "continued"
"""The codec of a completion that hands over to the run's next generation: its data are the new arguments."""


class Payload(msgspec.Struct, frozen=True, gc=False):
    """Opaque bytes and the name of their codec. With ``blob`` set the bytes live in the store under that digest."""

    data: bytes
    codec: str = CBOR
    blob: bytes | None = None

    def __repr__(self) -> str:
        """As a struct shows itself, without the bytes of a call that says that some of its arguments are secret."""
        data = repr(self.data) if ";" not in self.codec else f"<{len(self.data)} bytes>"
        return f"Payload(data={data}, codec={self.codec!r}, blob={self.blob!r})"


NOTHING: Final = Payload(b"\xf6")
"""The payload of ``None``."""


class Failure(msgspec.Struct, frozen=True, gc=False):
    """An error as data: the exception's qualified name, its message, and where it was raised."""

    type: str
    message: str
    trace: str = ""

    def __str__(self) -> str:
        name = self.type.rpartition(":")[2]
        return f"{name}: {self.message}" if self.message else name


class Ok(msgspec.Struct, frozen=True, gc=False):
    """An invocation that gave a value."""

    value: Payload


class Err(msgspec.Struct, frozen=True, gc=False):
    """An invocation that gave an error, for good."""

    failure: Failure


Outcome = Ok | Err


class RetryPolicy(msgspec.Struct, frozen=True, gc=False):
    """How often and how patiently a step is tried.

    The delay after attempt n is ``initial * factor ** (n - 1)``, at most ``maximum`` seconds, moved by up to
    ``jitter`` (a fraction) either way. ``deadline`` caps the whole: no attempt begins later than that many seconds
    after the step was scheduled.
    """

    max_attempts: int = 5
    initial: float = 1.0
    factor: float = 2.0
    maximum: float = 60.0
    jitter: float = 0.1
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError("max_attempts is 1 or more")
        if self.initial < 0 or self.maximum < 0 or self.factor < 1:
            raise ValueError("initial and maximum are 0 or more, factor is 1 or more")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter is between 0 and 1")
        if self.deadline is not None and self.deadline <= 0:
            raise ValueError("deadline is more than 0 seconds")

    def delay_seconds(self, attempt: int, entropy: float) -> float:
        """The wait after the given failed attempt; ``entropy`` in [0, 1) decides the jitter."""
        exponent = min(attempt - 1, 64)
        plain = min(self.initial * self.factor**exponent, self.maximum)
        return max(0.0, plain * (1.0 + self.jitter * (2.0 * entropy - 1.0)))


ONCE: Final = RetryPolicy(max_attempts=1)
"""The policy of a step that asks for none: it is tried once."""
