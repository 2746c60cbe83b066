"""Where approvals are shown in Slack, and which accounts there are which users."""

from __future__ import annotations

import msgspec

from holdfast.client.views.slack import SlackAccountInfo, SlackInfo
from holdfast.server.call import RouteCall
from holdfast.server.fields import Name, Reason, ReasonBody
from holdfast.server.route import Nothing, Route


class ChannelChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The id of the channel; null shows no new approvals."""

    channel: Name | None
    reason: Reason = ""


class AccountChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user that an account stands for."""

    user: Name
    reason: Reason = ""


async def show_slack(call: RouteCall[Nothing, None]) -> SlackInfo:
    return await call.client.slack.show(tenant=call.tenant)


async def use_channel(call: RouteCall[Nothing, ChannelChange]) -> SlackInfo:
    return await call.client.slack.use(call.body.channel, tenant=call.tenant, by=call.by, reason=call.body.reason)


async def map_account(call: RouteCall[Nothing, AccountChange]) -> SlackAccountInfo:
    return await call.client.slack.map(
        call.path["account"], call.body.user, tenant=call.tenant, by=call.by, reason=call.body.reason
    )


async def unmap_account(call: RouteCall[Nothing, ReasonBody]) -> SlackAccountInfo:
    return await call.client.slack.unmap(call.path["account"], tenant=call.tenant, by=call.by, reason=call.body.reason)


ROUTES = (
    Route(
        method="GET",
        path="/v1/slack",
        operation="users.see",
        words="The channel in which the tenant's approvals are shown, and the accounts that stand for users.",
        handler=show_slack,
        answer=SlackInfo,
    ),
    Route(
        method="PUT",
        path="/v1/slack/channel",
        operation="users.change",
        words="Show the tenant's approvals in this channel from now on.",
        handler=use_channel,
        body=ChannelChange,
        answer=SlackInfo,
    ),
    Route(
        method="PUT",
        path="/v1/slack/accounts/{account}",
        operation="users.change",
        words="Let a Slack account stand for a user, and for nobody else.",
        handler=map_account,
        body=AccountChange,
        answer=SlackAccountInfo,
    ),
    Route(
        method="POST",
        path="/v1/slack/accounts/{account}/unmap",
        operation="users.change",
        words="Let a Slack account stand for nobody from now on.",
        handler=unmap_account,
        body=ReasonBody,
        answer=SlackAccountInfo,
    ),
)
