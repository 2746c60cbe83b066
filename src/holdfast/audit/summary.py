"""The page of a bundle for people: decisions, approvals, receipts, costs, and what is proved and what is not.

Bundles are checked by rendering this page again. So its texts must not change: an old bundle's page would differ.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from holdfast.audit import records
from holdfast.audit.facts import CostLine, RunLine
from holdfast.audit.outline import JournalLine

Recorded = Sequence[tuple[int, records.Record]]
"""Records with their positions in the chain."""

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#1a1a1a}"
    "table{border-collapse:collapse;width:100%;margin:.5em 0 1.5em}"
    "th,td{text-align:left;vertical-align:top;padding:.3em .8em .3em 0;border-bottom:1px solid #ddd}"
    "th{font-weight:600}td{overflow-wrap:anywhere}code{font-size:.9em}"
)

PROVED: Final = (
    "The entries below were sealed into the tenant's audit: each is in a block that was signed.",
    "An action that succeeded has a receipt, and each receipt a decision that allowed exactly that proposal.",
    "The journal that the run ended with is the one whose last hash is in the audit.",
    "Nothing in this file was changed since it was signed.",
)
NOT_PROVED: Final = (
    "That the signing key is the operator's: compare it with the public key that you were given.",
    "Values: they are told by type, size and hash alone, unless the bundle was made with them.",
    "That the outside world did what a receipt says: a receipt is what the operator's program saw.",
    "That the audit has no entries of this run beside these, or that its clock was right: this is the operator's word.",
)


def page(facts: RunLine, recorded: Recorded, journals: Sequence[JournalLine], costs: Sequence[CostLine]) -> str:
    """The whole page. It loads nothing, and everything from outside is escaped."""
    title = f"Evidence of run {facts.id}"
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>",
        _table((), _about(facts, journals)),
        "<h2>Decisions</h2>",
        _table(("entry", "time", "action", "target", "decision", "why"), _decisions(recorded)),
        "<h2>Approvals</h2>",
        _table(("entry", "time", "task", "what happened", "who", "reason"), _answers(recorded)),
        "<h2>Receipts</h2>",
        _table(("entry", "time", "action", "target", "outcome", "reversible", "key"), _receipts(recorded)),
        "<h2>Costs</h2>",
        _table(("of", "sums"), _costs(costs)),
        "<h2>Operators, and the end</h2>",
        _table(("entry", "time", "what", "who", "details"), _acts(recorded)),
        "<h2>What this proves</h2>",
        _list(PROVED),
        "<h2>What it does not prove</h2>",
        _list(NOT_PROVED),
        "<p>Do not believe this page: check the file with <code>holdfast verify FILE --key PUBLIC.pem</code>.</p>",
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _about(facts: RunLine, journals: Sequence[JournalLine]) -> Iterable[Sequence[str]]:
    trigger = " ".join(word for word in (facts.trigger_type, facts.trigger_ref) if word)
    yield "workflow", facts.workflow
    yield "tenant", facts.tenant if not facts.workspace else f"{facts.tenant}, workspace {facts.workspace}"
    yield "status", facts.standing
    yield "started by", facts.actor or "not told"
    yield "trigger", trigger or "not told"
    yield "created", clock(facts.created_at)
    yield "ended", "not yet" if facts.ended_at is None else clock(facts.ended_at)
    if facts.forked_from is not None:
        yield "forked from", facts.forked_from
    for journal in journals:
        yield f"journal {journal.generation}", f"{journal.version} events, last hash {journal.head}"


def _decisions(recorded: Recorded) -> Iterable[Sequence[str]]:
    for position, record in recorded:
        if isinstance(record, records.Decided):
            why = f"{record.stage}: {record.reason}" + (f" (rule {record.rule})" if record.rule else "")
            action = f"{record.action} ({record.connector} {record.operation}, risk {record.risk})"
            yield str(position), clock(record.at), action, record.target, record.effect, why


def _answers(recorded: Recorded) -> Iterable[Sequence[str]]:
    for position, record in recorded:
        if isinstance(record, records.Asked):
            who = record.who or ""
            happened = f"{record.subject} {record.verdict}" + (", by two people" if record.two_person else "")
            if record.delegated_to:
                happened += f" to {record.delegated_to}"
            yield str(position), clock(record.at), record.task, happened, who, record.reason


def _receipts(recorded: Recorded) -> Iterable[Sequence[str]]:
    for position, record in recorded:
        if isinstance(record, records.Receipted):
            outcome = f"{record.state}, attempt {record.attempt}" + (f": {record.error}" if record.error else "")
            back = f"by {record.reverse}" if record.reversible and record.reverse else "no"
            yield str(position), clock(record.at), record.action, record.target, outcome, back, record.key


def _costs(costs: Sequence[CostLine]) -> Iterable[Sequence[str]]:
    for cost in costs:
        words = ", ".join(f"{name} {word}" for name, word in cost.of.items())
        yield words, ", ".join(f"{name} {number:g}" for name, number in cost.sums.items())


def _acts(recorded: Recorded) -> Iterable[Sequence[str]]:
    for position, record in recorded:
        match record:
            case records.Operated():
                details = ", ".join([record.reason, *(f"{k} {v}" for k, v in record.details.items())]).strip(", ")
                yield str(position), clock(record.at), record.act, record.who, details
            case records.Ended():
                details = f"{record.version} events, last hash {record.head}"
                yield str(position), clock(record.at), f"the run {record.standing}", record.actor or "", details
            case _:
                continue


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    if not lines:
        return "<p>None.</p>"
    head = "<tr>" + "".join(f"<th>{escape(header)}</th>" for header in headers) + "</tr>" if headers else ""
    return "<table>" + head + "\n".join(lines) + "</table>"


def _list(sentences: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>"


def clock(microseconds: int) -> str:
    """A time for people; a number where it is outside of the calendar."""
    try:
        moment = datetime.datetime.fromtimestamp(microseconds / 1e6, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{microseconds} µs since 1970"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
