"""A template: a tenant's entry for a definition or a Python workflow, by which people and events start instances.

What may be done to a template follows from its status, and from nothing else:

========  =============  ========
status    act            then
========  =============  ========
draft     activate       active
draft     new version    draft
active    pause          paused
active    archive        archived
active    new version    active
paused    resume         active
paused    archive        archived
paused    new version    paused
========  =============  ========

Nothing changes an archived template. Only an active one starts instances; those that were started go on, whatever
becomes of their template.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from holdfast.errors import StoreCorrupt, TemplateConflict
from holdfast.programs.definition.model import Accepted
from holdfast.runs.program_names import DEFINITION
from holdfast.store.protocol import FUNCTION, ItemRow

TemplateStatus = Literal["draft", "active", "paused", "archived"]
TemplateAct = Literal["activate", "pause", "resume", "archive", "new version"]
StartTrigger = Literal["manual", "scheduled", "event"]

TRANSITIONS: Final[Mapping[tuple[TemplateStatus, TemplateAct], TemplateStatus]] = {
    ("draft", "activate"): "active",
    ("draft", "new version"): "draft",
    ("active", "pause"): "paused",
    ("active", "archive"): "archived",
    ("active", "new version"): "active",
    ("paused", "resume"): "active",
    ("paused", "archive"): "archived",
    ("paused", "new version"): "paused",
}

TEMPLATE: Final = "template"
"""The kind of the item, and the attribute by which a run names the template that it is an instance of."""
TEMPLATE_VERSION: Final = "template_version"
"""The attribute by which a run names the template's version that it was started with."""
TEMPLATE_OWNER: Final = "template_owner"
"""The attribute by which a run that a schedule, a webhook or an event started names the template's owner of then."""
RESERVED: Final = (TEMPLATE, TEMPLATE_VERSION, TEMPLATE_OWNER)
"""Attributes that only a start by a template gives."""

MANUAL: Final = "manual"
"""The type of the trigger of an instance that a person started."""
STATUSES: Final[tuple[TemplateStatus, ...]] = get_args(TemplateStatus)
TRIGGERS: Final[tuple[StartTrigger, ...]] = get_args(StartTrigger)

_REMEDIES: Final[Mapping[TemplateStatus, str]] = {
    "draft": "activate it first",
    "active": "it is active already",
    "paused": "resume or archive it",
    "archived": "make another one, nothing changes this one any more",
}

CapNumber = Annotated[int, Meta(ge=0, le=1_000_000_000)]


class TemplateCaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How many instances may be under way at once, how many may begin in a minute, and how many writing actions each
    may take with its children; None is no limit."""

    max_concurrency: CapNumber | None = None
    max_runs_per_min: CapNumber | None = None
    max_writes_per_run: CapNumber | None = None


class TemplateProgram(msgspec.Struct, frozen=True, omit_defaults=True):
    """What instances run: a published definition, pinned by version and digest, or a Python workflow by its name."""

    kind: str
    name: str
    version: int = 0
    digest: str = ""

    @property
    def is_definition(self) -> bool:
        return self.kind == DEFINITION

    def __str__(self) -> str:
        return f"{self.name}@{self.version}" if self.is_definition else self.name


class EventRoute(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which events start an instance: those of this name for which the filter holds. ``input`` makes the input.

    Both are expressions over ``event``; an empty filter always holds, and without ``input`` the event's data is it.
    """

    event: str
    filter: str = ""
    input: str = ""


class Template(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a template's item. ``version`` counts what authors change; the item's own version counts all.
    ``owner`` is who last changed it or let it start instances."""

    name: str
    program: TemplateProgram
    trigger: StartTrigger = "manual"
    owner: str | None = None
    version: int = 1
    caps: TemplateCaps = TemplateCaps()
    input: Any = None  # what an instance is started with where the start says nothing else: JSON
    route: EventRoute | None = None


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Template)


def write_template(template: Template) -> bytes:
    """The body of a template's item."""
    return _encoder.encode(template)


def read_template(row: ItemRow) -> Template:
    """The template of an item. Raises StoreCorrupt."""
    try:
        return _decoder.decode(row.body)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(
            f"template {row.id!r} of tenant {row.tenant!r} cannot be read ({error}): "
            "a newer Holdfast may have written it."
        ) from error


def status_of(row: ItemRow) -> TemplateStatus:
    """The status of a template's item. Raises StoreCorrupt."""
    if row.status not in STATUSES:
        raise StoreCorrupt(f"template {row.id!r} of tenant {row.tenant!r} has the status {row.status!r}")
    return row.status


def next_status(row: ItemRow, act: TemplateAct) -> TemplateStatus:
    """The status after an act. Raises TemplateConflict where the present one does not allow it."""
    status = status_of(row)
    found = TRANSITIONS.get((status, act))
    if found is None:
        raise TemplateConflict(f"template {row.id!r} is {status}: {_remedy(status, act)}.")
    return found


def check_active(row: ItemRow) -> None:
    """Raises TemplateConflict where the template starts no instances now."""
    if (status := status_of(row)) != "active":
        raise TemplateConflict(f"template {row.id!r} is {status} and starts nothing: {_remedy(status, 'start')}.")


def _remedy(status: TemplateStatus, act: str) -> str:
    if status == "paused" and act in ("start", "activate"):
        return "resume it first"
    return _REMEDIES[status]


def definition_program(accepted: Accepted) -> TemplateProgram:
    """A published definition as the program of a template."""
    definition = accepted.definition
    return TemplateProgram(DEFINITION, definition.name, definition.version, accepted.digest)


def function_program(name: str) -> TemplateProgram:
    """A Python workflow as the program of a template."""
    return TemplateProgram(FUNCTION, name)
