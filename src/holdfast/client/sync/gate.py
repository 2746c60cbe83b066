"""Definitions, tasks, receipts, schedules and the audit for code without an event loop.

Each method is that of the asynchronous class, waited for: its signature and its types come from there.
"""

from __future__ import annotations

from holdfast.client.definitions.app_definitions import AppDefinitions
from holdfast.client.governance.audit import Audit
from holdfast.client.governance.receipts import Receipts
from holdfast.client.governance.tasks import Tasks
from holdfast.client.loop_thread import LoopThread
from holdfast.client.schedules.app_schedules import Schedules
from holdfast.client.sync.calls import each_of, waited
from holdfast.programs.definition.compiler.batch import DefinitionSource
from holdfast.programs.definition.model import Accepted


class SyncTasks:
    """Tasks: each method is that of ``Tasks``, waited for."""

    def __init__(self, loop: LoopThread, tasks: Tasks) -> None:
        self._loop = loop
        self._part = tasks

    list = each_of(Tasks.list)
    page = waited(Tasks.page)
    inbox = waited(Tasks.inbox)
    refusal = waited(Tasks.refusal)
    present = waited(Tasks.present)
    get = waited(Tasks.get)
    approve = waited(Tasks.approve)
    reject = waited(Tasks.reject)
    complete = waited(Tasks.complete)
    file = waited(Tasks.file)
    check = waited(Tasks.check)
    claim = waited(Tasks.claim)
    release = waited(Tasks.release)
    assign = waited(Tasks.assign)
    delegate = waited(Tasks.delegate)
    happened = waited(Tasks.happened)
    did_not_happen = waited(Tasks.did_not_happen)
    give_up = waited(Tasks.give_up)


class SyncDefinitions:
    """Definitions: each method is that of ``AppDefinitions``, waited for."""

    def __init__(self, loop: LoopThread, definitions: AppDefinitions) -> None:
        self._loop = loop
        self._part = definitions

    def add(self, source: DefinitionSource) -> Accepted:
        """Accept a definition, see ``AppDefinitions.add``."""
        return self._part.add(source)

    publish = waited(AppDefinitions.publish)
    publish_all = waited(AppDefinitions.publish_all)
    list = each_of(AppDefinitions.list)
    compile = waited(AppDefinitions.compile)
    import_serverless = waited(AppDefinitions.import_serverless)
    plan_moves = waited(AppDefinitions.plan_moves)
    migrate = waited(AppDefinitions.migrate)
    load = waited(AppDefinitions.load)
    info = waited(AppDefinitions.info)


class SyncReceipts:
    """Receipts: each method is that of ``Receipts``, waited for."""

    def __init__(self, loop: LoopThread, receipts: Receipts) -> None:
        self._loop = loop
        self._part = receipts

    list = each_of(Receipts.list)
    page = waited(Receipts.page)
    get = waited(Receipts.get)

    def reverse(
        self, id: str, *, by: str | None = None, reason: str = "", anyway: bool = False, tenant: str | None = None
    ) -> str:
        """Take an act back; gives the id of the run that does it."""
        return self._loop.call(self._part.reverse(id, by=by, reason=reason, anyway=anyway, tenant=tenant)).id


class SyncSchedules:
    """Schedules: each method is that of ``Schedules``, waited for."""

    def __init__(self, loop: LoopThread, schedules: Schedules) -> None:
        self._loop = loop
        self._part = schedules

    create = waited(Schedules.create)
    change = waited(Schedules.change)
    pause = waited(Schedules.pause)
    resume = waited(Schedules.resume)
    run_now = waited(Schedules.run_now)
    backfill = waited(Schedules.backfill)
    delete = waited(Schedules.delete)
    list = each_of(Schedules.list)
    page = waited(Schedules.page)
    show = waited(Schedules.show)
    explain = waited(Schedules.explain)
    advice = waited(Schedules.advice)


class SyncAudit:
    """The audit: each method is that of ``Audit``, waited for."""

    def __init__(self, loop: LoopThread, audit: Audit) -> None:
        self._loop = loop
        self._part = audit

    list = each_of(Audit.list)
    page = waited(Audit.page)
    export = each_of(Audit.export)
    verify = waited(Audit.verify)
    head = waited(Audit.head)
    keys = waited(Audit.keys)
    public_keys = waited(Audit.public_keys)
    rotate_key = waited(Audit.rotate_key)
