"""A client that acts for one user: the same engine, seen and changed only as that user may.

It shares all parts of its engine and owns none: to open or close it does nothing. Three things are its own. It reads
through a store in which only the user's tenant is there. It commits on condition that the user, and the token, are as
they were when the operation was judged. And who acts is the user, whatever the call says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

from msgspec.structs import replace

from holdfast.client.engine import Holdfast
from holdfast.client.people.binding import Binding
from holdfast.client.people.permission import CallerChanged, Judged, judged_now, operation
from holdfast.client.people.tenant_store import TenantStore
from holdfast.client.waiters import End, Waiters, missing
from holdfast.errors import EngineError, NotPermitted, TenantNotFound
from holdfast.people.caller import Caller
from holdfast.people.names import person
from holdfast.store import protocol as p
from holdfast.store.committer import Committer, Done

if TYPE_CHECKING:
    from holdfast.client.definitions.app_definitions import AppDefinitions
    from holdfast.client.definitions.readers import Readers
    from holdfast.gate.policy.keeper import PolicyKeeper
    from holdfast.programs.catalogue import Catalogue
    from holdfast.programs.function.decorators import Workflow
    from holdfast.programs.machine.kind import Machines


class ActingHoldfast(Holdfast):
    """An engine bound to a user. Made by ``Holdfast.acting_as``."""

    def __init__(self, engine: Holdfast, binding: Binding) -> None:  # what is not set here is the engine's
        self._engine = engine
        self._binding = binding
        self.committer = ActingCommitter(engine, binding)
        self.waiters = ActingWaiters(engine, binding)

    @cached_property
    def definitions(self) -> AppDefinitions:
        return self._engine.definitions.bound_to(self)

    @property
    def policy(self) -> PolicyKeeper:
        return self._engine.policy

    @property
    def readers(self) -> Readers:
        return self._engine.readers

    @property
    def workflows(self) -> Mapping[str, Workflow[..., Any]]:
        return self._engine.workflows

    @property
    def catalogue(self) -> Catalogue:  # it is that of the engine, whatever the engine adopts
        return self._engine.catalogue

    @property
    def machine_kind(self) -> Machines:
        return self._engine.machine_kind

    @property
    def has_definitions(self) -> bool:
        return self._engine.has_definitions

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("_engine", "_app"):
            raise AttributeError(name)
        return getattr(self._engine, name)

    async def open(self, *, migrate: bool = True, worker: bool | None = None) -> None:
        """Its engine is opened and closed by whoever made it: this does nothing."""

    async def close(self, grace_seconds: float | None = None) -> None:
        """Does nothing, as ``open``."""

    def hint(self) -> None:
        self._engine.hint()

    def adopt(self, other: Holdfast) -> None:
        self._engine.adopt(other)
        self.definitions = self._engine.definitions.bound_to(self)

    @property
    def binding(self) -> Binding:
        return self._binding

    @property
    def store(self) -> p.Store:
        """The store as the user's tenant sees it, while an operation is under way."""
        found = TenantStore(self._engine.store, judged_now(self._binding).caller.tenant)
        return cast("p.Store", found)  # it has what a tenant may read, and no more: see there

    @property
    def whole_store(self) -> p.Store:
        judged_now(self._binding)
        return self._engine.store

    @property
    def caller(self) -> Caller:
        return self._binding.caller

    @operation("users.see_self")
    async def whoami(self) -> Caller:
        return judged_now(self._binding).caller

    def acting_as(self, who: str | Caller, *, tenant: str | None = None, login: bool = False) -> Holdfast:
        raise NotPermitted("a client that acts for a user cannot act for another: use the engine that it was made of.")

    def tenant_of(self, tenant: str | None) -> str:
        return self._binding.tenant if tenant is None else tenant

    def person_of(self, by: str | None) -> str:
        user = self._binding.caller.user
        if by is not None and person(by) != person(user):
            raise NotPermitted(f"you act as {user}, and cannot act as {by!a:.60}: leave the name out.")
        return user

    def conditions(self) -> Sequence[p.ExpectItem]:
        return self._binding.conditions(judged_now(self._binding).caller)


class ActingWaiters(Waiters):
    """Waits for the ends of a tenant's own runs."""

    def __init__(self, engine: Holdfast, binding: Binding) -> None:
        self._engine = engine
        self._binding = binding

    async def wait(self, key: p.Key, *, until_parked: bool = False, until_rest: bool = False) -> End:
        judged = judged_now(self._binding)
        if key.tenant != judged.caller.tenant:
            raise missing(key)
        end = await self._engine.waiters.wait(key, until_parked=until_parked, until_rest=until_rest)
        await self._binding.judge(judged.operation)  # the wait may have lasted for days
        return end


