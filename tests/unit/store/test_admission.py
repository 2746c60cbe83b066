"""Admission: caps, rates, order and fairness as tables: candidates in, admitted runs out."""

from __future__ import annotations

import pytest

from holdfast.store.admission import MINUTE, Candidate, Cap, Limits, Load, TenantLimits, admit
from holdfast.store.values import Key

NOW = 1_700_000_000_000_000
SECOND = 1_000_000


def queue(*runs: str) -> list[Candidate]:
    """Candidates written ``tenant/run`` or ``tenant/run:workflow``."""
    found = []
    for run in runs:
        name, _, workflow = run.partition(":")
        tenant, _, id_ = name.partition("/")
        found.append(Candidate(Key(tenant, id_), workflow or "greet"))
    return found


def chosen(
    candidates: list[Candidate], limits: Limits, loads: dict[tuple[str, str], Load] | None = None, room: int = 100
) -> list[str]:
    return ["/".join(key) for key in admit(candidates, loads or {}, limits, room, NOW).keys]


def placed(*runs: str) -> list[Candidate]:
    """Candidates of one tenant written ``workspace/run`` or ``workspace/run!`` for an urgent one."""
    found = []
    for run in runs:
        workspace, _, id_ = run.partition("/")
        found.append(Candidate(Key("acme", id_.rstrip("!")), "greet", workspace, int(id_.endswith("!"))))
    return sorted(found, key=lambda each: -each.priority)


def capped(concurrency: int | None = None, per_min: int | None = None) -> Limits:
    return Limits(TenantLimits(Cap(concurrency, per_min)))


@pytest.mark.parametrize(
    ("cap", "under_way", "expected"),
    [
        (None, 1000, "abc"),
        (0, 0, ""),
        (2, 0, "ab"),
        (2, 1, "a"),
        (2, 2, ""),
        (2, 5, ""),
        (9, 0, "abc"),
    ],
)
def test_a_cap_leaves_the_places_that_are_free(cap: int | None, under_way: int, expected: str) -> None:
    """As many begin as the cap has free places, in their order; more runs under way than the cap mean no place."""
    loads = {("acme", "greet"): Load(under_way)}
    assert chosen(queue("acme/a", "acme/b", "acme/c"), capped(cap), loads) == [f"acme/{run}" for run in expected]


@pytest.mark.parametrize(
    ("rate", "begun", "expected", "next_at"),
    [
        (None, [1, 2, 3], "abc", None),
        (0, [], "", MINUTE),
        (2, [], "ab", MINUTE),
        (3, [], "abc", None),
        (2, [-30 * SECOND], "a", 30 * SECOND),
        (2, [-40 * SECOND, -30 * SECOND], "", 20 * SECOND),
        (2, [-50 * SECOND, -40 * SECOND, -30 * SECOND], "", 20 * SECOND),
        (2, [-MINUTE, -30 * SECOND], "a", 30 * SECOND),
        (2, [1 - MINUTE, -30 * SECOND], "", 1),
        (1, [5 * SECOND], "", MINUTE + 5 * SECOND),
    ],
)
def test_a_rate_counts_the_starts_of_the_last_minute(
    rate: int | None, begun: list[int], expected: str, next_at: int | None
) -> None:
    """The time is given when enough starts, including those of this decision, will be older than a minute."""
    loads = {("acme", "greet"): Load(0, tuple(NOW + at for at in begun))}
    admitted = admit(queue("acme/a", "acme/b", "acme/c"), loads, capped(per_min=rate), 100, NOW)
    assert "".join(key.run for key in admitted.keys) == expected
    assert admitted.next_at == (None if next_at is None else NOW + next_at)


def test_no_time_is_told_where_places_are_in_the_way() -> None:
    """The end of a run is not known in advance."""
    loads = {("acme", "greet"): Load(1, (NOW,))}
    assert admit(queue("acme/a"), loads, capped(1, 1), 100, NOW).next_at is None


def test_the_earliest_time_of_all_is_told() -> None:
    """Each tenant waits for its own rate."""
    loads = {("acme", "greet"): Load(0, (NOW - SECOND,)), ("bolt", "greet"): Load(0, (NOW - 9 * SECOND,))}
    admitted = admit(queue("acme/a", "bolt/b"), loads, capped(per_min=1), 100, NOW)
    assert admitted.next_at == NOW - 9 * SECOND + MINUTE


def test_a_run_waits_for_the_later_of_two_rates() -> None:
    """Its tenant's cap and its workflow's cap must both allow it."""
    limits = Limits(TenantLimits(Cap(None, 2), workflows={"busy": Cap(None, 1)}))
    loads = {
        ("acme", "greet"): Load(0, (NOW - 30 * SECOND,)),
        ("acme", "busy"): Load(0, (NOW - 10 * SECOND,)),
    }
    assert admit(queue("acme/a:busy"), loads, limits, 100, NOW).next_at == NOW + 50 * SECOND


