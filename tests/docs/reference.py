"""Writes ``docs/reference.md`` from the code: ``python -m tests.docs.reference``. A test holds the page to it.

What a name does is said once, in its docstring; the page only puts signatures and docstrings in an order for readers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import holdfast
from holdfast import errors, testing
from holdfast.audit.check.claims import Claim, Verdict
from holdfast.client.audit import Audit, AuditKey
from holdfast.client.evidence import Evidence
from holdfast.client.receipts import Receipts
from holdfast.client.sync import SyncRunHandle
from holdfast.client.tasks import Tasks
from holdfast.journal.payload import Failure
from holdfast.programs.function.joinset import JoinSet
from holdfast.store.protocol import AuditEntry, Run, TaskAnswer, TaskRow
from holdfast.worker.steps.performer import StepInfo

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"

SECTIONS: dict[str, list[str]] = {
    "Definitions": ["step", "workflow", "RetryPolicy"],
    "In a workflow": [
        "perform",
        "receive",
        "ask",
        "send",
        "spawn",
        "join_set",
        "now",
        "random",
        "uuid",
        "patched",
        "continue_as_new",
        "keep_done",
    ],
    "In a step": ["heartbeat", "step_info"],
    "The gate": ["action", "Cost", "Happened", "DidNotHappen", "Receipt", "Policy"],
    "The engine": ["Holdfast", "RunHandle", "verify_evidence", "Trigger", "SyncHoldfast", "WorkerOptions"],
}
GIVEN: dict[str, tuple[type, ...]] = {
    "join_set": (JoinSet,),
    "step_info": (StepInfo,),
    "Holdfast": (Tasks, TaskRow, TaskAnswer, Receipts, Audit, AuditEntry, AuditKey),
    "RunHandle": (Run, Evidence),
    "verify_evidence": (Verdict, Claim),
    "SyncHoldfast": (SyncRunHandle,),
}
"""What a name gives that has no public name of its own: shown with it."""

INTRODUCTION = """# Reference

Everything that `import holdfast` offers, with its contract. This page is written from the code by
`python -m tests.docs.reference`. The commands are on [a page of their own](cli.md).
"""


def write() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts.extend(_name(name))
    parts.append("## Testing\n\nIn `holdfast.testing`.\n")
    for name in testing.__all__:
        thing = getattr(testing, name)
        parts.append(f"### {name}\n\n{_code(name, thing)}{_prose(thing)}\n")
    parts.extend(_errors())
    return "\n".join(parts)


def _name(name: str) -> Iterator[str]:
    thing = getattr(holdfast, name)
    yield f"### {name}\n\n{_code(name, thing)}{_prose(thing)}\n"
    if isinstance(thing, type):
        yield from _members(thing)
    for given in GIVEN.get(name, ()):
        yield f"#### {given.__name__}\n\n{_prose(given)}\n"
        yield from _members(given)


def _members(kind: type) -> Iterator[str]:
    if getattr(kind, "__struct_fields__", ()):
        yield _fields(kind)
    for name, member in vars(kind).items():
        if name.startswith("_") or name in _BETWEEN_THE_PARTS.get(kind, ()):
            continue
        if inspect.isfunction(member):
            call = _signature(member, name)
            yield f"- `{call}`" + (f"\n  {_indented(_prose(member))}" if member.__doc__ else "")
        elif isinstance(member, property):
            yield f"- `{name}`" + (f"\n  {_indented(_prose(member))}" if member.__doc__ else "")
    yield ""


_BETWEEN_THE_PARTS = {
    holdfast.Holdfast: {
        "token",
        "read_result",
        "hint",
        "hint_if_queued",
        "delivered",
        "changed",
        "note",
        "wake_sealer",
    },
    holdfast.Policy: {"max_writes"},
    holdfast.RetryPolicy: {"delay_seconds"},
    JoinSet: {"settled"},
}
"""What the parts of the engine say to each other: no promise to users."""


def _fields(kind: type) -> str:
    source = inspect.getsource(kind)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in kind.__struct_fields__:  # type: ignore[attr-defined]
        found = re.search(rf"^    {field}: ([^=#\n]+?)(?: = ([^#\n]+?))?(?:  # (.*))?$", source, re.MULTILINE)
        assert found is not None, f"{kind.__name__}.{field}"
        cells = [f"`{cell}`" if cell else "" for cell in (field, found[1], found[2])]
        rows.append("| " + " | ".join([*cells, found[3] or ""]).replace(" | None`", " \\| None`") + " |")
    if all(row.endswith("|  |") for row in rows[2:]):
        rows = [row.removesuffix("  |") for row in rows]
        rows[0], rows[1] = "| field | type | default |", "|---|---|---|"
    return "\n".join(rows) + "\n"


def _code(name: str, thing: Any) -> str:
    if isinstance(thing, type):
        if hasattr(thing, "__struct_fields__"):
            return ""
        thing_init: Callable[..., Any] = thing.__init__  # type: ignore[misc]
        own = "__init__" in vars(thing) and name not in ("RunHandle", "Policy")
        return f"```text\n{_signature(thing_init, name, wide=False)}\n```\n\n" if own else ""
    return f"```text\n{_signature(thing, name, wide=False)}\n```\n\n"


def _signature(function: Callable[..., Any], name: str, *, wide: bool = True) -> str:
    function = inspect.unwrap(function)
    signature = inspect.signature(function)
    shown: list[str] = []
    starred = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        shown.append(_parameter(parameter))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            shown.append("/")
    result = signature.return_annotation
    given = "" if result is signature.empty or name in ("action", "step", "workflow") else f" -> {result}"
    prefix = "await " if inspect.iscoroutinefunction(function) else ""
    if name[:1].isupper():
        given = ""
    line = f"{prefix}{name}({', '.join(shown)}){given}"
    if not wide and len(line) > 100:
        line = "\n    ".join([f"{prefix}{name}(", *(f"{part}," for part in shown)]) + f"\n){given}"
    return re.sub(r"\b(p|e|uuids)\.", "", line)


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    default = ""
    if parameter.default is not parameter.empty:
        shown = repr(parameter.default)
        default = " = …" if " at 0x" in shown or shown.startswith(("<", "WorkerOptions", "typing")) else f" = {shown}"
    return f"{stars}{parameter.name}{kind}{default}"


def _prose(thing: object) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(thing) or "").strip()


def _indented(text: str) -> str:
    return re.sub(r"\n(?=.)", "\n  ", text)


def classes() -> list[type[errors.HoldfastError]]:
    """Every error class, in the order of the file."""
    found = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    return [kind for kind in found if issubclass(kind, errors.HoldfastError)]


def _errors() -> Iterator[str]:
    yield "## Errors\n\nAll are in `holdfast.errors`; those in bold are also at the top. The message says what to do.\n"
    yield "| class | is a | code | HTTP | meaning |\n|---|---|---|---|---|"
    for kind in classes():
        name = f"**`{kind.__name__}`**" if kind.__name__ in holdfast.__all__ else f"`{kind.__name__}`"
        above = "" if kind is errors.HoldfastError else f"`{kind.__base__.__name__}`"  # type: ignore[union-attr]
        meaning = _prose(kind).partition("\n\n")[0].replace("\n", " ")
        yield f"| {name} | {above} | `{kind.code}` | {kind.http_status} | {meaning} |"
    yield (
        "\n`StepFailed.failure` and `RunFailed.failure` are what the journal keeps of an exception: a `Failure` with "
        f"{', '.join(f'`{field}`' for field in Failure.__struct_fields__)}.\n"
    )


if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
