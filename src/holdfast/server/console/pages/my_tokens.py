"""One's own tokens: when each was last used, and ending it. Every user may do that, whatever their level."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData

from holdfast.server.call import RouteCall
from holdfast.server.console.page import ConsoleForm, ConsolePage, Context, Done
from holdfast.server.console.pages.people import permissions_of
from holdfast.server.console.typed import reason_of


async def load(call: RouteCall[Any, None]) -> Context:
    caller = await call.client.whoami()
    if caller is None:  # the operator of the server, for whom no token stands
        return {"tokens": [], "in_use": None, "token_permissions": {}}
    tokens = [token async for token in call.client.tokens.own()]
    return {
        "tokens": tokens,
        "in_use": caller.token,
        "token_permissions": {
            token.id: sum(each.allowed for each in permissions_of(min(caller.level, token.level), token.scope))
            for token in tokens
        },
    }


async def revoke(call: RouteCall[Any, None], typed: FormData) -> Done:
    await call.client.tokens.revoke_own(call.path["token"], reason=reason_of(typed))
    return Done(path=("me", "tokens"), words="The token is good for nothing any more.")


MY_TOKENS = ConsolePage(
    path="/me/tokens",
    operation="tokens.see_own",
    words="Your own tokens, and when each was last used.",
    load=load,
    template="my_tokens.html",
    data="/v1/me/tokens",
)
PAGES = (MY_TOKENS,)
FORMS = (
    ConsoleForm(
        path="/me/tokens/{token}/revoke",
        operation="tokens.revoke_own",
        words="End a token of your own.",
        act=revoke,
        page=MY_TOKENS,
    ),
)
