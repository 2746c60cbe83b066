"""Lists that are longer than one wants to see: counts, limits and cursors."""

from __future__ import annotations

import re

from click.testing import Result

from tests.unit.cli.conftest import Invoke, lines


def cursor_of(result: Result) -> str:
    """The cursor that a list names on stderr."""
    (found,) = re.findall(r"--after (\S+) the next", result.stderr)
    return str(found)


def test_runs_are_counted_by_tenant_and_status(holdfast: Invoke) -> None:
    """For people, for programs, and of one tenant; no other filter fits."""
    counts = [("acme", "waiting", 1), ("default", "completed", 1), ("default", "failed", 1)]
    records = lines(holdfast("list", "--count", "--json"))
    assert sorted((each["tenant"], each["status"], each["count"]) for each in records) == counts
    text = holdfast("list", "--count").stdout.splitlines()
    assert text[0].split() == ["TENANT", "STATUS", "COUNT"]
    assert sorted(tuple(line.split()) for line in text[1:]) == [tuple(map(str, each)) for each in counts]
    (record,) = lines(holdfast("list", "--count", "--tenant", "acme", "--json"))
    assert record == {"tenant": "acme", "status": "waiting", "count": 1}
    assert holdfast("list", "--count", "--tenant", "nobody").stderr == "there are no runs.\n"
    refused = holdfast("list", "--count", "--workflow", "cli_order")
    assert (refused.exit_code, "--count counts all runs" in refused.stderr) == (2, True)


def test_a_list_of_runs_names_the_cursor_for_the_rest(holdfast: Invoke) -> None:
    """With a limit, where there may be more; a list of all has no rest."""
    whole = [record["id"] for record in lines(holdfast("list", "--json"))]
    assert len(whole) == 3
    begun = holdfast("list", "--limit", "2")
    assert "these are the newest 2; --limit 0 shows all" in begun.stderr
    rest = holdfast("list", "--after", cursor_of(begun), "--json")
    assert [record["id"] for record in lines(rest)] == whole[2:]
    assert holdfast("list", "--limit", "0").stderr == ""


def test_tasks_go_on_from_a_cursor(bank: Invoke) -> None:
    """Those of all tenants, oldest first."""
    whole = [record["id"] for record in lines(bank("tasks", "--status", "all", "--json"))]
    begun = bank("tasks", "--status", "all", "--limit", "1")
    assert "these are the oldest 1; --limit 0 shows all" in begun.stderr
    rest = lines(bank("tasks", "--status", "all", "--after", cursor_of(begun), "--json"))
    assert [record["id"] for record in rest] == whole[1:]
    assert len(whole) == 3


def test_receipts_go_on_from_a_cursor(bank: Invoke) -> None:
    """And a cursor of another list is refused."""
    whole = [record["id"] for record in lines(bank("receipts", "--json"))]
    begun = bank("receipts", "--limit", "1")
    rest = lines(bank("receipts", "--after", cursor_of(begun), "--json"))
    assert [record["id"] for record in rest] == whole[1:]
    assert len(whole) == 2
    refused = bank("tasks", "--after", cursor_of(begun))
    assert refused.exit_code != 0
    assert "this cursor is of a list of receipts" in refused.stderr


def test_the_audit_is_walked_from_its_start(bank: Invoke) -> None:
    """By default its last entries are shown; from a cursor on, the first that follow."""
    whole = lines(bank("audit", "--json"))
    assert lines(bank("audit", "--limit", "2", "--json")) == whole[-2:]
    begun = bank("audit", "--after", "start", "--limit", "2")
    assert "these are the first 2" in begun.stderr
    rest = bank("audit", "--after", cursor_of(begun), "--limit", "0", "--json")
    assert lines(rest) == whole[2:]
    assert len(whole) > 4


def test_show_has_the_signals_that_nobody_received(holdfast: Invoke) -> None:
    """With their time and value, until the run receives them; quoted, so that none passes for a line of ours."""
    assert "signals not received" not in holdfast("show", "waiting", "--tenant", "acme").stdout
    sent = holdfast("signal", "waiting", "later", '"one\\ntwo"', "--tenant", "acme")
    assert sent.exit_code == 0
    text = holdfast("show", "waiting", "--tenant", "acme").stdout
    (line,) = text.partition("signals not received\n")[2].splitlines()
    assert re.fullmatch(r'  later  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  "one\\ntwo"', line), line
    (record,) = lines(holdfast("show", "waiting", "--tenant", "acme", "--json"))
    (signal,) = record["signals"]
    assert (signal["name"], signal["value"], signal["in_journal"]) == ("later", "one\ntwo", False)
