"""``doctor``'s look at the wake-ups."""

from __future__ import annotations

from holdfast.cli.checks import Check
from holdfast.errors import HoldfastError
from holdfast.wakeups.driver import Wakeups
from holdfast.wakeups.probe import round_trip_seconds
from holdfast.wakeups.urls import wakeups_of


async def examine_wakeups(given: str | Wakeups) -> Check:
    """Send a hint through them, and wait for it."""
    try:
        driver = wakeups_of(given)
    except HoldfastError as error:
        return Check("wakeups", good=False, detail=str(error), facts={"code": error.code})
    if driver is None:
        return Check("wakeups", good=True, detail="none")
    try:
        seconds = await round_trip_seconds(driver)
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        detail = f"{driver}: {reason}\nruns go on without, by the store's own hints: mend it, or leave it out"
        return Check("wakeups", good=False, detail=detail)
    detail = f"{driver}: a hint took {seconds * 1e3:.1f} ms"
    return Check("wakeups", good=True, detail=detail, facts={"seconds": round(seconds, 6)})
