"""Which queued runs may begin: within their caps, in order, and fairly between tenants and their workspaces.

A cap counts root runs only: a child that waited for its parent's place would wait for ever. A run is under way from its
first lease to its end, even while it waits.

A run begins where its tenant, its workspace and its program have a place for it. For the program the most specific
setting counts, cap by cap: the template's own, else the workflow's.

The tenant with the fewest runs under way for its weight comes first. Within a tenant the highest priority comes first,
then the workspace with the fewest runs under way for its weight.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.store.values import Key

MINUTE: Final = 60_000_000
TEMPLATE: Final = "template"
"""The attribute of a run that names the template that started it."""


class Cap(msgspec.Struct, frozen=True, gc=False):
    """How many runs may be under way at once, and how many may begin in any minute. None is no limit."""

    max_concurrency: int | None = None
    max_runs_per_min: int | None = None


class TenantLimits(msgspec.Struct, frozen=True, gc=False):
    """A tenant's caps, those of its workflows, templates and workspaces, and the weights of tenant and workspaces."""

    cap: Cap = Cap()
    weight: int = 1
    workflows: Mapping[str, Cap] = {}
    templates: Mapping[str, Cap] = {}
    workspaces: Mapping[str, Cap] = {}
    weights: Mapping[str, int] = {}

    @property
    def has_rate(self) -> bool:
        """Whether any of its caps is a rate. Only then the starts of the last minute must be known."""
        caps = (self.cap, *self.workflows.values(), *self.templates.values(), *self.workspaces.values())
        return any(cap.max_runs_per_min is not None for cap in caps)


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Every tenant's limits; a tenant that is not named has the default's."""

    default: TenantLimits = TenantLimits()
    tenants: Mapping[str, TenantLimits] = {}

    def of(self, tenant: str) -> TenantLimits:
        return self.tenants.get(tenant, self.default)


class WriteLimits(msgspec.Struct, frozen=True, gc=False):
    """How often a run of a tenant may write, together with all runs below it. A workflow may have its own limit.

    Those are the policy's. ``people`` have set the others, for the tenant, its workspaces and its templates. Of all
    that concern a run, the strictest holds.
    """

    general: int | None = None
    workflows: Mapping[str, int | None] = {}
    people: int | None = None
    workspaces: Mapping[str, int] = {}
    templates: Mapping[str, int] = {}

    @property
    def are_set(self) -> bool:
        """Whether there is any limit."""
        if self.general is not None or self.people is not None or self.workspaces or self.templates:
            return True
        return any(most is not None for most in self.workflows.values())

    def of(self, workflow: str, workspace: str = "", template: str = "") -> int | None:
        """The limit for such a run; None is none."""
        policy = self.workflows.get(workflow, self.general)
        found = (policy, self.people, self.workspaces.get(workspace), self.templates.get(template))
        return min((most for most in found if most is not None), default=None)


class WritingRun(NamedTuple):
    """A run that writes, or one above it: all by which its writes may be limited, and how often it has written."""

    run: str
    workflow: str
    workspace: str
    template: str
    writes: int

    def most(self, limits: WriteLimits) -> int | None:
        """How often it may write; None is no limit."""
        return limits.of(self.workflow, self.workspace, self.template)


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A queued root run. Candidates of one tenant are given in the order in which they should begin."""

    key: Key
    workflow: str
    workspace: str = ""
    priority: int = 0
    template: str = ""


class LoadPart(NamedTuple):
    """The runs of one workspace and template that are under way, and when those of the last minute began."""

    workspace: str
    template: str
    under_way: int
    begun: Sequence[int]


class Load(msgspec.Struct, frozen=True, gc=False):
    """A tenant's runs of a workflow that are under way, and when those of the last minute began, oldest first.

    ``workspaces`` counts the runs under way by workspace.
    """

    under_way: int = 0
    begun: tuple[int, ...] = ()
    workspaces: Mapping[str, int] = {}
    parts: tuple[LoadPart, ...] = ()


Loads = Mapping[tuple[str, str], Load]
"""By tenant and workflow."""


def loads_of(counted: Iterable[tuple[str, str, str, str, int, Sequence[int]]]) -> Loads:
    """The loads from a store's counts: tenant, workflow, workspace, template, the number under way, and the times of
    starts."""
    parts: dict[tuple[str, str], list[LoadPart]] = {}
    for tenant, workflow, workspace, template, under_way, begun in counted:
        parts.setdefault((tenant, workflow), []).append(LoadPart(workspace, template, under_way, begun))
    return {place: _load(found) for place, found in parts.items()}


