"""What people are advised to do, read from ``explain``: commands between backticks, and one sentence about queues.

The list is closed. A command that is not in it, or a pause of which nobody knows what mends it, is a fault.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

import msgspec

from holdfast.journal.events import LEAVE_CHILDREN
from holdfast.runs.birth import DEFAULT_TENANT


class Advice(msgspec.Struct, frozen=True):
    """One thing to do: ``what``, with the run or task and what else it needs."""

    what: str
    thing: str = ""
    more: str = ""


class NoAdvice(Exception):
    """What was said cannot be followed."""


_COMMAND: Final = re.compile(r"`holdfast ([^`]*)`")
_UNSERVED: Final = "no running worker serves: start one that does"
_PASSES: Final = re.compile(
    r"fires at|was due at|due at|is being worked on|waits for a worker|waits for a free place|which worker \S+ runs|"
    r"another worker takes over|"
    r"waiting for (?:\S+ or )*step \S+?\."
)

SHAPES: Final = {
    "signal": re.compile(r"signal (?P<thing>\S+) (?P<more>\S+) VALUE"),
    "approve": re.compile(r"approve (?P<thing>\S+) --as NAME"),
    "look": re.compile(r"tasks show (?P<thing>\S+)"),
    "resume": re.compile(r"resume (?P<thing>\S+)"),
    "leave": re.compile(r"cancel (?P<thing>\S+) --leave-children"),
    "work": re.compile(r"worker APP"),
}
"""The closed list of commands."""

MENDS: Final = {
    "deploy": re.compile(r"no step '"),
    "fit": re.compile(r"object"),
}
"""What mends a parked run, by the reason of its pause."""


def advised(said: str, tenant: str) -> list[Advice]:
    """What the explanation advises. Raises NoAdvice."""
    assert LEAVE_CHILDREN not in said
    found = [_read(command, tenant) for command in _COMMAND.findall(said)]
    return found + ([Advice("serve")] if _UNSERVED in said else [])


def _read(command: str, tenant: str) -> Advice:
    words = shlex.split(command)
    if words[0] != "worker":
        named = words[-2:] == ["--tenant", tenant]
        if named == (tenant == DEFAULT_TENANT):
            raise NoAdvice(f"the command names another tenant: {command}")
        words = words[:-2] if named else words
    for what, shape in SHAPES.items():
        if (match := shape.fullmatch(" ".join(words))) is not None:
            return Advice(what, **match.groupdict())
    raise NoAdvice(f"nobody knows what this command does here: {command}")


def passes(said: str) -> bool:
    """Whether it moves without anybody: it waits for a time, or for what is under way."""
    return _PASSES.search(said) is not None


def mend_of(reason: str) -> str:
    """What mends what a run is parked for. Raises NoAdvice."""
    for mend, shape in MENDS.items():
        if shape.search(reason):
            return mend
    raise NoAdvice(f"nobody knows how to mend this: {reason}")
