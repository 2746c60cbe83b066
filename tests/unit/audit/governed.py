"""A complete synthetic governed run: its journal, its entries among those of other runs, blocks under two keys."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.audit import keys, records
from holdfast.audit.chain import CHAIN, digest, extend, make_block, message_of
from holdfast.audit.evidence import Inputs, Journal, build
from holdfast.audit.keys import PublicKey, Signer
from holdfast.audit.records import of_bytes
from holdfast.journal import events as e
from holdfast.journal.codec import GENESIS
from holdfast.journal.payload import ONCE, Err, Failure, Ok, Payload
from holdfast.journal.promise import PromiseId
from holdfast.runs.segments import seal
from holdfast.store import protocol as p

NOW = 1_700_000_000_000_000
TENANT = "acme"
RUN = "order-1"
ROOT = PromiseId.of_run("digest", None, "acme~order-1")
CHARGE, MAIL, WIPE = ROOT.child(0), ROOT.child(1), ROOT.child(2)
PROPOSALS = {CHARGE: "aa" * 32, MAIL: "bb" * 32, WIPE: "cc" * 32}
NAMES = {CHARGE: "charge", MAIL: "mail", WIPE: "wipe"}
ARGUMENTS = b"arguments"

Pair = tuple[p.SigningKey, Signer]


def pair(before: Pair | None = None, passphrase: str | None = None) -> Pair:
    """A new key, opened; the one after ``before``."""
    key = keys.generate(NOW, passphrase, before)
    return key, keys.unlock(key, passphrase)


FIRST = pair()
SECOND = pair(FIRST)
STRANGER = pair()
LINE = [keys.published(FIRST[0]), keys.published(SECOND[0])]
PUBLICS = {key.id: key.public for key in LINE}


def journal() -> list[p.Segment]:
    """Two actions that were done, one that was refused, and the end."""
    turns: list[list[e.Event]] = [[e.ExecutionStarted("digest", Payload(b"\x82\x80\xa0"), None, "acme~order-1")]]
    for promise, name in NAMES.items():
        turns[-1].append(e.InvokeScheduled(promise, "action", name, Payload(b"\x82\x81\x18\x2a\xa0"), ONCE))
        turns[-1].append(e.InvokeStarted(promise, 1))
        turns[-1].append(e.ExecutionAwaiting((promise,), e.Single()))
        outcome = Err(Failure("PolicyDenied", "no")) if promise == WIPE else Ok(Payload(b"\x64done"))
        turns.append([e.InvokeCompleted(promise, outcome, 1), e.ExecutionResumed()])
    turns[-1].append(e.ExecutionCompleted(Payload(b"\x67secrets")))
    return sealed(turns)


def sealed(turns: Sequence[Sequence[e.Event]]) -> list[p.Segment]:
    """A journal of these turns, one segment for each."""
    segments: list[p.Segment] = []
    head, first = GENESIS, 0
    for number, turn in enumerate(turns):
        segments.append(seal([(NOW + number, event) for event in turn], first, head, {}))
        head, first = segments[-1].head, first + len(turn)
    return segments


def decided(promise: PromiseId, effect: str, stage: str = "policy", **more: object) -> records.Decided:
    return records.Decided(
        at=NOW,
        run=RUN,
        promise=str(promise),
        workflow="checkout",
        action=NAMES[promise],
        connector="shop",
        operation="do",
        target="customer-7",
        writes=True,
        risk="med",
        proposal=PROPOSALS[promise],
        fields={"amount": "number", "card": "secret"} if promise == CHARGE else {"to": "text"},
        effect=effect,  # type: ignore[arg-type]
        stage=stage,
        rule="r1",
        policy="ff" * 32,
        reason="<b>because</b>",
        **more,  # type: ignore[arg-type]
    )


def receipted(promise: PromiseId, **more: object) -> records.Receipted:
    return records.Receipted(
        at=NOW,
        run=RUN,
        promise=str(promise),
        receipt=f"receipt-{NAMES[promise]}",
        key=f"shop:do:{promise}",
        attempt=1,
        state="succeeded",
        action=NAMES[promise],
        connector="shop",
        operation="do",
        target="customer-7",
        writes=True,
        proposal=PROPOSALS[promise],
        request=of_bytes("arguments", ARGUMENTS),
        started_at=NOW,
        cost={"provider": "openbank", "model": "v1", "amount": 0.1, "currency": "USD"},
        **more,  # type: ignore[arg-type]
    )


def asked(who: str, status: str, verdict: str = "approved") -> records.Asked:
    return records.Asked(
        at=NOW,
        run=RUN,
        promise=str(MAIL),
        task="task-1",
        subject="approval",
        status=status,
        verdict=verdict,
        proposal=PROPOSALS[MAIL],
        tier="high",
        two_person=True,
        who=who,
    )


def ended(segments: Sequence[p.Segment]) -> records.Ended:
    last = segments[-1]
    return records.Ended(
        at=last.at,
        run=RUN,
        workflow="checkout",
        code="digest",
        generation=0,
        standing="completed",
        root=ROOT.root.hex(),
        version=last.first + last.count,
        head=last.head.hex(),
        input=of_bytes("arguments", b"\x82\x80\xa0"),
        actor="cleo",
    )


def story() -> list[records.Record]:
    """The records of the run, in order."""
    return [
        decided(CHARGE, "allow"),
        receipted(CHARGE),
        decided(MAIL, "needs_approval", task="task-1"),
        asked("", "requested", "requested"),
        asked("ann", "requested"),
        asked("bob", "approved"),
        receipted(MAIL),
        decided(WIPE, "deny"),
        ended(journal()),
    ]


def entry(record: records.Record, sequence: int, position: int | None = None, run: str | None = RUN) -> p.AuditEntry:
    return p.AuditEntry(sequence, TENANT, run, records.kind_of(record), NOW, records.encode(record), position)


def chained(previous: p.Block | None, entries: Sequence[p.AuditEntry], sealed_at: int, signer: Signer) -> p.Block:
    """A block of the first form, as earlier versions made them."""
    block = make_block(previous, entries, sealed_at, signer)
    block = replace(block, form=CHAIN, head=extend(block.previous, map(digest, entries)))
    return replace(block, signature=signer.sign(message_of(block)))


def audit(
    recorded: Sequence[records.Record], *, size: int = 6, of_first_form: int = 1
) -> tuple[list[p.Block], list[p.AuditEntry]]:
    """The tenant's whole chain: entries of another run between those of this one, the first block under the first key.

    The first ``of_first_form`` blocks are of the first form: an earlier version made them.
    """
    mixed: list[p.AuditEntry] = []
    for record in recorded:
        mixed.append(entry(record, len(mixed) + 1, len(mixed)))
        other = records.Operated(NOW, "pause", "eve", run="other", reason=f"{len(mixed)}")
        mixed.append(entry(other, len(mixed) + 1, len(mixed), "other"))
    blocks: list[p.Block] = []
    for at in range(0, len(mixed), size):
        _, signer = SECOND if blocks else FIRST
        make = chained if len(blocks) < of_first_form else make_block
        blocks.append(make(blocks[-1] if blocks else None, mixed[at : at + size], NOW, signer))
    return blocks, mixed


def run_row(segments: Sequence[p.Segment]) -> p.Run:
    last = segments[-1]
    return p.Run(
        key=p.Key(TENANT, RUN),
        workflow="checkout",
        root=ROOT.root,
        generation=0,
        version=last.first + last.count,
        head=last.head,
        standing="completed",
        cancelling=False,
        pause=None,
        priority=0,
        attributes={},
        parent=None,
        parent_position=None,
        fingerprint=b"",
        owner=None,
        epoch=1,
        crashes=0,
        ready_at=None,
        wake_at=None,
        waiting=None,
        arrived=0,
        consumed=0,
        error=None,
        created_at=NOW,
        updated_at=NOW,
        ended_at=NOW + 9,
        actor="ann <script>",
        governed=True,
    )


def inputs(recorded: Sequence[records.Record] | None = None, *, values: bool = False, of_first_form: int = 1) -> Inputs:
    """The inputs of the run's bundle."""
    segments = journal()
    blocks, entries = audit(story() if recorded is None else recorded, of_first_form=of_first_form)
    mine = [each for each in entries if each.run == RUN]
    return Inputs(run_row(segments), 0, [Journal(0, segments)], mine, blocks, {}, values)


