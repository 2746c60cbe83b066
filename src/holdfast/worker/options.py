"""How a worker behaves. It stands apart from the worker: an engine that only reads has options, and loads no worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidRequest


class WorkerOptions(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How a worker behaves. The defaults suit most."""

    capacity: int = 1000  # runs leased at once
    step_limit: int = 1000  # steps under way at once
    payload_limit_bytes: int = 256 * 1024 * 1024  # large arguments and results of steps under way
    threads: int = 32  # for plain functions
    warm_limit: int = 64  # waiting runs kept in memory
    lease_seconds: float = 15.0  # how long a silent worker keeps its leases
    retention_days: float | None = 30.0  # how long ended runs are kept; None for ever
    grace_seconds: float = 10.0  # how long a stop waits for steps to end
    crash_limit: int = 50  # leases lost in a row before a run is parked as poison
    turn_limit_seconds: float = 2.0  # when a blocking workflow body is reported
    checkpoint_events: int = 100  # how many events a program that gives checkpoints may go on without one
    cached_cells: int = 4096  # cells of machines kept in memory, over all lanes; 0 keeps none
    cached_cell_bytes: int = 64 * 1024 * 1024  # how many bytes they may take; what was used longest ago leaves
    evidence: bool = True  # whether this worker makes the evidence of governed runs that have ended
    schedules: bool = True  # whether this worker starts the runs of schedules that are due
    declared_schedules: bool = True  # whether it makes the schedules that workflows and definitions declare
    webhooks: bool = True  # whether this worker sends what subscriptions are told
    executor_keys: Mapping[str, str] | None = None  # files of the private keys of executors, by the executor's name
    queues: Mapping[str, int] | None = None  # queues served and their concurrency; None serves those the steps declare

    def __post_init__(self) -> None:
        """Refuse what no worker could work by. Raises InvalidRequest."""
        for name, least in _LEAST.items():
            value = getattr(self, name)
            whole = name in _WHOLE
            if value is None and name == "retention_days":
                continue
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not value >= least:
                kind = "a whole number" if whole else "a number"
                raise InvalidRequest(f"WorkerOptions: {name} is {kind}, {least:g} or more, not {value!r}")
        keys: Mapping[Any, Any] = self.executor_keys or {}
        for executor, file in keys.items():
            if not isinstance(executor, str) or not isinstance(file, str):
                raise InvalidRequest(f"WorkerOptions: executor_keys gives each executor a file, not {file!r:.60}")
        given: Mapping[Any, Any] = self.queues or {}
        for queue, limit in given.items():
            if not isinstance(queue, str) or isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
                raise InvalidRequest(
                    f"WorkerOptions: queues gives each queue 1 or more places, not {queue!r}: {limit!r}"
                )


_LEAST: Final = {
    "capacity": 1,
    "step_limit": 1,
    "payload_limit_bytes": 1,
    "threads": 1,
    "warm_limit": 0,
    "lease_seconds": 0.001,
    "retention_days": 0,
    "grace_seconds": 0,
    "crash_limit": 1,
    "turn_limit_seconds": 0.001,
    "checkpoint_events": 1,
    "cached_cells": 0,
    "cached_cell_bytes": 0,
}
_WHOLE: Final = frozenset(
    {
        "capacity",
        "step_limit",
        "payload_limit_bytes",
        "threads",
        "warm_limit",
        "crash_limit",
        "checkpoint_events",
        "cached_cells",
        "cached_cell_bytes",
    }
)
