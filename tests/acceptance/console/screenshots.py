"""The pictures of the console in the documentation: ``make screenshots`` takes them of the tests' own office."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.acceptance.console.office import Office, served_office
from tests.browser import ARGUMENTS, chromium

DOCS = Path(__file__).parents[3] / "docs"
SIZE = {"width": 1180, "height": 720}


def pictures_of(office: Office) -> dict[str, tuple[str, str]]:
    """For each picture: the page, and light or dark."""
    return {
        "console-runs": ("/runs", "light"),
        "console-run": ("/runs/renewal-halden", "light"),
        "console-approval": (f"/tasks/{office.task_of('invoice-1002')}", "light"),
        "console-dark": ("/runs/invoice-1002", "dark"),
    }


def take(folder: Path) -> list[Path]:
    """Take all pictures into a folder."""
    taken = []
    with served_office() as office, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for name, (path, scheme) in pictures_of(office).items():
            context = browser.new_context(base_url=office.address, viewport=SIZE, color_scheme=scheme)  # type: ignore[arg-type]
            page = context.new_page()
            page.goto(path, wait_until="load")
            page.locator("h1").wait_for()
            taken.append(folder / f"{name}.png")
            page.screenshot(path=taken[-1])
            context.close()
        browser.close()
    return taken


if __name__ == "__main__":
    for each in take(DOCS):
        print(each)
