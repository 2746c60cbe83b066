"""The operator's table of secrets: how it is read, and what its keeper allows."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import pytest

from holdfast import Holdfast, SecretSettings, SecretUse
from holdfast.errors import InvalidSettings, SecretMissing, SecretRefused
from holdfast.transports.secret_keeper import OWN, SecretKeeper
from holdfast.transports.secret_table import SecretLine, parse_table

HEAD = "version: 1\nsecrets:\n"


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidSettings) as raised:
        parse_table(text.encode(), "s.yaml")
    return str(raised.value).splitlines()


CONNECTOR = "name: A, tenant: acme, use: connector"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "s.yaml:1:1: the file is empty: it begins with `version: 1` and has `secrets:`"),
        ("version: 2\nsecrets: []", "s.yaml:1:10: "),
        ("version: 1", "s.yaml:1:1: "),
        (f"{HEAD}- {{name: A, tenant: acme}}", "s.yaml:3:3: "),
        (f"{HEAD}- {{name: A, tenant: acme, use: webhok}}", "s.yaml:3:32: "),
        (f"{HEAD}- {{name: A, tenant: acme, use: webhook, host: b}}", "s.yaml:3:41: "),
        (f"{HEAD}- {{name: ../A, tenant: acme, use: webhook}}", "s.yaml:3:10: a secret's name is letters"),
        (f'{HEAD}- {{name: A, tenant: "*", use: webhook}}', "s.yaml:3:21: every tenant may use a connector's"),
        (f'{HEAD}- {{name: A, tenant: "a\\u0007", use: webhook}}', "s.yaml:3:21: a tenant is"),
        (f"{HEAD}- {{{CONNECTOR}}}", "s.yaml:3:3: a connector's secret needs `hosts`"),
        (f"{HEAD}- {{name: A, tenant: acme, use: webhook, hosts: [b]}}", "s.yaml:3:48: a webhook sends its secret"),
        (
            f"{HEAD}- {{name: a.b, tenant: acme, use: webhook}}\n- {{name: A_B, tenant: bolt, use: subscription}}",
            "s.yaml:4:34: a.b is for a webhook in another line, and a secret has one use",
        ),
        (
            f"{HEAD}- {{{CONNECTOR}, hosts: [b]}}\n- {{{CONNECTOR}, hosts: [c]}}",
            "s.yaml:4:3: A of tenant acme has another line: put all its hosts into one",
        ),
        *(
            (f'{HEAD}- {{{CONNECTOR}, hosts: [b, "{host}"]}}', "s.yaml:3:54: ")
            for host in ("*", "b/", "ftp://b", "https://b/x", "ann@b", "b:0", "b:", "b c", "*.", "a*.b", "b?x", "//b")
        ),
    ],
)
def test_a_table_is_read_strictly(text: str, expected: str) -> None:
    """Each problem has its line, its column and a remedy."""
    assert problems(text)[0].startswith(expected), problems(text)


def test_every_problem_is_told() -> None:
    lines = [f"- {{name: {name}, tenant: acme, use: webhook}}" for name in ("1A", "B", "2C", "B")]
    assert [each.partition(": ")[0] for each in problems(HEAD + "\n".join(lines))] == [
        "s.yaml:3:10",
        "s.yaml:5:10",
        "s.yaml:6:3",
    ]


def test_a_line_is_written_as_it_is_read() -> None:
    """Names and hosts that YAML takes for something else are quoted."""
    for tenant, hosts in product(
        ("acme", "no", "1", "0x1", "a: b", "ä"), (("b.example",), ("*.b", "http://[::1]:8080"), ("10.0.0.7",))
    ):
        line = SecretLine(name="A-B.c", tenant=tenant, use="connector", hosts=hosts)
        assert parse_table(f"{HEAD}{line}".encode(), "s.yaml").lines == (line,)


FITTING = {
    "b.example": {"https://b.example/x", "https://b.example:443/", "https://B.example?q=1"},
    "*.b.example": {"https://a.b.example/", "https://c.a.b.example/x"},
    "b.example:8443": {"https://b.example:8443/"},
    "http://b.example": {"http://b.example/", "http://b.example:80/x"},
    "http://*.b.example:8080": {"http://a.b.example:8080/"},
    "[::1]": {"https://[::1]/"},
}
OTHERS = {
    *("https://evil.example/", "https://b.example.evil.example/", "https://evilb.example/", "https://.b.example/"),
    *(
        "https://b.example./",
        "https://a..b.example/",
        "https://a.b.example:8443/",
        "http://a.b.example/",
        "https://evil.example/?b.example",
    ),
}


async def judged(keeper: SecretKeeper, name: str, use: SecretUse) -> bool:
    try:
        return await keeper.value(name, use) == "value"
    except SecretRefused:
        return False


def test_a_use_is_allowed_by_its_line_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name, tenant, use and address, against each line of the table: nothing but what the line says."""
    for name in ("A", "a", "B"):
        monkeypatch.setenv(f"HOLDFAST_SECRET_{name}", "value")
    file = tmp_path / "s.yaml"
    urls = sorted({*OTHERS, *(url for each in FITTING.values() for url in each)})
    asked = [
        *((name, SecretUse(tenant, use)) for name in ("A", "a", "B") for tenant in ("acme", "bolt") for use in USES),
        *((name, SecretUse(tenant, "connector", url)) for name in "AB" for tenant in ("acme", "bolt") for url in urls),
    ]
    lines = [
        *(SecretLine(name="A", tenant="acme", use=use) for use in USES),
        *(SecretLine(name="A", tenant="acme", use="connector", hosts=(host,)) for host in FITTING),
        SecretLine(name="A", tenant="*", use="connector", hosts=tuple(FITTING)),
    ]

    async def main() -> None:
        async with Holdfast("memory://", worker=False) as app:
            for line in lines:
                file.write_text(f"{HEAD}{line}")
                keeper = SecretKeeper(app.store, file)
                allowed = {url for host in line.hosts for url in FITTING[host]}
                for name, use in asked:
                    is_named = name == "A" and line.tenant in (use.tenant, "*") and line.use == use.use
                    wanted = is_named and (use.use != "connector" or use.url in allowed)
                    assert await judged(keeper, name, use) is wanted, (str(line), name, use)

    asyncio.run(main())


