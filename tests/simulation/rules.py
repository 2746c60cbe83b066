"""The policies of a simulation: what each lane demands, and the caps.

Each act has a lane, and the policy has a rule for each lane. A policy's text is made from its ``Rules``, and the laws
are checked against the same ``Rules``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast import Policy
from holdfast.gate.policy.policy import parse


class Demand(msgspec.Struct, frozen=True):
    """What the rule of a lane demands."""

    effect: str
    tier: str = "low"
    two_person: bool = False
    expires_seconds: int | None = None


class Caps(msgspec.Struct, frozen=True):
    """The caps of a policy. None is no limit."""

    max_writes: int | None = None
    max_concurrency: int | None = None
    max_runs_per_min: int | None = None

    def text(self) -> dict[str, int]:
        caps = {
            "max_writes_per_run": self.max_writes,
            "max_concurrency": self.max_concurrency,
            "max_runs_per_min": self.max_runs_per_min,
        }
        return {name: cap for name, cap in caps.items() if cap is not None}


class Rules(msgspec.Struct, frozen=True):
    """A policy, as the laws know it. A tenant's own cap takes the place of the common one."""

    name: str
    lanes: dict[str, Demand]
    caps: Caps = Caps()
    tenants: dict[str, Caps] = {}

    def caps_of(self, tenant: str) -> Caps:
        own = {name: cap for name, cap in _numbers(self.tenants.get(tenant, Caps())) if cap is not None}
        return msgspec.structs.replace(self.caps, **own)

    @property
    def admits_all(self) -> bool:
        """Whether no tenant's runs can wait for others to end."""
        return all(caps.max_concurrency is None for caps in (self.caps, *self.tenants.values()))

    def policy(self) -> Policy:
        caps: dict[str, Any] = {"default": self.caps.text()}
        if self.tenants:
            caps["tenants"] = {tenant: own.text() for tenant, own in self.tenants.items()}
        rules = [_rule(lane, demand) for lane, demand in self.lanes.items()]
        file = {"version": 1, "caps": caps, "rules": rules}
        # Its own clock stands still: what takes too long is denied, and a busy machine would change a seed's history.
        return parse(msgspec.json.encode(file), self.name, clock=lambda: 0)


def _numbers(caps: Caps) -> list[tuple[str, int | None]]:
    return list(msgspec.structs.asdict(caps).items())


def _rule(lane: str, demand: Demand) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": lane, "when": f'action.target == "{lane}"', "effect": demand.effect}
    if demand.effect == "needs_approval":
        rule |= {"tier": demand.tier, "two_person": demand.two_person}
        if demand.expires_seconds is not None:
            rule["expires_in"] = f"{demand.expires_seconds}s"
    return rule


_LANES: Final = {
    "free": Demand("allow"),
    "asked": Demand("needs_approval"),
    "brief": Demand("needs_approval", "med", expires_seconds=12),
    "pair": Demand("needs_approval", "med", two_person=True),
    "high": Demand("needs_approval", "high"),
    "never": Demand("deny"),
}
_STRICT: Final = {**_LANES, "asked": Demand("needs_approval", "high", two_person=True), "free": Demand("allow")}

STRICT: Final = Rules("strict", _STRICT)
"""The policy that some workers already have while it is rolled out."""

RULES: Final = (
    Rules("open", _LANES),
    Rules("few writes", _LANES, Caps(max_writes=2)),
    Rules("crowded", _LANES, Caps(max_concurrency=2, max_runs_per_min=3)),
    STRICT,
)

TENANTS: Final = ("default", "north", "south")

STEERED_RULES: Final = (
    RULES[0],
    Rules("writes by tenant", _LANES, Caps(max_writes=3), {"north": Caps(max_writes=1), "south": Caps(max_writes=5)}),
    Rules(
        "crowds by tenant",
        _LANES,
        Caps(max_concurrency=3, max_runs_per_min=4),
        {"north": Caps(max_concurrency=1), "south": Caps(max_runs_per_min=9)},
    ),
    STRICT,
)
FEWER: Final = Rules("fewer writes", _STRICT, Caps(max_writes=2), {"north": Caps(max_writes=3)})
"""The policy that is rolled out where people steer: lower caps for most tenants, a higher one for one."""

POLICIES: Final = {rules.name: rules.policy() for rules in (*RULES, *STEERED_RULES, FEWER)}