def bundle(
    own: Inputs | None = None, *, line: Sequence[PublicKey] = LINE, signer: Signer = SECOND[1], **changed: object
) -> bytes:
    """The run's bundle, with some inputs changed and still signed, as a cheating operator would make it."""
    return build(replace(inputs() if own is None else own, **changed), line, signer, NOW + 20)


async def run_in_store(
    store: p.Store, segments: Sequence[p.Segment] | None = None, name: str = RUN, tenant: str = TENANT
) -> p.Run:
    """The run, ended, with its journal and its audit entries (not sealed) in a store."""
    segments = journal() if segments is None else segments
    start = p.Start(
        key=p.Key(tenant, name),
        workflow="checkout",
        fingerprint=b"",
        root=ROOT.root,
        segment=segments[0],
        projection=p.Projection("running", governed=True),
        origin=p.Origin(actor="cleo"),
        owner="ann",
    )
    await store.commit([start])
    for segment in segments[1:]:
        (run,) = await store.get([start.key])
        last = segment is segments[-1]
        projection = p.Projection("completed" if last else "running", governed=True)
        (answer,) = await store.commit(
            [p.Advance(run.key, 0, run.epoch, run.version, segment, projection, 0, release=last)]
        )
        assert isinstance(answer, p.Advanced)
    for record in story():
        await store.commit([p.Note(tenant, name, records.kind_of(record), record.at, records.encode(record))])
    (run,) = await store.get([start.key])
    return run


