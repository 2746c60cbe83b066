"""Webhooks and subscriptions for code without an event loop.

Each method is that of the asynchronous class, waited for: its signature and its types come from there.
"""

from __future__ import annotations

from holdfast.client.loop_thread import LoopThread
from holdfast.client.sync.calls import each_of, waited
from holdfast.client.webhooks.app_subscriptions import Subscriptions
from holdfast.client.webhooks.app_webhooks import Webhooks


class SyncWebhooks:
    """Webhooks: each method is that of ``Webhooks``, waited for."""

    def __init__(self, loop: LoopThread, webhooks: Webhooks) -> None:
        self._loop = loop
        self._part = webhooks

    create = waited(Webhooks.create)
    list = each_of(Webhooks.list)
    show = waited(Webhooks.show)
    change = waited(Webhooks.change)
    rotate = waited(Webhooks.rotate)
    receive = waited(Webhooks.receive)


class SyncSubscriptions:
    """Subscriptions: each method is that of ``Subscriptions``, waited for."""

    def __init__(self, loop: LoopThread, subscriptions: Subscriptions) -> None:
        self._loop = loop
        self._part = subscriptions

    create = waited(Subscriptions.create)
    list = each_of(Subscriptions.list)
    show = waited(Subscriptions.show)
    change = waited(Subscriptions.change)
    disable = waited(Subscriptions.disable)
    enable = waited(Subscriptions.enable)
    rotate = waited(Subscriptions.rotate)
    deliveries = waited(Subscriptions.deliveries)
    delivery = waited(Subscriptions.delivery)
    resend = waited(Subscriptions.resend)
    ping = waited(Subscriptions.ping)
