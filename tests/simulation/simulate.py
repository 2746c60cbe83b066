"""Run one seed, or many: ``python -m tests.simulation.simulate SEED [STEPS] [COUNT]``.

A seed's number decides its kind of simulation: see ``is_governed`` and ``is_steered`` in ``world``, and ``limits_of``.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter

from holdfast.programs.function.loop import dispose_all
from holdfast.testing.virtual import VirtualLoop
from tests.carried import limits_of
from tests.simulation import broken
from tests.simulation.beside import chosen_store
from tests.simulation.check import check
from tests.simulation.world import Simulation, Violation


def simulate(seed: int, steps: int = 3) -> Counter[str]:
    """Simulate one seed and check it; gives what was reached. Raises Violation, with the seed in its note."""
    loop = VirtualLoop()
    simulation = Simulation(seed, steps)

    broken.noted.clear()

    async def whole() -> None:
        await simulation.run()
        if broken.noted:
            raise Violation(broken.noted[0])
        await check(simulation)
        simulation.situations.at_rest()

    try:
        with simulation.situations.watching_closings(), limits_of(seed):
            loop.run_until_complete(whole())
        return simulation.reached + simulation.store.events + simulation.situations.reached
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
    """End whatever is still going on with the loop, dead processes included. No error of it is reported."""
    loop.set_exception_handler(lambda *_: None)
    dispose_all()
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        with contextlib.suppress(BaseException):  # an error of its cleanup must not hide the first one
            task.get_coro().close()  # type: ignore[union-attr]
    loop.close()


def main() -> None:
    seed = int(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    total: Counter[str] = Counter()
    for number in range(seed, seed + count):
        with chosen_store(number):
            total += simulate(number, steps)
    for what, times in sorted(total.items()):
        print(f"{times:8d}  {what}")


if __name__ == "__main__":
    main()
