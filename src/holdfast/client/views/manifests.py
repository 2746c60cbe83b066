"""The manifest in force and the proposals to change it, as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from holdfast.programs.machine.lanes.shadow_reports import ShadowReport
from holdfast.programs.machine.manifest import MachineManifest
from holdfast.programs.machine.manifest_changes import MachineChange
from holdfast.programs.machine.proposals import ProposalStatus


class ManifestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest in force of a tenant. ``source`` is ``declared`` where code declares it, ``applied`` where one was
    proposed and applied, ``none`` where there is none. ``misfits`` are the machines of this process whose code is
    another one, with the reason: their lanes are not run here."""

    tenant: str
    source: str
    digest: str | None = None
    proposal: str | None = None
    manifest: MachineManifest | None = None
    declared: str = ""
    misfits: Mapping[str, str] = {}


class ProposalInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal of a manifest. ``changes`` are what it changes in the manifest in force at that time, ``base``."""

    id: str
    tenant: str
    status: ProposalStatus
    digest: str
    base: str | None
    author: str | None
    notes: str
    proposed_at: datetime
    changes: tuple[MachineChange, ...] = ()
    shadow: ShadowReport | None = None
    approver: str | None = None
    reason: str = ""
