"""Evidence shows who people were when they answered, and alterations of that are found."""

from __future__ import annotations

import asyncio
import hashlib
import io
import zipfile
from collections.abc import Callable

import msgspec
import pytest

from holdfast import Holdfast, action, ask, verify_evidence, workflow
from holdfast.audit import records
from holdfast.audit.bundles import pack
from holdfast.audit.check.claims import Findings
from holdfast.audit.check.users import check_users
from holdfast.audit.facts import RunLine
from holdfast.people.users import User, user_subject
from holdfast.store.protocol import AuditEntry
from holdfast.views import Verdict
from tests.unit.worker.ground import policy_of


class Review(msgspec.Struct):
    good: bool = True


@action(connector="bank", operation="pay", name="shown.pay")
async def pay() -> str:
    return "paid"


@workflow(name="shown.paying")
async def paying() -> str:
    await ask("good?", Review, groups=["claims"])
    return await pay()


POLICY = policy_of({"effect": "needs_approval", "tier": "high", "candidates": ["ann", "bob"]})


async def _bundle(users: bool = True) -> bytes:
    """The evidence of a run that ann started, bob's form and approval."""
    async with Holdfast("memory://", workflows=[paying], policy=POLICY) as app:
        if users:
            await app.tenants.create("default")
            await app.users.create("root", level=6)
            await app.users.create("ann", level=4, groups=["leads"])
            await app.users.create("bob", level=1)
            await app.users.set_level("bob", 2)
            await app.users.set_groups("bob", ["claims"])
            await app.users.create("eve", level=2)
        client = app.acting_as("ann") if users else app
        await client.start(paying, id="r1", actor="ann")
        for answer in ("complete", "approve"):
            await app.run("r1").settled(timeout=30)
            task = await anext(app.tasks.list(run="r1"))
            if answer == "complete":
                await app.tasks.complete(task.id, {}, by="bob", groups=["claims"])
            else:
                await app.tasks.approve(task.id, by="bob")
        await app.run("r1").result(timeout=30)
        if users:
            await app.users.disable("bob")
        evidence = await app.run("r1").evidence(anew=True)
        assert (await app.audit.verify()).good
        return evidence.data


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return asyncio.run(_bundle())


