"""Tenants, workspaces, users, Slack accounts and tokens for code without an event loop.

Each method is that of the asynchronous class, waited for: its signature and its types come from there.
"""

from __future__ import annotations

from holdfast.client.loop_thread import LoopThread
from holdfast.client.people.slack import SlackAccounts
from holdfast.client.people.tenants import Tenants, Workspaces
from holdfast.client.people.tokens import Tokens
from holdfast.client.people.users import Users
from holdfast.client.sync.calls import each_of, waited


class SyncTenants:
    """Tenants: each method is that of ``Tenants``, waited for."""

    def __init__(self, loop: LoopThread, tenants: Tenants) -> None:
        self._loop = loop
        self._part = tenants

    list = each_of(Tenants.list)
    get = waited(Tenants.get)
    create = waited(Tenants.create)
    change = waited(Tenants.change)


class SyncWorkspaces:
    """Workspaces: each method is that of ``Workspaces``, waited for."""

    def __init__(self, loop: LoopThread, workspaces: Workspaces) -> None:
        self._loop = loop
        self._part = workspaces

    list = each_of(Workspaces.list)
    get = waited(Workspaces.get)
    create = waited(Workspaces.create)
    archive = waited(Workspaces.archive)
    limit = waited(Workspaces.limit)


class SyncUsers:
    """Users: each method is that of ``Users``, waited for."""

    def __init__(self, loop: LoopThread, users: Users) -> None:
        self._loop = loop
        self._part = users

    list = each_of(Users.list)
    page = waited(Users.page)
    get = waited(Users.get)
    create = waited(Users.create)
    set_level = waited(Users.set_level)
    set_groups = waited(Users.set_groups)
    disable = waited(Users.disable)
    enable = waited(Users.enable)
    identity = waited(Users.identity)
    link = waited(Users.link)
    unlink = waited(Users.unlink)


class SyncSlackAccounts:
    """Slack in a tenant: each method is that of ``SlackAccounts``, waited for."""

    def __init__(self, loop: LoopThread, slack: SlackAccounts) -> None:
        self._loop = loop
        self._part = slack

    show = waited(SlackAccounts.show)
    use = waited(SlackAccounts.use)
    map = waited(SlackAccounts.map)
    unmap = waited(SlackAccounts.unmap)


class SyncTokens:
    """Tokens: each method is that of ``Tokens``, waited for."""

    def __init__(self, loop: LoopThread, tokens: Tokens) -> None:
        self._loop = loop
        self._part = tokens

    list = each_of(Tokens.list)
    page = waited(Tokens.page)
    own = each_of(Tokens.own)
    mint = waited(Tokens.mint)
    revoke = waited(Tokens.revoke)
    revoke_own = waited(Tokens.revoke_own)
