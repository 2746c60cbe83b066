"""One command steers many runs, which the filters of ``list`` choose; a dry run counts them first."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Holdfast
from tests.unit.cli.conftest import Invoke, lines


@pytest.fixture
def many(holdfast: Invoke, database: str) -> Invoke:
    """Runs q-1 to q-5 wait for a worker; q-1 and q-2 are paused by people, q-3 is parked by the engine."""

    async def fill() -> None:
        async with Holdfast(database, worker=False) as app:
            for number in range(1, 6):
                attributes = {"customer": "odd" if number % 2 else "even"}
                await app.start("cli_many", id=f"q-{number}", attributes=attributes)
            await app.run("q-1").pause("lunch")
            await app.run("q-2").pause()
            await app.store.pause(app.run("q-3").key, "nondeterminism: it differs", app.clock.now())

    asyncio.run(fill())
    return holdfast


def _paused(holdfast: Invoke) -> list[str]:
    return sorted(record["id"] for record in lines(holdfast("list", "--status", "paused", "--json")))


def _acts(holdfast: Invoke) -> list[tuple[str, str]]:
    records = [entry["record"] for entry in lines(holdfast("audit", "--kind", "operator", "--json"))]
    return sorted((record["act"], record["run"]) for record in records if record["act"] != "pause")


def test_a_dry_run_names_and_counts_the_runs_and_changes_nothing(many: Invoke) -> None:
    """Who steers a thousand runs looks first."""
    tried = many("resume", "--workflow", "cli_many", "--dry-run")
    assert (tried.exit_code, tried.stderr) == (0, "")
    assert tried.stdout.splitlines() == [
        "run q-3 would go on",
        "run q-2 would go on",
        "run q-1 would go on",
        "3 runs would be resumed",
    ]
    assert _paused(many) == ["q-1", "q-2", "q-3"]
    assert _acts(many) == []


def test_the_runs_that_the_filters_choose_are_steered_and_no_others(many: Invoke) -> None:
    """Each as it would be alone, and each is in the audit."""
    assert many("resume", "--attribute", "customer=odd", "--as", "ann").stdout.splitlines()[-1] == "2 runs resumed"
    assert _paused(many) == ["q-2"]
    assert _acts(many) == [("resume", "q-1"), ("resume", "q-3")]


def test_parked_runs_are_not_paused_ones(many: Invoke) -> None:
    """What people paused, they resume."""
    assert [record["id"] for record in lines(many("list", "--parked", "--json"))] == ["q-3"]
    assert many("resume", "--parked").stdout == "run q-3 goes on\n1 run resumed\n"
    assert _paused(many) == ["q-1", "q-2"]
    assert many("resume", "--parked").stderr == "no runs match.\n"


def test_cancel_means_what_has_not_ended(many: Invoke) -> None:
    """``--limit`` takes at most so many: the newest."""
    assert many("cancel", "--all", "--tenant", "default", "--limit", "2", "--dry-run").stdout.splitlines() == [
        "run q-5 would be cancelled",
        "run q-4 would be cancelled",
        "2 runs would be asked to stop",
    ]
    done = many("cancel", "--workflow", "cli_many", "--reason", "enough")
    assert done.stdout.splitlines()[-1] == "5 runs asked to stop"
    assert _acts(many) == [("cancel", f"q-{number}") for number in range(1, 6)]


def test_retry_means_what_failed(many: Invoke) -> None:
    """It says for each what is done again, as for one run."""
    alone = many("retry", "failed", "--dry-run").stdout
    tried = many("retry", "--all", "--dry-run")
    assert tried.stdout == f"{alone}1 run would be retried\n"
    (run, count) = lines(many("retry", "--all", "--json"))
    assert (run["id"], run["action"], run["again"], run["generation"]) == ("failed", "retry", [], 1)
    assert count == {"action": "retry", "dry_run": False, "count": 1, "refused": 0}


def test_a_run_that_refuses_does_not_keep_the_others(many: Invoke) -> None:
    """It is named, the rest is done, and the exit code says that not all were."""
    done = many("cancel", "--until", "2100-01-01", "--status", "completed")
    assert done.exit_code == 1
    assert "run done has ended" in done.stderr
    assert done.stdout == "0 runs asked to stop, 1 refused\n"
    (refused, count) = lines(many("cancel", "--status", "completed", "--json"))
    assert (refused["id"], refused["error"]["code"]) == ("done", "run_ended")
    assert (count["count"], count["refused"]) == (0, 1)


@pytest.mark.parametrize("name", ["resume", "retry", "cancel"])
@pytest.mark.parametrize(
    ("args", "why"),
    [
        ([], "give a RUN, filters like those of `holdfast list`, or --all"),
        (["--tenant", "acme"], "give a RUN, filters"),
        (["q-1", "--workflow", "cli_many"], "give a RUN, or filters, not both"),
        (["q-1", "--all"], "give a RUN, or filters, not both"),
        (["q-1", "--limit", "3"], "give a RUN, or filters, not both"),
    ],
)
def test_nobody_steers_all_runs_by_a_slip(many: Invoke, name: str, args: list[str], why: str) -> None:
    """One, or filters, or all on purpose; never both, and never neither."""
    refused = many(name, *args)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert why in refused.stderr
    assert _acts(many) == []
