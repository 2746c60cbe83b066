"""Several workers on one store, each with machines and queues of its own; they can be killed."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from holdfast import Holdfast, Policy, WorkerOptions
from holdfast.programs.machine.kind import Machines
from holdfast.programs.machine.machine import Machine
from holdfast.worker.presence.heart import LoopPulse
from tests.unit.worker.ground import FREE, OPTIONS, VIRTUAL_LEASE_SECONDS, Ground, Line, line_of

PLAIN = replace(OPTIONS, lease_seconds=VIRTUAL_LEASE_SECONDS)

_seeds = itertools.count(1)


@asynccontextmanager
async def worker_with(
    ground: Ground,
    machines: Iterable[Machine[Any]] = (),
    *,
    options: WorkerOptions = PLAIN,
    policy: Policy = FREE,
    **more: Any,
) -> AsyncIterator[Holdfast]:
    """A worker that has these machines and no other."""
    app = Holdfast(
        Line(ground.store),  # type: ignore[arg-type]  # every operation is forwarded by name
        clock=ground.clock,
        entropy=random.Random(next(_seeds)),
        pulse=LoopPulse,
        options=options,
        policy=policy,
        **more,
    )
    app.machine_kind = Machines({each.name: each for each in machines})
    await app.open()
    try:
        yield app
    finally:
        if not line_of(app).dead:
            await app.close(0)
        elif not ground.is_virtual and app.worker is not None:
            await ground.store.beat(app.worker.id, 0.0)  # nobody has to wait until its lease is over


async def look_soon(*apps: Holdfast) -> None:
    """Let workers look at their store, which has no hints for those that share it in one process."""
    for app in apps:
        app.hint()
    await apps[0].changed(0.1)
