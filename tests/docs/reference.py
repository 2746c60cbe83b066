"""Writes ``docs/reference.md`` from the code: ``python -m tests.docs.reference``. A test compares the page with it.

The docstrings explain the public names; this module only orders signatures and docstrings for readers.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import holdfast
from holdfast import errors, testing, views
from holdfast.audit.check.claims import Claim
from holdfast.client.definitions.app_definitions import AppDefinitions
from holdfast.client.governance.audit import Audit
from holdfast.client.governance.receipts import Receipts
from holdfast.client.governance.tasks import Tasks
from holdfast.client.machines.app_machines import AppMachines
from holdfast.client.machines.cell_handle import CellHandle
from holdfast.client.machines.manifests import AppManifests
from holdfast.client.parts import Parts
from holdfast.client.people.tenants import Tenants, Workspaces
from holdfast.client.people.tokens import Tokens
from holdfast.client.people.users import Users
from holdfast.client.schedules.app_schedules import Schedules
from holdfast.client.templates.app_templates import AppTemplates
from holdfast.journal.payload import Failure
from holdfast.programs.function.joinset import JoinSet
from holdfast.programs.function.named_workflows import NamedWorkflow
from holdfast.programs.machine.machine import Machine, Transition
from holdfast.worker.steps.performance import StepInfo

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"

SECTIONS: dict[str, list[str]] = {
    "Definitions": ["step", "workflow", "RetryPolicy"],
    "In a workflow": [
        "perform",
        "receive",
        "ask",
        "send",
        "spawn",
        "child",
        "join_set",
        "now",
        "random",
        "uuid",
        "patched",
        "continue_as_new",
        "keep_done",
    ],
    "In a step": ["heartbeat", "report", "step_info"],
    "Machines": ["machine", "schema", "machine_of_scxml", "Cell", "Settled", "Rejected", "Progress", "Ok", "Err"],
    "The gate": ["action", "Cost", "Happened", "DidNotHappen", "Receipt", "Policy"],
    "The engine": [
        "Holdfast",
        "RunHandle",
        "Attachment",
        "verify_evidence",
        "Trigger",
        "Caller",
        "TenantQuota",
        "TemplateCaps",
        "EventRoute",
        "SyncHoldfast",
        "SyncRunHandle",
        "WorkerOptions",
        "tune_process",
        "Wakeups",
        "SecretSettings",
        "SecretUse",
        "SecretSource",
    ],
    "Views": [
        "RunInfo",
        "RunProgress",
        "WaitInfo",
        "RunDetails",
        "RunOverview",
        "TimelinePart",
        "TimelineRow",
        "WaitingSignal",
        "RunCount",
        "InstanceInfo",
        "EngineState",
        "PlaceInfo",
        "ReceivedSignal",
        "RevisionInfo",
        "DefinitionInfo",
        "MoveInfo",
        "JournalEntry",
        "TaskInfo",
        "AnswerInfo",
        "ReceiptInfo",
        "AuditInfo",
        "AuditKey",
        "TemplateInfo",
        "TemplateInstance",
        "InstanceStep",
        "EmittedInfo",
        "ExportedAction",
        "ScheduleInfo",
        "SlackAccountInfo",
        "SlackInfo",
        "TickInfo",
        "OutcomeInfo",
        "BackfillInfo",
        "ManifestInfo",
        "ProposalInfo",
        "MachineChange",
        "ShadowReport",
        "MachineShadow",
        "EffectTally",
        "StateDelta",
        "ManifestBlocker",
        "MigrationReport",
        "MigratedState",
        "MachineInfo",
        "CellInfo",
        "IntentInfo",
        "TimerInfo",
        "CellTrace",
        "TraceItem",
        "CellDiagnosis",
        "Advice",
        "AdviceCode",
        "DeadLetterInfo",
        "SentEvent",
        "EventPlace",
        "WorkerInfo",
        "TenantInfo",
        "WorkspaceInfo",
        "UserInfo",
        "IdentityInfo",
        "TokenInfo",
        "MintedToken",
        "RunCheck",
        "Evidence",
        "Verdict",
        "Page",
        "UnreadableValue",
    ],
}
RESULT_TYPES: dict[str, tuple[type, ...]] = {
    "child": (NamedWorkflow,),
    "join_set": (JoinSet,),
    "step_info": (StepInfo,),
    "machine": (Machine, Transition),
    "Holdfast": (
        AppDefinitions,
        AppMachines,
        AppManifests,
        CellHandle,
        Tasks,
        Receipts,
        Audit,
        Tenants,
        Workspaces,
        Users,
        Tokens,
        AppTemplates,
        Schedules,
    ),
    "Verdict": (Claim,),
}
"""Types that users get from a public name but cannot import: shown below that name."""

INTRODUCTION = """# Reference

