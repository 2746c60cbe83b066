"""The card of an approval: what would be done, why somebody is asked, and what became of it.

A card shows what the task's view shows, so secret arguments are masked. Its buttons name the task, the version that is
shown and the hash of the proposal: an answer is over exactly what the card shows.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec

from holdfast.client.views.tasks import AnswerInfo, TaskInfo
from holdfast.client.views.values import plain as plain_value
from holdfast.client.views.values import quoted
from holdfast.slack import blocks as b

APPROVE: Final = "holdfast_approve"
REJECT: Final = "holdfast_reject"
OPEN: Final = "holdfast_open"
REASON: Final = "holdfast_reason"
"""The names by which Slack says what was pressed, or sent."""

REASON_LIMIT: Final = 2000
_VALUE_LIMIT: Final = 600


class Pressed(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a button or a form says: the task, the version that was shown, and the proposal that was seen.

    ``channel`` and ``ts`` are the message on which it was pressed: Slack says so of a button, and a form keeps it.
    """

    tenant: str
    task: str
    version: int
    proposal: str
    channel: str = ""
    ts: str = ""


class Card(msgspec.Struct, frozen=True):
    """A message. ``text`` is what notifications and screen readers say."""

    text: str
    blocks: list[b.Piece]

    @property
    def content(self) -> dict[str, object]:
        """What Slack's methods take."""
        return {"text": self.text, "blocks": self.blocks}


def card_of(task: TaskInfo, console: str | None) -> Card:
    """The card of an approval, as it stands."""
    title = f"May {task.details.get('action', 'an action')} act on {task.details.get('target', '?')}?"
    is_open = task.status == "requested"
    state = "Approval needed" if is_open else task.status.capitalize()
    pieces = [
        b.header(title if is_open else f"{state}: {title}"),
        b.paragraph(task.summary),
        *_writes(task),
        *_earlier(task),
        b.section(f"*Why you are asked:* {_why(task)}"),
        b.facts(_facts(task)),
        *(b.section(line) for line in _said(task)),
        b.context(f"Hash `{task.proposal}` · task `{task.id}` · tenant {b.escaped(task.tenant, 200)}"),
    ]
    if is_open:
        pieces.append(_buttons(task, console))
    return Card(b.cut(f"{state}: {b.escaped(task.summary, 300)}", 400), pieces)


def gone_card() -> Card:
    """The card of a task that is in the store no more."""
    text = "This approval is over. Its run was deleted."
    return Card(text, [b.section(text)])


def _writes(task: TaskInfo) -> list[b.Piece]:
    details = task.details
    lines = [f"{details.get('connector')} · {details.get('operation')} → {details.get('target')}"]
    fields = details.get("fields")
    for name, value in fields.items() if isinstance(fields, dict) else ():
        lines.append(f"{quoted(str(name))}: {quoted(plain_value(value))}")
    cut = any(len(line) > _VALUE_LIMIT for line in lines)
    text = "\n".join(b.cut(line, _VALUE_LIMIT) for line in lines)
    pieces = [b.code(text)]
    if cut or len(text) > b.CODE_LIMIT:
        pieces.append(
            b.section(
                f":warning: Not all of it fits here. See the whole before you answer: `holdfast tasks {task.id}`."
            )
        )
    return pieces


def _earlier(task: TaskInfo) -> list[b.Piece]:
    """What was asked for under the same key before."""
    earlier = task.details.get("earlier")
    if not isinstance(earlier, dict):
        return []
    said = (
        f"Under its key, receipt {earlier.get('receipt')} of run {earlier.get('run')} ({earlier.get('state')}) was for:"
    )
    fields = earlier.get("fields")
    lines = [f"{quoted(str(name))}: {quoted(plain_value(value))}" for name, value in (fields or {}).items()]
    return [b.section(b.escaped(said, 500)), b.code("\n".join(b.cut(line, _VALUE_LIMIT) for line in lines))]


