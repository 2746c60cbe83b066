"""What a file says of caps, and what follows for one tenant and workflow."""

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
    ("tenant", "workflow", "most"),
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
def test_the_narrowest_word_on_writes_holds(tenant: str, workflow: str, most: int) -> None:
    """The workflow's own, else the tenant's, else the default's."""
    assert parse(CAPS, "p").max_writes(tenant, workflow) == most


def test_limits_are_the_files_word_by_word() -> None:
    """A tenant takes from the default what it does not say itself."""
    assert parse(EXAMPLE, "p").limits == Limits(TenantLimits(Cap(50, 600)), {"acme": TenantLimits(Cap(100, 600), 3)})
    assert parse(CAPS, "p").limits == Limits(
        TenantLimits(), {"acme": TenantLimits(workflows={"other": Cap(1)}), "quiet": TenantLimits(weight=2)}
    )


def test_a_default_workflows_cap_holds_for_every_tenant() -> None:
    """And a tenant may say otherwise, number by number."""
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
    """Then admission has nothing to look at."""
    policy = parse(f"version: 1\nrules: []\ncaps: {caps}\n", "p")
    assert policy.limits is None
    assert parse("version: 1\nrules: []\n", "p").max_writes("a", "b") is None