def test_a_workflow_at_its_cap_holds_up_no_other() -> None:
    """Those after it begin in its place, within the tenant's own cap."""
    limits = Limits(TenantLimits(Cap(2), workflows={"busy": Cap(1)}))
    line = queue("acme/a:busy", "acme/b:busy", "acme/c", "acme/d")
    assert chosen(line, limits) == ["acme/a", "acme/c"]
    assert chosen(line, limits, {("acme", "busy"): Load(1)}) == ["acme/c"]


def test_a_tenants_cap_counts_all_its_workflows() -> None:
    """Even those without queued runs, but not those of other tenants."""
    loads = {("acme", "other"): Load(1), ("bolt", "greet"): Load(50)}
    assert chosen(queue("acme/a", "acme/b"), capped(2), loads) == ["acme/a"]


def test_a_named_tenant_has_its_own_limits_alone() -> None:
    """The default's caps of workflows are not added to them."""
    limits = Limits(TenantLimits(Cap(1), workflows={"greet": Cap(0)}), {"bolt": TenantLimits(Cap(2))})
    assert chosen(queue("acme/a", "bolt/b", "bolt/c", "bolt/d"), limits) == ["bolt/b", "bolt/c"]


@pytest.mark.parametrize(
    ("busy", "weights", "room", "expected"),
    [
        ((0, 0), (1, 1), 4, "abab"),
        ((2, 0), (1, 1), 4, "bbab"),
        ((0, 0), (1, 3), 8, "abbbabbb"),
        ((3, 0), (3, 1), 4, "baba"),
        ((0, 0), (0, 1), 4, "abab"),
    ],
)
def test_the_tenant_with_least_under_way_for_its_weight_is_served_first(
    busy: tuple[int, int], weights: tuple[int, int], room: int, expected: str
) -> None:
    """Each run that begins counts for the next choice; equals are ordered by name; no weight is less than one."""
    line = queue(*(f"{tenant}/{number}" for tenant in "ab" for number in range(10)))
    loads = {(tenant, "greet"): Load(count) for tenant, count in zip("ab", busy, strict=True)}
    limits = Limits(tenants={t: TenantLimits(weight=weight) for t, weight in zip("ab", weights, strict=True)})
    given = admit(line, loads, limits, room, NOW).keys
    assert "".join(key.tenant for key in given) == expected
    for tenant in "ab":
        runs = [key.run for key in given if key.tenant == tenant]
        assert runs == [str(number) for number in range(len(runs))]


@pytest.mark.parametrize(("room", "expected"), [(0, 0), (1, 1), (3, 3), (9, 4)])
def test_no_more_begin_than_there_is_room(room: int, expected: int) -> None:
    """The claim's own limit holds for all."""
    assert len(chosen(queue("a/1", "a/2", "b/1", "b/2"), Limits(), room=room)) == expected


def test_where_nobody_waits_nobody_begins() -> None:
    """And no time is given."""
    admitted = admit([], {("acme", "greet"): Load(3, (NOW,))}, capped(1, 1), 10, NOW)
    assert (admitted.keys, admitted.next_at) == ([], None)


@pytest.mark.parametrize(
    ("line", "busy", "cap", "expected"),
    [
        (("n/a", "n/b", "n/c", "s/d"), {}, None, "adbc"),
        (("n/a", "n/b", "n/c", "s/d"), {}, 2, "ad"),
        (("n/a", "n/b", "s/c", "s/d"), {"n": 2}, None, "cdab"),
        (("n/a", "n/b", "s/c", "s/d"), {"n": 1}, 3, "ca"),
        (("n/a", "n/b", "n/c!", "s/d"), {"n": 5}, None, "cdab"),
        (("n/a", "s/b!", "s/c!", "n/d!"), {}, None, "bdca"),
        (("/a", "/b", "s/c"), {"": 1}, None, "cab"),
    ],
)
def test_workspaces_of_a_tenant_take_turns(
    line: tuple[str, ...], busy: dict[str, int], cap: int | None, expected: str
) -> None:
    """Priority first, then the workspace with the fewest runs under way, then age. The last place, too."""
    loads = {("acme", "greet"): Load(sum(busy.values()), (), busy)}
    assert "".join(run.removeprefix("acme/") for run in chosen(placed(*line), capped(cap), loads)) == expected


def test_a_workspace_at_its_workflows_cap_holds_up_no_other() -> None:
    """A skipped run does not use its workspace's turn."""
    limits = Limits(TenantLimits(workflows={"busy": Cap(0)}))
    line = [Candidate(Key("acme", run), work, space) for run, work, space in (("a", "busy", "n"), ("b", "greet", "n"))]
    assert chosen([*line, Candidate(Key("acme", "c"), "greet", "s")], limits) == ["acme/b", "acme/c"]
