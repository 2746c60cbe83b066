"""The policy watcher: it takes over a changed policy file, and records in the audit which policy is in force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.audit.notes import named, note
from holdfast.audit.records import Operated
from holdfast.gate.policy.keeper import PolicyKeeper
from holdfast.runs.birth import DEFAULT_TENANT
from holdfast.runs.clock import Clock
from holdfast.runs.role import Role
from holdfast.store.committer import Committer

LOOK_SECONDS: Final = 2.0


class PolicyWatcher(Role):
    """Looks at the policy's file every other second. A broken one changes nothing, and the keeper logs that.

    ``changed`` is called when another policy is in force: its caps may let a run begin that has to wait otherwise.
    """

    name = "policy watcher"

    def __init__(
        self, keeper: PolicyKeeper, committer: Committer, clock: Clock, worker: str, changed: Callable[[], None]
    ) -> None:
        super().__init__()
        self._keeper = keeper
        self._committer = committer
        self._clock = clock
        self._worker = worker
        self._changed = changed
        self._noted: str | None = None

    async def round(self) -> float | None:
        if self._keeper.reload():
            self._changed()
        policy = self._keeper.current
        if policy.hash != self._noted:
            details = {"policy": policy.hash, "source": policy.source, "before": self._noted or ""}
            record = Operated(self._clock.now(), "policy", f"worker {self._worker}", None, "in force", details)
            self._committer.submit(named(note(DEFAULT_TENANT, None, record)), lambda _: None)
            self._noted = policy.hash
        return LOOK_SECONDS
