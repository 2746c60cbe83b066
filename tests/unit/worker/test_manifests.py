"""Manifests in whole engines: what is in force, who may run a lane, and how another manifest is put in force."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast import Holdfast
from holdfast.audit import records as r
from holdfast.errors import (
    InvalidManifest,
    InvalidRequest,
    ManifestBlocked,
    NotPermitted,
    ProposalConflict,
    ProposalNotFound,
)
from holdfast.programs.machine.declarations import declare
from holdfast.programs.machine.manifest import manifest_digest
from holdfast.runs.lanes import HELD, WAITS
from holdfast.store import protocol as p
from tests.unit.worker.governed_machines import (
    KIND,
    ONE,
    THREE,
    TWO,
    Cancelled,
    Placed,
    charge,
    governed,
    handled,
    lanes,
    order,
    pay,
    paying,
    paying_anew,
    renaming,
    second,
    shop,
    stage,
    till,
    waiting,
)
from tests.unit.worker.ground import Ground, asking, notes


@pytest.fixture(autouse=True)
def fresh_till() -> None:
    till.charged.clear()
    till.open()


async def parked(app: Holdfast) -> list[str]:
    """Wait until a lane is parked because of the manifest: the reasons."""
    while True:
        reasons = [run.pause or "" for run in await lanes(app)]
        if found := [each for each in reasons if each.startswith(WAITS)]:
            return found
        await app.changed(0.1)


def test_what_code_declares_is_in_force_until_a_manifest_is_applied(virtual: Ground) -> None:
    """The first lane that is run records it, by digest, with a note; other code takes its place with its first lane."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app:
            assert (await app.machines.manifest()).source == "none"
            await app.emit(Placed("a", 500))
            await handled(app)
            found = await app.machines.manifest()
            assert (found.source, found.digest, found.misfits) == ("declared", found.declared, {})
        async with shop(ground, TWO) as app:
            assert "code" in (await app.machines.manifest()).misfits[KIND]
            await app.emit(Placed("b", 5))
            await handled(app)
            assert await stage(app, "b") == "free"
            found = await app.machines.manifest()
            assert (found.digest, found.misfits) == (found.declared, {})
            adopted = [each for each in await notes(app, r.Operated) if each.act == "adopt_manifest"]
            assert [each.details["manifest"] for each in adopted][-1] == found.digest
            assert len(adopted) == 2

    virtual.play(main)


def test_code_that_dropped_an_effect_in_flight_does_not_run_the_machine(virtual: Ground) -> None:
    """Nobody could read the receipt: the lane waits with that reason, until the effect has settled."""

    async def main(ground: Ground) -> None:
        till.close("a")
        async with shop(ground) as app:
            await app.emit(Placed("a", 500))
            while not till.charged:
                await app.changed(0.1)
        async with shop(ground, THREE) as app:
            await app.emit(Cancelled("a"))
            (reason,) = await parked(app)
            assert "no longer declares governed.charge, and 1 calls of it are in flight" in reason
            till.open()
        async with shop(ground) as app:
            await handled(app)
            assert (await app.cell(KIND, "a").record()).status == "completed"  # type: ignore[union-attr]
        async with shop(ground, THREE) as app:
            await app.emit(Placed("b", 5))
            await handled(app)
            assert await stage(app, "b") == "free"

    virtual.play(main)


