"""Parts of a client without ``await`` that are loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.loop_thread import LoopThread
    from holdfast.client.machines.sender import SentEvent
    from holdfast.client.sync.machines import SyncCell, SyncMachines
    from holdfast.client.sync.people import SyncSlackAccounts
    from holdfast.client.sync.templates import SyncTemplates
    from holdfast.client.sync.webhooks import SyncSubscriptions, SyncWebhooks
    from holdfast.client.templates.emitter import EmittedInfo
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
    def slack(self) -> SyncSlackAccounts:
        """Where approvals are shown in Slack, and which accounts there are which users."""
        from holdfast.client.sync.people import SyncSlackAccounts

        loop, engine = self._opened()
        return SyncSlackAccounts(loop, engine.slack)

    @property
    def machines(self) -> SyncMachines:
        """Events for machines, and their cells."""
        from holdfast.client.sync.machines import SyncMachines

        loop, engine = self._opened()
        return SyncMachines(loop, engine.machines)

    def cell(self, machine: Machine[S] | str, key: object = None, *, tenant: str | None = None) -> SyncCell[S]:
        """The cell of a machine that has this key. It need not exist."""
        return self.machines.cell(machine, key, tenant=tenant)

    @overload
    def emit(self, event: str, data: object = None, **options: Any) -> EmittedInfo: ...
    @overload
    def emit(self, event: object, **options: Any) -> SentEvent: ...
    def emit(self, event: object, data: object = None, **options: Any) -> EmittedInfo | SentEvent:
        """See ``Holdfast.emit``."""
        loop, engine = self._opened()
        if isinstance(event, str):
            return loop.call(engine.emit(event, data, **options))
        return loop.call(engine.machines.send(event, **options))

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
