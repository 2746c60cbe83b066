"""A client that acts for whoever a Slack account stands for.

The mapping is read anew for each operation, and an answer is committed on condition that it is the same still. So an
account that is mapped to somebody else, or to nobody, has not answered afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.client.people.binding import Binding
from holdfast.client.people.bound_client import ActingHoldfast
from holdfast.errors import NotPermitted
from holdfast.people import slack
from holdfast.people.caller import Caller
from holdfast.people.names import person
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast


class AccountBinding(Binding):
    """Binds a client to the user of a Slack account."""

    def __init__(self, engine: Holdfast, account: p.ItemRow, user: str) -> None:
        super().__init__(engine, account.tenant, user)
        self._whole = engine
        self._account = account
        self._named = user

    async def judge(self, operation: str, tenant: str | None = None) -> Caller:
        """As ``Binding.judge``. Raises NotPermitted, too, where the account does not stand for the user any more."""
        row = await self._whole.whole_store.item(self._account.key)
        user = slack.read_account(row)
        if row is None or user is None or person(user) != person(self._named):
            raise NotPermitted(f"this Slack account does not stand for {self._named} any more.", operation=operation)
        self._account = row
        return await super().judge(operation, tenant)

    def conditions(self, caller: Caller) -> tuple[p.ExpectItem, ...]:
        return *super().conditions(caller), p.ExpectItem(self._account.key, self._account.version)


async def client_of(engine: Holdfast, tenant: str, account: str) -> Holdfast | None:
    """A client for whoever an account stands for; None where it stands for nobody."""
    row = await engine.whole_store.item(slack.account_key(tenant, account))
    user = slack.read_account(row)
    if row is None or user is None:
        return None
    return ActingHoldfast(engine, AccountBinding(engine, row, user))