Every public name of `holdfast`, with its contract. `python -m tests.docs.reference` generates this page from the code.
The commands are described in [The command line](cli.md).
"""


def write() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n" + ("\nIn `holdfast.views`.\n" if title == "Views" else ""))
        for name in names:
            parts.extend(_name(name))
    parts.append("## Testing\n\nIn `holdfast.testing`.\n")
    for name in testing.__all__:
        thing = getattr(testing, name)
        parts.append(f"### {name}\n\n{_code(name, thing)}{_prose(thing)}\n")
        if thing is testing.MachineEngine:
            parts.extend(_members(thing))
    parts.extend(_errors())
    return "\n".join(parts)


def _name(name: str) -> Iterator[str]:
    thing = getattr(views if name in views.__all__ else holdfast, name)
    yield f"### {name}\n\n{_code(name, thing)}{_prose(thing)}\n"
    if isinstance(thing, type):
        yield from _members(thing)
    for kind in RESULT_TYPES.get(name, ()):
        yield f"#### {kind.__name__}\n\n{_prose(kind)}\n"
        yield from _members(kind)


def _members(kind: type) -> Iterator[str]:
    if getattr(kind, "__struct_fields__", ()):
        yield _fields(kind)
    inherited = vars(Parts) if kind is holdfast.Holdfast else {}
    for name, member in {**vars(kind), **inherited}.items():
        if name.startswith("_") or name in _INTERNAL.get(kind, ()):
            continue
        if inspect.isfunction(member):
            call = _signature(member, name)
            yield f"- `{call}`" + (f"\n  {_indented(_prose(member))}" if member.__doc__ else "")
        elif isinstance(member, property):
            yield f"- `{name}`" + (f"\n  {_indented(_prose(member))}" if member.__doc__ else "")
    yield ""


_INTERNAL = {
    holdfast.Holdfast: {
        "changed",
        "check_open",
        "delivered",
        "has_definitions",
        "hint",
        "machine_kind",
        "program_of",
        "token",
        "wake_sealer",
        "whole_store",
        "workflow_named",
    },
    holdfast.RunHandle: {"key"},
    CellHandle: {"lane_key", "read_on", "record"},
    holdfast.Cell: {"ask", "close"},
    AppDefinitions: {"bound_to"},
    holdfast.Policy: {"max_writes"},
    holdfast.RetryPolicy: {"delay_seconds"},
    JoinSet: {"settled"},
    Machine: {"accepts", "key_of", "read_key", "read_state"},
}
"""Methods for other parts of the engine, not for users."""


def _fields(kind: type) -> str:
    source = inspect.getsource(kind)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in kind.__struct_fields__:  # type: ignore[attr-defined]
        found = re.search(rf"^    {field}: ([^=#\n]+?)(?: = ([^#\n]+?))?(?:  # (.*))?$", source, re.MULTILINE)
        assert found is not None, f"{kind.__name__}.{field}"
        cells = [f"`{cell}`".replace(" | ", " \\| ") if cell else "" for cell in (field, found[1], found[2])]
        rows.append("| " + " | ".join([*cells, found[3] or ""]) + " |")
    if all(row.endswith("|  |") for row in rows[2:]):
        rows = [row.removesuffix("  |") for row in rows]
        rows[0], rows[1] = "| field | type | default |", "|---|---|---|"
    return "\n".join(rows) + "\n"


def _code(name: str, thing: Any) -> str:
    if isinstance(thing, type):
        if hasattr(thing, "__struct_fields__"):
            return ""
        thing_init: Callable[..., Any] = thing.__init__  # type: ignore[misc]
        own = "__init__" in vars(thing) and name not in (
            "Cell",
            "MachineEngine",
            "RunHandle",
            "SyncRunHandle",
            "Policy",
        )
        return f"```text\n{_signature(thing_init, name, wide=False)}\n```\n\n" if own else ""
    return f"```text\n{_signature(thing, name, wide=False)}\n```\n\n"


_MADE_BY_THE_ENGINE = ("Cell", "MachineEngine", "Policy", "RunHandle", "SyncRunHandle")


def _signature(function: Callable[..., Any], name: str, *, wide: bool = True) -> str:
    prefix = "await " if inspect.iscoroutinefunction(function) else ""  # one that is waited for is none any more
    function = inspect.unwrap(function)
    signature = inspect.signature(function)
    parameters: list[str] = []
    starred = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        parameters.append(_parameter(parameter))
        if parameter.kind is parameter.POSITIONAL_ONLY:
            parameters.append("/")
    result = signature.return_annotation
    arrow = "" if result is signature.empty or name in ("action", "machine", "step", "workflow") else f" -> {result}"
    if name[:1].isupper():
        arrow = ""
    line = f"{prefix}{name}({', '.join(parameters)}){arrow}"
    if not wide and len(line) > 100:
        line = "\n    ".join([f"{prefix}{name}(", *(f"{part}," for part in parameters)]) + f"\n){arrow}"
    return re.sub(r"\b(p|e|uuids)\.", "", line)


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    default = ""
    if parameter.default is not parameter.empty:
        text = repr(parameter.default)
        default = " = …" if " at 0x" in text or text.startswith(("<", "WorkerOptions", "typing")) else f" = {text}"
    return f"{stars}{parameter.name}{kind}{default}"


def _prose(thing: object) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(thing) or "").strip()


def _indented(text: str) -> str:
    return re.sub(r"\n(?=.)", "\n  ", text)


def classes() -> list[type[errors.HoldfastError]]:
    """Every error class, in the order of the drawn tree."""
    below: list[str] = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert sorted(["HoldfastError", *below]) == errors.__all__, "the tree has every error, and each once"
    return [getattr(errors, name) for name in ("HoldfastError", *below)]


def _errors() -> Iterator[str]:
    yield (
        "## Errors\n\nAll are in `holdfast.errors`; those in bold can also be imported from `holdfast`. An error's "
        "message says what to do.\n"
    )
    yield "| class | is a | code | HTTP | meaning |\n|---|---|---|---|---|"
    for kind in classes():
        name = f"**`{kind.__name__}`**" if kind.__name__ in holdfast.__all__ else f"`{kind.__name__}`"
        above = "" if kind is errors.HoldfastError else f"`{kind.__base__.__name__}`"  # type: ignore[union-attr]
        meaning = _prose(kind).partition("\n\n")[0].replace("\n", " ")
        yield f"| {name} | {above} | `{kind.code}` | {kind.http_status} | {meaning} |"
    yield (
        "\n`StepFailed.failure` and `RunFailed.failure` describe the recorded exception: a `Failure` with "
        f"{', '.join(f'`{field}`' for field in Failure.__struct_fields__)}.\n"
    )


if __name__ == "__main__":
    PAGE.write_text(write(), encoding="utf-8")
