"""``audit``, ``evidence``, ``keys`` and ``verify FILE``, on a store with a governed run in it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from holdfast.audit import records
from holdfast.audit.archivist import Archivist
from holdfast.audit.sealer import Sealer
from holdfast.cli.main import main
from holdfast.runs.clock import SYSTEM_CLOCK
from holdfast.store import protocol as p
from holdfast.store.urls import store_at
from tests.unit.audit.governed import RUN, TENANT, receipts_in_store, run_in_store
from tests.unit.cli.conftest import Invoke, lines

TENANT_OPTION = ("--tenant", TENANT)


async def _fill(url: str) -> None:
    store = store_at(url)
    await store.open()
    try:
        await run_in_store(store)
        await receipts_in_store(store)
        await Sealer(store, SYSTEM_CLOCK).seal()
        act = records.Operated(1, "pause", "eve\x1b[31m", run="other")
        await store.commit([p.Note(TENANT, "other", "operator", 1, records.encode(act))])
    finally:
        await store.close()


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store with a governed run whose entries are sealed, and one entry that is not."""
    monkeypatch.delenv("HOLDFAST_KEY_PASSPHRASE", raising=False)
    monkeypatch.chdir(tmp_path)
    made = f"sqlite:///{tmp_path}/governed.db"
    asyncio.run(_fill(made))
    return made


@pytest.fixture
def holdfast(url: str) -> Invoke:
    def invoke(*args: str) -> Result:
        result = CliRunner().invoke(main, args, env={"HOLDFAST_STORE": url}, prog_name="holdfast")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return invoke


def test_the_audit_is_listed_in_order_with_the_unsealed_marked_and_nothing_obeyed(holdfast: Invoke) -> None:
    """Sealed entries have their positions; control characters are made visible."""
    rows = holdfast("audit", *TENANT_OPTION).stdout.splitlines()
    assert rows[0].split() == ["ENTRY", "TIME", "KIND", "RUN", "WHAT"]
    assert [line.split()[0] for line in rows[1:]] == [*map(str, range(10)), "unsealed"]
    assert "allow charge on customer-7" in rows[1]
    assert "\\x1b[31m" in rows[-1]


def test_the_audit_says_to_whom_a_task_went_and_which_policy_came_into_force(holdfast: Invoke, url: str) -> None:
    """Without having to read the JSON."""
    asked = records.Asked(
        1, "r", "p.0", "a-1", "approval", "requested", "delegated", "", "med", False, "bob", "she knows"
    )
    details = {"policy": "sha256:0123456789abcdef", "source": "policy.yaml", "before": ""}
    notes = [
        msgspec.structs.replace(asked, delegated_to="cleo"),
        msgspec.structs.replace(asked, delegated_to="cleo", verdict="rejected", who="cleo"),
        records.Operated(1, "policy", "worker w", None, "in force", details),
        records.Operated(1, "policy", "worker w", None, "in force", {"policy": "none", "source": "nowhere"}),
    ]

    async def write() -> None:
        store = store_at(url)
        await store.open()
        try:
            await store.commit([p.Note("t", None, records.kind_of(each), 1, records.encode(each)) for each in notes])
        finally:
            await store.close()

    asyncio.run(write())
    sentences = [line.split("  ")[-1].strip() for line in holdfast("audit", "--tenant", "t").stdout.splitlines()[1:]]
    assert sentences == [
        "approval a-1 delegated to cleo by bob: she knows",
        "approval a-1 rejected by cleo: she knows",
        "policy policy.yaml (sha256:0123456789ab) by worker w: in force",
        "policy nowhere (none) by worker w: in force",
    ]


def test_the_audit_can_be_narrowed_and_read_by_programs(holdfast: Invoke) -> None:
    """By run, kind and time; the last N; the record as it was written."""
    found = lines(holdfast("audit", *TENANT_OPTION, "--run", RUN, "--kind", "approval", "--limit", "2", "--json"))
    assert [(entry["position"], entry["sealed"], entry["record"]["who"]) for entry in found] == [
        (4, True, "ann"),
        (5, True, "bob"),
    ]
    assert "no entries match" in holdfast("audit", *TENANT_OPTION, "--until", "1960-01-01").stderr
    assert len(lines(holdfast("audit", "list", *TENANT_OPTION, "--since", "2001-01-01", "--json"))) == 10


NO_RECORDS = [b'{"kind":"decision"', b"\xff", b'{"kind":"\xff"}', b"{}", b"[" * 100_000]


