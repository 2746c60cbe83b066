"""Subscriptions under crashes, a bad network and busy people: see ``told`` for the laws."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.store import protocol as p
from holdfast.webhooks.occurrences import Occurrence
from holdfast.webhooks.signatures import signed_headers
from holdfast.worker.roles import deliverer
from holdfast.worker.roles.follower import Follower
from tests.scope import volume
from tests.simulation.told import simulate_subscriptions
from tests.simulation.violation import Violation

SEEDS = volume((5, 6, 9), range(1, 61))


def test_the_laws_of_subscriptions_hold() -> None:
    """W1 to W4. And what they are about happens: deaths around commits, lost answers, every kind of event."""
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached += simulate_subscriptions(seed)
    wanted = ("told", "sent more than once", "request lost", "answer lost", "people: rotate", "people: resend")
    kinds = ("run.started", "run.completed", "run.failed", "task.opened", "task.completed")
    faults = ("died before commit", "died after commit", "died after seal", "lost the answer of commit", "Fenced")
    assert [what for what in (*wanted, *kinds, *faults) if not reached[what]] == []


def test_a_follower_that_reads_on_beyond_its_room_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The laws can be broken, and the simulation sees it: events are lost."""
    real = Follower._wanted

    async def hasty(
        self: Follower, tenant: str, subscription: Any, entries: Sequence[p.AuditEntry], room: int
    ) -> tuple[list[Occurrence], int]:
        found, _ = await real(self, tenant, subscription, entries, room)
        return found, entries[-1].sequence

    monkeypatch.setattr(Follower, "_wanted", hasty)
    with pytest.raises(Violation, match="W1"):
        for seed in SEEDS:
            simulate_subscriptions(seed)


def test_an_event_that_gets_another_message_id_each_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that knows messages by their ids would act twice."""
    numbers = itertools.count()

    def renamed(keys: Sequence[str], id: str, at_seconds: int, body: bytes) -> dict[str, str]:
        return signed_headers(keys, f"{id}-{next(numbers)}", at_seconds, body)

    monkeypatch.setattr(deliverer, "signed_headers", renamed)
    with pytest.raises(Violation, match="W2"):
        for seed in SEEDS:
            simulate_subscriptions(seed)
