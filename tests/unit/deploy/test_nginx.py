"""``deploy/nginx.conf`` in a real nginx: what the server gets is what was sent, or nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import Holdfast
from holdfast.errors import RunCancelled
from holdfast.people.tenants import WORKSPACE
from holdfast.runs.addresses import path_part
from holdfast.server import Server, ServerSettings
from holdfast.server.listener import Listener
from holdfast.store import protocol as p
from holdfast.templates.template import TEMPLATE
from tests.serving import token_of
from tests.unit.server.older_ids import RUNS, older_item, older_run
from tests.unit.server.test_runs import WORKFLOWS, waiting

CONF = Path(__file__).parents[3] / "deploy" / "nginx.conf"
MISSING = "NOT CHECKED: there is no nginx (or no openssl) here, so deploy/nginx.conf is not tried"
pytestmark = pytest.mark.skipif(shutil.which("nginx") is None or shutil.which("openssl") is None, reason=MISSING)
PATIENT = ServerSettings(requests_per_second=1e6, requests_at_once=10**6, failures_per_minute=1e6)

SAME = (
    "/",
    "/healthz",
    "/openapi.json",
    "/v1/runs?limit=1",
    "/v1/runs?reference=../x&workflow=%2F..%2F",
    "/v1/runs?reference=/../x\\y",
    "/v1/runs/victim",
    "/v1/runs/victim?x=/..",
    "/v1/runs/vic%74im",
    "/v1/runs/none",
    "/v1/runs/a%2Fb",
    "/v1/runs/a%2fb",
    "/v1/runs/a%252Fb",
    "/v1/runs/a%25",
    "/v1/runs/a%2F%2Fb",
    "/v1/runs/a%3Fb%23c",
    "/v1/runs/a;b",
    "/v1/runs/..;",
    "/v1/runs/..;/victim",
    "/v1/runs/victim;",
    "/v1/runs/a+b%20c",
    "/v1/runs/a%5Cb",
    "/v1/runs/...",
    "/v1/runs/.victim",
    "/v1/runs/victim..",
    "/v1/runs/%252e%252e%252Fusers",
    "/v1/runs/~.2E.2E",
    "/v1/runs/~.2E.2E.2Fruns.2Fvictim",
    "/v1/runs/%7E.2E.2E.2Fruns.2Fvictim",
    "/v1/runs/a~.2E.2E",
    "/v1/runs/gr%C3%B6%C3%9Fe",
    "/v1/runs/%FF",
    "/v1/runs/%0d%0aX:%20y",
    "/v1/runs/a|b[c]{d}^`\"<>'",
    "/v1/runs//victim",
    "//v1/runs/victim",
    "/v1//runs/victim",
    "/v1/runs/victim/",
    "/v1/r%75ns/victim",
    "/v1%2Fruns%2Fvictim",
    "/%2Fv1/runs/victim",
    "/v1/events/runs/none",
    "/v1/events%2Fruns/none",
    "/v1/%65vents/runs/none",
    "/v1/runs/events%2Fruns%2Fnone",
    "/engine/v1/runs/victim",
    "/metrics%2Fx",
    "/me",
    "/hooks/acme/~.2E.2E.2F.2E.2E.2Fhooks.2Fx",
)
"""Paths that the server answers alike, behind nginx and directly."""

REFUSED = (
    "/v1/runs/..",
    "/v1/runs/.",
    "/v1/runs/%2e%2E",
    "/v1/runs/.%2e/users/ann",
    "/v1/runs/%2E",
    "/v1/runs/..?x",
    "/v1/runs/../users/ann",
    "/v1/runs/./victim",
    "/v1/runs/..%2Fusers%2Fann",
    "/v1/runs/..%2fruns%2Fvictim",
    "/v1/runs/%2e%2e%2Fruns%2Fvictim",
    "/v1/runs/x%2F..%2Fvictim",
    "/v1/runs/x%2F..",
    "/v1/runs/..%5Cvictim",
    "/v1/runs/..\\victim",
    "/v1/runs\\victim",
    "/v1/runs/..%2F..%2F..%2F..%2F..%2Fx",
    "/v1/runs/..%2F..%2Fmetrics",
    "/v1/runs/..%2F..%2F..%2Fengine%2Fmetrics",
    "/v1/events/..%2Fruns%2Fvictim",
    "/v1/runs/..%2Fevents%2Fruns%2Fnone",
    "/v1/events/../runs/victim",
    "/v1/runs/victim#x",
    "/v1/runs/victim?x#/../y",
    "/v1/runs/victim%00",
    "/v1/runs/a\x00b",
    "/v1/runs/a\x01b",
    "/v1/runs/gr\xc3\xb6\xc3\x9fe",
    "/v1/runs/a%zz",
    "/v1/runs/a b",
    "/metrics",
    "/metrics?x",
    "//metrics",
    "/%6Detrics",
    "/%2Fmetrics",
    "/metrics/.",
    "/metrics/../v1/runs",
    "/x/..%2Fmetrics",
    "/x/../metrics",
)
"""Paths that nginx refuses by itself."""


def configured(folder: Path, http: int, https: int, upstream: int) -> Path:
    """The configuration with other ports, for this user, and with a certificate made for this test."""
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop.example", "-days", "1"]
    names = ("-out", str(folder / "shop.example.pem"), "-keyout", str(folder / "shop.example.key"))
    subprocess.run([*made, *names], check=True, capture_output=True, timeout=60)
    text = CONF.read_text(encoding="utf-8")
    own = "".join(
        f"    {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    for old, new in (
        ("/etc/nginx/tls", str(folder)),
        ("/run/nginx.pid", str(folder / "pid")),
        ("http {\n", f"http {{\n    access_log off;\n{own}"),
        ("listen 80;", f"listen 127.0.0.1:{http};"),
        ("listen 443 ssl;", f"listen 127.0.0.1:{https} ssl;"),
        ("server 127.0.0.1:8420;", f"server 127.0.0.1:{upstream};"),
    ):
        assert old in text, old
        text = text.replace(old, new)
    conf = folder / "nginx.conf"
    conf.write_text(text, encoding="utf-8")
    return conf


def command(conf: Path, *more: str) -> list[str]:
    return ["nginx", "-c", str(conf), "-p", str(conf.parent), "-e", str(conf.parent / "error.log"), *more]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Answer(NamedTuple):
    """An answer. ``is_own`` is whether the server gave it, not nginx."""

    status: int
    body: bytes
    is_own: bool


class Ground:
    """A server that is reached directly and through nginx."""

    def __init__(self, app: Holdfast, token: str, direct: int, https: int) -> None:
        self.app = app
        self._token = token
        self._direct = direct
        self._https = https

    async def direct(self, path: str, method: str = "GET") -> Answer:
        return await self._ask(path, method, self._direct)

    async def proxied(self, path: str, method: str = "GET", before: str = "") -> Answer:
        return await self._ask(f"{before}/engine{path}", method, self._https)

    async def raw(self, target: str) -> Answer:
        return await self._ask(target, "GET", self._https)

    async def _ask(self, target: str, method: str, port: int) -> Answer:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        secure = {"ssl": context} if port == self._https else {}
        reader, writer = await asyncio.open_connection("127.0.0.1", port, **secure)  # type: ignore[arg-type]
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: shop.example\r\nAuthorization: Bearer {self._token}\r\n"
            "Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: "
        )
        body = "" if method == "GET" else "{}"
        writer.write(f"{head}{len(body)}\r\nConnection: close\r\n\r\n{body}".encode("latin-1"))
        found, _, rest = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return Answer(int(found.split()[1]), rest, b"x-content-type-options" in found.lower())


@asynccontextmanager
async def proxied(folder: Path) -> AsyncIterator[Ground]:
    """nginx with the configuration, and a server behind it on which ids of older versions are."""
    async with Holdfast("memory://", workflows=WORKFLOWS) as app, asyncio.timeout(120):
        token = await token_of(app, "acme", "ann", 6)
        listener = Listener(Server(app, settings=PATIENT), port=0, root_path="/engine")
        https = free_port()
        conf = configured(folder, free_port(), https, listener.port)
        await listener.start()
        process = await asyncio.create_subprocess_exec(*command(conf, "-g", "daemon off;"))
        try:
            await _connected(https, process)
            for id in ("victim", "a/b", "a;b", "größe", "..;", "..."):
                await (await app.start(waiting, id=id, tenant="acme")).settled(30)
            for id in RUNS:
                await older_run(app, waiting, "acme", id)
                await app.run(id, tenant="acme").settled(30)
            await app.acting_as("ann", tenant="acme").workspaces.create("W")
            yield Ground(app, token, listener.port, https)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()
            await listener.stop()


async def _connected(port: int, process: asyncio.subprocess.Process) -> None:
    """Wait until nginx accepts a connection."""
    while True:
        assert process.returncode is None, "nginx ended"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)  # it tells nobody when it listens
            continue
        writer.close()
        return


def test_the_configuration_of_nginx_is_one(tmp_path: Path) -> None:
    conf = configured(tmp_path, 80, 443, 8420)
    done = subprocess.run(command(conf, "-t"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_path_is_passed_on_as_it_was_sent_or_not_at_all(tmp_path: Path) -> None:
    """Sent by a raw socket, to nginx and to the server: the same answer, which names the path, or nginx's refusal."""

    async def main() -> None:
        async with proxied(tmp_path) as ground:
            for path in SAME:
                direct, behind = await ground.direct(path), await ground.proxied(path)
                assert behind.is_own, (path, behind)
                assert (behind.status, settled(behind.body)) == (direct.status, settled(direct.body)), path
            for path in REFUSED:
                answer = await ground.proxied(path)
                assert (answer.status in (400, 404), answer.is_own) == (True, False), (path, answer)

    asyncio.run(main())