@pytest.mark.parametrize("body", NO_RECORDS, ids=range(len(NO_RECORDS)))
def test_an_entry_that_cannot_be_read_is_listed_as_such(holdfast: Invoke, url: str, body: bytes) -> None:
    """The list is often used to look for just that. The others are listed, and no evidence is made of it."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
        connection.execute("UPDATE audit SET body = ? WHERE tenant = ? AND position = 3", (body, TENANT))
        connection.commit()
    listed = holdfast("audit", *TENANT_OPTION)
    assert listed.exit_code == 0
    assert listed.stdout.count("it was altered, and cannot be read: `holdfast audit verify` tells more") == 1
    found = lines(holdfast("audit", *TENANT_OPTION, "--json"))
    assert [entry["position"] for entry in found if not entry["record"]] == [3]
    assert len(found) == 11
    refused = holdfast("evidence", RUN, *TENANT_OPTION, "--anew", "-o", "x.zip")
    assert refused.exit_code == 5
    assert "entry 3 of the audit of tenant" in refused.stderr
    assert "entry 3 (" in holdfast("audit", "verify", *TENANT_OPTION).stdout


def test_an_audit_is_verified_with_and_without_a_key(holdfast: Invoke) -> None:
    """With the exported key it is proved; without, it is only consistent; with another key it is refused."""
    assert holdfast("keys", "export", "-o", "public.pem").exit_code == 0
    proved = holdfast("audit", "verify", *TENANT_OPTION, "--key", "public.pem")
    assert proved.exit_code == 0
    assert "10 entries in 1 signed blocks" in proved.stdout
    assert "all receipts (2) are as the audit records them" in proved.stdout
    assert "1 entries are not sealed yet" in proved.stdout
    assert "a key that you trust vouches for it" in proved.stdout
    plain = holdfast("audit", "verify", *TENANT_OPTION)
    assert (plain.exit_code, "nothing says who made it" in plain.stdout) == (0, True)
    Path("stranger.pem").write_bytes(_stranger())
    assert holdfast("audit", "verify", *TENANT_OPTION, "--key", "stranger.pem").exit_code == 1


def _stranger() -> bytes:
    from holdfast.audit.keys import to_pem
    from tests.unit.audit.governed import STRANGER

    return to_pem(STRANGER[0].public)


def test_an_altered_audit_is_named(holdfast: Invoke, url: str) -> None:
    """Someone who can write to the database cannot hide it."""
    database = sqlite3.connect(url.removeprefix("sqlite:///"))
    with database:
        database.execute("UPDATE audit SET at = at + 1 WHERE position = 3")
    database.close()
    result = holdfast("audit", "verify", *TENANT_OPTION, "--json")
    (record,) = lines(result)
    assert (result.exit_code, record["good"]) == (1, False)
    assert record["claims"][0]["state"] == "broken"
    assert record["claims"][0]["text"].startswith("entry 3 ")


def test_an_altered_receipt_is_named(holdfast: Invoke, url: str) -> None:
    """The chain is good, and one receipt is not the one that it records."""
    holdfast("keys", "export", "-o", "public.pem")
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as database, database:
        database.execute("UPDATE receipts SET body = replace(body, 'customer-7', 'customer-8') WHERE key LIKE '%.1'")
    result = holdfast("audit", "verify", *TENANT_OPTION, "--key", "public.pem", "--json")
    (record,) = lines(result)
    assert (result.exit_code, record["good"]) == (1, False)
    assert [(claim["about"], claim["state"]) for claim in record["claims"][:2]] == [
        ("chain", "proved"),
        ("receipts", "broken"),
    ]
    assert record["claims"][1]["text"] == "receipt receipt-mail differs from what the audit says of it in its target."
    assert "customer-" not in holdfast("audit", "verify", *TENANT_OPTION).stdout


def test_evidence_is_made_written_and_verified_on_its_own(holdfast: Invoke) -> None:
    """The file and the public key are all that the reader needs."""
    holdfast("keys", "export", "-o", "public.pem")
    made = holdfast("evidence", RUN, "-o", "run.zip", *TENANT_OPTION, "--json")
    (record,) = lines(made)
    assert (record["stored"], record["unsealed"], record["size"]) == (False, 0, Path("run.zip").stat().st_size)
    elsewhere = {"HOLDFAST_STORE": "sqlite:////nowhere/at/all.db"}
    proved = CliRunner().invoke(main, ["verify", "run.zip", "--key", "public.pem"], env=elsewhere)
    assert (proved.exit_code, "vouches for it" in proved.stdout) == (0, True)
    plain = CliRunner().invoke(main, ["verify", "run.zip", "--json"], env=elsewhere)
    assert (plain.exit_code, lines(plain)[0]["trusted"]) == (0, False)
    data = bytearray(Path("run.zip").read_bytes())
    data[len(data) // 2] ^= 1
    Path("run.zip").write_bytes(data)
    assert holdfast("verify", "run.zip", "--key", "public.pem").exit_code == 1


def test_evidence_with_values_proves_the_journal(holdfast: Invoke) -> None:
    """The hashes are computed again."""
    assert holdfast("evidence", RUN, "-o", "run.zip", "--values", *TENANT_OPTION).exit_code == 0
    (record,) = lines(holdfast("verify", "run.zip", "--json"))
    assert {claim["state"] for claim in record["claims"] if claim["about"] == "values"} == {"consistent"}


def test_kept_evidence_is_used(holdfast: Invoke, url: str) -> None:
    """The bundle is the one that the archivist made, byte for byte."""

    async def archive() -> bytes | None:
        store = store_at(url)
        await store.open()
        try:
            await Archivist(store, SYSTEM_CLOCK).round()
            return await store.file(p.Key(TENANT, RUN), 0, p.EVIDENCE)
        finally:
            await store.close()

    kept = asyncio.run(archive())
    (record,) = lines(holdfast("evidence", RUN, "-o", "run.zip", *TENANT_OPTION, "--json"))
    assert record["stored"] is True
    assert Path("run.zip").read_bytes() == kept


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("evidence", "nobody", "-o", "x.zip"), 3, "there is no run 'nobody'"),
        (("evidence", RUN, "-o", "x.zip", *TENANT_OPTION, "--generation", "7"), 2, "generations 0 to 0"),
        (("evidence", RUN, "-o", "no/such/folder/x.zip", *TENANT_OPTION), 2, "cannot be written"),
        (("verify", RUN, "--key", "public.pem", *TENANT_OPTION), 2, "--key is for files"),
        (("audit", "verify", "--key", "missing.pem"), 2, "missing.pem cannot be read"),
        (("audit", "verify", "--tenant", "nosuch"), 2, "tenant 'nosuch' has no audit"),
        (("verify",), 2, "give a RUN, a FILE, or --all"),
    ],
)
def test_mistakes_are_errors(holdfast: Invoke, arguments: tuple[str, ...], code: int, message: str) -> None:
    """One line, and the exit code of who must act."""
    result = holdfast(*arguments)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr


def test_a_file_without_keys_is_an_error(holdfast: Invoke) -> None:
    """It says which file, and what writes one."""
    Path("empty.pem").write_text("nothing")
    result = holdfast("audit", "verify", "--key", "empty.pem")
    assert (result.exit_code, "empty.pem: there is no PEM public key" in result.stderr) == (2, True)


def test_keys_are_listed_rotated_and_the_rotation_is_in_the_audit(holdfast: Invoke) -> None:
    """The new key signs, the old export still leads to it, and the audit says who did it."""
    holdfast("keys", "export", "-o", "old.pem")
    assert holdfast("keys", "rotate", *TENANT_OPTION, "--as", "ann", "--reason", "every year").exit_code == 0
    first, second = lines(holdfast("keys", "list", "--json"))
    assert ((first["number"], first["signs"]), (second["number"], second["signs"])) == ((1, False), (2, True))
    assert "signs now, not encrypted" in holdfast("keys", "list").stdout
    (noted,) = lines(holdfast("audit", *TENANT_OPTION, "--kind", "operator", "--since", "2001-01-01", "--json"))
    assert (noted["record"]["act"], noted["record"]["who"]) == ("key", "ann")
    assert noted["record"]["details"]["key"] == second["id"]
    assert holdfast("evidence", RUN, "-o", "run.zip", *TENANT_OPTION).exit_code == 0
    assert holdfast("verify", "run.zip", "--key", "old.pem").exit_code == 0
    assert holdfast("keys", "export").stdout.count("BEGIN PUBLIC KEY") == 2


def test_a_retired_key_is_marked_and_does_not_prove_what_it_may_have_signed_since(holdfast: Invoke) -> None:
    """With the keys from after the rotation, the check warns that evidence of the old key may be forged."""
    holdfast("keys", "export", "-o", "old.pem")
    assert holdfast("evidence", RUN, "-o", "old.zip", *TENANT_OPTION).exit_code == 0
    assert holdfast("keys", "rotate", "--as", "ann").exit_code == 0
    holdfast("keys", "export", "-o", "new.pem")
    assert "(retired)" in Path("new.pem").read_text()
    first, second = lines(holdfast("keys", "list", "--json"))
    assert (first["retired"], second["retired"]) == (True, False)
    assert "retired, not encrypted" in holdfast("keys", "list").stdout
    assert "a key that you trust vouches for it" in holdfast("verify", "old.zip", "--key", "old.pem").stdout
    result = holdfast("verify", "old.zip", "--key", "new.pem")
    assert (result.exit_code, result.stdout.endswith("nothing says who made it\n")) == (0, True)
    assert holdfast("evidence", RUN, "-o", "new.zip", "--anew", *TENANT_OPTION).exit_code == 0
    assert "a key that you trust vouches for it" in holdfast("verify", "new.zip", "--key", "new.pem").stdout
    assert holdfast("audit", "verify", "--key", "new.pem", *TENANT_OPTION).exit_code == 0


def test_a_head_is_kept_and_held_against_the_chain(holdfast: Invoke, url: str) -> None:
    """In a file or on stdout, of one tenant or of all; it shows whether the chain was cut off since."""
    assert holdfast("audit", "head", "-o", "head.json", *TENANT_OPTION).stdout == "head.json: 1 head\n"
    assert holdfast("audit", "head", *TENANT_OPTION).stdout == Path("head.json").read_text()
    (record,) = lines(holdfast("audit", "head", "--all", "-o", "all.json", "--json"))
    assert (record["file"], record["heads"]) == ("all.json", len(Path("all.json").read_text().splitlines()))
    for file in ("head.json", "all.json"):
        assert holdfast("audit", "verify", "--head", file, *TENANT_OPTION).exit_code == 0
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        (first,) = database.execute("SELECT first FROM blocks WHERE tenant = 'acme' ORDER BY number DESC").fetchone()
        database.execute("DELETE FROM blocks WHERE tenant = 'acme' AND first = ?", (first,))
        database.execute("DELETE FROM audit WHERE tenant = 'acme' AND position >= ?", (first,))
    database.close()
    result = holdfast("audit", "verify", "--head", "head.json", *TENANT_OPTION)
    assert (result.exit_code, "was kept: its end was cut off" in " ".join(result.stdout.split())) == (1, True)
    assert holdfast("audit", "verify", "--head", "nowhere.json").exit_code == 2
    assert holdfast("audit", "head", "-o", "no/where", *TENANT_OPTION).exit_code == 2


def test_a_locked_key_is_an_error(holdfast: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the passphrase one can read and verify, but not sign."""
    monkeypatch.setenv("HOLDFAST_KEY_PASSPHRASE", "sesame")
    assert holdfast("keys", "rotate", "--as", "ann").exit_code == 0
    monkeypatch.delenv("HOLDFAST_KEY_PASSPHRASE")
    result = holdfast("evidence", RUN, "-o", "run.zip", *TENANT_OPTION)
    assert (result.exit_code, "HOLDFAST_KEY_PASSPHRASE" in result.stderr) == (5, True)
    assert not Path("run.zip").exists()
    assert holdfast("audit", "verify", *TENANT_OPTION).exit_code == 0


