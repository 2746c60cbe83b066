"""The records of the audit: one per decision, answer, receipt and operator's act, as JSON that never changes shape.

A record has only the type, size and hash of values, because evidence is shared with outsiders. Its bytes are hashed and
signed, so they are kept as they were written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

UNDO: Final = "undo"
"""The act, in an ``Operated``, of a run that undoes an act or leaves it to another. Its reason says which."""

UNDONE: Final = "undone"
"""The reason of such an entry where the act was undone."""

NOT_UNDONE: Final = ("left to ", "kept by ", "taken back by ")
"""The reason begins so where the act is another run's to undo, or was taken back already. So does the undo's result."""

ABANDONED: Final = "nobody waited for its outcome any more"
"""The outcome of an act that nobody waited for."""


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """A value by its type, size and hash, without its content."""

    type: str
    size: int | None = None
    sha256: str | None = None


class Decided(msgspec.Struct, frozen=True, gc=False, tag="decision", tag_field="kind", omit_defaults=True):
    """The gate judged a proposed action."""

    at: int
    run: str
    promise: str
    workflow: str
    action: str
    connector: str
    operation: str
    target: str
    writes: bool
    risk: str
    proposal: str
    fields: Mapping[str, str]  # the type of each argument; "secret" where it is one
    effect: Literal["allow", "deny", "needs_approval"]
    stage: str  # which part of the gate decided: schema, allowlist, caps, policy, approval, outcome, key
    rule: str | None
    policy: str | None
    reason: str
    actor: str | None = None
    task: str | None = None


class Asked(msgspec.Struct, frozen=True, gc=False, tag="approval", tag_field="kind", omit_defaults=True):
    """A task was made or changed: by policy, by a person, by time, or with its run."""

    at: int
    run: str
    promise: str
    task: str
    subject: str  # approval, outcome, or form
    status: str
    verdict: str  # requested, or a word of ``tasks.answers``
    proposal: str
    tier: str
    two_person: bool
    who: str | None = None
    reason: str = ""
    delegated_to: str | None = None
    expires_at: int | None = None
    terms: str = ""  # when it was made: the hash of the question, of the people asked, and of the rule that asks
    answer: Metadata | None = None  # the result of the act that a person gave, or the answer to a form
    owner: str | None = None  # who has claimed it, or was assigned it
    form: Metadata | None = None  # of a form task: the form
    shown: Metadata | None = None  # of a form task: the values that were shown
    files: tuple[Metadata, ...] = ()  # of the answer to a form: the files that came with it, by media type
    candidates: tuple[str, ...] = ()  # when it was made or escalated: the people who are asked from then on, by name
    groups: tuple[str, ...] = ()  # and by group


class Receipted(msgspec.Struct, frozen=True, gc=False, tag="receipt", tag_field="kind", omit_defaults=True):
    """An act, its outcome, and the action that can reverse it."""

    at: int
    run: str
    promise: str
    receipt: str
    key: str
    attempt: int
    state: str  # succeeded, failed, unknown, reused
    action: str
    connector: str
    operation: str
    target: str
    writes: bool
    proposal: str
    request: Metadata  # of the arguments, secrets masked
    response: Metadata | None = None
    error: str | None = None
    reversible: bool = False
    reverse: str | None = None
    reverses: str | None = None
    cost: Mapping[str, float | str] | None = None
    started_at: int = 0
    actor: str | None = None
    once: bool = False  # its key is used up with the first success, even if that is taken back


class Ended(msgspec.Struct, frozen=True, gc=False, tag="ended", tag_field="kind", omit_defaults=True):
    """A governed run has ended: this binds its journal to the chain."""

    at: int
    run: str
    workflow: str
    code: str  # the digest of the workflow's code
    generation: int
    standing: str
    root: str
    version: int
    head: str
    input: Metadata
    output: Metadata | None = None
    actor: str | None = None
    error: str | None = None


class Operated(msgspec.Struct, frozen=True, gc=False, tag="operator", tag_field="kind", omit_defaults=True):
    """An operator's act: start, signal, cancel, pause, resume, retry, fork, reverse, policy, key, publish, create_user,
    change_user, mint_token, revoke_token, refuse and the like. Where it is about a user, ``run`` is their subject."""

    at: int
    act: str
    who: str
    run: str | None = None
    reason: str = ""
    details: Mapping[str, str] = {}


class StoryAction(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One action of a template's instance, and when. ``attempt`` is of a step, ``reason`` of a cancellation."""

    action: str
    at: int
    step: str = ""
    attempt: int = 0
    reason: str = ""
    generation: int = 0


class KeptStory(msgspec.Struct, frozen=True, gc=False, tag="story", tag_field="kind", omit_defaults=True):
    """What an instance of a template did, kept when its journal is deleted. A long story has several parts."""

    at: int
    run: str
    template: str
    begun_at: int | None
    actions: tuple[StoryAction, ...]
    part: int = 0


Record = Decided | Asked | Receipted | Ended | Operated | KeptStory

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """A record's bytes."""
    return _encoder.encode(record)


UNREADABLE: Final = (ValueError, RecursionError)
"""The errors that ``decode`` raises for bytes that are no record."""


def decode(body: bytes) -> Record:
    """A record from its bytes. Raises one of ``UNREADABLE``."""
    record: Record = _decoder.decode(body)
    return record


def kind_of(record: Record) -> str:
    """The kind of a record, by which entries are filtered."""
    return str(record.__struct_config__.tag)


def of_bytes(type: str, data: bytes) -> Metadata:
    """The metadata of a value with these bytes."""
    return Metadata(type, len(data), hashlib.sha256(data).hexdigest())


def type_of(value: Any) -> str:
    """A value's type in a plain word."""
    return _TYPES.get(type(value), "object")


_TYPES: Final = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
    bytes: "bytes",
    list: "list",
    tuple: "list",
}
