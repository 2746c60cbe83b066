"""Plays seeds, and tells the story of one that breaks a law."""

from __future__ import annotations

from collections import Counter

from holdfast.testing.virtual import Stuck
from tests.laws.acts.laws import judge
from tests.laws.acts.life import Life, Violation
from tests.laws.acts.world import worlds
from tests.unit.worker.ground import Ground


class Broken(Exception):
    """A seed that breaks a law, with its story."""

    def __init__(self, seed: int, violation: Violation, story: list[str]) -> None:
        super().__init__("\n".join([f"seed {seed}: {violation}", *story]))
        self.seed = seed
        self.violation = violation


def play(seed: int) -> Counter[str]:
    """Play one seed, and give what was reached. Raises Broken."""

    async def main(ground: Ground) -> Counter[str]:
        life = Life(ground, seed)
        await life.play()
        await judge(life)
        await life.close()
        return life.reached

    try:
        return Ground(None).play(main)
    except Violation as violation:
        raise Broken(seed, violation, worlds[-1].story) from None
    except (Stuck, TimeoutError) as error:
        raise Broken(seed, Violation("no end", repr(error)), worlds[-1].story) from error
    except Exception as error:
        raise Broken(seed, Violation(f"an error: {type(error).__name__}", repr(error)), worlds[-1].story) from error
