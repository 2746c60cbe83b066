"""``holdfast serve`` in real processes: killed under load, stopped with open streams, started where it must not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from holdfast.server.listener import GRACE_SECONDS
from tests.acceptance.processes import until

APP = """
from holdfast import Holdfast, step, workflow

app = Holdfast("sqlite:///served.db")


@step
async def add(a: int, b: int) -> int:
    return a + b


@workflow
async def total(number: int) -> int:
    return await add(number, 1)
"""
SECONDS = 60.0


class Served:
    """One server process for the operator alone, on any free port or on a given one."""

    def __init__(self, folder: Path, *options: str, port: str = "0") -> None:
        command = [sys.executable, "-m", "holdfast", "serve", "app.py", "--no-auth", "--port", port, "--json", *options]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
        )
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        assert ready["event"] == "ready"
        self.address: str = ready["address"].rstrip("/")
        self.link: str = ready["link"]
        self.key_file: str | None = ready["key_file"]
        self.key = self.link.removeprefix(f"{self.address}/?key=")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=SECONDS)
        return self.process.returncode


def client(address: str, key: str = "") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(base_url=address, headers=headers, timeout=SECONDS, trust_env=False)


async def start(http: httpx.AsyncClient, number: int) -> httpx.Response:
    return await http.post("/v1/runs", json={"workflow": "total", "args": [number], "id": f"run-{number}"})


def test_a_server_killed_under_load_loses_nothing_that_it_had_answered(tmp_path: Path) -> None:
    """Every start that was answered is there afterwards and is finished; sent again, it finds the same run."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    answered: set[int] = set()

    async def load(server: Served, first: int, enough: asyncio.Event) -> None:
        async with client(server.address, server.key) as http:
            for number in range(first, first + 10_000, 8):
                try:
                    response = await start(http, number)
                except httpx.TransportError:
                    return  # it was killed: nothing is known of this one
                assert response.status_code == 201, response.text
                answered.add(number)
                if len(answered) >= 60:
                    enough.set()

    async def kill_under_load(server: Served) -> None:
        enough = asyncio.Event()
        senders = [asyncio.create_task(load(server, first, enough)) for first in range(8)]
        await asyncio.wait_for(enough.wait(), SECONDS)
        server.process.kill()
        await asyncio.gather(*senders)

    async def check(server: Served) -> None:
        async with client(server.address, server.key) as http:
            for number in sorted(answered):
                again = await http.post(
                    "/v1/runs",
                    json={"workflow": "total", "args": [number], "id": f"run-{number}"},
                    headers={"Prefer": "wait=20"},
                )
                assert again.status_code == 201, again.text
                assert again.json()["progress"]["result"] == number + 1
            verified = await http.get("/v1/runs/run-0/verification")
            assert verified.json()["good"] is True

    first = Served(tmp_path)
    asyncio.run(kill_under_load(first))
    first.process.communicate(timeout=SECONDS)
    second = Served(tmp_path)
    asyncio.run(check(second))
    assert second.stop() == 0


