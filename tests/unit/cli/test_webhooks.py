"""``holdfast webhooks`` and ``holdfast subscriptions``: what people type, and what they read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import exits
from tests.unit.cli.conftest import Invoke


@pytest.fixture(autouse=True)
def user(holdfast: Invoke) -> None:
    for command in (("tenants", "create", "default"), ("users", "create", "hooks", "--level", "4", "--as", "ann")):
        done = holdfast(*command)
        assert done.exit_code == exits.GOOD, done.output


def good(holdfast: Invoke, *command: str) -> str:
    done = holdfast(*command)
    assert done.exit_code == exits.GOOD, done.output
    return done.stdout


def test_a_webhook_is_made_shown_changed_and_rotated_and_its_secret_is_printed_once(holdfast: Invoke) -> None:
    create = ("webhooks", "create", "orders", "--start", "pays", "--with", "={'order': payload.no}", "--user", "hooks")
    done = holdfast(*create)
    assert done.exit_code == exits.GOOD, done.output
    secret = done.stdout.strip()
    assert secret.startswith("whsec_")
    assert "/hooks/default/orders" in done.stderr
    shown = good(holdfast, "webhooks", "show", "orders")
    assert "start template pays input ={'order': payload.no}" in " ".join(shown.split())
    assert "orders" in good(holdfast, "webhooks")
    again = good(holdfast, "webhooks", "rotate", "orders", "--overlap", "2h").strip()
    assert again.startswith("whsec_")
    assert again != secret
    good(holdfast, "webhooks", "change", "orders", "--disable", "--signal", "go", "--run", "=payload.run")
    record: dict[str, Any] = json.loads(good(holdfast, "webhooks", "show", "orders", "--json"))
    assert (record["status"], record["does"]["do"], record["user"]) == ("disabled", "signal", "hooks")
    everything = shown + good(holdfast, "webhooks", "list", "--json") + good(holdfast, "audit", "list")
    assert secret[6:] not in everything
    assert again[6:] not in everything


def test_a_secret_that_was_given_is_read_from_a_file(holdfast: Invoke, tmp_path: Path) -> None:
    """On the command line others could read it."""
    (tmp_path / "secret").write_text("a secret of the sender\n")
    hub = ("webhooks", "create", "hub", "--emit", "pushed", "--scheme", "github", "--user", "hooks", "--json")
    record = json.loads(good(holdfast, *hub, "--secret-file", str(tmp_path / "secret")))
    assert (record["scheme"], record["secret"]) == ("github", "a secret of the sender")


def test_what_does_not_fit_is_said(holdfast: Invoke) -> None:
    assert (
        holdfast("webhooks", "create", "x", "--emit", "e", "--start", "t", "--user", "hooks").exit_code == exits.USAGE
    )
    assert holdfast("webhooks", "create", "x", "--signal", "e", "--user", "hooks").exit_code == exits.USAGE
    assert holdfast("webhooks", "show", "x").exit_code == exits.NOT_FOUND
    assert holdfast("subscriptions", "show", "x").exit_code == exits.NOT_FOUND
    assert holdfast("subscriptions", "resend", "x", "msg_1").exit_code == exits.NOT_FOUND
    wrong = holdfast("subscriptions", "create", "x", "https://a.example/", "--event", "run.exploded")
    assert wrong.exit_code == exits.USAGE
    assert "run.completed" in wrong.stderr


def test_a_subscription_is_made_pinged_looked_at_and_steered(holdfast: Invoke) -> None:
    create = ("subscriptions", "create", "ops", "https://a.example/x", "--event", "run.failed", "--event", "task.*")
    secret = good(holdfast, *create, "--workflow", "claims.*").strip()
    assert secret.startswith("whsec_")
    assert "run.failed, task.*" in good(holdfast, "subscriptions")
    assert good(holdfast, "subscriptions", "deliveries", "ops") == ""
    good(holdfast, "subscriptions", "ping", "ops")
    (line,) = good(holdfast, "subscriptions", "deliveries", "ops", "--status", "pending", "--json").splitlines()
    message = json.loads(line)["id"]
    assert message in good(holdfast, "subscriptions", "deliveries", "ops")
    good(holdfast, "subscriptions", "resend", "ops", message, "--reason", "lost")
    good(holdfast, "subscriptions", "change", "ops", "--url", "https://b.example/y")
    good(holdfast, "subscriptions", "disable", "ops", "--reason", "moves")
    shown = good(holdfast, "subscriptions", "show", "ops")
    assert "https://b.example/y" in shown
    assert "moves" in shown
    good(holdfast, "subscriptions", "enable", "ops")
    assert good(holdfast, "subscriptions", "rotate", "ops").strip() not in ("", secret)
    assert secret[6:] not in good(holdfast, "audit", "list") + shown


def test_who_changes_or_rotates_a_webhook_is_in_whose_name_it_acts_and_a_refusal_says_what_to_do(
    holdfast: Invoke,
) -> None:
    """The new secret is printed where the one before it has ended; a token whose scope is too narrow is told which
    operation it lacks."""
    for name in ("joe", "eve"):
        good(holdfast, "users", "create", name, "--level", "5")
    joe, eve, narrow = (
        good(holdfast, "tokens", "mint", name, *scope).strip()
        for name, scope in (("joe", ()), ("eve", ()), ("eve", ("--scope", "webhooks")))
    )
    good(holdfast, "webhooks", "create", "hub", "--emit", "pushed", "--token", joe)
    changed = holdfast("webhooks", "change", "hub", "--emit", "pulled", "--token", eve)
    assert changed.exit_code == exits.GOOD, changed.output
    assert changed.stdout.startswith("whsec_")
    assert "acts as eve; its secret before has ended" in changed.stderr
    named = good(holdfast, "webhooks", "change", "hub", "--name", "a name", "--token", joe)
    assert named == "webhook hub is changed, and acts as eve\n"
    rotated = holdfast("webhooks", "rotate", "hub", "--token", joe)
    assert "acts as joe" in rotated.stderr
    for command in (("rotate", "hub"), ("change", "hub", "--filter", "=true"), ("create", "x", "--emit", "e")):
        refused = holdfast("webhooks", *command, "--token", narrow)
        assert refused.exit_code == exits.NO, refused.output
        assert "use a token that has events.emit in its scope, too" in " ".join(refused.stderr.split())


def test_a_token_that_is_over_because_of_its_maker_says_so(holdfast: Invoke) -> None:
    good(holdfast, "users", "create", "root", "--level", "6")
    first = good(holdfast, "tokens", "mint", "root").strip()
    second = good(holdfast, "tokens", "mint", "hooks", "--token", first).strip()
    good(holdfast, "tokens", "revoke", first.split("_")[1])
    refused = holdfast("whoami", "--token", second)
    assert refused.exit_code != exits.GOOD
    assert f"of token {first.split('_')[1]}, with which it was made: it was revoked" in " ".join(refused.stderr.split())
    records = [json.loads(line) for line in good(holdfast, "tokens", "list", "--json").splitlines()]
    assert [each["revoked"] for each in records] == [True, True]
