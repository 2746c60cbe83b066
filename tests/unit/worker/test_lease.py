"""What a worker knows of its own lease: what was granted before it was forgotten is void."""

from __future__ import annotations

from holdfast.worker.presence.lease import LocalLease


def test_an_answer_counts_only_where_the_worker_was_not_forgotten_on_its_way() -> None:
    """A worker may be forgotten and join again before an old claim is answered: that claim's leases are gone."""
    now = 0.0
    lease = LocalLease(3.0, lambda: now)
    lease.beaten(0.0)
    before = lease.losses
    assert lease.held_since(before)
    lease.lost()
    assert not lease.held_since(before)
    lease.beaten(0.0)  # it has joined again, and is alive
    assert lease.alive()
    assert not lease.held_since(before)
    assert lease.held_since(lease.losses)


def test_an_answer_that_comes_after_the_deadline_counts_for_nothing() -> None:
    """The worker may not know yet that it was forgotten."""
    now = 0.0
    lease = LocalLease(3.0, lambda: now)
    lease.beaten(0.0)
    now = 3.0
    assert not lease.held_since(lease.losses)
