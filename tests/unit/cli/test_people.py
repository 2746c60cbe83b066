"""Tenants, users and tokens from the command line, and commands that act for a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import exits
from holdfast.cli.main import main
from tests.unit.cli.conftest import lines


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with the tenant acme and its first user; gives the token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    done = hold("init", "ann", "--tenant", "acme")
    assert done.exit_code == exits.GOOD
    return done.stdout.strip()


def hold(*args: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, args, env=env, prog_name="holdfast")


def test_init_makes_the_first_user_once(made: str) -> None:
    assert made.startswith("hf_")
    (ann,) = lines(hold("users", "--tenant", "acme", "--json"))
    assert (ann["name"], ann["level"], ann["disabled"]) == ("ann", 6, False)
    again = hold("init", "bob", "--tenant", "acme")
    assert (again.exit_code, "has users already" in again.stderr) == (exits.CONFLICT, True)


def test_a_token_binds_and_finds_its_tenant(made: str) -> None:
    """From the option or the environment; tenant and name are the user's."""
    assert hold("whoami").stdout.startswith("the operator")
    for told in (hold("whoami", "--token", made), hold("whoami", env={"HOLDFAST_TOKEN": made})):
        assert told.stdout.strip() == "ann of tenant acme, level 6"
    created = hold("users", "create", "bob", "--level", "2", "--group", "desk", "--token", made, "--json")
    (bob,) = lines(created)
    assert (bob["tenant"], bob["groups"]) == ("acme", ["desk"])
    notes = [
        entry for entry in lines(hold("audit", "--token", made, "--json")) if entry["record"]["act"] == "create_user"
    ]
    assert [entry["record"]["who"] for entry in notes] == ["ann", "ann"]


def test_a_list_goes_on_where_the_last_one_ended(made: str) -> None:
    for name in ("bob", "cid"):
        hold("users", "create", name, "--level", "1", "--token", made)
    first = hold("users", "list", "--limit", "2", "--token", made)
    assert "cid" not in first.stdout
    cursor = first.stderr.split("--after ")[1].split()[0]
    (rest,) = lines(hold("users", "list", "--after", cursor, "--token", made, "--json"))
    assert rest["name"] == "cid"
    wrong = hold("templates", "list", "--after", cursor, "--token", made)
    assert (wrong.exit_code, "a list of users" in wrong.stderr) == (exits.USAGE, True)


def test_everybody_sees_and_revokes_their_own_tokens(made: str) -> None:
    hold("users", "create", "bob", "--level", "1", "--token", made)
    mine = hold("tokens", "mint", "bob", "--token", made).stdout.strip()
    (token,) = lines(hold("tokens", "own", "--token", mine, "--json"))
    assert token["user"] == "bob"
    assert hold("tokens", "revoke", token["id"], "--token", mine).exit_code == exits.NO
    assert hold("tokens", "revoke", token["id"], "--own", "--token", mine).exit_code == exits.GOOD
    assert "revoked" in hold("whoami", "--token", mine).stderr
    assert "app.acting_as" in hold("tokens", "own").stderr


def test_caps_are_set_and_shown(made: str) -> None:
    """A tenant's by the operator, a workspace's by whoever keeps the tenant: all of a workspace's are given anew."""
    hold("tenants", "change", "acme", "--max-writes-per-run", "5", "--weight", "2")
    assert "max_writes_per_run 5, weight 2" in hold("tenants").stdout
    hold("workspaces", "create", "north", "--token", made)
    done = hold("workspaces", "limit", "north", "--max-concurrency", "1", "--max-writes-per-run", "0", "--token", made)
    assert done.stdout == "workspace north of tenant acme: max_concurrency 1, max_writes_per_run 0\n"
    (shown,) = lines(hold("workspaces", "limit", "north", "--weight", "3", "--token", made, "--json"))
    assert (shown["max_concurrency"], shown["max_writes_per_run"], shown["weight"]) == (None, None, 3)
    assert "weight 3" in hold("workspaces", "--token", made).stdout
    assert hold("workspaces", "limit", "north", "--weight", "0", "--token", made).exit_code == exits.USAGE


