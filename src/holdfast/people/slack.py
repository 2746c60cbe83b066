"""Slack in a tenant: the channel in which approvals are shown, and which Slack account is which user.

Both are items. The id of an account's item is the account's id in Slack, so an account stands for one user of a tenant.
Nothing is guessed, neither by name nor by e-mail: an account that nobody mapped stands for nobody.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from holdfast.errors import InvalidRequest
from holdfast.store.items import ItemKey, ItemRow

CHANNEL: Final = "slack_channel"
ACCOUNT: Final = "slack_account"
APPROVALS: Final = "approvals"
"""The id of the item that names the channel for approvals."""

USED: Final = "used"
UNUSED: Final = "unused"
MAPPED: Final = "mapped"
UNMAPPED: Final = "unmapped"

SET_CHANNEL: Final = "set_slack_channel"
MAP_ACCOUNT: Final = "map_slack_account"
UNMAP_ACCOUNT: Final = "unmap_slack_account"

_CHANNEL_ID: Final = re.compile(r"[CDG][A-Z0-9]{2,30}")
_ACCOUNT_ID: Final = re.compile(r"[UW][A-Z0-9]{2,30}")


class SlackChannel(msgspec.Struct, frozen=True):
    """What the item of a tenant's channel says."""

    channel: str


class SlackAccount(msgspec.Struct, frozen=True):
    """What the item of an account says: the name of its user."""

    user: str


_channels = msgspec.json.Decoder(SlackChannel)
_accounts = msgspec.json.Decoder(SlackAccount)


def channel_key(tenant: str) -> ItemKey:
    return ItemKey(tenant, CHANNEL, APPROVALS)


def account_key(tenant: str, account: str) -> ItemKey:
    return ItemKey(tenant, ACCOUNT, account)


def read_channel(row: ItemRow | None) -> str | None:
    """The channel; None where the tenant has none."""
    return None if row is None or row.status != USED else _channels.decode(row.body).channel


def read_account(row: ItemRow | None) -> str | None:
    """The user of an account; None where it is nobody's."""
    return None if row is None or row.status != MAPPED else _accounts.decode(row.body).user


def check_channel(channel: object) -> str:
    """The id of a channel. Raises InvalidRequest."""
    if not isinstance(channel, str) or not _CHANNEL_ID.fullmatch(channel):
        raise InvalidRequest(
            f"a channel is its id in Slack, such as C0123456789, not {channel!a:.60}: the channel's details show it."
        )
    return channel


def check_account(account: object) -> str:
    """The id of somebody's account. Raises InvalidRequest."""
    if not isinstance(account, str) or not _ACCOUNT_ID.fullmatch(account):
        raise InvalidRequest(
            f"an account is its member id in Slack, such as U0123456789, not {account!a:.60}: profiles have it."
        )
    return account
