"""Which queued runs may begin: within their tenants' caps, in order, and fairly between tenants and their workspaces.

A cap counts root runs only: a child that waited for its parent's place would wait for ever. A run is under way from its
first lease to its end, however long it waits in between.

The tenant that has least under way for its weight is served first. Within a tenant the higher priority is; of runs of
the same priority, one of the workspace that has least under way.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.store.values import Key

MINUTE: Final = 60_000_000


class Cap(msgspec.Struct, frozen=True, gc=False):
    """How many runs may be under way at once, and how many may begin in any minute. None is no limit."""

    max_concurrency: int | None = None
    max_runs_per_min: int | None = None


class TenantLimits(msgspec.Struct, frozen=True, gc=False):
    """A tenant's caps, its workflows' own, and its share beside other tenants."""

    cap: Cap = Cap()
    weight: int = 1
    workflows: Mapping[str, Cap] = {}


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Every tenant's limits; a tenant that is not named has the default's."""

    default: TenantLimits = TenantLimits()
    tenants: Mapping[str, TenantLimits] = {}

    def of(self, tenant: str) -> TenantLimits:
        return self.tenants.get(tenant, self.default)


class WriteLimits(msgspec.Struct, frozen=True, gc=False):
    """How often a run of a tenant may write, with its children and theirs. A workflow may have a word of its own."""

    general: int | None = None
    workflows: Mapping[str, int | None] = {}

    @property
    def are_set(self) -> bool:
        """Whether there is any."""
        return self.general is not None or any(most is not None for most in self.workflows.values())

    def of(self, workflow: str) -> int | None:
        """The limit for a run of this workflow; None is none."""
        return self.workflows.get(workflow, self.general)


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A queued root run. Candidates of one tenant come in the order in which they are to begin."""

    key: Key
    workflow: str
    workspace: str = ""
    priority: int = 0


class Load(msgspec.Struct, frozen=True, gc=False):
    """What a tenant has under way of a workflow, and when its runs of the last minute began, oldest first.

    ``workspaces`` says where those under way are.
    """

    under_way: int = 0
    begun: tuple[int, ...] = ()
    workspaces: Mapping[str, int] = {}


Loads = Mapping[tuple[str, str], Load]
"""By tenant and workflow."""


def loads_of(found: Iterable[tuple[str, str, str, int, Sequence[int]]]) -> Loads:
    """The loads, from what a store counts: tenant, workflow, workspace, how many are under way, and which starts."""
    spaces: dict[tuple[str, str], dict[str, int]] = {}
    starts: dict[tuple[str, str], list[int]] = {}
    for tenant, workflow, workspace, under_way, begun in found:
        counts = spaces.setdefault((tenant, workflow), {})
        counts[workspace] = counts.get(workspace, 0) + under_way
        starts.setdefault((tenant, workflow), []).extend(begun)
    return {place: Load(sum(counts.values()), tuple(sorted(starts[place])), counts) for place, counts in spaces.items()}


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """Who may begin, in order, and when the next may where only a rate is in the way."""

    keys: list[Key]
    next_at: int | None


class _Meter:
    """What is left of one cap."""

    def __init__(self, cap: Cap, loads: Sequence[Load], now: int) -> None:
        self._now = now
        self._rate = cap.max_runs_per_min
        self._begun = sorted(at for load in loads for at in load.begun if at > now - MINUTE)
        under_way = sum(load.under_way for load in loads)
        self._places = None if cap.max_concurrency is None else cap.max_concurrency - under_way

    @property
    def crowded(self) -> bool:
        return self._places is not None and self._places <= 0

    @property
    def hasty(self) -> bool:
        return self._rate is not None and len(self._begun) >= self._rate

    @property
    def frees_at(self) -> int:
        """When another may follow: the start that stands in the way has left the window."""
        return (self._begun[-self._rate] if self._rate else self._now) + MINUTE

    def take(self) -> None:
        if self._places is not None:
            self._places -= 1
        bisect.insort(self._begun, self._now)


def admit(candidates: Sequence[Candidate], loads: Loads, limits: Limits, room: int, now: int) -> Admitted:
    """Choose up to ``room`` candidates."""
    lines: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        lines.setdefault(candidate.key.tenant, []).append(candidate)
    owned: dict[str, dict[str, Load]] = {}
    for (tenant, workflow), load in loads.items():
        owned.setdefault(tenant, {})[workflow] = load
    heap: list[tuple[float, str, int]] = []
    passing: dict[str, list[Candidate]] = {}
    waits: list[int] = []
    for tenant, line in lines.items():
        own = owned.get(tenant, {})
        passing[tenant] = _pass(line, own, limits.of(tenant), now, waits)
        if passing[tenant]:
            busy = sum(load.under_way for load in own.values())
            heap.append((busy / max(1, limits.of(tenant).weight), tenant, 0))
    heapq.heapify(heap)
    chosen: list[Key] = []
    while heap and len(chosen) < room:
        share, tenant, index = heapq.heappop(heap)
        chosen.append(passing[tenant][index].key)
        if index + 1 < len(passing[tenant]):
            heapq.heappush(heap, (share + 1 / max(1, limits.of(tenant).weight), tenant, index + 1))
    return Admitted(chosen, min(waits, default=None))


def _pass(
    line: Sequence[Candidate], loads: Mapping[str, Load], limits: TenantLimits, now: int, waits: list[int]
) -> list[Candidate]:
    """Those of one tenant's candidates that its caps let through, in the order in which they begin.

    A workflow at its cap does not hold up the others. Workspaces take turns before the caps are asked: otherwise the
    last free place would always be the busiest workspace's.
    """
    whole = _Meter(limits.cap, list(loads.values()), now)
    meters = {
        workflow: _Meter(cap, [loads[workflow]] if workflow in loads else [], now)
        for workflow, cap in limits.workflows.items()
    }
    passed: list[Candidate] = []
    turns = _Turns(line, loads.values())
    while (candidate := turns.next()) is not None:
        own = meters.get(candidate.workflow)
        if whole.crowded or (own is not None and own.crowded):
            continue
        late = [meter.frees_at for meter in (whole, own) if meter is not None and meter.hasty]
        if late:
            waits.append(max(late))
            continue
        whole.take()
        if own is not None:
            own.take()
        turns.take(candidate)
        passed.append(candidate)
    return passed


class _Turns:
    """Whose turn it is among the workspaces of one tenant."""

    def __init__(self, line: Sequence[Candidate], loads: Iterable[Load]) -> None:
        self._busy: dict[str, int] = {}
        for load in loads:
            for workspace, count in load.workspaces.items():
                self._busy[workspace] = self._busy.get(workspace, 0) + count
        self._lines: dict[str, list[tuple[int, Candidate]]] = {}
        for place, candidate in enumerate(line):
            self._lines.setdefault(candidate.workspace, []).append((place, candidate))
        for waiting in self._lines.values():
            waiting.reverse()
        self._heads: list[tuple[int, int, int, str]] = []
        for workspace in self._lines:
            self._line_up(workspace)

    def _line_up(self, workspace: str) -> None:
        if waiting := self._lines[workspace]:
            place, head = waiting[-1]
            heapq.heappush(self._heads, (-head.priority, self._busy.get(workspace, 0), place, workspace))

    def next(self) -> Candidate | None:
        """The next that may try, unless all have."""
        while self._heads:
            _, busy, _, workspace = heapq.heappop(self._heads)
            if busy == self._busy.get(workspace, 0):
                _, candidate = self._lines[workspace].pop()
                self._line_up(workspace)
                return candidate
            self._line_up(workspace)
        return None

    def take(self, candidate: Candidate) -> None:
        """It begins: its workspace has one more under way."""
        self._busy[candidate.workspace] = self._busy.get(candidate.workspace, 0) + 1
