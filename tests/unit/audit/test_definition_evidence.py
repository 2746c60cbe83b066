"""Evidence of a definition's run: it carries the definitions and what people attached, and alterations are found."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest

from holdfast import ApprovalRejected, Attachment, Holdfast, action, child, verify_evidence, workflow
from holdfast.audit import evidence
from holdfast.audit.bundles import pack, unpack
from holdfast.audit.outline import JournalLine
from holdfast.errors import StoreCorrupt
from holdfast.store import protocol as p
from tests.unit.worker.ground import OPTIONS, Ground, asked, asking

Files = dict[str, bytes]


@action(name="proof.pay", connector="bank", operation="pay", writes=True, target="{to}")
async def pay(to: str) -> str:
    return f"paid {to}"


@workflow(name="proof.outer")
async def outer() -> object:
    return await child("proof.inner")({})


@workflow(name="proof.refused")
async def refused() -> str:
    return await pay("bob")


@workflow(name="proof.parent")
async def parent() -> str:
    try:
        return await refused()
    except ApprovalRejected:
        return await pay("cay")


INNER = {
    "holdfast": "definition/1",
    "name": "proof.inner",
    "version": 1,
    "steps": [{"nap": {"sleep": "1s"}}, {"done": {"end": "slept"}}],
}
CLAIM = {
    "holdfast": "definition/1",
    "name": "proof.claim",
    "version": 3,
    "tasks": {
        "look": {
            "title": "look at it",
            "show": {"n": "=start.n"},
            "form": {"type": "object", "properties": {"scan": {"format": "file"}, "good": {"type": "boolean"}}},
        }
    },
    "steps": [
        {"go": {"wait": "go"}},
        {"ask": {"task": "look", "as": "state.look"}},
        {"pay": {"action": "proof.pay", "with": {"to": "ann"}}},
        {"rest": {"run": "proof.inner"}},
        {"done": {"end": "=[nodes.go.by, nodes.ask.by, nodes.pay.by]"}},
    ],
}


async def played(app: Holdfast) -> Any:
    """One run with all of it, to its end."""
    app.definitions.add(INNER)
    app.definitions.add(CLAIM)
    run = await app.start("proof.claim", {"n": 7}, id="one", actor="fred")
    await run.signal("go", 1, by="dan")
    task = await asked(app, "one")
    await app.tasks.complete(task.id, {"good": True, "scan": Attachment("a.txt", b"scanned")}, by="eve")
    await app.tasks.approve((await asked(app, "one", other_than=task.id)).id, by="bob")
    assert await run.result(30) == ["dan", "eve", "bob"]
    return run


@cache
def bundles() -> dict[bool, bytes]:
    """The evidence of that run, without values and with them."""

    async def main(ground: Ground) -> dict[bool, bytes]:
        async with ground.engine(policy=asking(), options=OPTIONS) as app:
            run = await played(app)
            return {values: (await run.evidence(values=values, anew=True)).data for values in (False, True)}

    return Ground(None).play(main)


def broken(data: bytes, about: str) -> str:
    """The texts of the broken claims about this."""
    verdict = verify_evidence(data)
    return "\n".join(claim.text for claim in verdict.claims if claim.state == "broken" and claim.about == about)


def altered(change: Callable[[Files], None], *, values: bool = False) -> bytes:
    """The bundle with changed files and a manifest that lists them: only what the files say can give them away."""
    files = unpack(bundles()[values])
    change(files)
    manifest = msgspec.json.decode(files["manifest.json"], type=evidence.Manifest)
    rest = {name: data for name, data in files.items() if not name.startswith("manifest.")}
    lines = [evidence.FileLine(n, len(d), hashlib.sha256(d).hexdigest()) for n, d in sorted(rest.items())]
    written = msgspec.json.encode(msgspec.structs.replace(manifest, files=lines))
    return pack({**files, "manifest.json": written})


def definitions(files: Files) -> list[str]:
    return sorted(name for name in files if name.startswith("definitions/"))


def in_journal(old: str, new: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        assert old.encode() in files["journal.json"]
        files["journal.json"] = files["journal.json"].replace(old.encode(), new.encode())

    return change


@pytest.mark.parametrize("values", [False, True])
def test_a_bundle_carries_the_definition_and_those_that_it_runs(values: bool) -> None:
    files = unpack(bundles()[values])
    names = {cbor2.loads(files[name])["name"] for name in definitions(files)}
    assert names == {"proof.claim", "proof.inner"}
    verdict = verify_evidence(bundles()[values])
    assert verdict.good, [claim for claim in verdict.claims if claim.state == "broken"]
    about = {claim.about for claim in verdict.claims if claim.state == "consistent"}
    assert {"definitions", "people", "forms"} <= about
    assert ("answers" in about) == values


def test_a_file_of_an_answer_is_in_a_bundle_with_values_alone() -> None:
    name = f"blobs/{hashlib.sha256(b'scanned').hexdigest()}"
    assert unpack(bundles()[True])[name] == b"scanned"
    assert name not in unpack(bundles()[False])
    assert b"a.txt" not in b"".join(unpack(bundles()[False]).values())


def test_another_definition_in_its_place_is_found() -> None:
    def change(files: Files) -> None:
        files[definitions(files)[0]] += b" "

    assert "is not the definition of that digest" in broken(altered(change), "definitions")


def test_a_definition_that_is_gone_and_one_that_was_added_are_found() -> None:
    def change(files: Files) -> None:
        del files[definitions(files)[0]]
        files[evidence.definition_file(hashlib.sha256(b"new").hexdigest())] = b"new"

    found = broken(altered(change), "definitions")
    assert "is missing: the journal names that definition" in found
    assert "a definition that no journal names" in found


def test_a_journal_that_pins_another_definition_is_found() -> None:
    """Definition and journal agree with each other, and neither with the entry of the end nor with the root."""

    def change(files: Files) -> None:
        (journal,) = msgspec.json.decode(files["journal.json"], type=list[JournalLine])
        code = journal.events[0].code or ""
        other = cbor2.dumps({**cbor2.loads(files[evidence.definition_file(code)]), "title": "x"}, canonical=True)
        digest = hashlib.sha256(other).hexdigest()
        del files[evidence.definition_file(code)]
        files[evidence.definition_file(digest)] = other
        in_journal(code, digest)(files)

    found = broken(altered(change), "definitions")
    assert "is not the one that entry" in found
    assert "the root of its journal follows from" in found


def test_a_run_that_is_said_to_be_a_function_still_shows_its_definition() -> None:
    """Then the file is one that no journal calls for."""
    files = unpack(bundles()[False])
    manifest = msgspec.json.decode(files["manifest.json"], type=evidence.Manifest)
    run = msgspec.structs.replace(manifest.run, program_kind="function")
    files["manifest.json"] = msgspec.json.encode(msgspec.structs.replace(manifest, run=run))
    assert "a definition that no journal names" in broken(pack(files), "definitions")


@pytest.mark.parametrize("who", ["dan", "eve", "bob"])
def test_another_person_in_the_journal_is_found(who: str) -> None:
    found = broken(altered(in_journal(f'"by": "{who}"', '"by": "mal"')), "people")
    assert "mal by the journal, and no entry records that" in found


def test_an_answer_without_its_file_is_found() -> None:
    def change(files: Files) -> None:
        del files[f"blobs/{hashlib.sha256(b'scanned').hexdigest()}"]

    assert "a file of the answer" in broken(altered(change, values=True), "answers")


def test_a_store_that_lost_the_definition_gives_no_evidence() -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(policy=asking(), options=OPTIONS) as app:
            run = await played(app)
            tables: Any = ground.store
            code = next(key for key in tables._tables.code if key[0] == "default")
            del tables._tables.code[code]
            with pytest.raises(StoreCorrupt, match=r"the definition .* is missing"):
                await run.evidence(anew=True)

    Ground(None).play(main)


def test_the_kept_evidence_and_that_of_functions_carry_definitions_too() -> None:
    """The archivist makes the one at the end of a run; a function's run names the definition that it called."""
    options = msgspec.structs.replace(OPTIONS, evidence=True)

    async def main(ground: Ground) -> None:
        async with ground.engine(outer, policy=asking(), options=options) as app:
            run = await played(app)
            while not await app.store.files(p.Key("default", "one")):
                await app.changed(1)
            data = (await run.evidence()).data
            assert len(definitions(unpack(data))) == 2
            assert verify_evidence(data).good
            other = await app.start(outer, id="two")
            assert await other.result(30) == "slept"
            files = unpack((await other.evidence(anew=True)).data)
            assert [cbor2.loads(files[name])["name"] for name in definitions(files)] == ["proof.inner"]
            assert verify_evidence((await other.evidence(anew=True)).data).good

    Ground(None).play(main)


