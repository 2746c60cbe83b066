"""`users link` and `users unlink`, and the logins that `doctor` lists for a person."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from holdfast import Holdfast
from holdfast.cli import exits
from holdfast.cli.main import main
from holdfast.client.items import Change, change_item
from holdfast.client.people.identities import Identities, Vouched
from holdfast.client.people.sessions import ConsoleSessions
from holdfast.errors import LoginRefused, NotPermitted
from holdfast.people.identities import LINKED, identity_key
from tests.unit.cli.conftest import lines

ISSUER = "https://id.example"


def hold(*args: str) -> Result:
    return CliRunner().invoke(main, args, prog_name="holdfast")


def on_store(work: Callable[[Holdfast], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with Holdfast("sqlite:///holdfast.db", worker=False) as app:
            await work(app)

    asyncio.run(whole())


@pytest.fixture(autouse=True)
def _made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with the tenant acme and its first user ann, of level 6."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    assert hold("init", "ann", "--tenant", "acme").exit_code == exits.GOOD


def unlinked() -> list[dict[str, Any]]:
    """What `doctor` lists. It is a warning: nothing is broken."""
    (said,) = lines(hold("doctor", "--json"))
    (check,) = [each for each in said["checks"] if each["name"] == "logins"]
    found: list[dict[str, Any]] = check["facts"]["unlinked"]
    assert (check["good"], check["warning"]) == (True, bool(found))
    return found


async def try_login(app: Holdfast, name: str, subject: str, level: int | None = None) -> None:
    """Log in with the provider, as its route does: a refusal is kept."""
    identities = Identities(app)
    try:
        await identities.begin(Vouched("acme", name, ISSUER, subject, level), make=False)
    except LoginRefused as error:
        await identities.note_refusal(error, "acme", ISSUER, subject)


def test_link_and_unlink() -> None:
    """The operator links the first account; a half or another name is refused; the same again changes nothing."""
    said = hold("users", "link", "ann", "--tenant", "acme", "--issuer", ISSUER, "--subject", "s 1")
    assert (said.exit_code, said.stdout) == (0, f"user ann of tenant acme logs in with account s 1 of {ISSUER}\n")
    tried = hold("users", "link", "ann", "--tenant", "acme", "--login", "Ann", "--dry-run")
    assert tried.stdout == "user ann of tenant acme would log in as Ann\n"
    assert lines(hold("users", "--tenant", "acme", "--json"))[0]["logins"] == []
    for _ in range(2):
        done = hold("users", "link", "ann", "--tenant", "acme", "--login", "Ann", "--json")
        assert lines(done)[0]["logins"] == ["Ann"]
    for wrong in ([], ["--issuer", ISSUER], ["--subject", "s"]):
        assert hold("users", "link", "ann", "--tenant", "acme", *wrong).exit_code == exits.USAGE, wrong
    other = hold("users", "link", "ann", "--tenant", "acme", "--login", "anne")
    assert (other.exit_code, "is another name than 'ann'" in other.stderr) == (exits.USAGE, True)
    assert hold("users", "link", "zoe", "--tenant", "acme", "--login", "Zoe").exit_code == exits.NOT_FOUND
    acts = [
        entry["record"]["act"] for entry in lines(hold("audit", "--tenant", "acme", "--kind", "operator", "--json"))
    ]
    assert (acts.count("link_identity"), acts.count("change_user")) == (1, 1)
    off = hold("users", "unlink", "ann", "--tenant", "acme", "--login", "Ann")
    assert off.stdout == "user ann of tenant acme no longer logs in as Ann\n"
    assert lines(hold("users", "--tenant", "acme", "--json"))[0]["logins"] == []
    assert hold("users", "unlink", "ann", "--tenant", "acme").stdout.endswith("is linked to no account\n")


def test_only_level_6_links() -> None:
    hold("users", "create", "bob", "--level", "5", "--tenant", "acme")
    refused = hold("users", "link", "bob", "--tenant", "acme", "--issuer", ISSUER, "--subject", "s", "--as", "bob")
    assert (refused.exit_code, "needs level 6" in refused.stderr) == (exits.NO, True)
    assert hold("users", "link", "bob", "--tenant", "acme", "--login", "Bob", "--as", "ann").exit_code == exits.GOOD


def test_doctor_lists_who_is_to_be_linked_each_with_one_command() -> None:
    """Another spelling with which a session began or a login was refused, by a proxy or a provider, and accounts of
    level 5 and 6 that no person linked. Each command, given as it is listed, settles its line; strangers are not
    listed."""

    async def work(app: Holdfast) -> None:
        for name, level in (("bob", 2), ("cid", 6), ("dan", 2), ("fay", 2)):
            await app.users.create(name, level=level, tenant="acme", by="ann")
        client = app.acting_as("ANN", tenant="acme", login=True)  # as a trusted header does
        with pytest.raises(NotPermitted, match="in this very spelling"):
            await client.whoami()
        with pytest.raises(NotPermitted, match="in this very spelling"):
            await app.acting_as("stranger", tenant="acme", login=True).whoami()
        await ConsoleSessions(app).begin_for("acme", "Bob", ISSUER)  # as older versions began sessions
        body = msgspec.json.encode({"issuer": ISSUER, "subject": "c"})  # as older versions linked accounts
        await change_item(app, identity_key("acme", "cid"), "link_identity", lambda _: Change(body, LINKED), by="x")
        await try_login(app, "ann", "it's a")
        await try_login(app, "d\uff41n", "d")
        await try_login(app, "fay", "f")
        await try_login(app, "fay", "f", 6)
        await try_login(app, "fay", "another account", 6)
        await try_login(app, "stranger", "s")

    assert unlinked() == []
    on_store(work)
    found = unlinked()
    assert {each["command"] for each in found} == {
        "holdfast users link ann --tenant acme --login ANN",
        f"holdfast users link ann --tenant acme --issuer {ISSUER} --subject 'it'\"'\"'s a'",
        "holdfast users link bob --tenant acme --login Bob",
        f"holdfast users link cid --tenant acme --issuer {ISSUER} --subject c",
        "holdfast users link dan --tenant acme --login 'd\uff41n'",
        f"holdfast users link fay --tenant acme --issuer {ISSUER} --subject f",
    }
    shown = hold("doctor").stdout
    assert "6 to be linked by a person of level 6, if it is that user" in shown
    assert "'d\\uff41n'" in shown  # a look-alike is written so that it is seen
    for each in found:
        assert hold(*shlex.split(each["command"])[1:]).exit_code == exits.GOOD
    assert unlinked() == []


def test_a_name_that_the_operator_gives_is_found_in_any_spelling() -> None:
    """It proves nothing: the operator could name the user in the stored spelling as well."""
    assert hold("whoami", "--as", "ANN", "--tenant", "acme").stdout == "ann of tenant acme, level 6\n"
    assert hold("tokens", "mint", "Ann", "--tenant", "acme").exit_code == exits.GOOD
