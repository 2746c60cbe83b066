"""What people keep by the console: templates, schedules, users, tokens, versions; by mouse and by keyboard."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.conftest import NewPage
from tests.acceptance.console.office import Office

pytestmark = pytest.mark.xdist_group("browser")


def fill(page: Page, summary: str, button: str, reason: str = "a test", **values: str) -> None:
    """Unfold a form, fill it in, and press its button."""
    page.locator("summary", has_text=summary).click()
    form = page.locator("details[open]", has=page.locator("summary", has_text=summary)).locator("form")
    for name, value in values.items():
        field = form.locator(f"[name={name}]")
        field.select_option(value) if field.evaluate("each => each.tagName") == "SELECT" else field.fill(value)
    form.locator("[name=reason]").fill(reason)
    form.get_by_role("button", name=button, exact=True).click()


@pytest.mark.long
def test_a_template_is_made_changed_and_started(new_page: NewPage, office: Office) -> None:
    """Draft, new version, active, paused, resumed, started from the fields of its program, archived; by the mouse."""
    page = new_page()
    page.goto("/templates")
    fill(page, "New template", "Make the draft", id="ship", program="order", trigger="manual", max_concurrency="2")
    expect(page.locator(".why")).to_contain_text("It is a draft")
    fill(page, "New version", "Make version 2", name="Ship something")
    expect(page.locator("h1")).to_have_text("Ship something")
    for summary, button, words in (
        ("Activate", "Activate", "It can be started"),
        ("Pause", "Pause", "until it is resumed"),
        ("Resume", "Resume", "It can be started"),
    ):
        fill(page, summary, button)
        expect(page.locator(".why")).to_contain_text(words)
    page.locator("summary", has_text="Start an instance").click()
    page.locator("[name='answer/item']").fill("a lantern")
    page.locator("#start [name=id]").fill("ship-1")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(re.compile("/runs/ship-1$"))
    assert office.get("templates/ship")["caps"]["max_concurrency"] == 2
    page.goto("/templates/ship")
    expect(page.locator("main")).to_contain_text("ship-1")
    fill(page, "Archive", "Archive")
    expect(page.locator(".why")).to_contain_text("Nothing is started of it any more")


def test_a_schedule_is_made_by_keyboard_paused_run_and_deleted(new_page: NewPage, office: Office) -> None:
    """No mouse until it is there; a wrong cron line is refused, and what was typed is kept."""
    page = new_page()
    page.goto("/schedules")
    summary = page.locator("summary", has_text="New schedule")
    summary.focus()
    for key in ("Enter", "Tab"):
        page.keyboard.press(key)
    page.keyboard.type("evening")
    page.keyboard.press("Tab")
    page.keyboard.type("order")
    page.keyboard.press("Tab")
    page.keyboard.type("25 o'clock")
    page.locator("[name=input]").focus()
    page.keyboard.type('{"item": "a candle"}')
    page.keyboard.press("Tab")
    page.keyboard.type("it gets dark")
    page.keyboard.press("Enter")
    expect(page.locator(".trouble")).to_be_visible()
    expect(page.locator("[name=id]")).to_have_value("evening")
    page.locator("[name=cron]").fill("0 18 * * *")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/schedules/evening$"))
    expect(page.locator("ol li")).to_have_count(5)
    fill(page, "Pause", "Pause")
    expect(page.locator(".head .chip")).to_contain_text("paused")
    fill(page, "Resume", "Resume")
    expect(page.locator(".head .chip")).to_contain_text("active")
    fill(page, "Run now", "Run it now")
    expect(page).to_have_url(re.compile("/runs/evening"))
    assert office.get("schedules/evening")["last"][-1]["what"] == "started"
    page.goto("/schedules/evening")
    fill(page, "Delete", "Delete it")
    expect(page).to_have_url(re.compile("/schedules$"))


def test_a_user_is_made_gets_a_token_and_loses_it(new_page: NewPage, office: Office) -> None:
    """The page of a user says what they may do, before and after their level is changed and they are disabled."""
    page = new_page()
    page.goto("/people")
    fill(page, "New user", "Make the user", name="dora", level="2", groups="dock")
    expect(page.locator(".why")).to_contain_text("dora may answer tasks")
    fill(page, "Change", "Change", level="4")
    expect(page.locator(".why")).to_contain_text("start and steer runs")
    fill(page, "New token", "Make the token", purpose="her laptop", days="7", scope="runs.see")
    expect(page.locator("#token")).to_contain_text("hf_")
    page.get_by_role("link", name="Done").click()
    expect(page.locator("tbody tr")).to_contain_text("only runs.see")
    expect(page.locator("tbody tr")).to_contain_text("never")
    fill(page, "End ", "End it")
    expect(page.locator("tbody tr .chip")).to_contain_text("revoked")
    page.goto("/people")
    fill(page, "Link a Slack account", "Link it", account="U0DORA", user="dora")
    expect(page.locator(".notice")).to_contain_text("U0DORA stands for dora")
    page.goto("/people/dora")
    fill(page, "Unlink U0DORA", "Unlink it")
    expect(page.locator(".notice")).to_contain_text("stands for nobody")
    page.goto("/people/dora")
    page.locator("summary", has_text="Change").click()
    form = page.locator("aside details[open] form")
    form.get_by_label("Disabled").check()
    form.locator("[name=reason]").fill("she left")
    form.get_by_role("button", name="Change", exact=True).click()
    expect(page.locator(".why")).to_contain_text("may do nothing")
    assert office.get("users/dora")["disabled"] is True


@pytest.mark.long
def test_tenants_and_workspaces_are_made_and_capped(new_page: NewPage, office: Office) -> None:
    """A number that is none is refused, and what was typed is kept."""
    page = new_page()
    page.goto("/tenants")
    fill(page, "New tenant", "Make the tenant", name="harbour", title="Harbour", max_concurrency="many")
    expect(page.locator(".trouble")).to_contain_text("whole number")
    expect(page.locator("[name=title]:visible")).to_have_value("Harbour")
    page.locator("[name=max_concurrency]:visible").fill("3")
    page.get_by_role("button", name="Make the tenant").click()
    expect(page.locator("tr", has_text="harbour")).to_contain_text("3 at once")
    fill(page, "Change harbour", "Change", title="The harbour", weight="2")
    expect(page.locator("tr", has_text="The harbour")).to_be_visible()
    fill(page, "New workspace", "Make the workspace", name="quay")
    fill(page, "Change quay", "Set the caps", max_runs_per_min="60")
    expect(page.locator("tr", has_text="quay")).to_contain_text("60 in a minute")
    fill(page, "Change quay", "Archive it")
    expect(page.locator("tr", has_text="quay")).to_contain_text("archived")


def test_tasks_are_given_to_somebody_rejected_and_resolved(new_page: NewPage, office: Office) -> None:
    """Assigned and delegated to another user, taken back, rejected with a reason that is asked for; and an outcome that
    a person has looked up."""
    office.post("users", name="emil", level=2)
    for number, amount, account in (("R-81", 4100.0, "1200"), ("R-82", 12.0, "4711")):
        invoice = {"number": number, "supplier": "Kai Ost", "amount": amount}
        office.post("runs", workflow="pay_invoice", kwargs={"invoice": invoice, "account": account}, id=number)
    page = new_page()
    place = f"/tasks/{office.task_of('R-81')}"
    page.goto(place)
    fill(page, "Give it to somebody", "Assign", to="emil")
    page.goto(place)
    expect(page.locator("main")).to_contain_text("You cannot answer this.")
    fill(page, "Give it to somebody", "Assign", to="you")
    page.goto(place)
    fill(page, "Give it to somebody", "Delegate", to="emil")
    page.goto(place)
    expect(page.locator(".card", has_text="What was said")).to_contain_text("you delegated")
    fill(page, "Give it to somebody", "Assign", to="you")
    page.goto(place)
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".trouble")).to_be_visible()
    page.locator(".open [name=reason]").fill("we have not ordered this")
    page.get_by_role("button", name="Reject").click()
    expect(page.locator(".notice")).to_contain_text("Rejected")
    (rejected,) = office.get("tasks?run=R-81&status=rejected")["items"]
    assert rejected["answers"][-1]["reason"] == "we have not ordered this"
    page.goto(f"/tasks/{office.task_of('R-82')}")
    page.locator(".open [name=reason]").fill("it is in the ledger")
    page.locator("[name=result]").fill('"entry 17"')
    page.get_by_role("button", name="It happened").click()
    page.goto("/runs/R-82")
    expect(page.locator(".why")).to_contain_text("It completed")


@pytest.mark.long
def test_a_subscription_is_made_pinged_and_sent_again(new_page: NewPage, office: Office) -> None:
    """Its secret is shown once. A private address is refused when it is tried, and the page says so."""
    page = new_page()
    page.goto("/webhooks")
    fill(page, "New subscription", "Make the subscription", id="dock", url="https://10.1.2.3/x", events="run.failed")
    expect(page.locator("#secret")).to_contain_text("whsec_")
    page.get_by_role("link", name="Done").click()
    page.get_by_role("button", name="Send a ping").click()
    expect(page.locator("tbody tr")).to_contain_text("ping")
    fill(page, "Disable", "Disable")
    expect(page.locator(".why")).to_contain_text("It is told nothing")
    fill(page, "Enable", "Enable")
    expect(page.locator(".head .chip")).to_contain_text("active")
    fill(page, "New secret", "Make a new secret")
    expect(page.locator("#secret")).to_contain_text("whsec_")
    page.goto("/webhooks")
    fill(page, "New webhook", "Make the webhook", id="hub", does="emit", target="pushed", scheme="github")
    page.get_by_role("link", name="Done").click()
    expect(page.locator("main")).to_contain_text("/hooks/default/hub")
    fill(page, "Disable", "Disable")
    expect(page.locator(".why")).to_contain_text("It refuses every delivery")
    assert office.get("subscriptions/dock")["status"] == "active"


def test_live_runs_are_moved_after_a_look_and_an_act_is_taken_back(new_page: NewPage, office: Office) -> None:
    """The plan names the runs; only then are they asked to move. A receipt leads to the run that reverses its act."""
    page = new_page()
    page.goto("/definitions/claims.settle")
    expect(page.locator("main")).to_contain_text("What changed since version 1")
    fill(page, "Move live runs", "Show the plan")
    expect(page.locator("h1")).to_contain_text("to version 2?")
    page.get_by_role("button", name=re.compile("^Move ")).click()
    expect(page.locator(".notice")).to_contain_text("were asked to move to version 2")
    page.goto(f"/receipts/{office.receipt_of('invoice-1001')}")
    fill(page, "Take it back", "Take it back")
    expect(page).to_have_url(re.compile("/runs/reverse"))
    expect(page.locator(".why")).to_contain_text("It completed")


def test_a_proposal_is_compared_with_the_present(new_page: NewPage, office: Office) -> None:
    """v asks the probe; what is there and what the act makes of it stand side by side, before anybody approves."""
    page = new_page()
    page.goto(f"/tasks/{office.task_of('limit-falk')}")
    page.keyboard.press("v")
    row = page.locator("#present tbody tr", has_text="limit")
    expect(row.locator("del")).to_have_text("10000")
    expect(row.locator("ins")).to_have_text("20000")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()


def test_a_newcomer_approves_a_payment_and_checks_its_evidence(
    new_page: NewPage, office: Office, tmp_path: Path
) -> None:
    """What the README says: the inbox, the proposal, Approve, the run, its evidence, two downloads, one command."""
    invoice = {"number": "R-77", "supplier": "Fähre Süd", "amount": 3100.0}
    office.post("runs", workflow="pay_invoice", kwargs={"invoice": invoice}, id="invoice-77")
    page = new_page()
    page.goto("/tasks")
    page.get_by_role("link", name="May make_payment act on Fähre Süd?").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".notice")).to_contain_text("Approved.")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name="invoice-77").click()
    expect(page.locator(".why")).to_contain_text("It completed")
    page.get_by_role("link", name="Evidence").click()
    for name in ("Download the evidence", "Public keys"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / download.value.suggested_filename)
    command = [sys.executable, "-m", "holdfast", "verify", "invoice-77.evidence", "--key", "holdfast-keys.pem"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "you approved" in checked.stdout or "approved" in checked.stdout