def _why(task: TaskInfo) -> str:
    return b.escaped(str(task.details.get("why") or task.rule or "the policy asks"), 2500)


def _facts(task: TaskInfo) -> list[tuple[str, str]]:
    details = task.details
    writes = f"{'yes' if details.get('writes') else 'no'}, risk {details.get('risk')}"
    found = [
        ("Run", task.reference or task.run),
        ("Workflow", str(details.get("workflow", ""))),
        ("Started by", task.starter or "nobody knows"),
        ("It writes", writes),
        ("Taken back by", str(details.get("reverse") or "nothing: it cannot be taken back")),
        ("Key", str(details.get("key", ""))),
        ("For", task.who_may),
    ]
    pairs = [(name, b.escaped(value, 300)) for name, value in found if value]
    pairs.append(("Asked", b.time_of(task.created_at)))
    if task.expires_at is not None:
        pairs.append(("Expires" if task.status == "requested" else "Would expire", b.time_of(task.expires_at)))
    return pairs


def _said(task: TaskInfo) -> list[str]:
    """What was decided, by whom and when; of two approvals that are needed, the first."""
    approvals = [said for said in task.answers if said.verdict == "approved"]
    if task.status == "requested":
        if not task.two_person:
            return []
        return ["Two people must approve it."] + [f"{_answer(said)} Somebody else must, too." for said in approvals]
    last = task.answers[-1:] if task.status == "rejected" else []
    lines = [_answer(said) for said in (*approvals, *last)]
    if task.status in ("expired", "cancelled"):
        ends = {"expired": "nobody answered in time", "cancelled": "its run does not ask any more"}
        when = "" if task.closed_at is None else f", {b.time_of(task.closed_at)}"
        lines.append(f"*{task.status.capitalize()}*: {ends[task.status]}{when}.")
    return lines


def _answer(said: AnswerInfo) -> str:
    reason = f": {b.escaped(said.reason, 1500)}" if said.reason else "."
    return f"*{said.verdict.capitalize()}* by {b.escaped(said.who, 300)}, {b.time_of(said.at)}{reason}"


def _buttons(task: TaskInfo, console: str | None) -> b.Piece:
    pressed = Pressed(task.tenant, task.id, task.version, task.proposal)
    value = msgspec.json.encode(pressed).decode()
    confirm = {
        "title": b.plain("Approve this?", b.CONFIRM_TITLE_LIMIT),
        "text": b.plain(task.summary, b.CONFIRM_TEXT_LIMIT),
        "confirm": b.plain("Approve", 30),
        "deny": b.plain("Back", 30),
    }
    buttons = [
        b.button(APPROVE, "Approve", style="primary", value=value, confirm=confirm),
        b.button(REJECT, "Reject…", style="danger", value=value),
    ]
    if console is not None:
        buttons.append(b.button(OPEN, "Open in the console", url=f"{console}tasks/{quote(task.id, safe='')}"))
    # Slack wants another id where a message is edited: so it keeps no state of the earlier buttons.
    return {"type": "actions", "block_id": f"{task.id}:{task.version}", "elements": buttons}


def reason_form(pressed: Pressed, summary: str) -> b.Piece:
    """The form that asks why somebody rejects."""
    field = {
        "type": "plain_text_input",
        "action_id": REASON,
        "multiline": True,
        "min_length": 1,
        "max_length": REASON_LIMIT,
    }
    return {
        "type": "modal",
        "callback_id": REJECT,
        "private_metadata": msgspec.json.encode(pressed).decode(),
        "title": b.plain("Reject", b.MODAL_TITLE_LIMIT),
        "submit": b.plain("Reject", b.MODAL_TITLE_LIMIT),
        "close": b.plain("Back", b.MODAL_TITLE_LIMIT),
        "blocks": [
            b.paragraph(summary),
            {
                "type": "input",
                "block_id": REASON,
                "label": b.plain("Why? It is kept in the audit.", 150),
                "element": field,
            },
        ],
    }
