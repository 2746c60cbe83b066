"""The parts of a client that people know by name, and for whom it acts.

They are loaded when first used: most commands only look at runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from holdfast.client.actor import Actor
from holdfast.client.people.permission import operation
from holdfast.client.views.workers import WorkerInfo, worker_info
from holdfast.errors import InvalidRequest
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.client.definitions.app_definitions import AppDefinitions
    from holdfast.client.definitions.readers import Readers
    from holdfast.client.engine import Holdfast
    from holdfast.client.governance.audit import Audit
    from holdfast.client.governance.receipts import Receipts
    from holdfast.client.governance.tasks import Tasks
    from holdfast.client.machines.app_machines import AppMachines
    from holdfast.client.machines.cell_handle import CellHandle
    from holdfast.client.machines.sender import SentEvent
    from holdfast.client.people.slack import SlackAccounts
    from holdfast.client.people.tenants import Tenants, Workspaces
    from holdfast.client.people.tokens import Tokens
    from holdfast.client.people.users import Users
    from holdfast.client.runs.repair import Repairs
    from holdfast.client.runs.retries import Retries
    from holdfast.client.runs.starter import Starter
    from holdfast.client.schedules.app_schedules import Schedules
    from holdfast.client.templates.app_templates import AppTemplates
    from holdfast.client.templates.emitter import EmittedInfo
    from holdfast.client.views.health import HealthInfo
    from holdfast.client.webhooks.app_subscriptions import Subscriptions
    from holdfast.client.webhooks.app_webhooks import Webhooks
    from holdfast.gate.policy.keeper import PolicyKeeper
    from holdfast.gate.policy.policy import Policy
    from holdfast.people.caller import Caller
    from holdfast.programs.catalogue import Catalogue
    from holdfast.programs.function.decorators import Step, Workflow
    from holdfast.programs.machine.kind import Machines
    from holdfast.programs.machine.machine import Machine


S = TypeVar("S")


class Parts(Actor):
    """The parts of an engine, each for whoever the engine acts for; and how it is bound to somebody."""

    def acting_as(self, who: str | Caller, *, tenant: str | None = None, login: bool = False) -> Holdfast:
        """A client that acts for a user of a tenant, or for the user of a token. It is light, and needs no closing.

        A name finds its user in any spelling. Give ``login`` if somebody else vouches for the name, such as a proxy:
        there a name that looks alike may be another person's. Then only the spelling that is stored, or one that
        `holdfast users link` gave to the user, finds the user; any other raises NotPermitted.

        Each of its operations is judged first: the user is enabled, and has the level that it needs. So it raises
        NotPermitted, which is noted in the audit, InvalidToken or UserNotFound. What belongs to another tenant is not
        found. ``tenant`` is the user's; a token needs none.
        """
        from holdfast.client.people.binding import bind
        from holdfast.client.people.bound_client import ActingHoldfast

        return ActingHoldfast(self._whole(), bind(self._whole(), who, tenant, login=login))

    @property
    def caller(self) -> Caller | None:
        """The user that this client acts for, as of its last operation; None where it is the process's own."""
        return None

    @operation("users.see_self")
    async def whoami(self) -> Caller | None:
        """The user that this client acts for, as of now; None where it is the process's own."""
        return None

    @cached_property
    def starter(self) -> Starter:
        """Starts runs."""
        from holdfast.client.runs.starter import Starter

        return Starter(self._whole())

    @cached_property
    def repairs(self) -> Repairs:
        """Forks runs."""
        from holdfast.client.runs.repair import Repairs

        return Repairs(self._whole())

    @cached_property
    def retries(self) -> Retries:
        """Retries runs."""
        from holdfast.client.runs.retries import Retries

        return Retries(self._whole())

    @cached_property
    def policy(self) -> PolicyKeeper:
        """The policy in force. Who judges nothing does not load the language of policies."""
        return policy_keeper(None)

    @cached_property
    def _workflows(self) -> Mapping[str, Workflow[..., Any]]:
        return served_workflows(None)

    @cached_property
    def _steps(self) -> Mapping[str, Step[..., Any]]:
        from holdfast.programs.function.decorators import STEPS

        return STEPS

    @cached_property
    def definitions(self) -> AppDefinitions:
        """The definitions that this engine can start runs of. Who asks for none does not load their compiler."""
        from holdfast.client.definitions.app_definitions import AppDefinitions
        from holdfast.programs.definition.engine_tools import EngineTools
        from holdfast.programs.definition.kind import Definitions

        engine = self._whole()
        return AppDefinitions(engine, Definitions(EngineTools(self._steps)), *engine._given_definitions)

    @cached_property
    def readers(self) -> Readers:
        """The processes that read what users send."""
        from holdfast.client.definitions.readers import Readers

        return Readers()

    @cached_property
    def catalogue(self) -> Catalogue:
        """The programs that this engine can run."""
        from holdfast.programs.catalogue import Catalogue
        from holdfast.programs.function.functions import Functions

        kind = self.definitions.kind
        return Catalogue([Functions(self._whole().workflows, kind), kind, self.machine_kind])

    @property
    def has_definitions(self) -> bool:
        """Whether this engine was given definitions, or has looked at some."""
        return self._whole()._given_definitions[0] != () or "definitions" in vars(self)

    @property
    def tasks(self) -> Tasks:
        """Work for people, and how they answer."""
        from holdfast.client.governance.tasks import Tasks

        return Tasks(self._whole())

    @property
    def receipts(self) -> Receipts:
        """What actions did, and how an act is taken back."""
        from holdfast.client.governance.receipts import Receipts

        return Receipts(self._whole())

    @property
    def audit(self) -> Audit:
        """Decisions, answers, acts and what operators did; and the keys that sign it."""
        from holdfast.client.governance.audit import Audit

        return Audit(self._whole())

    @property
    def schedules(self) -> Schedules:
        """What starts by itself, and how people steer it."""
        from holdfast.client.schedules.app_schedules import Schedules

        return Schedules(self._whole())

    @property
    def templates(self) -> AppTemplates:
        """What a tenant offers to be started, and what was started of it."""
        from holdfast.client.templates.app_templates import AppTemplates

        return AppTemplates(self._whole())

    @property
    def webhooks(self) -> Webhooks:
        """Addresses at which others tell this engine something."""
        from holdfast.client.webhooks.app_webhooks import Webhooks

        return Webhooks(self._whole())

    @property
    def subscriptions(self) -> Subscriptions:
        """Addresses that this engine tells of what happens."""
        from holdfast.client.webhooks.app_subscriptions import Subscriptions

        return Subscriptions(self._whole())

    @property
    def tenants(self) -> Tenants:
        """The tenants of the installation, and their caps."""
        from holdfast.client.people.tenants import Tenants

        return Tenants(self._whole())

    @property
    def workspaces(self) -> Workspaces:
        """The parts of a tenant that its runs belong to."""
        from holdfast.client.people.tenants import Workspaces

        return Workspaces(self._whole())

    @property
    def users(self) -> Users:
        """The people and services of a tenant, their levels and groups."""
        from holdfast.client.people.users import Users

        return Users(self._whole())

    @property
    def tokens(self) -> Tokens:
        """Secrets that stand for users."""
        from holdfast.client.people.tokens import Tokens

        return Tokens(self._whole())

    @property
    def slack(self) -> SlackAccounts:
        """Where a tenant's approvals are shown in Slack, and which accounts there are which users."""
        from holdfast.client.people.slack import SlackAccounts

        return SlackAccounts(self._whole())

    @operation("runs.see")
    async def counts(self, *, tenant: str | None = None, most: int | None = None) -> Sequence[p.RunCount]:
        """The number of runs by tenant and status.

        With ``most``, the numbers of one tenant are counted no further: one above it means that there are more. That
        takes the same time however many there are.
        """
        return await self._whole().store.counts(tenant, most)

    @operation("workers.see")
    async def workers(self) -> Sequence[WorkerInfo]:
        """The workers that are registered, and what they serve."""
        return [worker_info(row) for row in await self._whole().store.workers()]

    @operation("workers.see")
    async def health(self, *, tenant: str | None = None) -> HealthInfo:
        """How the work of a tenant stands: what waits for workers, since when, and what they have leased."""
        from holdfast.client.views.health import health_of

        return await health_of(self._whole(), self._whole().tenant_of(tenant))

    @property
    def is_open(self) -> bool:
        """Whether the engine can be used."""
        return self._whole()._is_open

    @cached_property
    def machine_kind(self) -> Machines:
        """The machines that this engine can run."""
        from holdfast.programs.machine.kind import Machines

        return Machines(mode=self._whole().manifests_mode)

    @property
    def machines(self) -> AppMachines:
        """Events for machines, and their cells."""
        return self._machines

    @cached_property
    def _machines(self) -> AppMachines:
        from holdfast.client.machines.app_machines import AppMachines

        return AppMachines(self._whole())

    def cell(self, machine: Machine[S] | str, key: object = None, *, tenant: str | None = None) -> CellHandle[S]:
        """The cell of a machine that has this key. It need not exist."""
        return self.machines.cell(machine, key, tenant=tenant)

    @overload
    async def emit(  # type: ignore[overload-overlap]  # a text is never an event of a machine
        self,
        event: str,
        data: object = None,
        *,
        id: str,
        workspace: str = "",
        tenant: str | None = None,
        by: str | None = None,
    ) -> EmittedInfo: ...
    @overload
    async def emit(
        self, event: object, *, id: str | None = None, tenant: str | None = None, by: str | None = None
    ) -> SentEvent: ...

    @operation("events.emit")
    async def emit(
        self,
        event: object,
        data: object = None,
        *,
        id: str | None = None,
        workspace: str = "",
        tenant: str | None = None,
        by: str | None = None,
    ) -> EmittedInfo | SentEvent:
        """Tell that something happened. Durable when this returns.

        An event of a type that machines hear goes to their cells, see ``machines.send``. An event with a name and
        ``data`` goes to the tenant's templates: each that hears it by its route starts one instance.
        ``id`` is the event's own: emitted again with it, nothing happens twice, and what a crash left undone is done.
        The answer says what came of it. Raises EventConflict where the id was another event's.
        """
        if not isinstance(event, str):
            return await self.machines.send(event, id=id, tenant=tenant, by=by)
        if id is None:
            raise InvalidRequest("give the event an id: emitted again with it, nothing is started twice")
        from holdfast.client.templates.emitter import Emitter

        return await Emitter(self._whole()).emit(event, data, id, workspace, tenant, by)

    def _whole(self) -> Holdfast:
        return cast("Holdfast", self)


