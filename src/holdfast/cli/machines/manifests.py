"""``machines manifest|proposals|propose|shadow|approve|reject|apply|migrate|check``: which machines are in force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec

from holdfast.cli import exits, options, output, session
from holdfast.cli.apps import load_app
from holdfast.client.engine import Holdfast
from holdfast.client.machines.migrations import MigrationReport
from holdfast.client.views.manifests import ManifestInfo, ProposalInfo
from holdfast.client.views.times import clock
from holdfast.errors import InvalidManifest, ManifestBlocked
from holdfast.programs.machine.lanes.shadow_reports import MachineShadow, ShadowReport
from holdfast.programs.machine.manifest import manifest_digest
from holdfast.programs.machine.manifest_changes import MachineChange
from holdfast.programs.machine.manifest_reader import read_manifest
from holdfast.programs.machine.proposals import STATUSES

_app = click.option("--app", metavar="APP", help="The code: module:attribute or file.py:attribute.")
_needed_app = click.option(
    "--app", metavar="APP", required=True, help="The code: module:attribute or file.py:attribute."
)


@click.command()
@_app
@options.tenant
@options.store
def manifest(app: str | None, tenant: str, store: str | None, as_json: bool) -> int:
    """Show the manifest in force. With --app, exit 1 where a machine of that code is another one."""
    engine = None if app is None else load_app(app)

    async def work(opened: Holdfast) -> ManifestInfo:
        return await opened.machines.manifest(tenant=tenant)

    found = session.on_store(session.url_of(store, engine), work, app=engine)
    misfits = found.misfits if app is not None else {}
    if as_json:
        output.emit({**_plain(found), "misfits": dict(misfits)})
    else:
        _write_manifest(found)
        for reason in misfits.values():
            output.note(reason)
    return exits.NO if misfits else exits.GOOD


def _write_manifest(found: ManifestInfo) -> None:
    if found.manifest is None:
        output.note("no manifest is in force: the first worker that runs a machine adopts what its code declares.")
        return
    named = "" if found.proposal is None else f" by proposal {found.proposal}"
    output.say(f"manifest {found.digest}, {found.source}{named}")
    rows: list[list[output.Part]] = [
        [each.name, str(each.version), each.state, ", ".join(each.effects) or "none", each.hash[:12]]
        for each in found.manifest.machines
    ]
    output.table(["machine", "version", "state", "effects", "code"], rows)


@click.command()
@click.option("--status", type=click.Choice(STATUSES), help="Only those with this status.")
@options.tenant
@options.store
def proposals(status: Any, tenant: str, store: str | None, as_json: bool) -> None:
    """List the proposals of a tenant, oldest first."""

    async def work(opened: Holdfast) -> list[ProposalInfo]:
        return [each async for each in opened.machines.proposals(status=status, tenant=tenant)]

    found = session.on_store(session.url_of(store), work)
    if as_json:
        for each in found:
            output.emit(_plain(each))
        return
    if not found:
        output.note("no proposals match: `holdfast machines propose` makes one.")
        return
    rows: list[list[output.Part]] = [
        [each.id, each.status, each.digest[:12], each.author or "nobody", clock(each.proposed_at), each.notes]
        for each in found
    ]
    output.table(["id", "status", "manifest", "author", "proposed", "notes"], rows)


@click.command()
@click.argument("file", required=False)
@_needed_app
@click.option("--notes", default="", metavar="TEXT", help="What it is for.")
@options.steered_by
@options.tenant
@options.store
def propose(file: str | None, app: str, notes: str, who: str, tenant: str, store: str | None, as_json: bool) -> None:
    """Propose the manifest in FILE, or else what the code declares."""
    engine = load_app(app)

    async def work(opened: Holdfast) -> ProposalInfo:
        asked = opened.machines.propose(file, notes=notes, tenant=tenant, by=who)
        return await session.patiently(opened, asked)

    _write_proposal(session.on_store(session.url_of(store, engine), work, app=engine, create=True), as_json)


@click.command()
@click.argument("proposal")
@_needed_app
@options.steered_by
@options.tenant
@options.store
def shadow(proposal: str, app: str, who: str, tenant: str, store: str | None, as_json: bool) -> int:
    """Run the code over the recorded events of live cells, and report what differs. Nothing is done.

    Exit 1 where something differs, or could not be seen.
    """
    engine = load_app(app)

    async def work(opened: Holdfast) -> ProposalInfo:
        return await opened.machines.shadow(proposal, tenant=tenant, by=who)

    found = session.on_store(session.url_of(store, engine), work, app=engine)
    report = found.shadow
    assert report is not None
    if as_json:
        output.emit(_plain(found))
    else:
        write_report(report)
    return exits.GOOD if report.agrees and not any(each.unseen for each in report.machines) else exits.NO


def write_report(report: ShadowReport) -> None:
    """What a shadow run saw, in lines."""
    for machine in report.machines:
        output.say(f"machine {machine.machine}: {machine.change}")
        output.table((), [("", line) for line in _seen(machine)])
    output.say(f"Seen: {report.bounds}")


def _seen(machine: MachineShadow) -> Iterator[str]:
    if machine.allowed:
        yield f"may now ask for {', '.join(machine.allowed)}"
    if machine.forbidden:
        yield f"may no longer ask for {', '.join(machine.forbidden)}"
    for name, tally in machine.effects.items():
        counts = f"asked for {tally.recorded:,} times, now {tally.shadow:,}, the same {tally.same:,}"
        yield f"{name}: {counts}" + (f", {tally.pending:,} without a receipt" if tally.pending else "")
    if machine.statuses != machine.shadow_statuses:
        yield f"statuses {_counts(machine.statuses)}, now {_counts(machine.shadow_statuses)}"
    for reason, count in machine.failures.items():
        yield f"{count:,} events cannot be handled: {output.one_line(reason)}"
    if machine.different:
        yield f"{machine.different:,} of {machine.cells:,} cells differ:"
    for each in machine.deltas:
        yield f"  {each.key!r}: {each.recorded!r} becomes {each.shadow!r}"
    for key, problem in machine.unreadable.items():
        yield f"the state of {key} cannot be read: {output.one_line(problem)}"
    for each_unseen in machine.unseen:
        yield f"not seen: {each_unseen}"
    if machine.agrees and not machine.unseen:
        yield "does the same"


def _counts(statuses: Any) -> str:
    return ", ".join(f"{count:,} {status}" for status, count in sorted(statuses.items())) or "none"


def _steering(name: str, text: str) -> click.Command:
    def run(proposal: str, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> None:
        async def work(opened: Holdfast) -> ProposalInfo:
            act = getattr(opened.machines, name)(proposal, tenant=tenant, by=who, reason=reason)
            found: ProposalInfo = await session.patiently(opened, act)
            return found

        _write_proposal(session.on_store(session.url_of(store), work), as_json)

    run.__doc__ = text
    decorated = options.steered_by(options.why(options.tenant(options.store(run))))
    return click.command(name)(click.argument("proposal")(decorated))


approve = _steering("approve", "Approve a proposal that was shadowed; another person than its author does it.")
reject = _steering("reject", "Reject a proposal that was not applied.")


@click.command()
@click.argument("proposal")
@click.option("--strict", is_flag=True, help="Any cell that has not ended blocks, too.")
@options.steered_by
@options.why
@options.tenant
@options.store
def apply(proposal: str, strict: bool, who: str, reason: str, tenant: str, store: str | None, as_json: bool) -> int:
    """Put an approved manifest in force. Exit 4 with all that blocks it, where something does."""

    async def work(opened: Holdfast) -> ProposalInfo:
        act = opened.machines.apply(proposal, strict=strict, tenant=tenant, by=who, reason=reason)
        return await session.patiently(opened, act)

    try:
        found = session.on_store(session.url_of(store), work)
    except ManifestBlocked as error:
        if as_json:
            blockers = [msgspec.to_builtins(each) for each in error.blockers]
            output.emit({"error": {"code": error.code, "message": str(error)}, "blockers": blockers})
        else:
            output.note(f"error: proposal {proposal} cannot be applied, and nothing was changed:")
            for each in error.blockers:
                output.note(f"  {each}")
        return exits.code_for(ManifestBlocked)
    _write_proposal(found, as_json)
    return exits.GOOD


@click.command()
@click.argument("machine")
@_needed_app
@click.option("--dry-run", is_flag=True, required=True, help="Say what each state becomes, and change nothing.")
@options.tenant
@options.store
def migrate(machine: str, app: str, dry_run: bool, tenant: str, store: str | None, as_json: bool) -> int:
    """Say what the state of every cell becomes when the code reads it, or why not. Exit 1 where one cannot be read.

    A cell is migrated with its next event, so there is only the dry run.
    """
    engine = load_app(app)

    async def work(opened: Holdfast) -> MigrationReport:
        return await opened.machines.migrate(machine, dry_run=dry_run, tenant=tenant)

    found = session.on_store(session.url_of(store, engine), work, app=engine)
    if as_json:
        output.emit(_plain(found))
    else:
        output.say(
            f"machine {found.machine}, version {found.version}: {found.unchanged:,} cells unchanged, "
            f"{found.migrated:,} migrated, {found.failed:,} cannot be read"
        )
        for each in found.cells:
            result = each.problem or f"{each.before!r} becomes {each.after!r}"
            output.say(f"  {each.key!r}, version {each.version}: {output.one_line(result)}")
    return exits.NO if found.failed else exits.GOOD


@click.command()
@click.argument("file", type=click.File(encoding="utf-8"))
@_app
@options.as_json
def check(file: Any, app: str | None, as_json: bool) -> int:
    """Check a manifest written as YAML or JSON. With --app it may name the machines of that code."""
    declared = None
    if app is not None:
        load_app(app)
        from holdfast.programs.machine.kind import Machines

        declared = Machines().board.declared
    try:
        found = read_manifest(file.read(), declared, file=file.name)
    except InvalidManifest as error:
        if as_json:
            faults = [str(fault) for fault in error.faults]
            output.emit({"file": file.name, "valid": False, "faults": faults or [str(error)]})
        else:
            output.say(str(error))
        return exits.NO
    digest = manifest_digest(found)
    if as_json:
        output.emit({"file": file.name, "valid": True, "digest": digest})
    else:
        output.say(f"{file.name} is a manifest of {len(found.machines)} machines: {digest}")
    return exits.GOOD


def _write_proposal(info: ProposalInfo, as_json: bool) -> None:
    if as_json:
        output.emit(_plain(info))
        return
    output.say(f"proposal {info.id} is {info.status}: manifest {info.digest}")
    for change in info.changes:
        output.say(f"  {_change(change)}")


def _change(change: MachineChange) -> str:
    parts = f" ({', '.join(change.parts)})" if change.parts else ""
    return f"{change.machine} is {change.kind}{parts}"


def _plain(record: msgspec.Struct) -> dict[str, Any]:
    """What ``--json`` writes: bytes and times as JSON has them."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(record))
    return plain


COMMANDS: Final = (manifest, proposals, propose, shadow, approve, reject, apply, migrate, check)
