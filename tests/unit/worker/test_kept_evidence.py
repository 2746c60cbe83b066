"""The evidence of a retried run proves the results that it kept, failures included; a fork's says whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from holdfast import Holdfast, RunFailed, action, receive, step, workflow
from holdfast.audit import records
from holdfast.audit.bundles import unpack
from holdfast.audit.check.bundle import verify_bundle
from holdfast.audit.check.claims import Claim, Findings
from holdfast.audit.check.consistency import reconcile
from holdfast.audit.evidence import Manifest
from holdfast.audit.outline import JournalLine
from holdfast.errors import ActionDenied
from tests.unit.worker.ground import Ground, policy_of, rested
from tests.unit.worker.test_governed_runs import EVIDENT, evidence

FAILS: list[Exception] = []
DENIED = policy_of({"when": "action.operation == 'wipe'", "effect": "deny"}, {})


@step(name="evident.free")
async def free() -> None:
    """Nothing."""


@step(name="evident.book", undo=free)
async def book() -> None:
    """It is undone when the run fails, so a retry begins before it."""


@action(connector="disk", operation="wipe", name="evident.wipe")
async def wipe() -> None:
    raise AssertionError("it is denied")


@action(connector="disk", operation="write", name="evident.write")
async def write() -> None:
    """It is allowed."""


@workflow(name="evident.careful")
async def careful() -> str:
    """The second generation comes to the call at another position."""
    await book()
    if FAILS:
        await free()
    said = await receive("word")
    try:
        await wipe()
    except ActionDenied:
        await free()  # the run relies on the refusal
    await receive("go")
    if FAILS:
        raise FAILS.pop()
    await write()
    return str(said)


async def kept(app: Holdfast, *, forked: bool) -> bytes:
    """The evidence of a run, or of a fork, that was retried and kept the refusal, and the signal, that it had."""
    FAILS.append(ValueError("not yet"))
    run = await app.start(careful, id="one")
    await run.signal("word", "well", by="ann")
    await rested(app, "one")
    if forked:
        run = await run.fork((await run.info()).events, id="two", by="bob")
        await asyncio.sleep(0.01)  # virtual time stands still else, and what comes later is as old as the fork
    await run.signal("go", by="ann")
    with pytest.raises(RunFailed):
        await run.result(30)
    await run.retry(by="ann")
    assert await run.result(30) == "well"
    assert (await run.verify()).good
    return await evidence(app, run.id, 1)


def judged(data: bytes, error: str) -> Sequence[Claim]:
    """What is said of the evidence if the refusal that was kept has this type, although its hashes are right."""
    files = unpack(data)
    journals = msgspec.json.decode(files["journal.json"], type=list[JournalLine])
    refused = b'"error":"holdfast.errors:ActionDenied"'
    (last,) = [each for each in journals if each.generation == 1]
    altered = msgspec.json.encode(last).replace(
        refused, refused.replace(b"holdfast.errors:ActionDenied", error.encode())
    )
    journals = [journals[0], msgspec.json.decode(altered, type=JournalLine)]
    lines = [msgspec.json.decode(line) for line in files["entries.jsonl"].splitlines()]
    recorded = [(line["position"], records.decode(line["body"].encode())) for line in lines]
    findings = Findings()
    manifest = msgspec.json.decode(files["manifest.json"], type=Manifest)
    reconcile(manifest.run, journals, recorded, findings)
    return findings.verdict(trusted=True).claims


@pytest.mark.parametrize("forked", [False, True])
def test_a_refusal_that_a_retried_run_kept_is_proved(ground: Ground, forked: bool) -> None:
    """One that nobody gave is not: it is neither a kept one nor was it judged."""

    async def main(ground: Ground) -> None:
        async with ground.engine(careful, policy=DENIED, options=EVIDENT) as app:
            data = await kept(app, forked=forked)
            (key,) = await app.store.signing_keys()
            assert [claim.text for claim in verify_bundle(data, [key.public]).claims if claim.state == "broken"] == []
            states = {claim.state for claim in judged(data, "holdfast.errors:ActionDenied")}
            forged = [claim for claim in judged(data, "holdfast.errors:ApprovalExpired") if claim.state == "broken"]
            assert states == ({"proved", "not proved"} if forked else {"proved"})
            assert [claim.about for claim in forged] == ["actions"]
            assert "was never judged" in forged[0].text

    ground.play(main)
