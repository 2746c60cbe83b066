"""Parts of a client without ``await`` that are loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.loop_thread import LoopThread
    from holdfast.client.sync.machines import SyncCell, SyncMachines
    from holdfast.client.sync.templates import SyncTemplates
    from holdfast.client.sync.webhooks import SyncSubscriptions, SyncWebhooks
    from holdfast.programs.machine.machine import Machine

S = TypeVar("S")


class SyncParts:
    """The parts of ``SyncHoldfast`` that are not the gate's and not people's."""

    def _opened(self) -> tuple[LoopThread, Holdfast]:
        raise NotImplementedError

    @property
    def templates(self) -> SyncTemplates:
        """What a tenant offers to be started, and what was started of it."""
        from holdfast.client.sync.templates import SyncTemplates

        loop, engine = self._opened()
        return SyncTemplates(loop, engine.templates)

    @property
    def machines(self) -> SyncMachines:
        """Events for machines, and their cells."""
        from holdfast.client.sync.machines import SyncMachines

        loop, engine = self._opened()
        return SyncMachines(loop, engine.machines)

    def cell(self, machine: Machine[S] | str, key: object = None, *, tenant: str | None = None) -> SyncCell[S]:
        """The cell of a machine that has this key. It need not exist."""
        return self.machines.cell(machine, key, tenant=tenant)

    @property
    def webhooks(self) -> SyncWebhooks:
        """Addresses at which others tell this engine something."""
        from holdfast.client.sync.webhooks import SyncWebhooks

        loop, engine = self._opened()
        return SyncWebhooks(loop, engine.webhooks)

    @property
    def subscriptions(self) -> SyncSubscriptions:
        """Addresses that this engine tells of what happens."""
        from holdfast.client.sync.webhooks import SyncSubscriptions

        loop, engine = self._opened()
        return SyncSubscriptions(loop, engine.subscriptions)
