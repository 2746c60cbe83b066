"""Parts of a client without ``await`` that are loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.client.loop_thread import LoopThread
    from holdfast.client.sync.people import SyncSlackAccounts
    from holdfast.client.sync.templates import SyncTemplates
    from holdfast.client.sync.webhooks import SyncSubscriptions, SyncWebhooks


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
