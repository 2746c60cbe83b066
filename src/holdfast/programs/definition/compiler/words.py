"""The words of the format: which members a document, a task and a node may have."""

from __future__ import annotations

from typing import Final

TOP_WORDS: Final = (
    "holdfast",
    "name",
    "version",
    "title",
    "description",
    "language",
    "reference",
    "schedule",
    "start",
    "state",
    "uses",
    "retries",
    "tasks",
    "connectors",
    "cleanup_timeout",
    "steps",
    "migrate",
    "tests",
    "inline",
)

SCHEDULE_WORDS: Final = (
    "cron",
    "timezone",
    "every",
    "input",
    "overlap",
    "catch_up",
    "catch_up_window",
    "jitter",
)

TASK_WORDS: Final = ("title", "description", "for", "show", "form", "check", "due")

NODE_WORDS: Final = ("title", "when", "as", "retry", "timeout", "on", "undo")
GRAPH_WORDS: Final = ("needs", "after")

VERB_WORDS: Final[dict[str, tuple[str, ...]]] = {
    "action": ("with",),
    "check": ("schema",),
    "compensate": (),
    "continue": ("with", "id"),
    "do": ("let",),
    "end": (),
    "fork": ("join", "gives"),
    "graph": (),
    "graphql": (),
    "http": (),
    "pick": (),
    "raise": (),
    "repeat": ("do", "gives"),
    "run": ("with",),
    "send": (),
    "set": (),
    "sleep": (),
    "step": ("with",),
    "switch": (),
    "task": ("with",),
    "transport": (),
    "wait": ("key", "match"),
}
"""Each verb, and the members that go with it."""

TRANSPORT_WORDS: Final = ("graphql", "http")
"""The transports that are verbs. One of a package is written as ``transport: {name: {…}}``."""

FIXED_ROOTS: Final = ("start", "state", "local", "run", "nodes", "now")
"""The roots that no block can bind to something else."""
