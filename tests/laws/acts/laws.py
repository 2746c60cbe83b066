"""The laws, judged at rest by what the world counted and by what runs say they rely on."""

from __future__ import annotations

from collections import defaultdict

from holdfast.client.views.runs import RunInfo
from holdfast.client.views.times import moment
from holdfast.programs.function.reversal import REVERSE
from tests.laws.acts.life import REPORT, Life, Violation
from tests.laws.acts.world import Act


async def judge(life: Life) -> None:
    """Raises Violation for the first law that is broken."""
    runs = await life.runs(life.app)
    relied = await _relied(life, runs)
    world = life.world
    for act in sorted({*world.done, *world.undone, *world.reversed}):
        done, undone, back = world.done[act], world.undone[act], world.reversed[act]
        counts = f"{act}: done {done}, undone {undone}, reversed {back}"
        if done > 1:
            raise Violation("done twice", counts)
        if undone + back > done:
            raise Violation("taken back twice", counts)
        if relied[act] and undone:
            raise Violation("undone although a run relies on it", f"{counts}, relied on by {sorted(relied[act])}")
        if back and (held := await _reversed_under(life, act, relied[act], runs)):
            raise Violation("reversed under a run that relies on it", f"{counts}, relied on by {held}")
        if not relied[act] and done > undone + back and not _may_stay(life, act, runs):
            raise Violation("nobody relies on it, and it stays", counts)
        life.reached[_end_of(done, undone, back, relied=bool(relied[act]))] += 1
    await _judge_store(life, runs)


def _end_of(done: int, undone: int, back: int, *, relied: bool) -> str:
    state = "undone" if undone else "reversed" if back else "done" if done else "never done"
    return f"{state}, {'relied on' if relied else 'not relied on'}"


async def _relied(life: Life, runs: list[RunInfo]) -> defaultdict[Act, set[str]]:
    """The runs that rely on each act for good: they completed with it, or declared it done."""
    relied: defaultdict[Act, set[str]] = defaultdict(set)
    for run in runs:
        if run.status == "completed" and run.workflow != REVERSE:
            for key in await life.app.run(run.id, tenant=run.tenant).result():
                relied[run.tenant, key].add(run.id)
    for act, keepers in life.world.kept.items():
        if not _is_final(life, act):  # keep_done() is about calls with an undo
            relied[act] |= keepers
    for (tenant, fork), gone in life.born_without.items():  # it inherited what was taken back already
        for key in gone:
            relied[tenant, key].discard(fork)
    return relied


async def _reversed_under(life: Life, act: Act, relying: set[str], runs: list[RunInfo]) -> list[str]:
    """The runs that had not ended when a person had the act reversed on which they rely, and said nothing of them."""
    if act in life.despite or act in life.world.perhaps_kept:
        return []
    rows = {row.id: row for row in await life.receipts(life.app, act[0])}
    by = [rows[row.reversed_by] for row in rows.values() if row.key == act[1] and row.reversed_by in rows]
    ended = {run.id: run.ended_at for run in runs if run.tenant == act[0]}
    return sorted(run for run in relying for back in by if (at := ended[run]) is None or at > moment(back.opened_at))


def _may_stay(life: Life, act: Act, runs: list[RunInfo]) -> bool:
    """Whether there is a reason why an act on which nobody relies was not taken back."""
    world = life.world
    if act in world.perhaps_kept or _is_final(life, act):
        return True
    said = {(run.tenant, run.id) for run in runs if REPORT in (run.error or "")} | life.reported
    return any((act[0], run) in said for run in world.undos_failed[act])


def _is_final(life: Life, act: Act) -> bool:
    """Whether some run calls an action for it that has no undo."""
    return (act[0], act[1].rpartition("#")[0] or act[1]) in life.world.final


async def _judge_store(life: Life, runs: list[RunInfo]) -> None:
    app = life.app
    for tenant in sorted({run.tenant for run in runs}):
        for row in await life.receipts(app, tenant):
            if (taking := (await app.store.stakes(tenant, row.id)).taking) is not None:
                raise Violation("a taking has no end", f"{tenant} {row.key} is taken by {taking}")
            life.reached[f"round {row.round}"] += row.round > 1
        found = await app.audit.verify(tenant=tenant)
        if broken := [claim.text for claim in found.claims if claim.state == "broken"]:
            raise Violation("the audit", "; ".join(broken))
    for run in runs:
        check = await app.run(run.id, tenant=run.tenant).verify()
        if not check.good:
            raise Violation("a journal", f"{run.tenant} {run.id}: {check.problem}")
