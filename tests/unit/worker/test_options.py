"""Options that no worker could work by are refused where they are given."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from holdfast import Holdfast, WorkerOptions
from holdfast.errors import InvalidRequest, UnsupportedStore

WRONG: list[tuple[str, Any, str]] = [
    ("capacity", -1, "capacity is a whole number, 1 or more, not -1"),
    ("capacity", 0, "capacity is a whole number, 1 or more, not 0"),
    ("capacity", 2.5, "capacity is a whole number"),
    ("capacity", None, "capacity is a whole number"),
    ("step_limit", 0, "step_limit is a whole number, 1 or more"),
    ("step_limit", True, "step_limit is a whole number"),
    ("threads", 0, "threads is a whole number, 1 or more"),
    ("warm_limit", -1, "warm_limit is a whole number, 0 or more"),
    ("lease_seconds", 0, "lease_seconds is a number, 0.001 or more, not 0"),
    ("lease_seconds", math.nan, "lease_seconds is a number"),
    ("lease_seconds", "15", "lease_seconds is a number, 0.001 or more, not '15'"),
    ("retention_days", -1, "retention_days is a number, 0 or more"),
    ("grace_seconds", -0.5, "grace_seconds is a number, 0 or more"),
    ("crash_limit", 0, "crash_limit is a whole number, 1 or more"),
    ("checkpoint_events", 0, "checkpoint_events is a whole number, 1 or more"),
    ("cached_cells", -1, "cached_cells is a whole number, 0 or more"),
    ("payload_limit_bytes", 0, "payload_limit_bytes is a whole number, 1 or more"),
    ("cached_cell_bytes", 0.5, "cached_cell_bytes is a whole number, 0 or more"),
    ("turn_limit_seconds", 0, "turn_limit_seconds is a number"),
    ("queues", {"video": 0}, "queues gives each queue 1 or more places, not 'video': 0"),
    ("queues", {3: 3}, "queues gives each queue 1 or more places, not 3: 3"),
]


@pytest.mark.parametrize(("name", "value", "why"), WRONG)
def test_an_option_out_of_range_is_refused(name: str, value: Any, why: str) -> None:
    """Where it is given, and where the command line changes it."""
    with pytest.raises(InvalidRequest, match=why):
        WorkerOptions(**{name: value})
    with pytest.raises(InvalidRequest, match=why):
        msgspec.structs.replace(WorkerOptions(), **{name: value})


def test_options_at_their_limits_are_taken() -> None:
    """The least that works, and no end of retention."""
    WorkerOptions(capacity=1, step_limit=1, threads=1, warm_limit=0, lease_seconds=1, crash_limit=1, queues={})
    WorkerOptions(retention_days=None, grace_seconds=0, queues={"video": 1})


@pytest.mark.parametrize("url", [None, 5, b"sqlite:///x.db", object])
def test_what_names_no_store_is_refused(url: Any) -> None:
    """None comes from a setting that is missing: found here, and not at the first commit."""
    with pytest.raises(UnsupportedStore, match="names no store: give a URL"):
        Holdfast(url)


def test_options_are_worker_options() -> None:
    """A dict would be found out at the first attribute that is asked for, somewhere else."""
    with pytest.raises(InvalidRequest, match=r"options are WorkerOptions\(…\), not {'capacity': 3}"):
        Holdfast("memory://", options={"capacity": 3})  # type: ignore[arg-type]
