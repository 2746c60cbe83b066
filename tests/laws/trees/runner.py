"""Plays seeds, and tells the story of one that breaks a law."""

from __future__ import annotations

from collections import Counter

from holdfast.testing.virtual import Stuck
from tests.laws.acts.life import Violation
from tests.laws.acts.runner import Broken
from tests.laws.trees.laws import judge
from tests.laws.trees.life import Life
from tests.laws.trees.world import worlds
from tests.unit.worker.ground import Ground, asking


def play(seed: int) -> Counter[str]:
    """Play one seed, and give what was reached. Raises Broken."""

    async def main(ground: Ground) -> Counter[str]:
        life = Life(ground, seed)
        async with ground.engine(policy=asking(), worker=False) as life.app:
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
