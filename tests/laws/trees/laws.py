"""The laws, judged when every run has ended, by what the world has noted."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import combinations

import msgspec

from holdfast.client.views.runs import RunInfo
from holdfast.journal.events import ExecutionStarted
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.values import decode
from holdfast.runs.segments import unseal
from holdfast.store import protocol as p
from holdfast.testing.virtual import EPOCH_MICROSECONDS
from tests.laws.acts.life import Violation
from tests.laws.trees.grow import nested
from tests.laws.trees.life import Life
from tests.laws.trees.plant import ACTS, FLOW, Op, tree

LEFT = "left before they had ended: "
SOON = 1.0
"""What is recorded is recorded within this time, where no engine dies or is stopped."""


class Lived(msgspec.Struct, frozen=True):
    """A run that has ended: its row, its program, the acts that it calls, and its children."""

    run: RunInfo
    label: str
    ops: tuple[Op, ...]
    acts: tuple[str, ...]
    ending: str
    children: tuple[Lived, ...] = ()

    @property
    def ended(self) -> float:
        return _seconds(self.run.ended_at)


async def judge(life: Life) -> None:
    """Raises Violation for the first law that is broken."""
    found = [await _lived(life, run) for run in await life.runs()]
    for each in found:
        run = each.run
        lived = msgspec.structs.replace(each, children=tuple(child for child in found if child.run.parent == run.id))
        life.reached[f"level {run.id.count('~')} is {run.status}"] += 1
        _judge_acts(life, lived)
        if run.status == "completed":
            await _judge_kept(life, lived)
            _judge_return(life, lived)
        else:
            _judge_undone(life, lived)
            _judge_wait(life, lived)
        check = await life.app.run(run.id, tenant=life.tenant).verify()
        if not check.good:
            raise Violation("a journal", f"{run.id}: {check.problem}")
    audit = await life.app.audit.verify(tenant=life.tenant)
    if broken := [claim.text for claim in audit.claims if claim.state == "broken"]:
        raise Violation("the audit", "; ".join(broken))


async def _lived(life: Life, run: RunInfo) -> Lived:
    key = p.Key(life.tenant, run.id)
    loaded = (await life.app.store.load([key], whole=True))[key]
    (row,) = await life.app.store.get([key])
    events = [entry.event for entry in unseal(loaded.segments, PromiseId(row.root), loaded.blobs)]
    started, ending = events[0], str(events[-1])
    assert isinstance(started, ExecutionStarted)
    if run.workflow == FLOW["name"]:
        act = decode(started.input)[0][0]["label"]
        return Lived(run, act, (), (act,), ending)
    (label, ops), _ = tree.signature.accept(started.input)
    acts = tuple(op.label for op in nested(ops) if op.do in ACTS)
    return Lived(run, label, ops, acts, ending)


def _judge_acts(life: Life, lived: Lived) -> None:
    """Done once, but where an engine died in between; undone once; by its own run."""
    world = life.world
    for act in lived.acts:
        done, undone = world.done[act], world.undone[act]
        if {each.run for each in (*done, *undone)} - {lived.run.id}:
            raise Violation("a run does another's act", f"{lived.run.id}: {act}: {done} {undone}")
        if len({each.key for each in done}) > 1 or any(_is_sure(life, each.ended) for each in done[:-1]):
            raise Violation("done twice", f"{lived.run.id}: {act}")
        if len({each.key for each in undone}) > 1 or any(_is_sure(life, each.ended) for each in undone[:-1]):
            raise Violation("undone twice", f"{lived.run.id}: {act}")
        if act in world.undoing and not done:
            raise Violation("undone, and never done", f"{lived.run.id}: {act}")


async def _judge_kept(life: Life, lived: Lived) -> None:
    """What a completed run relies on was done, and stays. What it gave up was taken back."""
    relied = await life.app.run(lived.run.id, tenant=life.tenant).result()
    for act in lived.acts:
        done, undoing = life.world.done[act], act in life.world.undoing
        if act in relied and (undoing or not done):
            raise Violation("a completed run relies on what is not there", f"{lived.run.id}: {act}")
        if act not in relied:
            _judge_taken_back(life, lived, act)
        life.reached[f"{'kept' if act in relied else 'given up'}, {'undone' if undoing else 'not undone'}"] += 1


def _judge_undone(life: Life, lived: Lived) -> None:
    """A run that failed or was cancelled takes back what it did, newest first."""
    world = life.world
    for act in lived.acts:
        _judge_taken_back(life, lived, act)
    known = [act for act in lived.acts if act in world.undoing and len(world.done[act]) == 1 and act not in world.asked]
    sure = [act for act in known if _is_sure(life, world.done[act][0].ended)]
    for one, other in combinations(sure, 2):
        first, last = sorted((one, other), key=lambda act: world.done[act][0].ended)
        apart = world.done[last][0].ended - world.done[first][0].ended
        if apart > 0.01 and world.undoing[last] > world.undoing[first]:
            raise Violation("an older act was undone first", f"{lived.run.id}: {first} before {last}")
        life.reached["two acts were undone in order"] += apart > 0.01


def _judge_taken_back(life: Life, lived: Lived, act: str) -> None:
    world = life.world
    is_done = any(_is_sure(life, each.ended) for each in world.done[act])
    if is_done and not world.undone[act] and act not in world.kept_by_people:
        raise Violation("done and not undone", f"{lived.run.id}, {lived.run.status}: {act}; {lived.run.error}")


def _judge_wait(life: Life, lived: Lived) -> None:
    """The first undo begins after the last child has ended, but for those that the run's end names as left."""
    undoing = [life.world.undoing[act] for act in lived.acts if act in life.world.undoing]
    left = lived.ending.partition(LEFT)[2]
    for child in lived.children:
        is_late = child.ended > min(undoing, default=lived.ended) + 0.001
        if is_late and not re.search(rf"\b{child.run.id}\b(?!~)", left):
            raise Violation("a run did not wait for its child", f"{lived.run.id}: {child.run.id}")
        life.reached["a child was left" if is_late else "a child ended before its parent's undoing"] += 1


def _judge_return(life: Life, lived: Lived) -> None:
    """A run that returns cancels its open children, and does not wait for them."""
    world = life.world
    if lived.run.workflow == FLOW["name"]:
        return
    returned = world.returned[lived.label]
    waits = any(op.do in ("limit", "gather") for op in nested(lived.ops))  # for calls that it gave up
    if not waits and lived.ended > returned + SOON and _is_sure(life, returned, lived.ended):
        raise Violation(
            "a run that returns waits", f"{lived.run.id} returned at {returned}, and ended at {lived.ended}"
        )
    for child in lived.children:
        if child.ended > lived.ended + 0.001:
            life.reached[f"a child is {child.run.status} after its parent has returned"] += 1
            if child.run.status == "completed" and world.returned.get(child.label, 0.0) > lived.ended + SOON:
                raise Violation("an open child is not cancelled", f"{child.run.id} of {lived.run.id}")


def _is_sure(life: Life, time: float, until: float | None = None) -> bool:
    """Whether no engine was killed or stopped around it."""
    return not any(time - 0.001 <= death <= (until or time) + SOON for death in life.world.deaths)


def _seconds(at: datetime | None) -> float:
    assert at is not None
    return at.timestamp() - EPOCH_MICROSECONDS / 1e6
