"""The start of a run: its id, its first event, and the fingerprint by which a repeated start is recognised."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec

from holdfast.errors import EngineError, InvalidRequest
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.people.names import NAME, is_name
from holdfast.runs.addresses import has_dots
from holdfast.runs.segments import seal
from holdfast.runs.signals import RESERVED
from holdfast.store.protocol import (
    FUNCTION,
    Advance,
    Attachable,
    Blobs,
    Code,
    KeepCode,
    Key,
    Note,
    Origin,
    Projection,
    Run,
    Segment,
    Start,
)

DEFAULT_TENANT: Final = "default"
CHILD_MARK: Final = "~"
LINEAGE_MARK: Final = "~@"
ID_LIMIT: Final = 200


def child_id(parent: str, position: int, lineage: int) -> str:
    """A child's id: its parent's id and its position there. The lineage is in it, because positions start from 0 when
    the parent continues as new."""
    place = str(position) if lineage == 0 else f"{lineage}.{position}"
    return f"{parent}{CHILD_MARK}{place}"


def idempotency_key(key: Key, lineage: int = 0) -> str:
    """The key that a run's promise id is derived from. The lineage is the generation that last started from nothing.

    Users' ids contain no mark, so no two runs, and no two lineages of one run, share a key.
    """
    plain = f"{key.tenant}{CHILD_MARK}{key.run}"
    return plain if lineage == 0 else f"{plain}{LINEAGE_MARK}{lineage}"


def id_in(idempotency_key: str) -> str:
    """The id of the run in an idempotency key."""
    return idempotency_key.partition(CHILD_MARK)[2].partition(LINEAGE_MARK)[0]


def lineage_of(idempotency_key: str) -> int:
    """The lineage in an idempotency key. A retried run keeps its lineage, and so its children."""
    _, mark, lineage = idempotency_key.partition(LINEAGE_MARK)
    return int(lineage) if mark else 0


def check_text(value: object, what: str) -> str:
    """A text. Raises InvalidRequest."""
    if not isinstance(value, str):
        raise InvalidRequest(f"{what} is a text, not {value!r:.60}")
    return value


def check_id(value: str, what: str) -> str:
    """A usable id or tenant. Raises InvalidRequest."""
    check_text(value, what)
    if not value or len(value) > ID_LIMIT or not value.isprintable():
        raise InvalidRequest(f"{what} is 1 to {ID_LIMIT} printable characters, not {value!r:.60}")
    if value.startswith(RESERVED):
        raise InvalidRequest(f"{what} {value!r:.60} begins with {RESERVED!r}, as the engine's own do: use another.")
    if CHILD_MARK in value:
        raise InvalidRequest(f"{what} {value!r} contains {CHILD_MARK!r}, which marks children: use another character.")
    return value


def check_new_id(value: str, what: str) -> str:
    """An id that is given now; what older versions made is found by others, too. Raises InvalidRequest."""
    return check_no_dots(check_id(value, what), what)


def check_no_dots(value: str, what: str) -> str:
    """A text that may become part of a path. Raises InvalidRequest."""
    if has_dots(value):
        raise InvalidRequest(
            f"{what} {value!r:.60} has a segment '.' or '..', which in a path leads to something else: use another."
        )
    return value


class Trigger(msgspec.Struct, frozen=True):
    """The cause of a run's start: its type (``webhook``) and its own reference there (``INC-42``)."""

    type: str
    ref: str

    def run_id(self, workflow: str) -> str:
        """The id of the run that this trigger starts: always the same one for a workflow, and no other's."""
        former = former_run_id(self, workflow)
        return _hashed_id(self, workflow) if has_dots(former) else former

    def key(self, workflow: str) -> bytes:
        """The hash by which the store finds the run that this trigger has started. A migration of each store has it."""
        return hashlib.sha256(f"{len(workflow)}:{len(self.type)}:{workflow}{self.type}{self.ref}".encode()).digest()


def former_run_id(trigger: Trigger, workflow: str) -> str:
    """The id that older versions gave the run of a trigger. It differs only if it has a segment ``.`` or ``..``."""
    type, plain = trigger.type, f"{workflow}:{trigger.type}:{trigger.ref}"
    plainly = ":" not in workflow and ":" not in type and CHILD_MARK not in plain and plain.isprintable()
    return plain if len(plain) <= ID_LIMIT and plainly else _hashed_id(trigger, workflow)


def _hashed_id(trigger: Trigger, workflow: str) -> str:
    type, plain = trigger.type, f"{workflow}:{trigger.type}:{trigger.ref}"
    named = f"{len(type)}:{plain}" if ":" not in workflow else f"{len(workflow)}:{len(type)}:{plain}"
    return f"{workflow[:100].replace(CHILD_MARK, '-')}:{hashlib.sha256(named.encode()).hexdigest()}"