def load_parts(app: Holdfast) -> None:
    """Load the modules of all parts now: whoever serves others does not let the first of them wait for that."""
    parts = (name for name, part in vars(Parts).items() if isinstance(part, property))
    for name in ("starter", "repairs", "retries", *parts):
        getattr(app, name)


def check_machines(app: Holdfast) -> None:
    """Raises DuplicateName or InvalidManifest where the machines of an engine do not fit together."""
    if "holdfast.programs.machine.machine" in sys.modules:  # who imports no machine does not load them
        app.machine_kind.board.code.check()


def policy_keeper(source: str | Path | Policy | None) -> PolicyKeeper:
    """What keeps this policy in force; without one, every action is denied. Raises InvalidPolicy."""
    from holdfast.gate.policy.keeper import PolicyKeeper

    return PolicyKeeper(source)


def served_workflows(chosen: Iterable[Workflow[..., Any]] | None) -> Mapping[str, Workflow[..., Any]]:
    """These workflows by name, else all that have been imported; and the engine's own. Raises DuplicateName."""
    from holdfast.programs.function.decorators import WORKFLOWS
    from holdfast.programs.function.registry import Registry
    from holdfast.programs.function.reversal import reverse

    return WORKFLOWS if chosen is None else Registry("workflow", [*chosen, reverse])
