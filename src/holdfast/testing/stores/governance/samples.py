"""Receipts, tasks, entries and blocks for the tests of a store. A test sets only the fields that matter to it."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import NOW, TENANT, commit


def receipt(
    key: str = "pay invoice 7",
    *,
    tenant: str = TENANT,
    run: str = "one",
    token: str = "first",
    state: p.ReceiptState = "pending",
    id: str | None = None,
    connector: str = "bank",
    opened_at: int = NOW,
    reverses: str | None = None,
    result: bytes | None = None,
) -> p.ReceiptRow:
    """A receipt with every field set, so that a round trip loses none; its id follows from its key unless given."""
    return p.ReceiptRow(
        tenant=tenant,
        key=key,
        id=f"receipt of {key}" if id is None else id,
        run=run,
        root=b"\x00root\xff",
        position=4,
        attempt=2,
        token=token,
        state=state,
        action="pay",
        connector=connector,
        operation="transfer",
        target="account 9",
        writes=True,
        risk="high",
        proposal=b"\x01proposal",
        request=b"\xa1request",
        opened_at=opened_at,
        actor="ann",
        reverse="refund",
        reverses=reverses,
        task="task 3",
        result=result,
        result_blob=b"\xfedigest",
        error=None if state != "failed" else "no money: ünable",
        cost={"amount": 1.5, "currency": "EUR"},
        closed_at=None if state == "pending" else NOW + 9,
        abandoned=state == "unknown",
    )


def task(
    id: str = "task",
    version: int = 1,
    *,
    tenant: str = TENANT,
    run: str = "one",
    generation: int = 0,
    status: p.TaskStatus = "requested",
    answers: Sequence[p.TaskAnswer] = (),
    created_at: int = NOW,
    kind: p.TaskKind = "approval",
    owner: str | None = "emil",
) -> p.TaskRow:
    """A task with every field set."""
    return p.TaskRow(
        tenant=tenant,
        id=id,
        run=run,
        generation=generation,
        root=b"\x00root\xff",
        position=4,
        kind=kind,
        status=status,
        version=version,
        proposal=b"\x01proposal",
        summary="pay 1,50 € to account 9",
        details=b"\xa1details",
        tier="manager",
        two_person=True,
        candidates=("ann", "bob"),
        starter="carl",
        policy="policy 12",
        rule="payments",
        created_at=created_at,
        expires_at=NOW + 99,
        answers=tuple(answers),
        delegated_to="dora",
        closed_at=None if status == "requested" else NOW + 9,
        form=b"\xa0form\xff",
        groups=("claims", "leäds"),
        excluded=("frida",),
        owner=owner,
        due_at=NOW + 50,
        reminders=(NOW + 10, NOW + 20),
        reminded=1,
        reminded_at=NOW + 11,
        escalation=p.Escalation(("gus",), ("heads",)),
        escalated_at=NOW + 51,
    )


def note(
    body: str = "said",
    *,
    tenant: str = TENANT,
    run: str | None = "one",
    kind: str = "decided",
    at: int = NOW,
    id: str | None = None,
) -> p.Note:
    return p.Note(tenant, run, kind, at, body.encode(), id)


def block(number: int = 1, first: int = 1, count: int = 1, *, tenant: str = TENANT) -> p.Block:
    mark = f"{tenant} {number}".encode()
    hashes = (b"\x00before", b"\xffhead", b"digests")
    return p.Block(tenant, number, first, count, *hashes, NOW, "key 1", b"by " + mark, form=2)


async def noted(store: p.Store, *bodies: str, tenant: str = TENANT) -> list[p.AuditEntry]:
    """Append entries, and give the tenant's entries that are not sealed."""
    await store.commit([note(body, tenant=tenant) for body in bodies])
    return [entry for entry in await store.unsealed(1000) if entry.tenant == tenant]


async def seal(store: p.Store, block: p.Block, sequences: Sequence[int]) -> bool:
    """Seal one block."""
    (sealed,) = await store.seal([p.Sealing(block, tuple(sequences))])
    return sealed


async def bodies(store: p.Store, tenant: str = TENANT) -> list[str]:
    """The bodies of a tenant's audit, in order."""
    return [entry.body.decode() for entry in await store.entries(p.AuditQuery(tenant), 1000)]


async def opened(store: p.Store, receipt: p.ReceiptRow) -> p.ReceiptRow:
    """Open a receipt whose key must be free."""
    assert await commit(store, p.OpenReceipt(receipt)) == p.Opened()
    return receipt


async def closed(store: p.Store, receipt: p.ReceiptRow) -> p.ReceiptRow:
    """Close a receipt that must be open under its token."""
    assert await commit(store, p.CloseReceipt(receipt)) == p.Closed()
    return receipt