def settled(body: bytes) -> object:
    """A body without what passes with time."""
    found = json.loads(body) if body.startswith(b"{") else body
    return {**found, "explanation": ""} if isinstance(found, dict) else found


def test_the_target_of_a_request_has_several_forms(tmp_path: Path) -> None:
    """With the host in it the path counts. One that leads to the prefix by another way is refused."""

    async def main() -> None:
        async with proxied(tmp_path) as ground:
            plain = await ground.direct("/v1/runs/victim")
            for host in ("https://shop.example", "http://shop.example:443", "HTTPS://other.example"):
                assert settled((await ground.proxied("/v1/runs/victim", before=host)).body) == settled(plain.body)
                assert (await ground.proxied("/v1/runs/..%2Fruns%2Fvictim", before=host)).status == 400
                assert not (await ground.proxied("/metrics", before=host)).is_own
            for target in (
                "//engine/v1/runs/victim",
                "/%65ngine/v1/runs/victim",
                "/engine%2Fv1/runs/victim",
                "/x/../engine/v1/runs/victim",
                "/v1/runs/..%2F..%2Fengine%2Fv1%2Fruns%2Fvictim",
                "/v1/runs/victim",
                "/metrics",
                "/metrics/..%2Fengine/",
                "https://shop.example",
                "https://shop.example?/engine/v1/runs",
                "engine/v1/runs",
                "*",
            ):
                assert not (await ground.raw(target)).is_own, target

    asyncio.run(main())


