"""What an action proposes to do, before it does it: the thing that policy judges and people approve."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Risk = Literal["low", "med", "high"]


class Proposal(msgspec.Struct, frozen=True, gc=False):
    """One proposed act. ``fields`` are the arguments as plain data, ``request`` is their CBOR; secrets are masked.

    ``former`` is the key that older versions would have given it, where that is another: a receipt may be kept by it.
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
        """What an approval is over: change anything of the proposal and it is another one."""
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
        # Each with its length before it: no two proposals are written alike.
        written = "".join([f"{len(text)}:{text}" for text in texts])
        return hashlib.sha256(written.encode() + self.request).digest()


class RunFacts(msgspec.Struct, frozen=True, gc=False):
    """What a rule may know of the run that proposes."""

    tenant: str
    run: str
    workflow: str
    workspace: str = ""
    actor: str | None = None
    attributes: Mapping[str, str] = {}
    writes: int = 0
    trigger: str | None = None
