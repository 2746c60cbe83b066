"""A schedule: what is started, when, and what became of its ticks. It is the body of an item of the kind ``schedule``.

All ticks up to ``cursor`` are accounted for: each was started, was skipped or missed with a reason that the audit has,
or waits in ``queue``. Nothing but the cursor says which tick is next, so a clock that goes back starts nothing twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, Literal, get_args

import msgspec

from holdfast.errors import InvalidRequest, StoreCorrupt
from holdfast.schedules.timing import Cron, Timing, check_timing, next_tick, written

KIND: Final = "schedule"
TRIGGER: Final = "schedule"
"""The type of the trigger of a run that a schedule starts."""
ID_LIMIT: Final = 150
"""An id and a time make the id of a run."""
RECENT: Final = 10
INPUT_LIMIT: Final = 65_536

Overlap = Literal["skip", "queue_one", "queue_all", "cancel_other", "allow"]
CatchUp = Literal["latest", "all", "none"]
OVERLAPS: Final[tuple[Overlap, ...]] = get_args(Overlap)
CATCH_UPS: Final[tuple[CatchUp, ...]] = get_args(CatchUp)
Status = Literal["active", "waiting", "paused", "done", "deleted"]
What = Literal["started", "found", "waits", "skipped", "missed", "refused", "ended"]
"""What became of a tick. ``found``: its run was there already. Only ``waits`` is not the last word on it."""


class Outcome(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What became of a tick, or of all ticks from ``tick`` to ``last``; ``count`` is None where nobody counted."""

    what: What
    tick: int
    at: int
    reason: str = ""
    run: str | None = None
    last: int | None = None
    count: int | None = 1


class Input(msgspec.Struct, frozen=True, gc=False):
    """The arguments of each run, as the engine writes them."""

    data: bytes = b""
    codec: str = ""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule. ``workflow`` is a workflow's name or a definition's reference; or it has the id of a ``template``.

    ``window`` is how late a tick may be started, None without limit; ``jitter`` is in microseconds, too.
    ``declared`` are the declarations in code that were applied, oldest first: see ``declarations``.
    """

    timing: Timing
    workflow: str = ""
    template: str = ""
    input: Input = Input()
    overlap: Overlap = "skip"
    catch_up: CatchUp = "latest"
    window: int | None = None
    jitter: int = 0
    workspace: str = ""
    priority: int = 0
    attributes: Mapping[str, str] = {}
    owner: str | None = None
    made_at: int = 0
    cursor: int = 0
    queue: tuple[int, ...] = ()
    last_run: str | None = None
    beside: tuple[str, ...] = ()  # runs that were under way when the last one was started out of turn
    paused: str | None = None
    over: str | None = None  # why it will never start anything again
    deleted: bool = False
    recent: tuple[Outcome, ...] = ()
    declared: tuple[str, ...] = ()
    version: int = 0  # of the definition that declares it
    program: str = ""  # the kind of its program, where that was known when it was made

    @property
    def status(self) -> Status:
        if self.deleted:
            return "deleted"
        if self.over is not None:
            return "done"
        if self.paused is not None:
            return "paused"
        return "waiting" if self.queue else "active"

    @property
    def runs(self) -> tuple[str, ...]:
        """Its runs that may be under way, the last one last."""
        return self.beside if self.last_run is None else (*self.beside, self.last_run)

    @property
    def target(self) -> str:
        return f"template {self.template}" if self.template else self.workflow

    @property
    def operation(self) -> str:
        """The operation that a tick does, for which its owner needs the right."""
        return "templates.start" if self.template else "runs.start"

    def with_outcome(self, outcome: Outcome) -> Schedule:
        """The schedule with one more thing that became of a tick."""
        return msgspec.structs.replace(self, recent=(*self.recent, outcome)[-RECENT:])


def check_schedule(id: str, schedule: Schedule) -> None:
    """Raises InvalidRequest where it could not be followed."""
    if len(id) > ID_LIMIT:
        raise InvalidRequest(f"the id of a schedule has at most {ID_LIMIT} characters: each of its runs has it, too")
    check_timing(schedule.timing)
    for word, known, value in (
        ("overlap", OVERLAPS, schedule.overlap),
        ("catch-up", CATCH_UPS, schedule.catch_up),
    ):
        if value not in known:
            raise InvalidRequest(f"{word} is one of {', '.join(known)}, not {value!r:.60}")
    if schedule.window is not None and schedule.window < 0:
        raise InvalidRequest("the catch-up window is 0 seconds or more, or none")
    if schedule.jitter < 0:
        raise InvalidRequest("jitter is 0 seconds or more")
    if bool(schedule.workflow) == bool(schedule.template):
        raise InvalidRequest("a schedule starts a workflow or a template: name one of them")
    if len(schedule.input.data) > INPUT_LIMIT:
        raise InvalidRequest(
            f"the input of a schedule has at most {INPUT_LIMIT} bytes: give a reference, and read it in a step"
        )


def offset_of(tenant: str, id: str, schedule: Schedule) -> int:
    """How much later than its time this schedule starts each tick: always the same, and spread by a hash of its id."""
    if not schedule.jitter:
        return 0
    digest = hashlib.sha256(f"{tenant}\0{id}".encode()).digest()
    return int.from_bytes(digest[:8]) % schedule.jitter


def due_at(schedule: Schedule, offset: int) -> int | None:
    """When the next tick is due; None where nothing is due by time."""
    if schedule.status in ("deleted", "done", "paused"):
        return None
    tick = next_tick(schedule.timing, schedule.cursor)
    return None if tick is None else tick + offset


def run_id(id: str, tick: int) -> str:
    """The id of the run that a tick starts. A tick has one, whoever starts it, so it is started once."""
    return f"{id}@{written(tick)}"


def schedule_in(run: str) -> str | None:
    """The schedule that a run's id names, if it is one of a tick. A hint only: a person may choose such an id."""
    id, mark, time = run.rpartition("@")
    return id if mark and time.endswith("Z") else None


def zone_of(schedule: Schedule) -> str:
    """The time zone in which people read its times."""
    return schedule.timing.timezone if isinstance(schedule.timing, Cron) else "UTC"


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Schedule)


def encode(schedule: Schedule) -> bytes:
    return _encoder.encode(schedule)


def decode(body: bytes, id: str) -> Schedule:
    """Raises StoreCorrupt where these bytes are no schedule."""
    try:
        found: Schedule = _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StoreCorrupt(
            f"schedule {id!r:.60} cannot be read ({error}): it was damaged, or a newer Holdfast wrote it."
        ) from error
    return found