def test_a_bundle_that_was_made_once_is_verified_for_ever() -> None:
    """One with values, a definition with a child, a form with a file, a signal and an approval."""
    data = (Path(__file__).parent / "golden" / "evidence_definition.zip").read_bytes()
    verdict = verify_evidence(data)
    assert verdict.good, [claim for claim in verdict.claims if claim.state == "broken"]
    assert {"definitions", "people", "answers", "forms"} <= {claim.about for claim in verdict.claims}


def test_a_refusal_that_comes_from_a_child_is_in_the_childs_audit() -> None:
    """The parent's journal names who refused, and no entry of the parent does."""

    async def main(ground: Ground) -> None:
        async with ground.engine(parent, refused, policy=asking(), options=OPTIONS) as app:
            run = await app.start(parent, id="one", actor="fred")
            await app.tasks.reject((await asked(app, "one~0")).id, by="dan")
            await app.tasks.approve((await asked(app, "one")).id, by="eve")
            assert await run.result(30) == "paid cay"
            for id in ("one", "one~0"):
                data = (await app.run(id).evidence(anew=True)).data
                verdict = verify_evidence(data)
                assert verdict.good, [claim for claim in verdict.claims if claim.state == "broken"]
                assert b'"by": "dan"' in unpack(data)["journal.json"]

    Ground(None).play(main)


def test_the_evidence_of_a_fork_leaves_to_the_other_what_was_answered_before() -> None:
    async def main(ground: Ground) -> None:
        async with ground.engine(policy=asking(), options=OPTIONS) as app:
            run = await played(app)
            events = [entry.event async for entry in run.journal()]
            fork = await run.fork(events.index("ExecutionCompleted"), id="two", by="gus")
            await fork.result(30)
            for values in (False, True):
                verdict = verify_evidence((await fork.evidence(values=values, anew=True)).data)
                assert verdict.good, [claim for claim in verdict.claims if claim.state == "broken"]

    Ground(None).play(main)
