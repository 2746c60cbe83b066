"""Templates, and the words and signs that all of them share. What people wrote is always escaped."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from holdfast.client.views.runs import RunInfo, WaitInfo
from holdfast.client.views.values import plain
from holdfast.runs.addresses import path_part

MOST_COUNTED: Final = 1_000
"""A page counts runs of one status no further."""

SIGNS: Final[Mapping[str, tuple[str, str]]] = {
    "queued": ("○", "quiet"),
    "running": ("▶", "busy"),
    "waiting": ("◔", "wait"),
    "paused": ("‖", "wait"),
    "cancelling": ("↺", "wait"),
    "parked": ("!", "bad"),
    "completed": ("✓", "good"),
    "failed": ("✕", "bad"),
    "cancelled": ("–", "quiet"),
    # of the timeline
    "open": ("▶", "busy"),
    "retrying": ("↻", "wait"),
    "done": ("✓", "good"),
    "dropped": ("–", "quiet"),
    "note": ("·", "quiet"),
    # of tasks
    "requested": ("◔", "wait"),
    "approved": ("✓", "good"),
    "rejected": ("✕", "bad"),
    "expired": ("–", "quiet"),
    # of receipts
    "begun": ("▶", "busy"),
    "succeeded": ("✓", "good"),
    "unknown": ("?", "bad"),
    "rejected_by_gate": ("✕", "bad"),
}
"""A sign and a tone for each state: colour is never all that tells them apart."""

_COMMANDS: Final = re.compile(r" \(`[^`]*`[^()]*+\)| `[^`]*` lets it go on\.")
LONGEST_VALUE: Final = 4000


@cache
def environment() -> Environment:
    """The templates of the console."""
    made = Environment(
        loader=PackageLoader("holdfast.server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        time=time_element,
        ago=ago,
        span=span,
        act=act_words,
        size=size_words,
        headline=headline,
        value=value_text,
        one_line=one_line,
        sign=sign,
        tone=tone,
        wait=wait_words,
        diff=highlighted,
        ticks=ticked,
        counted=counted,
    )
    made.globals.update(status_of=status_of)
    return made


def status_of(run: RunInfo) -> str:
    """The status as people see it: a run that the engine paused is parked."""
    return "parked" if run.state == "failed_retryable" else run.status


def sign(state: str) -> str:
    """The sign of a state."""
    return SIGNS.get(state, ("·", "quiet"))[0]


def tone(state: str) -> str:
    """The class that gives a state its colour."""
    return SIGNS.get(state, ("·", "quiet"))[1]


def time_element(at: datetime | None, form: str = "full") -> Markup:
    """A time, in UTC; the script shows it in local time where the reader wants that."""
    if at is None:
        return Markup("")
    at = at.astimezone(UTC)
    text = at.strftime("%H:%M:%S" if form == "clock" else "%Y-%m-%d %H:%M:%S")
    exact = at.isoformat().replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(exact, exact, form, text)


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago something was, or how soon it comes."""
    if at is None:
        return ""
    past = now - at
    return f"{span(past)} ago" if past >= timedelta() else f"in {span(-past)}"


def span(length: timedelta | None) -> str:
    """A length of time in its largest unit or two."""
    if length is None:
        return ""
    seconds = length.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min"
    if seconds < 86400:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds // 86400:.0f} d {seconds % 86400 // 3600:.0f} h"


def size_words(count: int) -> str:
    """A number of bytes in its largest unit."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def value_text(value: Any, limit: int = LONGEST_VALUE) -> str:
    """A value as indented JSON, cut where it is long: the API has it whole."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[:limit]}\n… ({len(text):,} characters; the JSON has them all)"


def one_line(value: Any, limit: int = 160) -> str:
    """A value on one line."""
    text = json.dumps(plain(value), ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def wait_words(wait: WaitInfo) -> str:
    """What a run waits for, in few words."""
    match wait.kind:
        case "receive":
            return f"signal {wait.name}"
        case "timer":
            return "a timer"
        case "approval":
            return f"approval of {wait.name}"
        case "outcome":
            return f"somebody to say whether {wait.name} happened"
        case "form":
            return f"an answer: {wait.name}"
        case "workflow":
            return f"child {wait.name}"
        case kind:
            return f"{kind} {wait.name}"


class Paths:
    """Makes addresses of the console below the prefix where the server is mounted."""

    def __init__(self, root: str) -> None:
        self.root = quote(root)

    def __call__(self, *parts: object, **query: object) -> str:
        path = f"{self.root}/" + "/".join(path_part(str(part)) for part in parts)
        pairs = [
            (name, each)
            for name, given in query.items()
            for each in (given if isinstance(given, list) else [given])
            if each not in (None, "")
        ]
        return f"{path}?{urlencode(pairs)}" if pairs else path


def counted(count: int) -> str:
    """How many there are. Many are not counted to the end: that would take longer, the more there are."""
    return f"{count:,}" if count <= MOST_COUNTED else f"{MOST_COUNTED:,}+"


def ticked(text: str) -> Markup:
    """A sentence of the engine with its code set off, and without the commands: the page has buttons for them."""
    parts = _COMMANDS.sub("", text).split("`")
    shown = [Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts)]
    return Markup("").join(shown)


def act_words(text: str) -> str:
    """An entry of the audit as a sentence: its first word is the act, such as ``create_user``."""
    act, blank, rest = text.partition(" ")
    return f"{act.replace('_', ' ')}{blank}{rest}"


def headline(text: str) -> str:
    """The first line of a reason or an error of the engine, as a sentence for a list."""
    line = text.partition("\n")[0].removeprefix("nondeterminism: ").rstrip(":")
    return line[:1].upper() + line[1:]


def highlighted(text: str) -> Markup:
    """A reason of the engine with its code set off, and its differences marked line by line."""
    lines = []
    for line in text.splitlines():
        mark = {"+": "added", "-": "removed"}.get(line.lstrip()[:1], "") if line.startswith((" ", "+", "-")) else ""
        shown = escape(line)
        lines.append(Markup('<span class="{}">{}</span>').format(mark, shown) if mark else shown)
    return Markup("\n").join(lines)
