"""What strangers send that is no request of ours: it is refused, and no failure of the server."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import pytest

from holdfast import Holdfast
from holdfast.server import ServerSettings
from tests.serving import person, served

PATIENT: Final = ServerSettings(requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6)
PLAIN: Final = "application/x-www-form-urlencoded"
FILES: Final = "multipart/form-data; boundary=a"
OURS: Final = "none"
"""``Sec-Fetch-Site`` of a browser that a person has led here."""

ORIGINS: Final = ("http://[", "http://]", "http://[::1", "null", "", "//", "http://a@b:c")
FORMS: Final = (
    (PLAIN, b"&a=" * 5000),
    (PLAIN + "; charset=none", b"token=a"),
    (PLAIN, b"token=%ff%00"),
    ("multipart/form-data", b"token=a"),
    ("multipart/form-data; boundary=" + "a" * 5000, b"token=a"),
    (FILES, b""),
    (FILES, b"token=a"),
    (FILES, b"--a\r\n" * 3000),
    (FILES, b'--a\r\nContent-Disposition: form-data; name="' + b"a" * 9000),
    (FILES, b"--a\r\nContent-Disposition: form-data\r\n\r\n\r\n--a--"),
    ("text/plain", b"token=a"),
    ("", b"token=a"),
)


def test_what_is_no_form_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """To log in nobody needs to be known, so anybody could fill the log with tracebacks."""

    async def main() -> None:
        async with (
            Holdfast("memory://", worker=False) as app,
            served(app, settings=PATIENT) as address,
            person(address, None) as stranger,
        ):
            for path in ("/login", "/welcome"):
                for media, body in FORMS:
                    headers = {"Sec-Fetch-Site": OURS, "Content-Type": media}
                    answer = await stranger.post(path, content=body, headers=headers)
                    assert 400 <= answer.status_code < 500, (path, media[:60], body[:60], answer.text)
                for origin in ORIGINS:
                    answer = await stranger.post(path, headers={"Origin": origin})
                    assert (answer.status_code, answer.json()["code"]) == (403, "cross_site_request"), origin

    asyncio.run(main())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_line_of_the_log_names_a_strangers_webhook_in_short(caplog: pytest.LogCaptureFixture) -> None:
    """The address of a request may have 16 KiB, and each refusal is a line."""

    async def main() -> None:
        async with (
            Holdfast("memory://", worker=False) as app,
            served(app, settings=PATIENT) as address,
            person(address, None) as stranger,
        ):
            caplog.set_level(logging.INFO, "holdfast.webhooks")
            assert (await stranger.post(f"/hooks/{'a' * 7000}/{'b' * 7000}")).status_code == 401

    asyncio.run(main())
    (line,) = [record.getMessage() for record in caplog.records if record.name == "holdfast.webhooks"]
    assert len(line) < 300