def _files(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _broken(verdict: Verdict) -> str:
    return " ".join(claim.text for claim in verdict.claims if claim.state == "broken")


def test_a_bundle_shows_who_people_were_at_that_time(bundle: bytes) -> None:
    """The last change before each act: not earlier ones, not later ones, and nobody else's."""
    verdict = verify_evidence(bundle)
    assert (verdict.good, [claim.state for claim in verdict.claims if claim.about == "users"]) == (True, ["consistent"])
    shown = [msgspec.json.decode(line) for line in _files(bundle)["people.jsonl"].splitlines()]
    entries = [records.decode(line["body"].encode()) for line in shown]
    assert [each.details["user"] for each in entries if isinstance(each, records.Operated)] == ["root", "ann", "bob"]
    assert isinstance(entries[2], records.Operated)
    assert (entries[2].details["level"], entries[2].details["groups"], entries[2].details["status"]) == (
        "2",
        '["claims"]',
        "enabled",
    )


def test_a_tenant_without_users_has_no_such_claim() -> None:
    data = asyncio.run(_bundle(users=False))
    assert "people.jsonl" not in _files(data)
    verdict = verify_evidence(data)
    assert verdict.good
    assert [claim for claim in verdict.claims if claim.about == "users"] == []


def _repacked(data: bytes, change: Callable[[dict[str, bytes]], None]) -> bytes:
    """The bundle with other files, and a manifest that names them: only the signature is missing."""
    files = _files(data)
    change(files)
    manifest = msgspec.json.decode(files["manifest.json"])
    named = [name for name in files if not name.startswith("manifest.")]
    manifest["files"] = [
        {"name": name, "size": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()} for name in named
    ]
    files["manifest.json"] = msgspec.json.encode(manifest)
    return pack(files)


def test_altered_users_are_found(bundle: bytes) -> None:
    """Another level, a person left out, all of them left out: in whatever way the files are put together again."""

    def promoted(files: dict[str, bytes]) -> None:
        files["people.jsonl"] = files["people.jsonl"].replace(rb"\"level\":\"4\"", rb"\"level\":\"6\"")

    def without_bob(files: dict[str, bytes]) -> None:
        files["people.jsonl"] = b"".join(files["people.jsonl"].splitlines(keepends=True)[:2])

    def without_anybody(files: dict[str, bytes]) -> None:
        del files["people.jsonl"]

    def nobody(files: dict[str, bytes]) -> None:
        del files["people.jsonl"]
        files["manifest.json"] = files["manifest.json"].replace(b"evidence.4", b"evidence.2")

    assert "entry" in _broken(verify_evidence(_repacked(bundle, promoted)))
    assert "bob answered task" in _broken(verify_evidence(_repacked(bundle, without_bob)))
    assert "has other files" in _broken(verify_evidence(_repacked(bundle, without_anybody)))
    assert "is missing: block" in _broken(verify_evidence(_repacked(bundle, nobody)))


FACTS = RunLine(
    id="r1",
    tenant="acme",
    workflow="w",
    generation=0,
    standing="completed",
    ended=True,
    governed=True,
    workspace="",
    actor=None,
    trigger_type=None,
    trigger_ref=None,
    parent=None,
    forked_from=None,
    created_at=0,
    ended_at=0,
)


def _user(at: int, shown: User, act: str = "change_user", **more: str) -> tuple[AuditEntry, records.Record]:
    groups = msgspec.json.encode(shown.groups).decode()
    details = {"user": shown.name, "level": str(shown.level), "groups": groups, "status": shown.status, **more}
    subject = user_subject(shown.name)
    record = records.Operated(at, act, "root", subject, "", details)
    return AuditEntry(at, "acme", subject, "operator", at, b"", at), record


def _answer(at: int, by: str, **more: object) -> tuple[int, records.Record]:
    asked = records.Asked(at, "r1", "p", "t-1", "form", "completed", "completed", "", "low", False, by)
    return at, msgspec.structs.replace(asked, **more)


ROOT = _user(0, User("root", 6), "create_user")
BOB = User("bob", 2, ("claims",))
FOR_CLAIMS = _answer(2, "bob", who=None, verdict="requested", groups=("claims",))


@pytest.mark.parametrize(
    ("people", "recorded", "problem"),
    [
        ([ROOT, _user(1, BOB)], [FOR_CLAIMS, _answer(5, "bob")], ""),
        ([ROOT, _user(1, BOB)], [FOR_CLAIMS, _answer(5, "BOB")], ""),
        ([ROOT], [_answer(5, "bob")], "nothing shows that they were a user"),
        ([ROOT, _user(7, BOB)], [_answer(5, "bob")], "nothing shows that they were a user"),
        ([ROOT, _user(1, msgspec.structs.replace(BOB, disabled=True))], [_answer(5, "bob")], "had disabled them"),
        ([ROOT, _user(1, User("bob", 1))], [_answer(5, "bob")], "had level 1, and needed 2"),
        ([ROOT, _user(1, User("bob", 2, ("desk",)))], [FOR_CLAIMS, _answer(5, "bob")], "in no group that was asked"),
        (
            [ROOT, _user(1, User("bob", 2))],
            [FOR_CLAIMS, _answer(3, "", who=None, verdict="escalated", candidates=("b*",)), _answer(5, "bob")],
            "",
        ),
        ([ROOT, _user(1, BOB, level="many")], [_answer(5, "root")], "shows no user"),
        ([ROOT, _user(1, BOB, user="ann")], [_answer(5, "root")], "another user or tenant"),
        ([ROOT, _user(1, BOB, "pause")], [_answer(5, "root")], "no change of a user"),
        ([], [_answer(5, "bob")], ""),
    ],
)
def test_whoever_answered_was_a_user_who_might(
    people: list[tuple[AuditEntry, records.Record]], recorded: list[tuple[int, records.Record]], problem: str
) -> None:
    findings = Findings()
    check_users(FACTS, people, recorded, findings)
    verdict = findings.verdict(trusted=True)
    assert verdict.good == (not problem)
    assert problem in _broken(verdict)
