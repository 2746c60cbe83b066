"""One seed: its program, its schedule, and, where a law is broken, the smallest program that breaks it likewise."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from holdfast.kernel.execution import Halt
from tests.carried import limits_of
from tests.laws.sagas import tree as t
from tests.laws.sagas.grow import program
from tests.laws.sagas.schedule import Schedule
from tests.laws.sagas.violation import Violation
from tests.laws.sagas.whole import Whole

SCHEDULES = 40
"""How many schedules are tried before a smaller program is believed to keep the laws."""


class Broken(msgspec.Struct):
    """A program and a schedule that break a law."""

    tree: t.Node
    seed: int
    whole: bool
    violation: Violation
    log: list[str]

    @property
    def cost(self) -> tuple[int, int]:
        return t.size(self.tree), len(self.log)

    def shown(self) -> str:
        where = "--whole " if self.whole else ""
        command = f"python -m tests.laws.sagas {where}--program '{t.written(self.tree)}' {self.seed}"
        lines = [str(self.violation), "program:", t.shown(self.tree), "schedule:", *(f"  {line}" for line in self.log)]
        return "\n".join([*lines, f"again: {command}"])


def play(tree: t.Node, seed: int, *, whole: bool = False, reached: Counter[str] | None = None) -> Broken | None:
    """Play a program by hand, or on the ``whole`` engine, as a seed says; gives what it breaks."""
    player = Whole(tree, seed) if whole else Schedule(tree, seed)
    with _quietly(), limits_of(seed):
        try:
            player.play()
        except Violation as violation:
            return Broken(tree, seed, whole, violation, player.log)
        finally:
            if reached is not None:
                reached.update(player.reached)
    return None


def digests(seeds: Iterable[int]) -> Iterator[str]:
    """A short hash of what each seed did and recorded; where it breaks a law, up to there."""
    for seed in seeds:
        schedule = Schedule(program(seed), seed)
        with _quietly(), suppress(Violation):
            schedule.play()
        yield schedule.digest()


def check(seed: int, *, whole: bool = False) -> None:
    """Judge one seed. Raises Violation, with the program, the schedule and the command in its notes."""
    broken = play(program(seed), seed, whole=whole)
    if broken is not None:
        small = shrunk(broken)
        again = f"python -m tests.laws.sagas {'--whole ' if whole else ''}{seed}"
        small.violation.add_note(f"seed {seed}: {again}\nthe smallest that was found:\n{small.shown()}")
        raise small.violation from None


def shrunk(broken: Broken) -> Broken:
    """The smallest program found that breaks a law in the same way, and its shortest schedule."""
    smaller: Broken | None = broken
    while smaller is not None:
        broken = smaller
        smaller = next((found for tree in _smaller(broken.tree) if (found := _like(broken, tree)) is not None), None)
    return min([broken, *_others(broken, broken.tree)], key=lambda found: found.cost)


def _like(broken: Broken, tree: t.Node) -> Broken | None:
    return next(_others(broken, tree), None)


def _others(broken: Broken, tree: t.Node) -> Iterator[Broken]:
    for seed in (broken.seed, *range(SCHEDULES // 5 if broken.whole else SCHEDULES)):
        found = play(tree, seed, whole=broken.whole)
        if found is not None and found.violation.kind == broken.violation.kind:
            yield found


def _smaller(node: t.Node) -> Iterator[t.Node]:
    """Programs that are one step smaller: a part in place of the whole, one part less, or a smaller part."""
    for _, part in t.parts(node):
        yield part
    for field in node.__struct_fields__:
        value: Any = getattr(node, field)
        if isinstance(value, tuple):
            for number, item in enumerate(value):
                rest = value[:number], value[number + 1 :]
                if len(value) > 1:
                    yield msgspec.structs.replace(node, **{field: rest[0] + rest[1]})
                for less in _smaller(item):
                    yield from _fitting(node, field, (*rest[0], less, *rest[1]))
        elif isinstance(value, msgspec.Struct):
            for less in _smaller(value):  # type: ignore[arg-type]  # every struct in a node is a node
                yield from _fitting(node, field, less)
    if isinstance(node, t.Do) and (node.fails or node.typed or node.key[-1] in "!?"):
        yield t.Do(node.key.rstrip("!?"), 0, node.undoable)
        yield t.Do(node.key.rstrip("!?"), node.fails, node.undoable)


def _fitting(node: t.Node, field: str, value: Any) -> Iterator[t.Node]:
    """The node with this value, if such a node may have it."""
    changed = msgspec.structs.replace(node, **{field: value})
    try:
        yield t.read(t.written(changed))
    except msgspec.ValidationError:
        return


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the error of an async generator that is thrown away with its run: it means nothing."""
    outer = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, Halt):
            outer(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = outer