def test_a_proposal_is_shadowed_approved_and_applied(ground: Ground) -> None:
    """Each act has its note in the audit, and the applied record names the new manifest's digest."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app:
            await app.emit(Placed("a", 500))
            await handled(app)
            before = (await app.machines.manifest()).digest
        async with shop(ground, TWO, worker=False) as app:
            made = await app.machines.propose(notes="tell customers", by="ada")
            (change,) = made.changes
            assert (made.status, made.base, made.author, made.notes) == ("proposed", before, "ada", "tell customers")
            assert (change.kind, change.allowed, change.forbidden) == ("changed", ("governed.notify",), ())
            assert "hash" in change.parts
            assert (await app.machines.shadow(made.id)).status == "shadowed"
            assert (await app.machines.approve(made.id, by="grace")).approver == "grace"
            applied = await app.machines.apply(made.id, by="grace", reason="as agreed")
            assert applied.status == "applied"
            found = await app.machines.manifest()
            assert (found.source, found.digest, found.proposal) == ("applied", made.digest, made.id)
            acts = {each.act: each for each in await notes(app, r.Operated)}
            assert acts["apply_manifest"].details["manifest"] == made.digest
            assert (acts["apply_manifest"].who, acts["apply_manifest"].reason) == ("grace", "as agreed")
            assert {"propose_manifest", "shadow_manifest", "approve_manifest"} <= set(acts)
            assert [run.pause for run in await lanes(app)] == [None] * len(await lanes(app))
        async with shop(ground, TWO) as app:
            await app.emit(Placed("b", 5))
            await handled(app)
            assert await stage(app, "b") == "free"

    ground.play(main)


def test_what_is_not_approved_is_not_applied(virtual: Ground) -> None:
    """The status says what may be done next; a rejection is recorded, and final."""

    async def main(ground: Ground) -> None:
        async with shop(ground, worker=False) as app:
            made = await app.machines.propose()
            with pytest.raises(ProposalConflict, match="is proposed: shadow it first"):
                await app.machines.approve(made.id)
            with pytest.raises(ProposalConflict, match="is proposed"):
                await app.machines.apply(made.id)
            await app.machines.shadow(made.id)
            with pytest.raises(ProposalConflict, match="is shadowed: approve it first"):
                await app.machines.apply(made.id)
            rejected = await app.machines.reject(made.id, by="grace", reason="not now")
            assert (rejected.status, rejected.reason) == ("rejected", "not now")
            with pytest.raises(ProposalConflict, match="is rejected: propose it again"):
                await app.machines.approve(made.id)
            with pytest.raises(ProposalNotFound, match="holdfast machines proposals"):
                await app.machines.apply("missing")
            assert [each.status async for each in app.machines.proposals(status="rejected")] == ["rejected"]

    virtual.play(main)


def test_equal_proposals_do_not_collide(virtual: Ground) -> None:
    """Two people propose the same: both proposals are there, and when one is applied the other one is outdated."""

    async def main(ground: Ground) -> None:
        async with shop(ground, worker=False) as app:
            mine, yours = await app.machines.propose(by="ada"), await app.machines.propose(by="grace")
            assert mine.id != yours.id
            assert mine.digest == yours.digest
            for each in (mine, yours):
                await app.machines.shadow(each.id)
                await app.machines.approve(each.id)
            await app.machines.apply(mine.id)
            with pytest.raises(ProposalConflict, match="propose it again"):
                await app.machines.apply(yours.id)

    virtual.play(main)


def test_where_a_tenant_has_users_another_one_than_the_author_approves(ground: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, worker=False) as app:
            await app.tenants.create("default")
            await app.users.create("ada", level=6)
            await app.users.create("grace", level=5)
            await app.users.create("bob", level=4)
            ada, grace, bob = (app.acting_as(name, tenant="default") for name in ("ada", "grace", "bob"))
            made = await ada.machines.propose()
            await ada.machines.shadow(made.id)
            with pytest.raises(ProposalConflict, match="ada's own: another person must approve it"):
                await ada.machines.approve(made.id)
            with pytest.raises(InvalidRequest, match="say who approves"):
                await app.machines.approve(made.id)
            with pytest.raises(NotPermitted):
                await bob.machines.approve(made.id)
            assert (await grace.machines.approve(made.id)).approver == "grace"
            assert (await ada.machines.apply(made.id)).status == "applied"
            assert (await bob.machines.manifest()).source == "applied"

    ground.play(main)


def test_an_effect_in_flight_blocks_and_what_has_settled_does_not(ground: Ground) -> None:
    """It is named exactly; nothing is changed meanwhile, and nothing is abandoned."""

    async def main(ground: Ground) -> None:
        till.close("a")
        async with shop(ground) as app, shop(ground, TWO, worker=False) as other:
            await app.emit(Placed("a", 500))
            while not till.charged:
                await app.changed(0.1)
            proposal = await governed(other)
            with pytest.raises(ManifestBlocked, match=r"1 effects are in flight: .* for cell 'a'") as found:
                await other.machines.apply(proposal)
            (blocker,) = found.value.blockers
            assert (blocker.kind, blocker.key, blocker.effect) == ("effect", "a", "governed.charge")  # type: ignore[attr-defined]
            assert (await other.machines.proposal(proposal)).status == "approved"
            assert (await other.machines.manifest()).source == "declared"
            assert not any((run.pause or "").startswith(HELD) for run in await lanes(app))
            till.open()
            await handled(app)
            assert await stage(app, "a") == "paid"
            await other.machines.apply(proposal)
            assert (await other.machines.manifest()).source == "applied"

    ground.play(main)


def test_queued_events_block(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, worker=False) as app:
            await app.emit(Placed("a", 500))
            await app.emit(Placed("a", 600))
            proposal = await governed(app)
            with pytest.raises(ManifestBlocked, match=r"2 events are queued: 2 events wait in lane \d"):
                await app.machines.apply(proposal)
        async with shop(ground) as app:
            await handled(app)
            made = await governed(app)
            assert (await app.machines.apply(made)).status == "applied"

    virtual.play(main)


def test_strictly_any_cell_that_has_not_ended_blocks(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, order(waiting, ())) as app, shop(ground, TWO, worker=False) as other:
            await app.emit(Placed("a", 500))
            await app.emit(Placed("b", 500))
            await handled(app)
            proposal = await governed(other)
            with pytest.raises(ManifestBlocked, match=r"2 cells have not ended: cell '[ab]' of"):
                await other.machines.apply(proposal, strict=True)
            await app.emit(Cancelled("a"))
            await app.emit(Cancelled("b"))
            await handled(app)
            assert (await other.machines.apply(proposal, strict=True)).status == "applied"

    virtual.play(main)


def test_only_workers_with_the_code_in_force_run_lanes(virtual: Ground) -> None:
    """Events wait, with the reason, and are handled when a worker with that code comes."""

    async def main(ground: Ground) -> None:
        async with shop(ground, worker=False) as app:
            await app.machines.apply(await governed(app))
        async with shop(ground, TWO) as app:
            await app.emit(Placed("a", 500))
            (reason,) = await parked(app)
            assert "machine governed.order has another code in the manifest in force" in reason
            assert till.charged == []
            assert await stage(app, "a") is None
        async with shop(ground) as app:
            await handled(app)
            assert await stage(app, "a") == "paid"

    virtual.play(main)


def test_governed_engines_run_nothing_before_a_manifest_is_applied(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        async with shop(ground, manifests="governed") as app:
            await app.emit(Placed("a", 500))
            (reason,) = await parked(app)
            assert "no manifest was applied in tenant 'default'" in reason
            proposal = await governed(app)
            await app.machines.apply(proposal)  # what waits in such lanes is what it is to mend
            await handled(app)
            assert await stage(app, "a") == "paid"

    virtual.play(main)


def test_an_unknown_mode_of_manifests_is_refused() -> None:
    app = Holdfast("memory://", manifests="loose")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="declared, governed"):
        _ = app.machine_kind


def test_an_effect_that_the_manifest_does_not_allow_parks_the_cell(virtual: Ground) -> None:
    """A manifest may allow less than the code declares."""

    async def main(ground: Ground) -> None:
        async with shop(ground, TWO) as app:
            declared = app.machine_kind.board.declared
            (entry,) = declared.machines
            narrowed = replace(declared, machines=(replace(entry, effects=("governed.charge",)),))
            made = await app.machines.propose(narrowed)
            await app.machines.shadow(made.id)
            await app.machines.approve(made.id)
            await app.machines.apply(made.id)
            await app.emit(Placed("small", 5))
            await app.emit(Placed("large", 500))
            record = await app.cell(KIND, "large").record()
            while record is None:
                await app.changed(0.1)
                record = await app.cell(KIND, "large").record()
            assert record.status == "parked"
            assert "asks for governed.notify, which the manifest in force does not allow it" in record.reason
            assert till.charged == []

    virtual.play(main)


def test_a_call_that_waits_for_approval_does_not_block(virtual: Ground) -> None:
    """Its effect is the same in both manifests: whoever approves it later settles it for the new code."""
    old, new = order(paying, (pay,)), order(paying_anew, (pay,))

    async def main(ground: Ground) -> None:
        async with shop(ground, old, policy=asking()) as app:
            await app.emit(Placed("a", 500))
            while not (tasks := await app.store.tasks(p.TaskQuery(None, "requested"), 10)):
                await app.changed(0.1)
            async with shop(ground, new, worker=False) as other:
                await other.machines.apply(await governed(other))
        async with shop(ground, new, policy=asking()) as app:
            await app.tasks.approve(tasks[0].id, by="grace")
            await handled(app)
            assert await stage(app, "a") == "new"
            assert till.charged == ["a"]

    virtual.play(main)


def test_a_manifest_is_proposed_from_a_file(virtual: Ground, tmp_path: Path) -> None:
    """What code declares is named in it; all that is wrong is said."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(
        "machines: [governed.order]\n"
        "subscriptions:\n"
        f"  - {{event: {_placed()}, machine: governed.order, key_field: order_id}}\n"
    )
    bad.write_text("machines: [governed.odrer]\n")

    async def main(ground: Ground) -> None:
        async with shop(ground) as app:
            made = await app.machines.propose(good)
            with pytest.raises(InvalidManifest, match=r"governed.odrer"):
                await app.machines.propose(str(bad))
            with pytest.raises(InvalidManifest, match="cannot be read"):
                await app.machines.propose(tmp_path / "missing.yaml")
            await app.machines.shadow(made.id)
            await app.machines.approve(made.id)
            await app.machines.apply(made.id)
            sent = await app.emit(Placed("a", 500))
            assert sent.heard
            ignored = await app.emit(Cancelled("a"))  # the manifest routes it to nobody
            assert not ignored.heard
            await handled(app)
            assert await stage(app, "a") == "paid"

    virtual.play(main)


