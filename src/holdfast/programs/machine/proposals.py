"""The manifest in force of a tenant, and the proposals to change it: what their items keep.

What may be done to a proposal follows from its status, and from nothing else:

=========  ========  ========
status     act       then
=========  ========  ========
proposed   shadow    shadowed
shadowed   shadow    shadowed
shadowed   approve   approved
proposed   reject    rejected
shadowed   reject    rejected
approved   reject    rejected
approved   apply     applied
=========  ========  ========

Nothing changes a proposal that was rejected or applied. Manifests themselves are kept by their digest, for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeVar, get_args

import msgspec

from holdfast.errors import ProposalConflict, StoreCorrupt
from holdfast.programs.machine.lanes.shadow_reports import ShadowReport
from holdfast.programs.machine.manifest import MachineManifest, encode_manifest, manifest_digest
from holdfast.store.protocol import Code, ItemKey, ItemRow, KeepCode

ProposalStatus = Literal["proposed", "shadowed", "approved", "rejected", "applied"]
ProposalAct = Literal["shadow", "approve", "reject", "apply"]
ManifestSource = Literal["declared", "applied"]
ManifestsMode = Literal["declared", "governed"]
"""Which manifests are in force: what code declares, until one is applied; or only one that was applied."""

TRANSITIONS: Final[Mapping[tuple[ProposalStatus, ProposalAct], ProposalStatus]] = {
    ("proposed", "shadow"): "shadowed",
    ("shadowed", "shadow"): "shadowed",
    ("shadowed", "approve"): "approved",
    ("proposed", "reject"): "rejected",
    ("shadowed", "reject"): "rejected",
    ("approved", "reject"): "rejected",
    ("approved", "apply"): "applied",
}

STATUSES: Final[tuple[ProposalStatus, ...]] = get_args(ProposalStatus)
MODES: Final[tuple[ManifestsMode, ...]] = get_args(ManifestsMode)
MANIFEST: Final = "manifest"
"""The kind of the item that names the manifest in force, its id, and the kind of the code that manifests are."""
PROPOSAL: Final = "manifest_proposal"

_REMEDIES: Final[Mapping[ProposalStatus, str]] = {
    "proposed": "shadow it first",
    "shadowed": "approve it first",
    "approved": "it is approved already: apply or reject it",
    "rejected": "propose it again, nothing changes this one any more",
    "applied": "it is applied already: propose another one",
}


class ManifestInForce(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of the item that names the manifest in force. ``source`` is whether code declared it or it was applied,
    ``proposal`` the one that was."""

    digest: str
    source: ManifestSource = "declared"
    proposal: str | None = None


class ManifestProposal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of a proposal's item. ``base`` is the digest of the manifest that was in force when it was proposed."""

    digest: str
    base: str | None = None
    author: str | None = None
    notes: str = ""
    proposed_at: int = 0
    shadow: ShadowReport | None = None
    approver: str | None = None
    reason: str = ""


_Body = TypeVar("_Body", ManifestInForce, ManifestProposal)


def in_force_key(tenant: str) -> ItemKey:
    """The item that names a tenant's manifest in force."""
    return ItemKey(tenant, MANIFEST, MANIFEST)


def keep(tenant: str, manifest: MachineManifest) -> KeepCode:
    """The change that keeps a manifest, by its digest."""
    digest = bytes.fromhex(manifest_digest(manifest))
    return KeepCode(tenant, Code(digest, MANIFEST, MANIFEST, encode_manifest(manifest)))


def write(body: ManifestInForce | ManifestProposal) -> bytes:
    """The body of an item."""
    return msgspec.json.encode(body)


def read_in_force(row: ItemRow) -> ManifestInForce:
    """The body of the item that names the manifest in force. Raises StoreCorrupt."""
    return _read(row, ManifestInForce)


def read_proposal(row: ItemRow) -> ManifestProposal:
    """The body of a proposal's item. Raises StoreCorrupt."""
    return _read(row, ManifestProposal)


def status_of(row: ItemRow) -> ProposalStatus:
    """The status of a proposal's item. Raises StoreCorrupt."""
    if row.status not in STATUSES:
        raise StoreCorrupt(f"proposal {row.id!r} of tenant {row.tenant!r} has the status {row.status!r}")
    return row.status


def next_status(row: ItemRow, act: ProposalAct) -> ProposalStatus:
    """The status after an act. Raises ProposalConflict where the present one does not allow it."""
    status = status_of(row)
    found = TRANSITIONS.get((status, act))
    if found is None:
        raise ProposalConflict(f"proposal {row.id!r} is {status}: {_REMEDIES[status]}.")
    return found


def _read(row: ItemRow, kind: type[_Body]) -> _Body:
    try:
        return msgspec.json.decode(row.body, type=kind)
    except msgspec.MsgspecError as error:
        raise StoreCorrupt(
            f"{row.kind} {row.id!r} of tenant {row.tenant!r} cannot be read ({error}): a newer Holdfast may have "
            "written it."
        ) from error


def check_base(id: str, body: ManifestProposal, present: ManifestInForce | None) -> None:
    """Raises ProposalConflict where another manifest was put in force since the proposal was made."""
    digest = None if present is None else present.digest
    if digest != body.base:
        raise ProposalConflict(
            f"proposal {id} was made when manifest {(body.base or 'none')[:12]} was in force, and now it is "
            f"{(digest or 'none')[:12]}: propose it again."
        )
