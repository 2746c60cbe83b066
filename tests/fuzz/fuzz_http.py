"""Sends random requests, valid and invalid ones, to every route: ``python -m tests.fuzz.fuzz_http SEED EXAMPLES``.

A real server answers them, on a store that has one of everything in two tenants. Whoever sends them has a level of one
tenant. No answer is a 5xx, every refusal is a problem, every other answer is as documented, and none has a byte
of the other tenant.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.checks import load_all_checks

from holdfast import Holdfast, WorkerOptions
from holdfast.server import ServerSettings
from holdfast.server.problems import PROBLEM
from tests.serving import served
from tests.unit.client.operations import FREE, TWO, WORKFLOWS, furnish
from tests.unit.server.test_who_may import SECRET, hide

load_all_checks()

SETTINGS = ServerSettings(
    requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6, wait_seconds=0.01, bulk_limit=3
)


class Fuzzed:
    """A server with two tenants, in a thread of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.address = ""
        self.tokens: list[str] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        options = WorkerOptions(retention_days=None)
        async with Holdfast(self._url, workflows=WORKFLOWS, policy=FREE, options=options) as app:
            _, bolt = [await furnish(app, tenant) for tenant in ("acme", "bolt")]
            await app.definitions.publish(TWO, tenant="acme")
            await hide(app, bolt)
            levels = (1, 3, 6)
            self.tokens = [(await app.tokens.mint(f"level {level}", tenant="acme")).text for level in levels]
            async with served(app, settings=SETTINGS) as self.address:
                self._ready.set()
                await self._stop.wait()

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    def wait(self) -> None:
        self._ready.wait(60)
        if self.error is not None:
            raise self.error


@contextmanager
def fuzzed(url: str) -> Iterator[Fuzzed]:
    """A server to be asked, which is stopped at the end."""
    server = Fuzzed(url)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        server.wait()
        yield server
    finally:
        server.stop()
        thread.join(60)


def fuzz(url: str, number: int, examples: int) -> int:
    """Ask for every route, so often with every level; gives the number of requests."""
    with fuzzed(url) as server, requests.Session() as session:
        schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
        count = 0
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path.startswith("/v1/events"):
                continue
            for token in server.tokens:
                count += _ask(operation, session, server.address, token, number, examples)
        return count


def _ask(operation: Any, session: requests.Session, address: str, token: str, number: int, examples: int) -> int:
    count = [0]

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        count[0] += 1
        headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
        response = case.call(base_url=address, headers=headers, session=session, timeout=60)
        check(case, response)

    ask()
    return count[0]


def check(case: Any, response: Any) -> None:
    """Judge one answer."""
    text = f"{case.as_curl_command()}\n{response.status_code} {response.text[:500]}"
    assert response.status_code < 500, text
    assert SECRET not in response.text, text
    if response.status_code >= 400:
        assert response.headers["content-type"][0] == PROBLEM, text
        assert response.json()["status"] == response.status_code, text
    checks = [
        schemathesis.checks.CHECKS.get_one("response_schema_conformance"),
        schemathesis.checks.CHECKS.get_one("content_type_conformance"),
    ]
    case.validate_response(response, checks=checks)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        print(fuzz(f"sqlite:///{folder}/store.db", int(sys.argv[1]), int(sys.argv[2])), "requests")
