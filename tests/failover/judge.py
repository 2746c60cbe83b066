"""The judgement of a trial: by acknowledgements and effects, which were written down outside the engine."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from holdfast import Holdfast
from holdfast.errors import RunNotFound
from holdfast.runs.losses import losses_in
from tests.failover.app import orders, result_of
from tests.failover.load import CELLS, Load

SECONDS: Final = 90.0


class Verdict(NamedTuple):
    """What became of what was acknowledged, and of effects. ``listed`` are the losses that the engine reports."""

    acknowledged: int
    first_acknowledgement: float | None
    first_effect: float | None
    lost: int
    listed: int
    repeated: int
    wrong: tuple[str, ...]


async def judge(url: str, load: Load, effects: Path, mark: float) -> Verdict:
    """Wait until everything has ended that is there, and compare. Times count from the ``mark``."""
    async with Holdfast(url, worker=False) as app:
        listed = [loss for loss in await losses_in(app.store, app.clock.now()) if loss.kind != "answer"]
        forgone = {loss.run for loss in listed if loss.kind in ("start", "signal")}
        lost, wrong = 0, []
        async with asyncio.timeout(SECONDS):
            for number in sorted(load.of("start")):
                if not await _is_there(app, number):
                    lost += 1
                elif number in load.of("signal") and f"order-{number}" not in forgone:
                    result = await app.run(f"order-{number}").result(timeout=SECONDS)
                    wrong += [] if result == result_of(number) else [f"order {number}: {result}"]
            seen, twice = await _cells(app)
        lost += len({n for n in load.of("signal") if f"signal order-{n} go-{n}" in {_id(loss) for loss in listed}})
        lost += len(load.of("event") - seen)
        wrong += [f"handled twice: {twice}"] if twice else []
    lines = [json.loads(line) for line in effects.read_text().splitlines()]  # noqa: ASYNC240  # nothing else runs here
    begun = Counter(line["key"] for line in lines if line["phase"] == "begin")
    return Verdict(
        len(load.acknowledged),
        _first([each.at for each in load.acknowledged], mark),
        _first([line["at"] for line in lines if line["phase"] == "begin"], mark),
        lost,
        len(listed),
        sum(count - 1 for count in begun.values()),
        tuple(wrong),
    )


async def _is_there(app: Holdfast, number: int) -> bool:
    try:
        await app.run(f"order-{number}").status()
    except RunNotFound:
        return False
    return True


async def _cells(app: Holdfast) -> tuple[set[int], list[int]]:
    """The events that cells have handled, once all of their effects have ended; and those handled twice."""
    seen: list[int] = []
    for name in range(CELLS):
        while True:
            state = await app.cell(orders, f"cell {name}").state()
            if state is None or len(state.paid) >= len(state.seen):
                break
            await asyncio.sleep(0.1)
        seen += [] if state is None else state.seen
    return set(seen), [number for number, count in Counter(seen).items() if count > 1]


def _id(loss: object) -> str:
    return f"{loss.kind} {loss.run} {loss.id}"  # type: ignore[attr-defined]


def _first(times: list[float], mark: float) -> float | None:
    return min((time - mark for time in times if time > mark), default=None)