def test_what_is_done_to_an_older_id_is_done_to_it_alone(tmp_path: Path) -> None:
    """Resolved, these paths would cancel the run ``victim`` and archive the workspace ``W``."""

    async def main() -> None:
        async with proxied(tmp_path) as ground:
            app = ground.app
            ann = app.acting_as("ann", tenant="acme")
            await ann.templates.create("T", waiting)
            await ann.templates.activate("T")
            await older_item(app, p.ItemKey("acme", TEMPLATE, "T"), "../workspaces/W")
            await older_item(app, p.ItemKey("acme", WORKSPACE, "W"), "../workspaces/V")
            for part in ("..%2Fruns%2Fvictim", "%2e%2e%2fruns%2fvictim", "x%2F..%2Fvictim"):
                assert (await ground.proxied(f"/v1/runs/{part}/cancel", "POST")).status == 400
            for part in ("..%2Fworkspaces%2FW", "%2E%2E%2Fworkspaces%2FW"):
                assert (await ground.proxied(f"/v1/templates/{part}/archive", "POST")).status == 400
            assert (await app.run("victim", tenant="acme").info()).status == "waiting"
            assert (await ground.proxied(f"/v1/runs/{path_part(RUNS[0])}/cancel", "POST")).status == 200
            with pytest.raises(RunCancelled):
                await app.run(RUNS[0], tenant="acme").result(30)
            assert (await app.run("victim", tenant="acme").settled(30)).run.status == "waiting"
            done = await ground.proxied(f"/v1/templates/{path_part('../workspaces/W')}/archive", "POST")
            assert (done.status, json.loads(done.body)["status"]) == (200, "archived")
            assert not (await ann.workspaces.get("W")).archived

    asyncio.run(main())
