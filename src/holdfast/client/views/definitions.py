"""Definitions as people and programs see them, and as ``--json`` writes them. The keys are stable."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.client.views.times import iso, moment
from holdfast.programs.definition.model import Accepted, Uses
from holdfast.store.protocol import DefinitionRow


class DefinitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A published definition. Its name and version mean this digest for good."""

    tenant: str
    name: str
    version: int
    digest: str
    title: str
    description: str
    published_at: datetime
    uses: Uses  # the steps, actions, workflows and transports that it needs
    tasks: tuple[str, ...]  # the tasks that it declares

    @property
    def reference(self) -> str:
        """How it is started: ``name@version``."""
        return f"{self.name}@{self.version}"


class ImportedDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The document as a definition: its text in YAML, and its canonical form. It is not published by this."""

    name: str
    version: int
    digest: str
    text: str
    document: dict[str, Any]


def definition_info(row: DefinitionRow, accepted: Accepted) -> DefinitionInfo:
    """A published definition as a view."""
    definition = accepted.definition
    return DefinitionInfo(
        tenant=row.tenant,
        name=row.name,
        version=row.version,
        digest=row.digest.hex(),
        title=definition.title,
        description=definition.description,
        published_at=moment(row.at),
        uses=definition.uses,
        tasks=tuple(sorted(definition.tasks)),
    )


def definition_record(info: DefinitionInfo) -> dict[str, Any]:
    """A published definition as ``--json`` writes it."""
    return {
        "tenant": info.tenant,
        "name": info.name,
        "version": info.version,
        "digest": info.digest,
        "title": info.title,
        "description": info.description,
        "published_at": iso(info.published_at),
        "uses": {name: list(getattr(info.uses, name)) for name in info.uses.__struct_fields__},
        "tasks": list(info.tasks),
    }