def origin_of(workspace: str, actor: str | None, trigger: Trigger | None) -> Origin:
    """The origin of a run. Raises InvalidRequest where a part is not a text: it could be stored but not read again."""
    if actor is not None and not is_name(actor):
        raise InvalidRequest(f"the actor is {NAME}, not {actor!a:.60}")
    check_text(workspace, "the workspace")
    if trigger is None:
        return Origin(workspace, actor)
    if not isinstance(trigger, Trigger):
        raise InvalidRequest(f"the trigger is a Trigger(type, ref), not {trigger!r:.60}")
    check_text(trigger.type, "the trigger's type")
    check_text(trigger.ref, "the trigger's ref")
    return Origin(workspace, actor, trigger.type, trigger.ref)


class Pin(msgspec.Struct, frozen=True, gc=False):
    """The code that a run is started with: the kind of its program, and the digest that its journal pins.

    ``code`` is the digest under which the store keeps the code, if it does. ``keep`` is that code, and what it runs in
    turn, where it is at hand.
    """

    kind: str = FUNCTION
    digest: str = ""
    code: bytes | None = None
    keep: tuple[Code, ...] = ()


class Birth(msgspec.Struct, kw_only=True, dict=True):
    """A run to be started."""

    key: Key
    workflow: str
    input: Payload
    pin: Pin = Pin()
    parent: str | None = None
    parent_id: PromiseId | None = None
    priority: int = 0
    attributes: Mapping[str, str] = {}
    origin: Origin = Origin()
    notes: tuple[Note, ...] = ()  # entries of the audit, made in the same commit
    keep: tuple[KeepCode, ...] = ()  # code of its program, and of those that it runs: the store may not have it yet
    trigger: Trigger | None = None  # the trigger that starts no second run of the workflow

    @cached_property
    def id(self) -> PromiseId:
        return PromiseId.of_run(self.pin.digest, self.parent_id, idempotency_key(self.key))

    @property
    def started(self) -> e.ExecutionStarted:
        return e.ExecutionStarted(self.pin.digest, self.input, self.parent_id, idempotency_key(self.key), e.EDITION)

    @cached_property
    def fingerprint(self) -> bytes:
        """A hash of the program's name and its arguments. A start with newer code of the same program is the same
        start."""
        name = self.workflow if self.pin.kind == FUNCTION else f"{self.pin.kind}\0{self.workflow}"
        return hashlib.sha256(name.encode() + b"\0" + self.input.data).digest()

    def row(self, owner: str, now: int) -> Run:
        """The row of the run when its first turn is taken by the worker that starts it."""
        return Run(
            key=self.key,
            workflow=self.workflow,
            root=self.id.root,
            generation=0,
            version=0,
            head=GENESIS,
            standing="queued",
            cancelling=False,
            pause=None,
            priority=self.priority,
            attributes=dict(self.attributes),
            parent=self.parent,
            parent_position=None if self.parent_id is None else self.parent_id.path[-1],
            fingerprint=self.fingerprint,
            owner=owner,
            epoch=1,
            crashes=0,
            ready_at=None,
            wake_at=None,
            waiting=None,
            arrived=0,
            consumed=0,
            error=None,
            created_at=now,
            updated_at=now,
            ended_at=None,
            workspace=self.origin.workspace,
            actor=self.origin.actor,
            trigger_type=self.origin.trigger_type,
            trigger_ref=self.origin.trigger_ref,
            begun_at=now,
            program_kind=self.pin.kind,
            code_digest=self.pin.code,
        )

    def start(self, now: int) -> Start:
        """The change that starts it, with its first event alone: any worker may take its first turn."""
        blobs: dict[bytes, bytes] = {}
        return self._start(seal([(now, self.started)], 0, GENESIS, blobs), Projection("queued"), blobs)

    def start_with(self, turn: Advance, owner: str) -> Start:
        """The change that starts it together with its first turn, leased to its worker unless the turn releases it."""
        if turn.segment is None:
            raise EngineError("a first turn has events")
        return self._start(
            turn.segment, turn.projection, turn.blobs, owner=None if turn.release else owner, attached=turn.attached
        )

    def _attached(self) -> tuple[Attachable, ...]:
        return (*self.keep, *self.notes)

    def _start(
        self,
        segment: Segment,
        projection: Projection,
        blobs: Blobs,
        owner: str | None = None,
        attached: tuple[Attachable, ...] = (),
    ) -> Start:
        return Start(
            key=self.key,
            workflow=self.workflow,
            fingerprint=self.fingerprint,
            root=self.id.root,
            segment=segment,
            projection=projection,
            parent=self.parent,
            parent_position=None if self.parent_id is None else self.parent_id.path[-1],
            priority=self.priority,
            attributes=self.attributes,
            origin=self.origin,
            blobs=blobs,
            owner=owner,
            # Last: answers are matched by index.
            attached=(*attached, *self._attached()) if self.notes or self.keep else attached,
            program_kind=self.pin.kind,
            code_digest=self.pin.code,
            trigger_key=None if self.trigger is None else self.trigger.key(self.workflow),
        )
