"""One act on all runs that a filter chooses."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.client.bulk import BulkAction, BulkResult, steer_many
from holdfast.errors import MalformedRequest
from holdfast.server.call import RouteCall
from holdfast.server.fields import Reason
from holdfast.server.route import Nothing, Route
from holdfast.server.run_filters import RunFilter


class BulkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs. A filter that chooses everything must be confirmed by `all`."""

    filter: RunFilter = RunFilter()
    all: bool = False
    dry_run: bool = False
    reason: Reason = ""
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None


async def cancel_many(call: RouteCall[Nothing, BulkBody]) -> BulkResult:
    return await _steer(call, "cancel")


async def pause_many(call: RouteCall[Nothing, BulkBody]) -> BulkResult:
    return await _steer(call, "pause")


async def resume_many(call: RouteCall[Nothing, BulkBody]) -> BulkResult:
    return await _steer(call, "resume")


async def retry_many(call: RouteCall[Nothing, BulkBody]) -> BulkResult:
    return await _steer(call, "retry")


async def _steer(call: RouteCall[Nothing, BulkBody], action: BulkAction) -> BulkResult:
    body, most = call.body, call.settings.bulk_limit
    if body.filter.is_empty and not body.all:
        raise MalformedRequest("this would be every run", [("body/filter", 'it chooses every run: say "all": true')])
    return await steer_many(
        call.client,
        action,
        body.filter.filters(call.tenant),
        reason=body.reason,
        by=call.by,
        dry_run=body.dry_run,
        limit=most if body.limit is None else min(most, body.limit),
    )


_WORDS = (
    " The newest come first; the answer counts them, names those that refused, and says whether more are left. "
    "With `dry_run` nothing is changed."
)

ROUTES = (
    Route(
        method="POST",
        path="/v1/bulk/runs/cancel",
        operation="runs.cancel",
        words=f"Ask all runs of a filter to stop; by default those that have not ended.{_WORDS}",
        handler=cancel_many,
        body=BulkBody,
        answer=BulkResult,
    ),
    Route(
        method="POST",
        path="/v1/bulk/runs/pause",
        operation="runs.pause",
        words=f"Pause all runs of a filter; by default those that have not ended.{_WORDS}",
        handler=pause_many,
        body=BulkBody,
        answer=BulkResult,
    ),
    Route(
        method="POST",
        path="/v1/bulk/runs/resume",
        operation="runs.resume",
        words=f"Resume all runs of a filter; by default those that are paused or parked.{_WORDS}",
        handler=resume_many,
        body=BulkBody,
        answer=BulkResult,
    ),
    Route(
        method="POST",
        path="/v1/bulk/runs/retry",
        operation="runs.retry",
        words=f"Retry all runs of a filter; by default those that have failed.{_WORDS}",
        handler=retry_many,
        body=BulkBody,
        answer=BulkResult,
    ),
)
