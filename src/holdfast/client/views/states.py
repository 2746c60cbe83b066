"""What a run's status is called where it is shown as an execution: one table, read to name a run and to find runs.

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

A run that the engine parked has failed, and goes on from there when someone has mended it. Pausing and cancelling do
not change a state until the run has ended. ``asks`` means that it waits for a person's answer.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.client.pauses import is_parked
from holdfast.store.protocol import ASKS, Query, Run, Standing

RunState = Literal[
    "queued", "running", "waiting_approval", "succeeded", "failed_retryable", "failed_terminal", "cancelled"
]


class Condition(NamedTuple):
    """What the row of a run in a state has."""

    standings: tuple[Standing, ...]
    parked: bool | None = None
    asks: bool | None = None


RUN_STATES: Final[dict[RunState, Condition]] = {
    "queued": Condition(("queued",), parked=False),
    "running": Condition(("running", "waiting"), parked=False, asks=False),
    "waiting_approval": Condition(("running", "waiting"), parked=False, asks=True),
    "succeeded": Condition(("completed",)),
    "failed_retryable": Condition(("queued", "running", "waiting"), parked=True),
    "failed_terminal": Condition(("failed",)),
    "cancelled": Condition(("cancelled",)),
}


def state_of(run: Run) -> RunState:
    """The one state that fits a run."""
    parked, asks = is_parked(run), ASKS in (run.waiting or "")
    return next(
        state
        for state, fits in RUN_STATES.items()
        if run.standing in fits.standings and fits.parked in (None, parked) and fits.asks in (None, asks)
    )


def narrowed(query: Query, state: RunState | None) -> Query:
    """The query for runs in this state."""
    if state is None:
        return query
    fits = RUN_STATES[state]
    parked = query.parked if fits.parked is None else fits.parked
    return msgspec.structs.replace(query, standings=fits.standings, parked=parked, asks=fits.asks)