def _placed() -> str:
    return next(name for name in ONE.events if "Placed" in name)


def test_a_shadow_reports_what_differs(ground: Ground) -> None:
    """Effects, pending receipts, statuses, allowlists and states; and what it could not see."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app, shop(ground, TWO, worker=False) as other:
            await app.emit(Placed("large", 500))
            await app.emit(Placed("small", 5))
            await app.emit(Placed("gone", 500))
            await handled(app)
            await app.emit(Cancelled("gone"))
            await handled(app)
            charged = list(till.charged)
            made = await other.machines.propose()
            report = (await other.machines.shadow(made.id)).shadow
            assert report is not None
            (seen,) = report.machines
            assert not report.agrees
            assert (seen.machine, seen.allowed, seen.events, seen.cells) == (KIND, ("governed.notify",), 4, 3)
            charge_tally, notify_tally = seen.effects["governed.charge"], seen.effects["governed.notify"]
            assert (charge_tally.recorded, charge_tally.shadow, charge_tally.same) == (3, 2, 2)
            assert (notify_tally.recorded, notify_tally.shadow, notify_tally.pending) == (0, 2, 2)
            assert seen.statuses == {"running": 2, "completed": 1} == seen.shadow_statuses
            deltas = {each.key: (each.recorded, each.shadow) for each in seen.deltas}
            assert deltas["small"] == ({"stage": "paid"}, {"stage": "free"})
            assert deltas["large"] == ({"stage": "paid"}, {"stage": "settled"})
            assert seen.different == 3
            assert "4 recorded events of 3 cells" in report.bounds
            assert "never came" in report.bounds
            assert till.charged == charged  # nothing was done
            (own,) = [each async for each in other.machines.proposals()]
            assert own.shadow == report

    ground.play(main)


def test_a_shadow_of_which_only_the_states_differ_does_not_agree(virtual: Ground) -> None:
    """It asked for the same effects at the same events, and left other states behind."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app, shop(ground, order(renaming), worker=False) as other:
            await app.emit(Placed("large", 500))
            await handled(app)
            report = (await other.machines.shadow((await other.machines.propose()).id)).shadow
            assert report is not None
            (seen,) = report.machines
            tally = seen.effects["governed.charge"]
            assert (tally.recorded, tally.shadow, tally.same) == (1, 1, 1)
            assert (seen.failures, seen.unreadable, seen.statuses) == ({}, {}, seen.shadow_statuses)
            (delta,) = seen.deltas
            assert (delta.recorded, delta.shadow) == ({"stage": "paid"}, {"stage": "settled"})
            assert seen.different == 1
            assert not seen.agrees
            assert not report.agrees

    virtual.play(main)


