"""The manifest in force of a tenant, and proposals to change it: proposed, shadowed, approved, applied."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from holdfast.client.items import Change, all_items, change_item, found
from holdfast.client.machines.blockers import ManifestBlocker, blocked_message, find_blockers, find_unreadable
from holdfast.client.machines.lane_hold import LaneHold
from holdfast.client.machines.migrations import MigrationReport, migration_of
from holdfast.client.machines.recordings import record_machine
from holdfast.client.machines.shadow import shadow_of
from holdfast.client.people.permission import operation
from holdfast.client.views.manifests import ManifestInfo, ProposalInfo
from holdfast.client.views.times import moment
from holdfast.errors import (
    InvalidManifest,
    InvalidRequest,
    ManifestBlocked,
    ProposalConflict,
    ProposalNotFound,
)
from holdfast.lanes.counts import LANE_COUNT
from holdfast.people.names import person
from holdfast.people.users import USER
from holdfast.programs.machine import proposals as q
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import MachineEntry, MachineManifest, decode_manifest, manifest_digest
from holdfast.programs.machine.manifest_changes import MachineChange, changes, misfit
from holdfast.programs.machine.manifest_reader import read_manifest
from holdfast.runs.birth import check_text
from holdfast.store import protocol as p

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast
    from holdfast.programs.machine.kind import Machines
    from holdfast.programs.machine.switchboard import Switchboard

_ROUTES_MICROSECONDS: Final = 1_000_000


class AppManifests:
    """What ``app.machines`` has for governing machines."""

    _app: Holdfast
    _kind: Machines

    # -- looking -------------------------------------------------------------------------------------------------------

    @operation("manifests.see")
    async def manifest(self, *, tenant: str | None = None) -> ManifestInfo:
        """The manifest in force of a tenant, and whether the machines of this process are those of it."""
        app, declared = self._app, self._kind.board.declared
        tenant = app.tenant_of(tenant)
        _, body = await self._in_force(tenant)
        if body is None:
            return ManifestInfo(tenant=tenant, source="none", declared=manifest_digest(declared))
        manifest = await self._read(tenant, body.digest)
        misfits = {each.name: misfit(manifest, declared, each.name) for each in declared.machines}
        return ManifestInfo(
            tenant=tenant,
            source=body.source,
            digest=body.digest,
            proposal=body.proposal,
            manifest=manifest,
            declared=manifest_digest(declared),
            misfits={name: reason for name, reason in misfits.items() if reason is not None},
        )

    @operation("manifests.see")
    async def proposals(
        self, *, status: q.ProposalStatus | None = None, tenant: str | None = None
    ) -> AsyncIterator[ProposalInfo]:
        """The proposals of a tenant, oldest first: those of one status, or all."""
        if status is not None and status not in q.STATUSES:
            raise InvalidRequest(f"a proposal's status is one of {', '.join(q.STATUSES)}, not {status!r:.60}")
        async for row in all_items(self._app, q.PROPOSAL, tenant=self._app.tenant_of(tenant), status=status):
            yield await self._info(row)

    @operation("manifests.see")
    async def proposal(self, id: str, *, tenant: str | None = None) -> ProposalInfo:
        """One proposal. Raises ProposalNotFound."""
        return await self._info(await self._row(id, self._app.tenant_of(tenant)))

    @operation("manifests.see")
    async def migrate(
        self, machine: Machine[Any] | str, *, dry_run: bool = True, tenant: str | None = None
    ) -> MigrationReport:
        """What every cell's kept state becomes when this code reads it, and why not, where it cannot be read.

        Nothing is written: a cell is brought up to date by its next event. ``dry_run=False`` is refused, therefore.
        """
        if not dry_run:
            raise InvalidRequest("a cell's state is migrated with its next event: only a dry run can be asked for")
        name = machine if isinstance(machine, str) else machine.name
        known = self._kind.machines.get(name)
        if known is None:
            raise InvalidRequest(f"there is no machine {name!r} here: import the module that has it")
        return await migration_of(self._app.store, self._app.tenant_of(tenant), known)

    @operation("manifests.propose")
    async def recording(self, machine: Machine[Any] | str, *, tenant: str | None = None) -> bytes:
        """The journals and cells of a machine as a file, for ``holdfast machines replay``: as secret as the store."""
        name = machine if isinstance(machine, str) else machine.name
        return await record_machine(self._app.store, self._app.tenant_of(tenant), name, self._app.clock.now())

    # -- proposing -----------------------------------------------------------------------------------------------------

    @operation("manifests.propose")
    async def propose(
        self,
        manifest: MachineManifest | str | Path | None = None,
        *,
        notes: str = "",
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> ProposalInfo:
        """Propose a manifest: a value, a file in YAML or JSON, or else what the machines of this process declare.

        Each proposal is one of its own, even where two propose the same. Raises InvalidManifest.
        """
        app = self._app
        tenant = app.tenant_of(tenant)
        proposed = self._given(manifest)
        kept = q.keep(tenant, proposed)
        await app.committer.commit(kept)
        _, body = await self._in_force(tenant)
        made = q.ManifestProposal(
            digest=kept.code.digest.hex(),
            base=None if body is None else body.digest,
            author=app.person_of(by),
            notes=check_text(notes, "the notes") if notes else "",
            proposed_at=app.clock.now(),
        )
        key = p.ItemKey(tenant, q.PROPOSAL, app.token())
        change = Change(q.write(made), "proposed", details={"manifest": made.digest, "base": made.base or ""})
        row = await change_item(app, key, "propose_manifest", lambda _: change, by=by, reason=reason)
        return await self._info(row)

    def _given(self, manifest: object) -> MachineManifest:
        declared = self._kind.board.declared
        if manifest is None:
            return declared
        if isinstance(manifest, MachineManifest):
            return manifest
        if not isinstance(manifest, str | Path):
            raise InvalidRequest(f"a manifest is a MachineManifest or a file, not {manifest!r:.60}")
        try:
            text = Path(manifest).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidManifest(f"{manifest} cannot be read: {error}") from error
        return read_manifest(text, declared, file=str(manifest))

    @operation("manifests.propose")
    async def shadow(
        self, proposal: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> ProposalInfo:
        """Run the machines of this process over the recorded events of live cells, and keep what was seen.

        Nothing is done: no effect is asked for, and no cell changes. The machines here must be those of the proposal;
        what is not here is reported as not seen. Raises ProposalNotFound, ProposalConflict.
        """
        app = self._app
        tenant = app.tenant_of(tenant)
        row = await self._row(proposal, tenant)
        q.next_status(row, "shadow")
        body = q.read_proposal(row)
        manifest = await self._read(tenant, body.digest)
        concerned = changes(await self._base(tenant), manifest)
        report = await shadow_of(app.store, tenant, manifest, concerned, self._kind, app.clock.now())
        details = {"manifest": body.digest, "agrees": "yes" if report.agrees else "no"}
        return await self._steer(proposal, "shadow", tenant, by, reason, details, shadow=report)

    @operation("manifests.approve")
    async def approve(
        self, proposal: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> ProposalInfo:
        """Approve a proposal that was shadowed. Where a tenant has users, another one than its author must do it.

        Raises ProposalNotFound, ProposalConflict.
        """
        app = self._app
        tenant = app.tenant_of(tenant)
        who = app.person_of(by)
        body = q.read_proposal(await self._row(proposal, tenant))
        if await app.store.items(USER, 1, tenant=tenant):
            if who is None:
                raise InvalidRequest("say who approves the proposal, with by=")
            if body.author is not None and person(who) == person(body.author):
                raise ProposalConflict(f"proposal {proposal} is {who}'s own: another person must approve it.")
        details = {"manifest": body.digest}
        return await self._steer(proposal, "approve", tenant, by, reason, details, approver=who)

    @operation("manifests.approve")
    async def reject(
        self, proposal: str, *, tenant: str | None = None, by: str | None = None, reason: str = ""
    ) -> ProposalInfo:
        """Reject a proposal that was not applied. Raises ProposalNotFound, ProposalConflict."""
        tenant = self._app.tenant_of(tenant)
        body = q.read_proposal(await self._row(proposal, tenant))
        return await self._steer(proposal, "reject", tenant, by, reason, {"manifest": body.digest}, reason=reason)

    # -- applying ------------------------------------------------------------------------------------------------------

    @operation("manifests.apply")
    async def apply(
        self,
        proposal: str,
        *,
        strict: bool = False,
        tenant: str | None = None,
        by: str | None = None,
        reason: str = "",
    ) -> ProposalInfo:
        """Put an approved manifest in force. From then on lanes are run only by workers with its code.

        It is blocked by effects in flight and by queued events of the machines that it changes; with ``strict`` by any
        of their cells that has not ended. The lanes concerned stand still meanwhile. Nothing is abandoned. Raises
        ManifestBlocked with all that blocks, ProposalNotFound, and ProposalConflict where the proposal is not approved,
        or another manifest was put in force since it was made.
        """
        app = self._app
        tenant = app.tenant_of(tenant)
        row = await self._row(proposal, tenant)
        q.next_status(row, "apply")
        body = q.read_proposal(row)
        q.check_base(proposal, body, (await self._in_force(tenant))[1])
        proposed = await self._read(tenant, body.digest)
        concerned = changes(await self._base(tenant), proposed)
        same = await self._not_governed(tenant, proposed, concerned)
        names = [each.machine for each in concerned] + [each.name for each in same]
        tables = await self._lane_tables(tenant, names)
        self._refuse(proposal, await find_blockers(app.store, tenant, concerned, strict=strict))
        hold = LaneHold(app, tenant, proposal, by)
        await hold.begin(names)
        try:
            self._refuse(proposal, await hold.still())
            left = await find_blockers(app.store, tenant, concerned, strict=strict, held=True)
            self._refuse(proposal, left + await find_unreadable(app.store, tenant, same))
            return await self._put_in_force(proposal, tenant, hold, tables, by, reason)
        except BaseException:
            await hold.end()
            raise

    async def _not_governed(
        self, tenant: str, proposed: MachineManifest, concerned: Sequence[MachineChange]
    ) -> list[MachineEntry]:
        """The machines that a first manifest leaves as the last worker declared them. Workers with other code may run
        them, too, until it is in force: their lanes stand still for it."""
        _, body = await self._in_force(tenant)
        changed = {each.machine for each in concerned}
        governed = body is not None and body.source == "applied"
        return [] if governed else [each for each in proposed.machines if each.name not in changed]

    async def _put_in_force(
        self,
        proposal: str,
        tenant: str,
        hold: LaneHold,
        tables: Sequence[p.ExpectItem],
        by: str | None,
        reason: str,
    ) -> ProposalInfo:
        app = self._app

        async def change(present: p.ItemRow | None) -> Change:
            row = found(present, _missing(proposal, tenant))
            status, body = q.next_status(row, "apply"), q.read_proposal(row)
            before, named = await self._in_force(tenant)
            q.check_base(proposal, body, named)
            if list(tables) != await self._lane_tables(tenant, [each.key.id for each in tables]):
                changed = "lanes were split, or the first ones begun,"
                raise ProposalConflict(f"{changed} while proposal {proposal} was applied: apply it again.")
            now = app.clock.now()
            in_force = q.ManifestInForce(body.digest, "applied", proposal)
            version = 1 if before is None else before.version + 1
            item = p.ItemRow(*q.in_force_key(tenant), version, q.write(in_force), "applied", None, now)
            beside: list[p.Act] = [p.PutItem(item), *tables, *await hold.acts()]
            details = {"manifest": body.digest, "before": body.base or ""}
            return Change(q.write(body), status, details=details, beside=beside)

        key = p.ItemKey(tenant, q.PROPOSAL, proposal)
        row = await change_item(app, key, "apply_manifest", change, by=by, reason=reason)
        self._kind.routes.clear()
        return await self._info(row)

    async def _lane_tables(self, tenant: str, machines: Sequence[str]) -> list[p.ExpectItem]:
        """That these machines have the lanes that they have now: those of a later split would not stand still."""
        found = []
        for machine in machines:
            key = p.ItemKey(tenant, LANE_COUNT, machine)
            row = await self._app.store.item(key)
            found.append(p.ExpectItem(key, 0 if row is None else row.version))
        return found

    def _refuse(self, proposal: str, blockers: list[ManifestBlocker]) -> None:
        if blockers:
            raise ManifestBlocked(blocked_message(proposal, blockers), blockers)

    # -- items ---------------------------------------------------------------------------------------------------------

    async def _steer(
        self,
        proposal: str,
        act: q.ProposalAct,
        tenant: str,
        by: str | None,
        why: str,
        details: Mapping[str, str],
        **fields: Any,
    ) -> ProposalInfo:
        def change(present: p.ItemRow | None) -> Change:
            row = found(present, _missing(proposal, tenant))
            status = q.next_status(row, act)
            return Change(q.write(replace(q.read_proposal(row), **fields)), status, details=details)

        key = p.ItemKey(tenant, q.PROPOSAL, proposal)
        return await self._info(await change_item(self._app, key, f"{act}_manifest", change, by=by, reason=why))

    async def _row(self, id: str, tenant: str) -> p.ItemRow:
        key = p.ItemKey(tenant, q.PROPOSAL, check_text(id, "the proposal's id"))
        return found(await self._app.store.item(key), _missing(id, tenant))

    async def _in_force(self, tenant: str) -> tuple[p.ItemRow | None, q.ManifestInForce | None]:
        row = await self._app.store.item(q.in_force_key(tenant))
        return row, None if row is None else q.read_in_force(row)

    async def _routes(self, tenant: str) -> Switchboard:
        """Where events from outside go. What was applied elsewhere a moment ago may not be known here yet."""
        kind, now = self._kind, self._app.clock.now()
        since, board = kind.routes.get(tenant, (-_ROUTES_MICROSECONDS, kind.board))
        if now - since < _ROUTES_MICROSECONDS:
            return board
        if tenant in kind.routes:
            kind.routes[tenant] = now, board  # one of a thousand senders looks; the others go by what was known
        try:
            _, body = await self._in_force(tenant)
            is_applied = body is not None and body.source == "applied"
            board = kind.board_of(await self._read(tenant, body.digest)) if body and is_applied else kind.board
        except BaseException:
            kind.routes.pop(tenant, None)
            raise
        kind.routes[tenant] = now, board
        return board

    async def _base(self, tenant: str) -> MachineManifest | None:
        """The manifest in force; None where there is none."""
        _, body = await self._in_force(tenant)
        return None if body is None else await self._read(tenant, body.digest)

    async def _read(self, tenant: str, digest: str) -> MachineManifest:
        kept = await self._app.store.code(tenant, [bytes.fromhex(digest)])
        return decode_manifest(kept[bytes.fromhex(digest)].data)

    async def _info(self, row: p.ItemRow) -> ProposalInfo:
        body = q.read_proposal(row)
        base = None if body.base is None else await self._read(row.tenant, body.base)
        return ProposalInfo(
            id=row.id,
            tenant=row.tenant,
            status=q.status_of(row),
            digest=body.digest,
            base=body.base,
            author=body.author,
            notes=body.notes,
            proposed_at=moment(body.proposed_at),
            changes=tuple(changes(base, await self._read(row.tenant, body.digest))),
            shadow=body.shadow,
            approver=body.approver,
            reason=body.reason,
        )


def _missing(id: str, tenant: str) -> ProposalNotFound:
    return ProposalNotFound(
        f"there is no proposal {id!r} in tenant {tenant!r}: `holdfast machines proposals` shows what there is."
    )