def test_a_server_with_an_open_stream_stops_at_once(tmp_path: Path) -> None:
    """The stream ends, the process ends well, and nothing waits for the reader."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    server = Served(tmp_path)

    async def main() -> float:
        async with (
            client(server.address, server.key) as http,
            http.stream("GET", "/v1/events/runs") as response,
        ):
            lines = response.aiter_lines()
            assert await anext(lines) == "retry: 2000"
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            async for _ in lines:
                pass
            return time.monotonic() - began

    assert asyncio.run(main()) < GRACE_SECONDS
    server.process.communicate(timeout=SECONDS)
    assert server.process.returncode == 0


def test_a_server_that_cannot_listen_says_why(tmp_path: Path) -> None:
    """A port that is taken, and an address that others reach without saying who they are."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    server = Served(tmp_path)
    port = server.address.rpartition(":")[2]

    def refused(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "holdfast", "serve", "app.py", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        return done.returncode, done.stderr

    code, message = refused("--port", port)
    assert (code, "another process listens there" in message) == (5, True)
    code, message = refused("--no-auth", "--host", "0.0.0.0", "--port", "0")
    assert (code, "127.0.0.1 only" in message) == (2, True)
    assert server.stop(signal.SIGINT) == 0


@pytest.mark.long
def test_the_link_to_a_server_without_users_is_the_same_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a port that was asked for, the key is kept: a cookie of before is good, scripts find the key in the file, and
    ``holdfast link`` prints it. Another server on the port does not start, and changes nothing. On any free port
    nothing is kept."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])

    def link(*options: str) -> str:
        command = [sys.executable, "-m", "holdfast", "link", "--port", port, "--store", "sqlite:///served.db", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    first = Served(tmp_path, port=port)
    with httpx.Client(base_url=first.address, timeout=SECONDS, trust_env=False) as browser:
        assert browser.get("/runs", headers={"Accept": "text/html"}).status_code == 401
        opened = browser.get(first.link, headers={"Accept": "text/html"}, follow_redirects=True)
        assert (opened.status_code, str(opened.url)) == (200, f"{first.address}/runs")
        assert first.key_file is not None
        assert Path(first.key_file).stat().st_mode & 0o777 == 0o600
        assert (link(), link("--key")) == (first.link, Path(first.key_file).read_text().strip())
        command = [sys.executable, "-m", "holdfast", "serve", "app.py", "--no-auth", "--port", port]
        taken = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
        assert (taken.returncode, "another process listens there" in taken.stderr) == (5, True)
        assert first.stop() == 0
        second = Served(tmp_path, port=port)
        assert (second.link, second.key_file) == (first.link, first.key_file)
        assert browser.get("/runs", headers={"Accept": "text/html"}).status_code == 200
        assert second.stop() == 0
    other = Served(tmp_path)
    assert (other.key_file, other.key != first.key) == (None, True)
    assert other.stop() == 0
    assert len(list((tmp_path / "state" / "holdfast").iterdir())) == 1


NGINX = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    server {{ listen 127.0.0.1:{port}; location / {{ {lines} proxy_pass {address}; }} }}
}}
"""


@pytest.mark.skipif(shutil.which("nginx") is None, reason="NO NGINX: the server was not put behind one")
@pytest.mark.parametrize(
    "lines",
    ["", "proxy_http_version 1.1; proxy_set_header X-Real-IP $remote_addr;", "proxy_http_version 1.1;"],
    ids=["default", "real-ip", "without-a-sign"],
)
def test_nobody_becomes_the_operator_through_nginx(tmp_path: Path, lines: str) -> None:
    """By default it sends HTTP/1.0 and the name of this host: that is refused, also with the key. With HTTP/1.1 no
    sign is left, and the key is what protects."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    server = Served(tmp_path, "--no-worker")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    settings = NGINX.format(folder=tmp_path, port=port, lines=lines, address=server.address)
    (tmp_path / "nginx.conf").write_text(settings, encoding="utf-8")
    proxy = subprocess.Popen(["nginx", "-e", str(tmp_path / "error.log"), "-c", str(tmp_path / "nginx.conf")])
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=SECONDS, trust_env=False) as visitor:
            until(lambda: answers(visitor), "nginx")
            assert visitor.get("/v1/me").status_code == 401
            assert visitor.post("/v1/runs", json={"workflow": "total", "args": [1]}).status_code == 401
            assert visitor.get("/runs", headers={"Accept": "text/html"}).status_code == 401
            by_key = visitor.get("/v1/me", headers={"Authorization": f"Bearer {server.key}"})
            assert by_key.status_code == (200 if lines == "proxy_http_version 1.1;" else 401)
    finally:
        proxy.terminate()
        proxy.wait(SECONDS)
        assert server.stop() == 0


def answers(visitor: httpx.Client) -> bool:
    try:
        return visitor.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


OIDC = """
issuer: http://127.0.0.1:9
client_id: holdfast
user: sub
tenant: default
title: Example ID
"""


def test_a_first_start_prints_a_link_that_makes_the_first_user_once(tmp_path: Path) -> None:
    """The link works once; the next start prints none. What the options say of people and proxies counts."""
    (tmp_path / "oidc.yaml").write_text(OIDC, encoding="utf-8")
    proxies = ["--trusted-header", "X-User", "--trusted-proxy", "127.0.0.1", "--oidc", "oidc.yaml"]
    command = [sys.executable, "-m", "holdfast", "serve", "--no-worker", "--port", "0", "--store", "sqlite:///s.db"]

    def begin(*options: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*command, *options], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)

    async def used(link: str) -> tuple[list[int], str, str]:
        origin, _, key = link.partition("/welcome?key=")
        async with client(origin) as browser:
            here = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
            codes = [(await browser.get(f"/welcome?key={key}", headers=here)).status_code]
            for name in ("ann", "eve"):
                typed = {"key": key, "name": name}
                codes.append((await browser.post("/welcome", data=typed, headers=here)).status_code)
            named = await browser.get("/v1/me", headers={"X-User": "ann"})
            return codes, named.json()["user"], (await browser.get("/login", headers=here)).text

    first = begin("--json", *proxies)
    assert first.stdout is not None
    ready = json.loads(first.stdout.readline())
    assert ready["users"] is False
    codes, name, page = asyncio.run(used(ready["first_user"]))
    assert (codes, name) == ([200, 200, 404], "ann")
    assert "Log in with Example ID" in page
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=SECONDS)
    second = begin()
    assert second.stderr is not None
    assert second.stderr.readline().startswith("serving http://127.0.0.1:")
    second.send_signal(signal.SIGTERM)
    assert "welcome" not in second.communicate(timeout=SECONDS)[1]


def test_more_connections_than_the_process_has_files_are_refused(tmp_path: Path) -> None:
    """With 256 files it keeps 192 connections and answers 503 to the others, at once and without a traceback."""
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    limited = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh"]
    command = [sys.executable, "-m", "holdfast", "serve", "app.py", "--no-auth", "--no-worker", "--port", "0", "--json"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([*limited, *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    port = urlsplit(json.loads(process.stdout.readline())["address"]).port or 0
    with contextlib.ExitStack() as stack:
        callers = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=SECONDS)) for _ in range(500)
        ]
        answers = {caller.recv(12) for caller in callers}
        assert answers == {b"HTTP/1.1 503", b""}  # the others are closed later, because they ask nothing
    with httpx.Client(timeout=SECONDS, trust_env=False) as http:
        until(lambda: http.get(f"http://127.0.0.1:{port}/healthz").status_code == 200, "room for a connection")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    written = (tmp_path / "log").read_text()
    assert "Traceback" not in written
    assert "192 connections are open" in written
