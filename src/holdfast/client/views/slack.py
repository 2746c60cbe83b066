"""Slack in a tenant, as people see it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.client.views.times import moment
from holdfast.people.slack import read_account
from holdfast.store.items import ItemRow


class SlackAccountInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A Slack account, and the user that it stands for; None where it stands for nobody any more."""

    account: str
    tenant: str
    user: str | None
    changed_at: datetime


class SlackInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's channel, if it has one, and its accounts."""

    tenant: str
    channel: str | None
    accounts: list[SlackAccountInfo]


def account_info(row: ItemRow) -> SlackAccountInfo:
    """An account's item as a view."""
    return SlackAccountInfo(
        account=row.id, tenant=row.tenant, user=read_account(row), changed_at=moment(row.changed_at)
    )
