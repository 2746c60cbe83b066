"""Plays seeds both ways, compares, and tells the stories of one that breaks the law."""

from __future__ import annotations

from collections import Counter

from holdfast.testing.virtual import Stuck
from tests.laws.twins.grow import Case, case
from tests.laws.twins.life import WAYS, Life, Violation
from tests.laws.twins.world import worlds
from tests.unit.worker.ground import Ground


class Broken(Exception):
    """A seed that breaks the law, with its stories."""

    def __init__(self, seed: int, violation: Violation, story: list[str]) -> None:
        super().__init__("\n".join([f"seed {seed}: {violation}", *story]))
        self.seed = seed
        self.violation = violation


def play(seed: int) -> Counter[str]:
    """Play one seed, and give what was reached. Raises Broken."""
    found = case(seed)
    story = [f"{each.id} from {each.begins:g}, cancelled at {each.cancelled_at or 'no mark'}:" for each in found.plays]
    story = [line for each, title in zip(found.plays, story, strict=True) for line in (title, shown(each.ops))]
    reached: Counter[str] = Counter()
    lives = []
    for way in WAYS:
        story.append(f"-- as a {way}")
        try:
            lives.append(_lived(found, way))
        except Violation as violation:
            raise Broken(seed, violation, [*story, *worlds[-1].story]) from None
        except (Stuck, TimeoutError) as error:
            raise Broken(seed, Violation("no end", f"{way}: {error!r}"), [*story, *worlds[-1].story]) from error
        except Exception as error:
            kind = f"an error: {type(error).__name__}"
            raise Broken(seed, Violation(kind, f"{way}: {error!r}"), [*story, *worlds[-1].story]) from error
        story += worlds[-1].story
        reached += lives[-1].reached
    one, other = lives
    for phase, (wanted, seen) in enumerate(zip(one.seen, other.seen, strict=True)):
        for what in wanted:
            if wanted[what] != seen[what]:
                difference = f"phase {phase}: as a function {wanted[what]}, as a definition {seen[what]}"
                raise Broken(seed, Violation(f"the {what}", difference), story)
    return reached


def _lived(found: Case, way: str) -> Life:
    async def main(ground: Ground) -> Life:
        life = Life(ground, found, way)
        await life.play()
        await life.close()
        return life

    return Ground(None).play(main)


def shown(ops: object, depth: int = 1) -> str:
    """A program, a statement a line."""
    lines = []
    for op in ops:  # type: ignore[attr-defined]  # a tuple of statements
        more = f"{' ' + op.order if op.order else ''}{f' {op.seconds:g}' if op.seconds else ''}"
        lines.append(f"{'  ' * depth}{op.at} {op.do}{more}")
        lines += [shown(op.parts, depth + 1)] if op.parts else []
    return "\n".join(lines)
