"""What people do on the console, by mouse and by keyboard, in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.acceptance.console.conftest import NewPage
from tests.acceptance.console.office import Office

pytestmark = pytest.mark.xdist_group("browser")


def test_runs_are_found_by_keyboard(new_page: NewPage) -> None:
    """/ searches, filters live in the address, j and k choose a row, Enter opens it, g t goes to the tasks."""
    page = new_page()
    page.goto("/runs")
    page.keyboard.press("/")
    page.keyboard.type("status:waiting workflow:order tier=gold")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs\?status=waiting&workflow=order&attribute=tier%3Dgold$"))
    expect(page.locator("#q")).to_have_value("status:waiting workflow:order tier=gold")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_load_state("load")  # its script listens then
    page.keyboard.press("j")
    expect(page.locator("tr.at")).to_contain_text("order-503")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/runs/order-503$"))
    page.wait_for_load_state("load")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.locator("h1")).to_have_text("Tasks")


def test_a_plain_word_finds_a_run_or_its_reference(new_page: NewPage) -> None:
    """An id leads to its run; a word that is none is looked for as a reference."""
    page = new_page()
    page.goto("/runs?q=order-501")
    expect(page).to_have_url(re.compile(r"/runs/order-501$"))
    page.goto("/runs?q=C-17")
    expect(page).to_have_url(re.compile(r"/runs\?reference=C-17$"))
    expect(page.locator("tbody tr")).to_have_count(1)


def test_a_run_changes_while_it_is_looked_at(new_page: NewPage, office: Office) -> None:
    """A signal that arrives is shown without a reload, and the chosen row stays chosen; while updates are paused, it is
    not shown until they go on."""
    office.post("runs", workflow="order", kwargs={"item": "a chair"}, id="live-1")
    page = new_page()
    page.goto("/runs/live-1")
    expect(page.locator(".why")).to_contain_text("signal 'packed'")
    drawn = page.locator(".picture img").get_attribute("src")
    with page.expect_response(lambda answer: "/v1/events/runs/live-1" in answer.url):
        page.reload()
    page.keyboard.press("j")
    office.post("runs/live-1/signal", name="packed", value="mia")
    expect(page.locator(".why")).to_contain_text("It completed")
    expect(page.locator("[data-row].at summary")).to_be_focused()
    expect(page.locator(".timeline")).to_contain_text("ship_parcel")
    assert page.locator(".picture img").get_attribute("src") != drawn, "the picture is not the one of now"
    office.post("runs", workflow="order", kwargs={"item": "a desk"}, id="live-2")
    page.goto("/runs/live-2")
    page.keyboard.press("p")
    expect(page.locator("#live")).to_have_text("Updates paused")
    office.post("runs/live-2/signal", name="packed", value="mia")
    expect(page.locator(".why")).to_contain_text("signal 'packed'")
    page.keyboard.press("p")
    expect(page.locator(".why")).to_contain_text("It completed")


def test_what_was_typed_and_the_button_in_focus_are_kept_while_a_run_changes(new_page: NewPage, office: Office) -> None:
    """The parts of the page that change are exchanged. Nobody types a reason twice, or presses Enter for nothing."""
    page = new_page()
    for run in ("typed-1", "typed-2"):
        office.post("runs", workflow="order", kwargs={"item": "a lamp"}, id=run)
        page.goto(f"/runs/{run}")
        with page.expect_response(lambda answer: "/v1/events/runs/" in answer.url):
            page.reload()
        page.locator("#fork > summary").click()
        page.locator("#fork [name=id]").fill(f"{run}-again")
        page.locator("#fork [name=reason]").fill("another try")
        page.locator("#live" if run == "typed-1" else "#fork button").focus()
        office.post(f"runs/{run}/signal", name="packed", value="mia")
        expect(page.locator(".why")).to_contain_text("It completed")
        if run == "typed-1":
            expect(page.locator("#run-side")).to_contain_text("Ended")
        else:
            expect(page.locator("#fork button")).to_be_focused()
        expect(page.locator("#fork [name=reason]")).to_have_value("another try")
        page.locator("#fork button").press("Enter")
        expect(page).to_have_url(re.compile(f"/runs/{run}-again$"))


def test_acts_ask_for_a_reason_and_the_audit_keeps_it(new_page: NewPage, office: Office) -> None:
    """Pause, resume, signal, fork and cancel a run with the mouse; what is typed wrongly is not lost."""
    office.post("runs", workflow="order", kwargs={"item": "a sofa"}, id="act-1")
    page = new_page()
    page.goto("/runs/act-1")

    def act(name: str, reason: str, **values: str) -> None:
        page.locator(f"#{name} > summary").click()
        form = page.locator(f"#{name} form")
        for field, value in values.items():
            form.locator(f"[name={field}]").fill(value)
        form.locator("[name=reason]").fill(reason)
        form.locator("button").click()

    act("pause", "the lift is broken")
    expect(page.locator(".notice")).to_contain_text("pauses")
    expect(page.locator(".head .chip")).to_contain_text("paused")
    act("resume", "the lift is mended")
    expect(page.locator(".head .chip")).to_contain_text("waiting")
    with page.expect_response(lambda answer: answer.request.method == "POST") as refused:
        page.locator(".timeline summary").nth(1).click()
        page.get_by_role("link", name="Fork here").first.click()
        page.locator("#fork [name=sequence]").fill("2")
        page.locator("#fork [name=id]").fill("act-1-again")
        page.locator("#fork [name=reason]").fill("another try")
        page.locator("#fork button").click()
    assert refused.value.status == 303
    expect(page).to_have_url(re.compile(r"/runs/act-1-again$"))
    act("cancel", "not needed any more")
    expect(page.locator(".head .chip")).to_contain_text("cancelled")
    said = [entry["record"].get("reason") for entry in office.get("audit?kind=operator&run=act-1")["items"]]
    assert [reason for reason in said if reason] == ["the lift is broken", "the lift is mended", "another try"]


def test_many_runs_are_cancelled_after_a_look(new_page: NewPage, office: Office) -> None:
    """The dry run names how many and which; only then are they asked to stop."""
    for number in range(3):
        office.post(
            "runs", workflow="order", kwargs={"item": "a shelf"}, id=f"bulk-{number}", attributes={"batch": "b7"}
        )
    page = new_page()
    page.goto("/runs?attribute=batch%3Db7")
    page.get_by_text("Act on all runs of this list").click()
    page.locator("details [name=reason]").fill("ordered twice")
    page.get_by_role("button", name="Cancel…").click()
    expect(page.locator("h1")).to_have_text("Cancel 3 runs?")
    assert office.get("runs/bulk-1")["run"]["status"] == "waiting"
    page.get_by_role("button", name="Cancel 3 runs").click()
    expect(page.locator("h1")).to_have_text("Cancelled: 3 runs")
    page.goto("/runs?attribute=batch%3Db7&status=cancelled")
    expect(page.locator("tbody tr")).to_have_count(3)


def test_the_past_of_a_run_is_shown(new_page: NewPage) -> None:
    """The slider goes back in time, and so does the picture; a row unfolds to the decoded values."""
    page = new_page()
    page.goto("/runs/invoice-1001")
    expect(page.locator(".timeline > li")).to_have_count(6)
    page.locator("#at").focus()
    page.keyboard.press("Home")
    expect(page.locator("#timeline")).to_contain_text("as it was at event")
    page.goto("/runs/invoice-1001?at=5")
    expect(page.locator(".timeline > li")).to_have_count(2)
    assert "at=5" in (page.locator(".picture img").get_attribute("src") or "")
    page.goto("/runs/invoice-1001")
    page.locator(".timeline summary", has_text="check_supplier").click()
    expect(page.locator(".timeline details[open] .inside")).to_contain_text('"standing": "good"')
    width = "async image => { await image.decode(); return image.naturalWidth; }"
    assert page.locator(".picture img").evaluate(width) > 100


def test_a_bad_answer_keeps_what_was_typed(new_page: NewPage, office: Office) -> None:
    """A rejection without a reason is refused at its field; the choice is kept, and the mended answer is taken."""
    office.post("runs", workflow="claims.settle", id="claim-40", args=[claim("C-40")])
    office.post("runs/claim-40/signal", name="documents", value=["photo"], key="C-40")
    page = new_page()
    page.goto(f"/tasks/{office.task_of('claim-40')}")
    page.locator("select").select_option(label="reject")
    with page.expect_response(lambda answer: answer.url.endswith("/complete")) as refused:
        page.get_by_role("button", name="Answer").click()
    assert refused.value.status == 422
    expect(page.locator(".field.wrong")).to_contain_text("A rejection needs a reason.")
    expect(page.locator("select")).to_have_value('"reject"')
    page.locator("input[name='answer/reason']").fill("no papers")
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".notice")).to_contain_text("Answered.")
    (task,) = office.get("tasks?run=claim-40")["items"]
    assert task["answers"][-1]["value"] == {"decision": "reject", "reason": "no papers"}


def claim(number: str) -> dict[str, object]:
    return {"claimNo": number, "filedBy": "ann", "items": [{"what": "a roof", "amount": 5000.0}]}


def test_a_payment_is_approved_by_keyboard(new_page: NewPage, office: Office) -> None:
    """Claim, reason, approve, and the next task is there: no mouse. What was approved is done, with a receipt."""
    invoice = {"number": "R-9", "supplier": "Kran AG", "amount": 2500.0}
    office.post("runs", workflow="pay_invoice", kwargs={"invoice": invoice}, id="invoice-9")
    task = office.task_of("invoice-9")
    page = new_page()
    page.goto(f"/tasks/{task}")
    expect(page.locator(".writes")).to_contain_text("2500.0")
    page.keyboard.press("c")
    expect(page.locator(".notice")).to_contain_text("It is yours")
    page.keyboard.press("r")
    page.keyboard.type("ordered by the crane team")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".notice")).to_contain_text("Approved.")
    assert page.url != f"{office.address}/tasks/{task}"
    this = page.url
    page.keyboard.press("n")
    expect(page).not_to_have_url(this)
    expect(page).to_have_url(re.compile("/tasks/"))
    page.goto("/runs/invoice-9")
    expect(page.locator(".why")).to_contain_text("It completed")
    assert [receipt["state"] for receipt in office.get("receipts?run=invoice-9")["items"]] == ["succeeded"] * 2


def test_a_changed_proposal_is_not_approved(new_page: NewPage, office: Office) -> None:
    """The form names what was seen. Where something else is asked by now, nothing is approved."""
    task = office.task_of("invoice-1002")
    page = new_page()
    page.goto(f"/tasks/{task}")
    page.locator("[name=proposal]").evaluate("each => { each.value = '00'.repeat(32); }")
    with page.expect_response(lambda answer: answer.url.endswith("/approve")) as refused:
        page.get_by_role("button", name="Approve").click()
    assert refused.value.status == 409
    expect(page.locator(".trouble")).to_contain_text("has changed since you saw it")
    assert office.get(f"tasks/{task}")["status"] == "requested"


def test_a_run_is_started_from_the_form_of_its_signature(new_page: NewPage, office: Office) -> None:
    """Fields come from the annotations; a taken id is refused, and what was typed is kept."""
    page = new_page()
    page.goto("/start?workflow=order")
    page.locator("input[name='answer/item']").fill("a mirror")
    page.locator("input[name=id]").fill("order-777")
    page.get_by_role("button", name="Start", exact=True).click()
    expect(page).to_have_url(re.compile("/runs/order-777$"))
    assert office.get("runs/order-777")["run"]["workflow"] == "order"
    page.goto("/start?workflow=order")
    page.locator("input[name='answer/item']").fill("another mirror")
    page.locator("input[name=id]").fill("order-777")
    with page.expect_response(lambda answer: answer.request.method == "POST") as refused:
        page.get_by_role("button", name="Start", exact=True).click()
    assert refused.value.status == 409
    expect(page.locator("input[name='answer/item']")).to_have_value("another mirror")


def test_the_audit_is_checked_in_the_page(new_page: NewPage) -> None:
    """One press checks the whole chain, and the page says what was found."""
    page = new_page()
    page.goto("/audit")
    page.get_by_role("button", name="Check it now").click()
    expect(page.locator("h1")).to_have_text("Nothing is broken")
    expect(page.locator("main")).to_contain_text("consistent")


def test_times_and_their_zone_are_remembered(new_page: NewPage) -> None:
    """u shows times in the reader's own zone, on the next page as well."""
    page = new_page(timezone_id="Asia/Tokyo")
    page.goto("/runs/invoice-1001")
    utc = page.locator("aside time").first.text_content()
    page.keyboard.press("u")
    expect(page.locator("#zone")).to_have_text("Times: local")
    assert page.locator("aside time").first.text_content() != utc
    page.goto("/runs")
    expect(page.locator("#zone")).to_have_text("Times: local")