def test_a_shadow_of_the_same_code_agrees(virtual: Ground) -> None:
    async def main(ground: Ground) -> None:
        same = order(second, (charge,))
        async with shop(ground, worker=False) as app:
            await app.machines.apply(await governed(app))
        async with shop(ground) as app:
            for number in range(5):
                await app.emit(Placed(f"o{number}", 500))
            await app.emit(Cancelled("o1"))
            await handled(app)
            declared = app.machine_kind.board.declared
            (entry,) = declared.machines
            limits = replace(entry.limits, effects=3)
            made = await app.machines.propose(replace(declared, machines=(replace(entry, limits=limits),)))
            report = (await app.machines.shadow(made.id)).shadow
            assert report is not None
            assert report.agrees, report
            assert report.machines[0].events == 6
        async with shop(ground, same, worker=False) as app:
            blind = (await app.machines.shadow(made.id)).shadow
            assert blind is not None
            assert "another code in the manifest proposed" in blind.machines[0].unseen[0]

    virtual.play(main)


def test_a_migration_is_tried_before_it_is_done(virtual: Ground) -> None:
    """What every older state becomes, or why not. Nothing is written until the cell's next event."""

    async def main(ground: Ground) -> None:
        async with shop(ground) as app:
            await app.emit(Placed("good", 500))
            await app.emit(Placed("debt", -1))
            await handled(app)
        async with shop(ground, THREE) as app:
            before = await app.cell(KIND, "good").record()
            report = await app.machines.migrate(KIND)
            assert (report.versions, report.unchanged, report.migrated, report.failed) == ({1: 2}, 0, 1, 1)
            bad, good = report.cells
            assert (bad.key, bad.problem) == ("debt", "ValueError: a debt cannot be migrated")
            assert (good.key, good.after) == ("good", {"stage": "paid", "cents": 500, "currency": "EUR"})
            assert await app.cell(KIND, "good").record() == before
            with pytest.raises(InvalidRequest, match="only a dry run"):
                await app.machines.migrate(KIND, dry_run=False)
            made = await app.machines.propose()
            report_of_shadow = (await app.machines.shadow(made.id)).shadow
            assert report_of_shadow is not None
            assert report_of_shadow.machines[0].unreadable == {"debt": "ValueError: a debt cannot be migrated"}

    virtual.play(main)


def test_manifests_have_one_digest_for_one_content() -> None:
    """So two processes with the same code propose the same."""
    mine, yours = (declare([each.declaration]).manifest for each in (ONE, order()))
    assert manifest_digest(mine) == manifest_digest(yours)
