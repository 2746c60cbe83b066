"""What becomes of a delivery when it was tried."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from holdfast.webhooks.subscription import RETRY_SECONDS, Delivery, DeliveryStatus

GONE: Final = 410
"""The answer by which an address says that it wants nothing more, ever."""
LONGEST_WAIT: Final = 24 * 3600.0
LONGEST_PROBLEM: Final = 300
KEPT_DAYS: Final = 30
"""How long a delivery that is over can still be seen and sent again."""
SECOND: Final = 1_000_000


class Tried(NamedTuple):
    """The answer to a try: its status, if there was one, and what was wrong with it."""

    status: int | None
    problem: str = ""
    retry_after: float | None = None
    is_over: bool = False
    """Whether no other try will be better."""


class Next(NamedTuple):
    """A delivery's next version, and when it is tried again or, where it is over, deleted."""

    delivery: Delivery
    status: DeliveryStatus
    due_at: int


def after_try(delivery: Delivery, tried: Tried, now: int, jitter: float) -> Next:
    """The delivery after a try. ``jitter``, from 0 to 1, spreads what failed together over a tenth of the wait."""
    tries = delivery.tries + 1
    after = replace(
        delivery,
        attempts=delivery.attempts + 1,
        tries=tries,
        last_at=now,
        last_status=tried.status,
        last_problem=tried.problem[:LONGEST_PROBLEM],
    )
    deleted_at = now + KEPT_DAYS * 86400 * SECOND
    if not tried.problem:
        return Next(replace(after, delivered_at=now), "delivered", deleted_at)
    if tried.is_over or tries > len(RETRY_SECONDS):
        return Next(after, "failed", deleted_at)
    wait = RETRY_SECONDS[tries - 1] * (1 + jitter / 10)
    if tried.retry_after is not None:
        wait = max(wait, min(tried.retry_after, LONGEST_WAIT))
    return Next(after, "pending", now + round(wait * SECOND))
