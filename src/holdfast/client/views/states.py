"""The states of runs and steps in the words of those who look at them.

A table names the state of a run, and finds the runs in it.

An execution (``run``):

=================  ====================  ======  ====
state              standing              parked  asks
=================  ====================  ======  ====
queued             queued                no
running            running, waiting      no      no
waiting_approval   running, waiting      no      yes
succeeded          completed
failed_retryable   not ended             yes
failed_terminal    failed
cancelled          cancelled
=================  ====================  ======  ====

A run that the engine parked has failed, and can be resumed once its cause is mended. A pause, or a request to cancel,
does not change the state. ``asks`` means that the run waits for a person's answer.

An instance of a template (``instance``) is cancelled from the request on:

=========  ======================  =================
state      standing                asked to cancel
=========  ======================  =================
queued     queued                  no
running    running, waiting        no
completed  completed
failed     failed
cancelled  not ended, cancelled    yes, or cancelled
=========  ======================  =================

A run of a machine (``machine``) has four states:

=========  =================
state      standing
=========  =================
running    queued, running
waiting    waiting
completed  completed
failed     failed, cancelled
=========  =================

A list finds instances and machines by ``instance:running`` and the like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, cast

import msgspec

from holdfast.client.runs.pauses import is_parked
from holdfast.store.protocol import ASKS, Query, Run, Standing

RunState = Literal[
    "queued", "running", "waiting_approval", "succeeded", "failed_retryable", "failed_terminal", "cancelled"
]
InstanceState = Literal["queued", "running", "completed", "failed", "cancelled"]
MachineState = Literal["running", "waiting", "completed", "failed"]
StepState = Literal["pending", "running", "retrying", "success", "failed", "skipped", "cancelled"]


class Condition(NamedTuple):
    """What holds for the row of a run in this state; None where it does not matter."""

    standings: tuple[Standing, ...] = ()
    parked: bool | None = None
    asks: bool | None = None
    cancelled: bool | None = None


RUN_STATES: Final[dict[RunState, Condition]] = {
    "queued": Condition(("queued",), parked=False),
    "running": Condition(("running", "waiting"), parked=False, asks=False),
    "waiting_approval": Condition(("running", "waiting"), parked=False, asks=True),
    "succeeded": Condition(("completed",)),
    "failed_retryable": Condition(("queued", "running", "waiting"), parked=True),
    "failed_terminal": Condition(("failed",)),
    "cancelled": Condition(("cancelled",)),
}
INSTANCE_STATES: Final[dict[InstanceState, Condition]] = {
    "queued": Condition(("queued",), cancelled=False),
    "running": Condition(("running", "waiting"), cancelled=False),
    "completed": Condition(("completed",)),
    "failed": Condition(("failed",)),
    "cancelled": Condition(("queued", "running", "waiting", "cancelled"), cancelled=True),
}
MACHINE_STATES: Final[dict[MachineState, Condition]] = {
    "running": Condition(("queued", "running")),
    "waiting": Condition(("waiting",)),
    "completed": Condition(("completed",)),
    "failed": Condition(("failed", "cancelled")),
}
VOCABULARIES: Final[dict[str, Mapping[str, Condition]]] = {
    "run": cast("Mapping[str, Condition]", RUN_STATES),
    "instance": cast("Mapping[str, Condition]", INSTANCE_STATES),
    "machine": cast("Mapping[str, Condition]", MACHINE_STATES),
}
STATES: Final[dict[str, Condition]] = {
    state if name == "run" else f"{name}:{state}": fits
    for name, table in VOCABULARIES.items()
    for state, fits in table.items()
}
"""All states by which a list finds runs."""

STEP_STATES: Final[dict[str, StepState]] = {
    "open": "running",
    "done": "success",
    "failed": "failed",
    "retrying": "retrying",
    "dropped": "cancelled",
}
"""What the states of items in a timeline are called for the steps of an instance. One that has no item is pending."""


def state_of(run: Run) -> RunState:
    """The state of a run as an execution: exactly one fits."""
    return next(state for state, fits in RUN_STATES.items() if _is_in(run, fits))


def states_of(run: Run) -> dict[str, str]:
    """The state of a run in each of the three vocabularies."""
    return {
        name: next(state for state, fits in table.items() if _is_in(run, fits)) for name, table in VOCABULARIES.items()
    }


def _is_in(run: Run, fits: Condition) -> bool:
    return (
        (not fits.standings or run.standing in fits.standings)
        and fits.parked in (None, is_parked(run))
        and fits.asks in (None, ASKS in (run.waiting or ""))
        and fits.cancelled in (None, run.cancelling or run.standing == "cancelled")
    )


def narrowed(query: Query, state: str | None) -> Query:
    """The query for runs in this state."""
    if state is None:
        return query
    fits = STATES[state]
    parked = query.parked if fits.parked is None else fits.parked
    return msgspec.structs.replace(
        query, standings=fits.standings, parked=parked, asks=fits.asks, cancelled=fits.cancelled
    )
