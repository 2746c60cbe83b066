"""Lanes: the runs that carry the cells of a machine. Their ids, how they begin, and which of them has a key.

A lane begins with the first event for it. Whoever brings one starts the lane first, where it cannot be sure that it
exists: starting a lane that exists changes nothing.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Final

import cbor2
import msgspec

from holdfast.errors import InvalidRequest
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import Payload
from holdfast.runs import messages
from holdfast.runs.birth import Birth, Pin
from holdfast.runs.signals import RESERVED
from holdfast.store.protocol import MACHINE, Deliver, Key, Start
from holdfast.store.splits import PLACES

LANE_DIGEST: Final = "lane/1"
"""What the journal of a lane pins: the rules by which lanes run. Which code handles events, the manifest says."""

LANE_EVENT: Final = f"{RESERVED}event"
"""The signal by which a lane gets everything that comes from outside it."""

LANE_HEIR: Final = f"{RESERVED}heir"
"""The signal by which a lane gets what it inherits: all of it, before anything else."""

LANE_GO_ON: Final = f"{RESERVED}go-on"
"""The signal by which a lane asks itself for another turn."""

WAITS: Final = "manifest: "
"""How the pause of a lane begins that waits for a worker with the code of the manifest in force."""

HELD: Final = "a manifest is being applied: "
"""How the pause of a lane begins that stands still while a manifest is applied."""

_PREFIX: Final = f"{RESERVED}lane:"
_HEIR: Final = "heir"


def lane_id(machine: str, index: int) -> str:
    """The id of a lane's run. No user's run has an id like it."""
    return f"{_PREFIX}{machine}:{index}"


def parse_lane(id: str) -> tuple[str, int] | None:
    """The machine and the index of a lane, by its id; None where it is no lane's."""
    machine, colon, index = id.removeprefix(_PREFIX).rpartition(":")
    if not (id.startswith(_PREFIX) and colon and machine and index.isascii() and index.isdigit()):
        return None
    return machine, int(index)


def is_lane(id: str) -> bool:
    """Whether a run of this id is a lane."""
    return id.startswith(_PREFIX)


def refuse_lane(id: str, act: str) -> None:
    """Raises InvalidRequest for an act that would end a lane, or reach past its cells. It can be paused and resumed."""
    if is_lane(id) and act not in ("pause", "resume"):
        raise InvalidRequest(f"{id} carries the cells of a machine, and {act} is for runs: send events to its cells.")


@lru_cache(maxsize=8192)
def place_of(key: bytes) -> int:
    """The place of a key among all: the first bytes of its hash."""
    return int.from_bytes(hashlib.sha256(key).digest()[:4])


def lane_of(key: bytes, lanes: int) -> int:
    """The lane of a key: by the first bytes of its hash, so that a lane has a stretch of the index."""
    return place_of(key) * lanes >> PLACES


def lane_start(tenant: str, machine: str, index: int, now: int, *, is_heir: bool = False) -> Start:
    """The change that begins a lane. A heir handles nothing before its forerunner has handed over all that it has."""
    facts = [machine, index, _HEIR] if is_heir else [machine, index]
    return Birth(
        key=Key(tenant, lane_id(machine, index)),
        workflow=machine,
        pin=Pin(kind=MACHINE, digest=LANE_DIGEST),
        input=Payload(canonical([facts, {}])),
    ).start(now)


class CellOrigin(msgspec.Struct, frozen=True, gc=False):
    """Where an effect was asked for: the machine, and the key of its cell."""

    machine: str
    key: bytes


PROGRESS: Final = "progress"


class ProgressFrame(msgspec.Struct, frozen=True, gc=False):
    """What an effect of a cell reports, as its lane hears it: by the position of its promise. ``attempt``, the
    ``epoch`` of the lease that began it and ``number`` only rise for one effect: a frame behind a later one is old."""

    position: int
    attempt: int
    epoch: int
    number: int
    details: bytes

    @property
    def mark(self) -> tuple[int, int, int]:
        """Its place among the frames of its effect."""
        return self.attempt, self.epoch, self.number

    def write(self) -> Payload:
        """The payload of the lane's signal."""
        return Payload(canonical([PROGRESS, self.position, *self.mark, self.details]))


def read_start(input: Payload) -> tuple[int, bool]:
    """The index of a lane, and whether it began as a heir, by the input of its run."""
    (_, index, *rest), _ = cbor2.loads(input.data)
    return index, rest == [_HEIR]


class LaneMessage(msgspec.Struct, frozen=True, gc=False):
    """Something for one lane of a machine. ``id`` is that by which it is recognised when it is sent again.

    With the ``place`` of a key it goes to the lane that has the key by then, however often lanes were split since.
    Without one it is for this very lane.
    """

    machine: str
    lane: int
    envelope: bytes
    id: str | None = None
    place: int | None = None
    signal: str = LANE_EVENT

    def deliver(self, tenant: str, now: int) -> Deliver:
        """The change that puts it into the lane's inbox."""
        message = messages.signal(self.signal, Payload(self.envelope), now, self.id)
        return Deliver(Key(tenant, lane_id(self.machine, self.lane)), message, place=self.place)