USES = ("webhook", "subscription")


def test_a_source_may_learn_the_tenant_and_the_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked after the table has allowed the use. A source without the second method works as before."""
    asked: list[SecretUse] = []

    class Vault:
        async def find(self, name: str) -> str | None:
            raise AssertionError("the other method is called")

        async def find_for(self, name: str, use: SecretUse) -> str | None:
            asked.append(use)
            return f"{use.tenant}'s {name}" if name == "A" else None

    class Old:
        async def find(self, name: str) -> str | None:
            return f"old {name}" if name == "B" else None

    file = tmp_path / "s.yaml"
    file.write_text("".join([HEAD, *(f"- {{name: {name}, tenant: acme, use: webhook}}\n" for name in "ABCD")]))
    monkeypatch.setenv("HOLDFAST_SECRET_C", "of the environment")
    settings = SecretSettings(file, sources=[Vault(), Old()])
    use = SecretUse("acme", "webhook")

    async def main() -> None:
        async with Holdfast("memory://", worker=False, secrets=settings) as app:
            assert [await app.secrets.value(name, use) for name in "ABC"] == ["acme's A", "old B", "of the environment"]
            with pytest.raises(SecretMissing, match="no secret D"):
                await app.secrets.value("D", use)
            assert asked == [use] * 4
            with pytest.raises(SecretRefused):
                await app.secrets.value("A", SecretUse("bolt", "webhook"))
            assert await app.secrets.login_secret("A") == "'s A"
            assert asked[4:] == [SecretUse("", "login")]

    asyncio.run(main())


def test_the_installations_own_variables_are_those_that_its_parts_read() -> None:
    from holdfast.audit.keys import PASSPHRASE_VARIABLE
    from holdfast.cli.server.metrics import TOKEN
    from holdfast.slack.settings import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET

    assert {PASSPHRASE_VARIABLE, TOKEN, APP_TOKEN, BOT_TOKEN, SIGNING_SECRET} <= set(OWN)
