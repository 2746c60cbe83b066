"""Run one seed, or many: ``python -m tests.simulation.simulate SEED [STEPS] [COUNT]``.

What a seed does is told by its number: see ``is_governed`` and ``is_steered`` in ``world``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter

from holdfast.programs.function.loop import dispose_all
from holdfast.testing.virtual import VirtualLoop
from tests.simulation import broken
from tests.simulation.check import check
from tests.simulation.world import Simulation, Violation


def simulate(seed: int, steps: int = 3) -> Counter[str]:
    """Simulate one seed and check it; gives what was reached. Raises Violation, with the seed in it."""
    loop = VirtualLoop()
    simulation = Simulation(seed, steps)

    broken.noted.clear()

    async def whole() -> None:
        await simulation.run()
        if broken.noted:
            raise Violation(broken.noted[0])
        await check(simulation)

    try:
        loop.run_until_complete(whole())
        return simulation.reached + simulation.store.events
    except broken.Broken as error:
        raise _noted(Violation(str(error)), seed, steps) from None
    except BaseException as error:
        raise _noted(error, seed, steps) from None
    finally:
        _abandon(loop)


def _noted(error: BaseException, seed: int, steps: int) -> BaseException:
    error.add_note(f"seed {seed}: make sim SEED={seed} STEPS={steps}")
    return error


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """What is still going on, dead processes among it, ends with the loop, unheard."""
    loop.set_exception_handler(lambda *_: None)
    dispose_all()
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with contextlib.suppress(BaseException):  # what its cleanup raises here must not hide what has happened
            task.get_coro().close()  # type: ignore[union-attr]
    loop.close()


def main() -> None:
    seed = int(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    total: Counter[str] = Counter()
    for number in range(seed, seed + count):
        total += simulate(number, steps)
    for what, times in sorted(total.items()):
        print(f"{times:8d}  {what}")


if __name__ == "__main__":
    main()
