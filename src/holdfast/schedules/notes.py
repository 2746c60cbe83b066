"""The audit's notes of what becomes of ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from holdfast.audit.notes import note
from holdfast.audit.records import Operated
from holdfast.schedules.schedule import Outcome, Schedule, run_id
from holdfast.schedules.timing import written
from holdfast.store import protocol as p

NOTED: Final = 10
ENGINE: Final = "scheduler"
"""Who acts in the audit, where a schedule has no owner."""

ACTS: Final[Mapping[str, str]] = {
    "started": "trigger_scheduled",
    "found": "find_scheduled",
    "waits": "queue_scheduled",
    "skipped": "skip_scheduled",
    "missed": "miss_scheduled",
    "refused": "refuse_scheduled",
    "ended": "end_schedule",
}
"""The audit's word for what became of a tick."""


def tick_note(id: str, tick: int) -> str:
    """The id of the note that a tick was started: there is one, so nothing starts it again."""
    return f"schedule:{run_id(id, tick)}"


def outcome_note(key: p.ItemKey, schedule: Schedule, outcome: Outcome, now: int, name: str, who: str = "") -> p.Note:
    """The audit's note of what became of a tick."""
    details = {"schedule": key.id, "tick": written(outcome.tick), **outcome_details(outcome)}
    if schedule.template:
        details["template"] = schedule.template
    act = ACTS[outcome.what]
    record = Operated(now, act, who or schedule.owner or ENGINE, outcome.run, outcome.reason, details)
    return msgspec.structs.replace(note(key.tenant, outcome.run, record), id=name)


def outcome_details(outcome: Outcome) -> dict[str, str]:
    """The ticks of a range, for the audit."""
    if outcome.last is None:
        return {}
    count = {} if outcome.count is None else {"count": str(outcome.count)}
    return {"last": written(outcome.last), **count}


def noted_outcomes(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """What becomes of ticks by a person's act, for the details of its note; the first ones, and how many there are."""
    details: dict[str, str] = {}
    for number, outcome in enumerate(outcomes[:NOTED]):
        words = outcome_details(outcome)
        more = f" to {words['last']} ({words.get('count', 'many')} ticks)" if words else ""
        details[f"{ACTS[outcome.what]}.{number}"] = f"{written(outcome.tick)}{more}: {outcome.reason}"
    if len(outcomes) > NOTED:
        details["ticks"] = str(sum(outcome.count or 1 for outcome in outcomes))
    return details
