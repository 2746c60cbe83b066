"""An entry of the audit as people and programs see it, and as ``--json`` writes it. The keys are stable."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, assert_never

import msgspec

from holdfast.audit import records
from holdfast.client.views.times import iso, microseconds, moment
from holdfast.store.protocol import AuditEntry

_TIMES: Final = ("at", "expires_at", "started_at")


class AuditInfo(msgspec.Struct, frozen=True):
    """One entry of a tenant's audit. ``position`` is its place in the chain, None until it is sealed.

    ``record`` is the entry itself, None where it was altered and cannot be read. ``text`` is it in one sentence.
    """

    position: int | None
    tenant: str
    run: str | None
    kind: str
    at: datetime
    record: dict[str, Any] | None
    text: str

    @property
    def sealed(self) -> bool:
        """Whether a block of the chain holds it."""
        return self.position is not None


def audit_info(entry: AuditEntry) -> AuditInfo:
    """An entry of the audit as a view."""
    try:
        record: dict[str, Any] | None = entry.record
    except records.UNREADABLE:
        record = None
    if record is not None:
        record = {name: _read(name, value) for name, value in record.items()}
    text = _sentence(entry)
    return AuditInfo(entry.position, entry.tenant, entry.run, entry.kind, moment(entry.at), record, text)


def _read(name: str, value: Any) -> Any:
    """A field of the body. A time that would not be written as it was read, because it was altered, stays a number."""
    is_time = name in _TIMES and type(value) is int and microseconds(moment(value)) == value
    return moment(value) if is_time else value


def audit_record(entry: AuditInfo) -> dict[str, Any]:
    """An entry as ``--json`` writes it; ``record`` is its body as it is hashed, whose times are microseconds."""
    record = entry.record
    if record is not None:
        record = {name: microseconds(value) if isinstance(value, datetime) else value for name, value in record.items()}
    return {
        "position": entry.position,
        "sealed": entry.sealed,
        "tenant": entry.tenant,
        "run": entry.run,
        "kind": entry.kind,
        "at": iso(entry.at),
        "record": record,
    }


def _sentence(entry: AuditEntry) -> str:
    try:
        record = records.decode(entry.body)
    except records.UNREADABLE:
        return "it was altered, and cannot be read: `holdfast audit verify` tells more"
    match record:
        case records.Decided() as decided:
            return f"{decided.effect} {decided.action} on {decided.target}: {decided.reason} ({decided.stage})"
        case records.Asked() as asked:
            to = f" to {asked.delegated_to}" if asked.verdict == "delegated" and asked.delegated_to else ""
            who = f" by {asked.who}" if asked.who else ""
            return f"{asked.subject} {asked.task} {asked.verdict}{to}{who}{_because(asked.reason)}"
        case records.Receipted() as receipted:
            return f"{receipted.action} on {receipted.target} {receipted.state}{_because(receipted.error)}"
        case records.Ended() as ended:
            return f"{ended.workflow} {ended.standing} after {ended.version} events"
        case records.Operated() as operated:
            return f"{operated.act}{_subject_of(operated)} by {operated.who}{_because(operated.reason)}"
        case records.KeptStory() as story:
            return f"the {len(story.actions)} actions of an instance of {story.template}, whose journal was deleted"
        case _ as never:
            assert_never(never)


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _subject_of(operated: records.Operated) -> str:
    """Which definition was published, or which policy was put in force, with the first digits of its hash."""
    if operated.act == "publish":
        details = operated.details
        named = f"{details.get('definition', '')} version {details.get('version', '')}"
        return f" {named} ({details.get('digest', '')[:12]})"
    if "template" in operated.details and operated.act != "policy":
        return f" of {operated.details['template']}"
    if operated.act != "policy":
        return ""
    kind, mark, digest = operated.details.get("policy", "").partition(":")
    return f" {operated.details.get('source', '')} ({kind}{mark}{digest[:12]})"


class AuditKey(msgspec.Struct, frozen=True):
    """A key that signs, or signed, the audit. Nothing in it is secret."""

    number: int
    id: str
    created_at: datetime
    public: bytes  # its public half, as PEM
    encrypted: bool  # whether its private half is
    retired: bool = False  # whether a later key says how far it counts


def key_record(key: AuditKey, *, signs: bool) -> dict[str, Any]:
    """A key as ``--json`` writes it; ``signs`` is whether it is the one that signs now."""
    return {
        "number": key.number,
        "id": key.id,
        "created_at": iso(key.created_at),
        "signs": signs,
        "retired": key.retired,
        "encrypted": key.encrypted,
        "public": key.public.decode(),
    }