async def receipts_in_store(store: p.Store) -> None:
    """The receipts of the run's acts, its task, and the decision that allowed the approved act."""
    answers = [p.TaskAnswer(who, "approved", "", NOW) for who in ("ann", "bob")]
    task = p.TaskRow(
        tenant=TENANT,
        id="task-1",
        run=RUN,
        generation=0,
        root=ROOT.root,
        position=MAIL.path[-1],
        kind="approval",
        status="requested",
        version=1,
        proposal=bytes.fromhex(PROPOSALS[MAIL]),
        summary="mail",
        details=b"\xa0",
        tier="high",
        two_person=True,
        candidates=(),
        starter="cleo",
        policy="ff" * 32,
        rule="r1",
        created_at=NOW,
        expires_at=None,
    )
    half = replace(task, version=2, answers=tuple(answers[:1]))
    whole = replace(task, version=3, answers=tuple(answers), status="approved", closed_at=NOW)
    await store.commit([p.PutTask(task), p.PutTask(half), p.PutTask(whole)])
    allowed = decided(MAIL, "allow", "approval", task="task-1")
    await store.commit([p.Note(TENANT, RUN, "decision", NOW, records.encode(allowed))])
    for promise, task in ((CHARGE, None), (MAIL, "task-1")):
        record = receipted(promise)
        opened = p.ReceiptRow(
            tenant=TENANT,
            key=record.key,
            id=record.receipt,
            run=RUN,
            root=ROOT.root,
            position=promise.path[-1],
            attempt=1,
            token="ann~1",
            state="pending",
            action=record.action,
            connector=record.connector,
            operation=record.operation,
            target=record.target,
            writes=True,
            risk="med",
            proposal=bytes.fromhex(record.proposal),
            request=ARGUMENTS,
            opened_at=NOW,
            task=task,
        )
        closed = replace(opened, state="succeeded", cost=dict(record.cost or {}), closed_at=NOW)
        assert await store.commit([p.OpenReceipt(opened), p.CloseReceipt(closed)]) == [p.Opened(), p.Closed()]
