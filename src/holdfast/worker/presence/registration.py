"""How a worker presents itself to the store: its id, the queues that it serves, and its row."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import msgspec

from holdfast.gate.effects import Performable
from holdfast.kernel.execution import Entropy
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.definition.kind import Definitions
from holdfast.runs.program_names import DEFINITION
from holdfast.store.protocol import WorkerRow
from holdfast.worker.options import WorkerOptions


def new_id(entropy: Entropy) -> str:
    """The id of a worker: where it runs, and another for each."""
    return f"{socket.gethostname()}-{os.getpid()}-{entropy.randbytes(4).hex()}"


def queues_of(steps: Mapping[str, Performable], options: WorkerOptions) -> dict[str, int]:
    """The queues that are served, each with its concurrency: as the options say, else as the steps declare."""
    if options.queues is not None:
        return dict(options.queues)
    declared: dict[str, int] = {}
    for step in steps.values():
        if step.queue is not None:
            declared[step.queue] = max(declared.get(step.queue, 0), step.concurrency or options.step_limit)
    return declared


def worker_row(id: str, catalogue: Catalogue, queues: Mapping[str, int], now: int) -> WorkerRow:
    """The worker as the store lists it."""
    serves = catalogue.serves()
    host, process = socket.gethostname(), os.getpid()
    definitions = catalogue.kind(DEFINITION, Definitions)
    row = WorkerRow(id, host, process, serves.functions, tuple(queues), now, 0, serves.kinds)
    if definitions is None:
        return row
    return msgspec.structs.replace(row, unavailable=tuple(each.brief for each in definitions.unavailable))
