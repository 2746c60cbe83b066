"""One act on many runs: those that filters choose are steered one by one.

Each run is steered by the same call as one run alone, so it is audited, and refused, in the same way. The runs are
chosen before the first is changed, so the changes do not affect the choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.client.filters import RunFilters
from holdfast.client.runs.handle import RunHandle
from holdfast.errors import CallerError
from holdfast.store.protocol import ENDED, Status

if TYPE_CHECKING:
    from holdfast.client.engine import Holdfast

BulkAction = Literal["cancel", "pause", "resume", "retry"]

_USUAL: Final[dict[BulkAction, Status | None]] = {"cancel": None, "pause": None, "resume": "paused", "retry": "failed"}
"""The runs that an act is about where the filters name no status; None is for all that have not ended."""


class RefusedRun(msgspec.Struct, frozen=True):
    """A run that could not be steered, and why."""

    run: str
    code: str
    detail: str


class BulkResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of many runs. ``more`` is whether filters choose further ones, which were left alone."""

    action: BulkAction
    dry_run: bool
    count: int  # runs that were steered, or would be
    runs: tuple[str, ...]
    refused: tuple[RefusedRun, ...]
    more: bool


async def steer_many(
    app: Holdfast,
    action: BulkAction,
    filters: RunFilters,
    *,
    reason: str = "",
    by: str | None = None,
    dry_run: bool = False,
    limit: int = 1000,
) -> BulkResult:
    """Steer the runs that the filters choose, the newest first, at most ``limit``. One that refuses stops no other."""
    chosen, more = await _chosen(app, action, filters, limit)
    done, refused = list[str](), list[RefusedRun]()
    for run, tenant in chosen:
        try:
            await _steer(app.run(run, tenant=tenant), action, reason, by, dry_run=dry_run)
            done.append(run)
        except CallerError as error:
            refused.append(RefusedRun(run, error.code, str(error)))
    return BulkResult(
        action=action, dry_run=dry_run, count=len(done), runs=tuple(done), refused=tuple(refused), more=more
    )


async def _chosen(
    app: Holdfast, action: BulkAction, filters: RunFilters, limit: int
) -> tuple[list[tuple[str, str]], bool]:
    is_narrow = any(filters.get(name) is not None for name in ("status", "state", "parked"))
    usual = None if is_narrow else _USUAL[action]
    found: list[tuple[str, str]] = []
    wanted: RunFilters = filters if usual is None else {**filters, "status": usual}
    async for run in app.list(**wanted):
        if not is_narrow and usual is None and run.status in ENDED:
            continue
        if len(found) == limit:
            return found, True
        found.append((run.id, run.tenant))
    return found, False


async def _steer(handle: RunHandle[Any], action: BulkAction, reason: str, by: str | None, *, dry_run: bool) -> None:
    match action:
        case "retry":
            await handle.retry(by=by, reason=reason, dry_run=dry_run)
        case "cancel" if not dry_run:
            await handle.cancel(reason or "cancelled by request", by=by)
        case "pause" if not dry_run:
            await handle.pause(reason or "paused by request", by=by)
        case "resume" if not dry_run:
            await handle.resume(by=by, reason=reason)
        case _:
            return