class ActingCommitter(Committer):
    """Commits a user's changes, each with its note in the audit and on the conditions by which it was judged."""

    def __init__(self, engine: Holdfast, binding: Binding) -> None:
        self._engine = engine
        self._binding = binding

    async def commit(self, change: p.Change) -> p.Answer:
        """As ``Committer.commit``. Raises NotPermitted where the user may no longer do this, CallerChanged where the
        operation must begin again, and TenantNotFound where something would be made in another tenant."""
        judged = judged_now(self._binding)
        if any(tenant != judged.caller.tenant for tenant in _tenants(change)):
            return _unknown(change)
        if isinstance(change, p.KeepCode):  # by its digest: it changes what nobody sees
            return await self._engine.committer.commit(change)
        act = self._act(change)
        while True:
            answer = await self._engine.committer.commit(self._on_conditions(act, judged.caller))
            if not isinstance(answer, p.Fenced) or not await self._is_judged_anew(judged):
                return _answer(change, answer)

    def submit(self, change: p.Change, done: Done, patience_seconds: float = 0) -> NoReturn:
        raise EngineError("a bound client waits for its commits")

    async def _is_judged_anew(self, judged: Judged) -> bool:
        """Whether the refusal may be due to a change of the user, who may still do this. Raises where they may not."""
        before, caller = judged.caller, await judged.judge_again()
        if self._binding.conditions(caller) == self._binding.conditions(before):
            return False
        if caller.groups != before.groups:
            raise CallerChanged
        judged.caller = caller
        return True

    def _on_conditions(self, act: p.Operate, caller: Caller) -> p.Operate:
        conditions = self._binding.conditions(caller)
        mine = {each.key for each in conditions}
        rest = [each for each in act.changes if not (isinstance(each, p.ExpectItem) and each.key in mine)]
        return p.Operate(act.note, (*conditions, *rest))

    def _act(self, change: p.Change) -> p.Operate:
        """The change as an act: its own note in the audit is the act's."""
        if isinstance(change, p.Operate):
            return change
        if not isinstance(change, p.Start | p.PutTask):
            raise EngineError(f"a bound client cannot commit {type(change).__name__}")
        notes = [each for each in change.attached if isinstance(each, p.Note)]
        if not notes:
            raise EngineError(f"a bound client's {type(change).__name__} has no note")
        note = notes[0] if notes[0].id is not None else replace(notes[0], id=self._engine.token())
        rest = tuple(each for each in change.attached if each is not notes[0])
        return p.Operate(note, (replace(change, attached=rest),))


def _tenants(change: p.Change | p.Act) -> list[str]:
    """The tenants in which something would be changed."""
    match change:
        case p.Operate(note=note, changes=changes):
            return [note.tenant, *(tenant for each in changes for tenant in _tenants(each))]
        case p.Start(key=key, attached=attached):
            return [key.tenant, *(tenant for each in attached for tenant in _tenants(each))]
        case p.PutTask(task=task, attached=attached):
            return [task.tenant, *(tenant for each in attached for tenant in _tenants(each))]
        case p.PutItem(item=item):
            return [item.tenant]
        case p.KeepCode(tenant=tenant) | p.Publish(tenant=tenant) | p.Note(tenant=tenant):
            return [tenant]
        case p.Deliver(key=key) | p.Pause(key=key) | p.Unpause(key=key) | p.Renew(key=key) | p.ExpectItem(key=key):
            return [key.tenant]
        case p.DropDead(key=key) | p.MarkSplit(key=key):
            return [key.tenant]
        case _:
            raise EngineError(f"a bound client cannot commit {type(change).__name__}")


def _unknown(change: p.Change) -> p.Answer:
    """The answer to what would be done in another tenant: a run is missing there, and nothing can be made."""
    if isinstance(change, p.Operate) and any(
        isinstance(each, p.Deliver | p.Pause | p.Unpause | p.Renew) for each in change.changes
    ):
        return p.Unknown()
    raise TenantNotFound(f"there is no tenant {_tenants(change)[0]!r} for you: leave the tenant out.")


def _answer(change: p.Change, answer: p.Answer) -> p.Answer:
    """The act's answer, as the change by itself would have been answered."""
    if isinstance(change, p.Operate) or not isinstance(answer, p.OperatedOn | p.Repeated):
        return answer
    return p.Started(0) if isinstance(change, p.Start) else p.Tasked()
