"""The caps of a file, and the limits that follow for one tenant and workflow."""

from __future__ import annotations

import pytest

from holdfast.gate.policy.policy import parse
from holdfast.store.admission import Cap, Limits, TenantLimits
from tests.unit.gate.policy.policies import EXAMPLE

CAPS = """\
version: 1
rules: []
caps:
  default: {max_writes_per_run: 20, workflows: {shared: {max_writes_per_run: 7}}}
  tenants:
    acme: {max_writes_per_run: 10, workflows: {triage: {max_writes_per_run: 5}, other: {max_concurrency: 1}}}
    quiet: {weight: 2}
"""


@pytest.mark.parametrize(
    ("tenant", "workflow", "cap"),
    [
        ("acme", "triage", 5),
        ("acme", "other", 10),
        ("acme", "anything", 10),
        ("acme", "shared", 7),
        ("quiet", "triage", 20),
        ("unknown", "triage", 20),
        ("unknown", "shared", 7),
    ],
)
def test_the_narrowest_word_on_writes_holds(tenant: str, workflow: str, cap: int) -> None:
    """That of the workflow, else that of the tenant, else the default."""
    assert parse(CAPS, "p").max_writes(tenant, workflow) == cap


def test_limits_follow_from_the_file() -> None:
    """A tenant has the default of each cap that it does not set."""
    assert parse(EXAMPLE, "p").limits == Limits(TenantLimits(Cap(50, 600)), {"acme": TenantLimits(Cap(100, 600), 3)})
    assert parse(CAPS, "p").limits == Limits(
        TenantLimits(), {"acme": TenantLimits(workflows={"other": Cap(1)}), "quiet": TenantLimits(weight=2)}
    )


def test_a_default_workflows_cap_holds_for_every_tenant() -> None:
    """A tenant may set another, cap by cap."""
    limits = parse(
        "version: 1\nrules: []\ncaps:\n"
        "  default: {workflows: {a: {max_concurrency: 2, max_runs_per_min: 9}}}\n"
        "  tenants: {x: {workflows: {a: {max_concurrency: 3}}}, y: {max_concurrency: 0}}\n",
        "p",
    ).limits
    assert limits is not None
    assert limits.of("x").workflows == {"a": Cap(3, 9)}
    assert limits.of("y") == TenantLimits(Cap(0), 1, {"a": Cap(2, 9)})
    assert limits.of("z").workflows == {"a": Cap(2, 9)}


@pytest.mark.parametrize("caps", ["{}", "{default: {max_writes_per_run: 3}}", "{tenants: {a: {workflows: {b: {}}}}}"])
def test_without_concurrency_rate_or_weight_there_are_no_limits(caps: str) -> None:
    """Then admission has nothing to check."""
    policy = parse(f"version: 1\nrules: []\ncaps: {caps}\n", "p")
    assert policy.limits is None
    assert parse("version: 1\nrules: []\n", "p").max_writes("a", "b") is None
