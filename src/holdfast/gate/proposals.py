"""The proposal of an action before its act: policy judges it, and people approve it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

Risk = Literal["low", "med", "high"]

KEY_LIMIT: Final = 500
"""How many characters an idempotency key has at most."""


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """One proposed act. ``fields`` are the arguments as plain data, ``request`` is their CBOR; secrets are masked.

    ``former`` is the key that older versions would have given it, where that differs: an old receipt may have it.
    """

    name: str
    connector: str
    operation: str
    target: str
    fields: Mapping[str, Any]
    request: bytes
    writes: bool
    risk: Risk
    key: str
    reverse: str | None = None
    cost_estimate: float = 0.0
    former: str | None = None

    def digest(self) -> bytes:
        """The hash that an approval is for. A proposal that differs in anything has another hash."""
        texts = (
            self.name,
            self.connector,
            self.operation,
            self.target,
            "writes" if self.writes else "reads",
            self.risk,
            self.key,
            self.reverse or "",
            repr(self.cost_estimate),
        )
        # Each text has its length before it, so two different proposals never give the same bytes.
        written = "".join([f"{len(text)}:{text}" for text in texts])
        return hashlib.sha256(written.encode() + self.request).digest()


class RunFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts about the proposing run that rules may use."""

    tenant: str
    run: str
    workflow: str
    workspace: str = ""
    actor: str | None = None
    attributes: Mapping[str, str] = {}
    writes: int = 0
    trigger: str | None = None


def limited(key: str) -> str:
    """A key that is short enough for an index: its beginning, and the hash of all of it."""
    if len(key) <= KEY_LIMIT:
        return key
    return f"{key[: KEY_LIMIT - 65]}:{hashlib.sha256(key.encode()).hexdigest()}"
