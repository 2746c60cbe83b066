"""`doctor`'s list of secrets, `--secrets-table`, and a server in a process of its own that reads it again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli import exits
from holdfast.cli.main import main
from holdfast.client.people.login_secrets import record_login_secret
from holdfast.webhooks.signatures import signed_headers
from holdfast.webhooks.webhook import EmitEvent
from tests.scope import one_stays
from tests.unit.cli.conftest import lines

SQLITE = "sqlite:///holdfast.db"


def hold(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="holdfast")


@pytest.fixture(params=one_stays(["sqlite", "postgres"]))
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgres").schema_url()) if request.param == "postgres" else SQLITE


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOLDFAST_TOKEN", "HOLDFAST_SECRETS", "HOLDFAST_SECRETS_TABLE"):
        monkeypatch.delenv(name, raising=False)


def asking(name: str, *connectors: tuple[str, str]) -> str:
    """A definition whose connectors have these addresses and names of secrets."""
    said: dict[str, Any] = {
        f"c{number}": {"base": base, "headers": {"X-Key": {"secret": secret}}, "operations": {"get": {"get": "/x"}}}
        for number, (base, secret) in enumerate(connectors)
    }
    steps = [{"done": {"end": {}}}]
    return json.dumps({"holdfast": "definition/1", "name": name, "version": 1, "connectors": said, "steps": steps})


async def ask(url: str, *tenants: str) -> None:
    """Each tenant asks for secrets in all ways; the last one has a run of a definition that is not published."""
    async with Holdfast(url, workflows=[], worker=False) as app:
        for tenant in tenants:
            await app.tenants.create(tenant)
            await app.users.create("ann", level=5, tenant=tenant)
            await app.webhooks.create("bank", EmitEvent("x"), user="ann", secret_name=f"{tenant}.bank", tenant=tenant)
            await app.subscriptions.create("ops", "https://o.example/", ["run.*"], secret_name="OPS", tenant=tenant)
            document = asking("asking", ("https://b.example/api", "KEY"), ("http://10.0.0.7:8080", "KEY"))
            await app.definitions.publish(document, tenant=tenant)
            app.definitions.add(asking("given", ("https://g.example", "GIVEN")))
        await app.start("given", tenant=tenants[-1])


def examined(url: str, *args: str) -> dict[str, Any]:
    (said,) = lines(hold("doctor", "--json", "--store", url, *args))
    (check,) = [each for each in said["checks"] if each["name"] == "secrets"]
    return dict(check)


def of(tenant: str) -> list[str]:
    return [
        f'- {{name: KEY, tenant: {tenant}, use: connector, hosts: ["http://10.0.0.7:8080", b.example]}}',
        f"- {{name: OPS, tenant: {tenant}, use: subscription}}",
        f"- {{name: {tenant}.bank, tenant: {tenant}, use: webhook}}",
    ]


def test_doctor_lists_what_is_asked_for_as_lines_of_the_table(url: str, tmp_path: Path) -> None:
    """They can be put there as they are, and then nothing is missing."""
    asyncio.run(ask(url, "bolt", "corp"))
    found = examined(url)
    given = "- {name: GIVEN, tenant: corp, use: connector, hosts: [g.example]}"
    assert found["facts"]["lines"] == [*of("bolt"), given, *of("corp")]
    assert (found["good"], found["warning"]) == (True, True)
    file = tmp_path / "secrets.yaml"
    file.write_text("\n".join(["version: 1", "secrets:", *found["facts"]["lines"]]))
    after = examined(url, "--secrets-table", str(file))
    assert (after["facts"]["lines"], after["warning"]) == ([], False)
    fewer = [found["facts"]["lines"][0].replace('"http://10.0.0.7:8080", ', ""), *found["facts"]["lines"][2:]]
    file.write_text("\n".join(["version: 1", "secrets:", *fewer]))
    missing = examined(url, "--secrets-table", str(file))["facts"]["lines"]
    assert missing == [
        '- {name: KEY, tenant: bolt, use: connector, hosts: [b.example, "http://10.0.0.7:8080"]}',
        of("bolt")[1],
    ]
    assert of("bolt")[1] in hold("doctor", "--store", url, "--secrets-table", str(file)).stdout


def test_of_one_tenant_nothing_needs_a_line(url: str) -> None:
    asyncio.run(ask(url, "bolt"))
    found = examined(url)
    assert (len(found["facts"]["lines"]), found["warning"], found["facts"]["notes"]) == (4, False, [])


def test_doctor_names_what_can_be_no_line() -> None:
    """A secret of logins, and a name that two uses ask for: no line would do."""

    async def work() -> None:
        await ask(SQLITE, "bolt")
        async with Holdfast(SQLITE, worker=False) as app:
            await record_login_secret(app, "key")
            await app.tenants.create("corp")
            await app.subscriptions.create(
                "out", "https://o.example/", ["run.*"], secret_name="BOLT_BANK", tenant="corp"
            )

    asyncio.run(work())
    found = examined(SQLITE)
    assert [line for line in found["facts"]["lines"] if "KEY" in line] == []
    one_use, logins = found["facts"]["notes"]
    assert one_use.startswith("BOLT_BANK is for a webhook of tenant bolt and for a subscription of tenant corp")
    assert logins == "tenant bolt asks for KEY, for a connector: it logs people in, and is no tenant's"


@pytest.mark.parametrize("command", [["serve"], ["worker", "--definitions", "."], ["doctor"]])
def test_a_table_that_cannot_be_used_is_told_with_its_place(command: list[str], tmp_path: Path) -> None:
    """Nothing is served, and no database is made."""
    hold("migrate")
    for text, place in (("version: 1\nsecrets: [{name: A}]", "bad.yaml:2:11: "), (None, "cannot be read")):
        file = tmp_path / "bad.yaml"
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        result = hold(*command, "--secrets-table", str(file))
        assert result.exit_code == (exits.NO if command == ["doctor"] else 5), result.output
        assert place in result.output


APP = 'from holdfast import Holdfast\n\napp = Holdfast("sqlite:///holdfast.db")\n'
SECONDS = 60


def test_a_server_reads_its_table_again_at_a_signal(tmp_path: Path) -> None:
    """Of two tenants. It goes on with the last valid one while the file is broken, and the log says why."""
    (tmp_path / "app.py").write_text(APP)
    file = tmp_path / "secrets.yaml"
    line = "  - {name: bolt.bank, tenant: bolt, use: webhook}\n"
    file.write_text("version: 1\nsecrets: []\n")
    asyncio.run(ask(SQLITE, "bolt", "corp"))
    environment = {**os.environ, "HOLDFAST_SECRETS_TABLE": str(file), "HOLDFAST_SECRET_BOLT_BANK": "the banks secret"}
    command = [sys.executable, "-m", "holdfast", "serve", "app.py", "--port", "0", "--json", "--log-format", "text"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    assert process.stdout is not None
    assert process.stderr is not None

    def deliver(address: str, id: str) -> int:
        headers = signed_headers(["the banks secret"], id, int(time.time()), b"{}")
        return httpx.post(f"{address}hooks/bolt/bank", content=b"{}", headers=headers, trust_env=False).status_code

    def logged(words: str) -> None:
        assert any(words in line for line in iter(process.stderr.readline, "")), words  # type: ignore[union-attr]

    try:
        address = json.loads(process.stdout.readline())["address"]
        assert deliver(address, "m-1") == 401
        logged("- {name: bolt.bank, tenant: bolt, use: webhook}")
        file.write_text(f"version: 1\nsecrets:\n{line}")
        process.send_signal(signal.SIGHUP)
        logged("table sha256:")
        assert deliver(address, "m-2") == 200
        file.write_text("version: 3")
        process.send_signal(signal.SIGHUP)
        logged("the table's file cannot be used")
        assert deliver(address, "m-3") == 200
    finally:
        process.terminate()
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0