def test_a_store_without_keys_says_so(tmp_path: Path) -> None:
    """Looking at keys makes none: it might be made without the passphrase that a worker has."""
    fresh = {"HOLDFAST_STORE": f"sqlite:///{tmp_path}/fresh.db"}
    assert CliRunner().invoke(main, ["migrate"], env=fresh).exit_code == 0
    assert "there is no key yet" in CliRunner().invoke(main, ["keys", "list"], env=fresh).stderr
    assert CliRunner().invoke(main, ["keys", "export"], env=fresh).exit_code == 2
    assert "tenant 'default' has no audit" in CliRunner().invoke(main, ["audit", "verify"], env=fresh).stderr


def test_evidence_is_made_anew_where_what_was_kept_was_altered(holdfast: Invoke, url: str) -> None:
    """The message names the command that does it."""

    async def keep() -> None:
        store = store_at(url)
        await store.open()
        try:
            await Archivist(store, SYSTEM_CLOCK).round()
        finally:
            await store.close()

    asyncio.run(keep())
    database = sqlite3.connect(url.removeprefix("sqlite:///"))
    with database:
        database.execute("UPDATE artefacts SET data = zeroblob(size)")
    database.close()
    refused = holdfast("evidence", RUN, "-o", "run.zip", *TENANT_OPTION)
    assert refused.exit_code != 0
    assert f"holdfast evidence {RUN} --anew -o FILE --tenant {TENANT}" in refused.stderr
    assert not Path("run.zip").exists()
    (record,) = lines(holdfast("evidence", RUN, "-o", "run.zip", "--anew", *TENANT_OPTION, "--json"))
    assert record["stored"] is False
    assert holdfast("verify", "run.zip").exit_code == 0