def test_a_refusal_says_the_level_and_exits_with_1(made: str) -> None:
    hold("users", "create", "bob", "--level", "2", "--token", made)
    minted = hold("tokens", "mint", "bob", "--token", made).stdout.strip()
    refused = hold("users", "create", "eve", "--level", "1", "--token", minted)
    assert (refused.exit_code, refused.stderr) == (
        exits.NO,
        "error: users.change needs level 6, and bob has level 2.\n",
    )
    same = hold("users", "create", "eve", "--level", "1", "--as", "bob", "--tenant", "acme")
    assert (same.exit_code, same.stderr) == (refused.exit_code, refused.stderr)
    assert hold("list", "--token", minted).exit_code == exits.GOOD
    assert hold("doctor", "--token", minted).exit_code == exits.NO
    assert hold("prune", "--older-than", "1d", "--yes", "--token", made).exit_code == exits.NO
    assert hold("tenants", "create", "bolt", "--token", made).exit_code == exits.NO
    assert hold("show", "r1", "--tenant", "bolt", "--token", made).exit_code == exits.NOT_FOUND


def test_a_token_that_is_over(made: str) -> None:
    minted = hold("tokens", "mint", "ann", "--tenant", "acme", "--purpose", "ci", "--json")
    (token,) = lines(minted)
    assert hold("tokens", "revoke", token["id"], "--token", made).exit_code == exits.GOOD
    over = hold("list", "--token", token["token"])
    assert (over.exit_code, "revoked" in over.stderr) == (exits.NO, True)
    wrong = hold("list", "--token", "hf_nonsense")
    assert (wrong.exit_code, "not valid" in wrong.stderr) == (exits.NO, True)
    assert hold("list", "--token", "secret").exit_code == exits.USAGE
    assert hold("tokens", "revoke", "000000000000", "--tenant", "acme").exit_code == exits.NOT_FOUND
    table = hold("tokens", "--user", "ann", "--tenant", "acme").stdout
    assert ("revoked" in table, "good until" in table) == (True, True)


def test_users_are_changed(made: str) -> None:
    env = {"HOLDFAST_TOKEN": made}
    hold("users", "create", "bob", "--level", "6", env=env)
    assert "would have" in hold("users", "set-level", "bob", "4", "--dry-run", env=env).stdout
    changes = ["set-level", "bob", "4"], ["set-groups", "bob", "--group", "a"], ["disable", "bob"], ["enable", "bob"]
    for command in changes:
        assert hold("users", *command, env=env).exit_code == exits.GOOD
    (bob,) = [user for user in lines(hold("users", "--json", env=env)) if user["name"] == "bob"]
    assert (bob["level"], bob["groups"], bob["disabled"]) == (4, ["a"], False)
    last = hold("users", "disable", "ann", env=env)
    assert (last.exit_code, "last enabled user" in last.stderr) == (exits.CONFLICT, True)
    assert hold("users", "disable", "zoe", env=env).exit_code == exits.NOT_FOUND
    assert hold("users", "create", "bob", "--level", "1", env=env).exit_code == exits.CONFLICT
    assert hold("users", "create", "zoe", "--level", "1", "--dry-run", env=env).stdout.endswith("would be made\n")


def test_tenants_and_workspaces(made: str) -> None:
    assert hold("tenants", "create", "bolt", "--weight", "2", "--title", "Bolt").exit_code == exits.GOOD
    assert hold("tenants", "change", "bolt", "--max-concurrency", "3").exit_code == exits.GOOD
    found = {tenant["name"]: tenant for tenant in lines(hold("tenants", "--json"))}
    assert (found["bolt"]["weight"], found["bolt"]["max_concurrency"], found["bolt"]["title"]) == (2, 3, "Bolt")
    assert "max_concurrency 3, weight 2" in hold("tenants").stdout
    assert hold("tenants", "change", "nowhere", "--title", "x").exit_code == exits.NOT_FOUND
    assert [tenant["name"] for tenant in lines(hold("tenants", "--token", made, "--json"))] == ["acme"]
    assert hold("workspaces", "create", "sales", "--token", made).exit_code == exits.GOOD
    assert hold("workspaces", "archive", "sales", "--token", made).exit_code == exits.GOOD
    assert "archived" in hold("workspaces", "--token", made).stdout


def test_as_without_users_is_a_name_for_the_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was before there were users."""
    monkeypatch.chdir(tmp_path)
    assert hold("migrate").exit_code == exits.GOOD
    assert hold("cancel", "r1", "--as", "anybody").exit_code == exits.NOT_FOUND
    missing = hold("approve", "t-1")
    assert (missing.exit_code, "--as" in missing.stderr) == (exits.USAGE, True)
