"""Runs that workers hand over because their code does not fit the journal."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.store.memory.tables import Tables


def decline(tables: Tables, worker: str, key: p.Key, epoch: int, declined: p.Declined, alive_after: int) -> bool:
    """Release the run for others. False, and nothing done, where no other worker may fit."""
    run = tables.runs.get(key)
    if run is None or (run.owner, run.epoch) != (worker, epoch):
        return True
    if not fitting(tables, run, alive_after) - {worker}:
        return False
    tables.declined.setdefault(key, {})[worker] = run.generation, declined
    tables.put(replace(run, owner=None, epoch=run.epoch + 1, ready_at=declined.at))
    return True


def fitting(tables: Tables, run: p.Run, alive_after: int) -> set[str]:
    """The workers that serve the run's workflow and have not declined it."""
    return {
        worker.id
        for worker in tables.workers.values()
        if worker.serves.takes(run.program_kind, run.workflow)
        and worker.expires_at >= alive_after
        and not has_declined(tables, run, worker.id)
    }


def has_declined(tables: Tables, run: p.Run, worker: str) -> bool:
    generation, _ = tables.declined.get(run.key, {}).get(worker, (None, None))
    return generation == run.generation


def declined(tables: Tables, run: p.Run) -> list[p.Declined]:
    found = [each for generation, each in tables.declined.get(run.key, {}).values() if generation == run.generation]
    return sorted(found, key=lambda each: (each.at, each.worker))


def forget_forsaken(tables: Tables, alive_after: int) -> bool:
    """Offer the runs that every living worker has declined once more; gives whether there was one."""
    forsaken = [
        key for key in tables.declined if key not in tables.runs or not fitting(tables, tables.runs[key], alive_after)
    ]
    for key in forsaken:
        del tables.declined[key]
    return bool(forsaken)


def forget_worker(tables: Tables, worker: str) -> None:
    for declining in tables.declined.values():
        declining.pop(worker, None)