def _load(parts: Sequence[LoadPart]) -> Load:
    spaces: dict[str, int] = {}
    for part in parts:
        spaces[part.workspace] = spaces.get(part.workspace, 0) + part.under_way
    begun = tuple(sorted(at for part in parts for at in part.begun))
    return Load(sum(spaces.values()), begun, spaces, tuple(parts))


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """The runs that may begin, in order, and, where only a rate stops the next one, when that may begin."""

    keys: list[Key]
    next_at: int | None


class _Meter:
    """The free places of one cap."""

    def __init__(self, cap: Cap, loads: Sequence[Load | LoadPart], now: int) -> None:
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
        """When another run may begin: the oldest counted start is then more than a minute ago."""
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
    """The candidates of one tenant that its caps allow, in the order in which they begin.

    A workflow at its cap does not hold up the others. Workspaces take turns before the caps are checked: otherwise the
    busiest workspace would always get the last free place.
    """
    meters = _Meters(loads, limits, now)
    passed: list[Candidate] = []
    turns = _Turns(line, loads.values(), limits.weights)
    while (candidate := turns.next()) is not None:
        crowds, rates = meters.of(candidate)
        if any(meter.crowded for meter in crowds):
            continue
        if late := [meter.frees_at for meter in rates if meter.hasty]:
            waits.append(max(late))
            continue
        meters.take(candidate)
        turns.take(candidate)
        passed.append(candidate)
    return passed


class _Meters:
    """The meters of one tenant: its own, and those of its workspaces, workflows and templates that have caps."""

    def __init__(self, loads: Mapping[str, Load], limits: TenantLimits, now: int) -> None:
        parts = [part for load in loads.values() for part in load.parts]
        self._whole = _Meter(limits.cap, list(loads.values()), now)
        self._spaces = {
            name: _Meter(cap, [part for part in parts if part.workspace == name], now)
            for name, cap in limits.workspaces.items()
        }
        self._workflows = {
            name: _Meter(cap, [loads[name]] if name in loads else [], now) for name, cap in limits.workflows.items()
        }
        self._templates = {
            name: (cap, _Meter(cap, [part for part in parts if part.template == name], now))
            for name, cap in limits.templates.items()
        }

    def of(self, candidate: Candidate) -> tuple[list[_Meter], list[_Meter]]:
        """The meters that must have a place for it, and those whose rate must allow it."""
        always = [self._whole]
        if candidate.workspace in self._spaces:
            always.append(self._spaces[candidate.workspace])
        crowd = rate = self._workflows.get(candidate.workflow)
        if candidate.template and candidate.template in self._templates:
            cap, meter = self._templates[candidate.template]
            crowd = meter if cap.max_concurrency is not None else crowd
            rate = meter if cap.max_runs_per_min is not None else rate
        return [*always, *([] if crowd is None else [crowd])], [*always, *([] if rate is None else [rate])]

    def take(self, candidate: Candidate) -> None:
        """It begins, and counts wherever it belongs to."""
        self._whole.take()
        if candidate.workspace in self._spaces:
            self._spaces[candidate.workspace].take()
        if candidate.workflow in self._workflows:
            self._workflows[candidate.workflow].take()
        if candidate.template and candidate.template in self._templates:
            self._templates[candidate.template][1].take()


class _Turns:
    """The turns of the workspaces of one tenant."""

    def __init__(self, line: Sequence[Candidate], loads: Iterable[Load], weights: Mapping[str, int]) -> None:
        self._weights = weights
        self._busy: dict[str, int] = {}
        for load in loads:
            for workspace, count in load.workspaces.items():
                self._busy[workspace] = self._busy.get(workspace, 0) + count
        self._lines: dict[str, list[tuple[int, Candidate]]] = {}
        for place, candidate in enumerate(line):
            self._lines.setdefault(candidate.workspace, []).append((place, candidate))
        for waiting in self._lines.values():
            waiting.reverse()
        self._heads: list[tuple[int, float, int, str]] = []
        for workspace in self._lines:
            self._line_up(workspace)

    def _line_up(self, workspace: str) -> None:
        if waiting := self._lines[workspace]:
            place, head = waiting[-1]
            heapq.heappush(self._heads, (-head.priority, self._share(workspace), place, workspace))

    def _share(self, workspace: str) -> float:
        return self._busy.get(workspace, 0) / max(1, self._weights.get(workspace, 1))

    def next(self) -> Candidate | None:
        """The next candidate to try; None when all were tried."""
        while self._heads:
            _, share, _, workspace = heapq.heappop(self._heads)
            if share == self._share(workspace):
                _, candidate = self._lines[workspace].pop()
                self._line_up(workspace)
                return candidate
            self._line_up(workspace)
        return None

    def take(self, candidate: Candidate) -> None:
        """It begins: its workspace has one more under way."""
        self._busy[candidate.workspace] = self._busy.get(candidate.workspace, 0) + 1
