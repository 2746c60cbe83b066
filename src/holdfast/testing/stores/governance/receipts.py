"""Receipts: one per idempotency key, closed only by the holder of its token."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import bodies, closed, note, opened, receipt
from holdfast.testing.stores.samples import (
    NOW,
    TENANT,
    advanced,
    commit,
    ended,
    key,
    leased,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

ID: Final = receipt().id


class ReceiptTopic(Topic):
    @on_fresh_store
    async def test_receipts_are_kept_under_what_they_say(self, store: p.Store) -> None:
        """In every state."""
        assert await store.misfiled(TENANT) is None
        done = await closed(store, replace(await opened(store, receipt("done")), state="succeeded"))
        await opened(store, receipt("open"))
        refund = replace(await opened(store, replace(receipt("back"), id="back", reverses=done.id)), state="succeeded")
        assert await commit(store, p.CloseReceipt(refund)) == p.Closed()
        assert await store.misfiled(TENANT) is None

    @on_fresh_store
    async def test_a_receipt_is_read_as_it_was_written(self, store: p.Store) -> None:
        """Every field comes back, when it is opened and when it is closed."""
        pending = await opened(store, receipt())
        assert await store.receipt(TENANT, ID) == pending
        done = await closed(store, replace(pending, state="succeeded", result=b"\x00ok", closed_at=NOW + 1))
        assert await store.receipt(TENANT, ID) == done

    @on_fresh_store
    async def test_a_receipt_that_is_not_there_is_none(self, store: p.Store) -> None:
        """Neither an unknown id nor one of another tenant is found."""
        await opened(store, receipt())
        assert await store.receipt(TENANT, "no such") is None
        assert await store.receipt("bolt", ID) is None

    @on_fresh_store
    async def test_a_receipt_is_found_by_its_key(self, store: p.Store) -> None:
        """In its tenant alone, in every state, with its later ``reversed_by``."""
        pending = await opened(store, receipt())
        assert await store.receipt_of_key(TENANT, pending.key) == pending
        assert await store.receipt_of_key(TENANT, "no such") is None
        assert await store.receipt_of_key("bolt", pending.key) is None
        done = await closed(store, replace(pending, state="succeeded"))
        back = replace(await opened(store, replace(receipt("back"), id="back", reverses=done.id)), state="succeeded")
        assert await commit(store, p.CloseReceipt(back)) == p.Closed()
        assert await store.receipt_of_key(TENANT, done.key) == replace(done, reversed_by="back")

    @on_fresh_store
    async def test_of_two_openings_of_one_key_the_first_has_it(self, store: p.Store) -> None:
        """The other gets the receipt that has the key, in one batch or in two, from any run."""
        mine, other = receipt(), receipt(token="second", run="two", id="other")
        answers = await store.commit([p.OpenReceipt(mine), p.OpenReceipt(other)])
        assert answers == [p.Opened(), p.Taken(mine)]
        assert await commit(store, p.OpenReceipt(other)) == p.Taken(mine)
        assert await store.receipt(TENANT, "other") is None

    @on_fresh_store
    async def test_what_no_run_waits_for_is_listed_until_it_is_forgotten(self, store: p.Store) -> None:
        """By tenant and id, with the task that asks; and as the receipt is now, also if another run has its key."""
        first = replace(receipt("one", state="unknown"), asked="task of one")
        other = replace(receipt("two", state="unknown", tenant="bolt"), asked="task of two")
        for each in (other, first):
            await opened(store, replace(each, state="pending", asked=None, abandoned=False, closed_at=None))
            assert await commit(store, p.CloseReceipt(each)) == p.Closed()
        mine, others = (p.OrphanedReceipt(each.tenant, each.id, each.asked or "", each) for each in (first, other))
        listed = sorted([mine, others], key=lambda each: each[:2])
        assert await store.orphaned_receipts(9) == listed
        assert await store.orphaned_receipts(1) == listed[:1]
        assert await store.orphaned_receipts(9, listed[0][:2]) == listed[1:]
        await store.forget_orphans(TENANT, [first.id])
        assert await store.orphaned_receipts(9) == listed
        known = replace(first, state="succeeded", abandoned=False, asked=None)
        assert await commit(store, p.CloseReceipt(known)) == p.Closed()
        assert mine._replace(receipt=known) in await store.orphaned_receipts(9)
        await store.forget_orphans("bolt", [first.id])
        await store.forget_orphans(TENANT, [first.id])
        assert await store.orphaned_receipts(9) == [others]
        taking = receipt("two", tenant="bolt", id="another", token="another")
        assert await commit(store, p.OpenReceipt(taking, instead_of=other.token)) == p.Opened()
        assert await store.orphaned_receipts(9) == [others._replace(receipt=None)]
        await store.forget_orphans("bolt", [other.id])
        assert await store.orphaned_receipts(9) == []

    @on_fresh_store
    async def test_what_a_person_has_given_up_is_forgotten(self, store: p.Store) -> None:
        """Its outcome stays unknown, and nobody is asked any more."""
        asked = replace(receipt(state="unknown"), asked="task")
        await opened(store, replace(asked, state="pending", asked=None, abandoned=False, closed_at=None))
        assert await commit(store, p.CloseReceipt(asked)) == p.Closed()
        given_up = replace(asked, asked=None, error="given up")
        assert await commit(store, p.CloseReceipt(given_up)) == p.Closed()
        await store.forget_orphans(TENANT, [asked.id])
        assert await store.orphaned_receipts(9) == []
        assert await store.receipt(TENANT, asked.id) == given_up

    @on_fresh_store
    async def test_a_key_belongs_to_one_tenant(self, store: p.Store) -> None:
        """The same key in another tenant is another receipt."""
        await opened(store, receipt())
        await opened(store, receipt(tenant="bolt", token="second"))
        await closed(store, receipt(state="failed"))
        found = await store.receipt("bolt", ID)
        assert found is not None
        assert (found.token, found.state) == ("second", "pending")

    @on_fresh_store
    async def test_an_opening_committed_again_is_recognised_by_its_token(self, store: p.Store) -> None:
        """After a lost answer it is opened again while it is pending, and nothing is changed."""
        await opened(store, receipt())
        assert await commit(store, p.OpenReceipt(receipt(opened_at=NOW + 5))) == p.Opened()
        assert await store.receipt(TENANT, ID) == receipt()

    @on_fresh_store
    async def test_a_success_is_never_opened_anew(self, store: p.Store) -> None:
        """A finished act is not repeated: not by its own token, nor by an opening that names it."""
        await opened(store, receipt())
        done = await closed(store, receipt(state="succeeded", result=b"paid"))
        for attempt in (
            p.OpenReceipt(receipt()),
            p.OpenReceipt(receipt(token="second")),
            p.OpenReceipt(receipt(token="second"), instead_of="first"),
        ):
            assert await commit(store, attempt) == p.Taken(done)

    @on_fresh_store
    async def test_a_failed_receipt_gives_way_to_anyone(self, store: p.Store) -> None:
        """The new attempt has the key; its last holder is fenced."""
        await opened(store, receipt())
        await closed(store, receipt(state="failed"))
        again = await opened(store, receipt(token="second", id="retry"))
        assert await store.receipt(TENANT, "retry") == again
        assert await store.receipt(TENANT, ID) is None
        assert await commit(store, p.CloseReceipt(receipt(state="succeeded"))) == p.Fenced()
        await closed(store, receipt(token="second", id="retry", state="succeeded"))

    @on_fresh_store
    async def test_an_open_receipt_gives_way_only_to_who_names_its_token(self, store: p.Store) -> None:
        """A takeover fences the last holder; naming any other token takes nothing over."""
        pending = await opened(store, receipt())
        takeover = receipt(token="second", id="takeover")
        assert await commit(store, p.OpenReceipt(takeover, instead_of="third")) == p.Taken(pending)
        assert await commit(store, p.OpenReceipt(takeover, instead_of="first")) == p.Opened()
        assert await commit(store, p.OpenReceipt(takeover, instead_of="first")) == p.Opened()
        late = receipt(token="third", id="late")
        assert await commit(store, p.OpenReceipt(late, instead_of="first")) == p.Taken(takeover)
        assert await commit(store, p.CloseReceipt(receipt(state="succeeded"))) == p.Fenced()
        await closed(store, replace(takeover, state="succeeded"))

    @on_fresh_store
    async def test_an_unknown_outcome_gives_way_only_to_who_names_its_token(self, store: p.Store) -> None:
        """Nobody may act again before its outcome is decided."""
        await opened(store, receipt())
        unknown = await closed(store, receipt(state="unknown"))
        second = receipt(token="second")
        assert await commit(store, p.OpenReceipt(second)) == p.Taken(unknown)
        assert await commit(store, p.OpenReceipt(second, instead_of="first")) == p.Opened()
        assert await store.receipt(TENANT, ID) == second

    @on_fresh_store
    async def test_a_takeover_of_a_free_key_opens_it(self, store: p.Store) -> None:
        """There is no other receipt of the key."""
        assert await commit(store, p.OpenReceipt(receipt(), instead_of="gone")) == p.Opened()
        assert await store.receipt(TENANT, ID) == receipt()

    @on_fresh_store
    async def test_a_receipt_is_not_closed_under_another_token(self, store: p.Store) -> None:
        """Nor one that nobody opened; the attached changes and the blobs leave no trace."""
        pending = await opened(store, receipt())
        for wrong in (receipt(token="second", state="succeeded"), receipt("no such", state="succeeded")):
            change = p.CloseReceipt(wrong, {b"digest": b"data"}, (note(),))
            assert await commit(store, change) == p.Fenced()
        assert await store.receipt(TENANT, ID) == pending
        assert await store.blob(TENANT, b"digest") is None
        assert await bodies(store) == []

    @on_fresh_store
    async def test_a_closed_receipt_stays_as_it_is(self, store: p.Store) -> None:
        """Another outcome under the same token is fenced."""
        await opened(store, receipt())
        done = await closed(store, receipt(state="succeeded"))
        assert await commit(store, p.CloseReceipt(receipt(state="failed"), attached=(note(),))) == p.Fenced()
        assert await store.receipt(TENANT, ID) == done
        assert await bodies(store) == []

    @on_fresh_store
    async def test_an_unknown_outcome_can_be_told_later(self, store: p.Store) -> None:
        """Unknown is not the end: the same token closes it once more."""
        await opened(store, receipt())
        await closed(store, receipt(state="unknown"))
        done = await closed(store, receipt(state="succeeded", result=b"it was paid"))
        assert await store.receipt(TENANT, ID) == done
        assert await commit(store, p.CloseReceipt(receipt(state="unknown"))) == p.Fenced()

    @on_fresh_store
    async def test_a_closing_committed_again_is_recognised(self, store: p.Store) -> None:
        """After a lost answer it is closed again, and the attached changes are made once, for every outcome."""
        for state in ("succeeded", "failed", "unknown"):
            await opened(store, receipt(state))
            change = p.CloseReceipt(receipt(state, state=state), {b"digest": b"data"}, (note(state),))
            assert [await commit(store, change) for _ in range(3)] == [p.Closed()] * 3
        assert await bodies(store) == ["succeeded", "failed", "unknown"]

    @on_fresh_store
    async def test_what_comes_with_a_turn_opens_and_closes_receipts(self, store: p.Store) -> None:
        """They are attached to a turn, answered in order, and recognised when the turn is committed again."""
        run = await leased(store)
        taken = await opened(store, receipt("taken", token="other"))
        await opened(store, receipt("done"))
        attached = (
            note(),
            p.OpenReceipt(receipt()),
            p.OpenReceipt(receipt("taken")),
            p.CloseReceipt(receipt("done", state="succeeded"), attached=(note("closed"),)),
        )
        change = turn(run, attached=attached)
        answer = await advanced(store, change)
        assert answer.attached == (p.Noted(), p.Opened(), p.Taken(taken), p.Closed())
        assert await advanced(store, change) == answer
        assert await bodies(store) == ["said", "closed"]

    @on_fresh_store
    async def test_what_comes_with_a_fenced_turn_opens_nothing(self, store: p.Store) -> None:
        """No key is reserved, nothing is closed, nothing is noted."""
        run = await leased(store)
        pending = await opened(store, receipt("done"))
        attached = (note(), p.OpenReceipt(receipt()), p.CloseReceipt(receipt("done", state="succeeded")))
        assert await commit(store, replace(turn(run, attached=attached), epoch=9)) == p.Fenced()
        assert await store.receipts(p.ReceiptQuery(), 10) == [pending]
        assert await bodies(store) == []

    @on_fresh_store
    async def test_a_success_that_reverses_another_marks_it(self, store: p.Store) -> None:
        """``reversed_by`` names the receipt that reversed it, also where that is closed twice."""
        await opened(store, receipt())
        done = await closed(store, receipt(state="succeeded"))
        await opened(store, receipt("refund", id="refund", reverses=ID))
        assert await store.receipt(TENANT, ID) == done
        refund = receipt("refund", id="refund", reverses=ID, state="succeeded")
        assert [await commit(store, p.CloseReceipt(refund)) for _ in range(2)] == [p.Closed()] * 2
        assert await store.receipt(TENANT, ID) == replace(done, reversed_by="refund")
        assert await store.receipts(p.ReceiptQuery(), 1) == [replace(done, reversed_by="refund")]

    @on_fresh_store
    async def test_only_a_success_of_the_same_tenant_reverses(self, store: p.Store) -> None:
        """A failed refund reverses nothing, nor does one of another tenant."""
        await opened(store, receipt())
        done = await closed(store, receipt(state="succeeded"))
        strays: list[tuple[str, p.ReceiptState]] = [(TENANT, "failed"), (TENANT, "unknown"), ("bolt", "succeeded")]
        for tenant, state in strays:
            name = f"{tenant} {state}"
            await opened(store, receipt(name, tenant=tenant, reverses=ID))
            await closed(store, receipt(name, tenant=tenant, reverses=ID, state=state))
        assert await store.receipt(TENANT, ID) == done

    @on_fresh_store
    async def test_a_reversed_receipt_closed_again_stays_reversed(self, store: p.Store) -> None:
        """A late repetition of the closing is recognised and does not undo the mark."""
        await opened(store, receipt())
        done = await closed(store, receipt(state="succeeded"))
        await opened(store, receipt("refund", id="refund", reverses=ID))
        await closed(store, receipt("refund", id="refund", reverses=ID, state="succeeded"))
        assert await commit(store, p.CloseReceipt(done)) == p.Closed()
        assert await store.receipt(TENANT, ID) == replace(done, reversed_by="refund")

    @on_fresh_store
    async def test_receipts_and_their_blobs_outlive_their_run(self, store: p.Store) -> None:
        """Pruning a run deletes neither its receipts nor the results that are too large to be kept in them."""
        await ended(store, blobs={b"shared": b"data"})
        await opened(store, receipt())
        done = receipt(state="succeeded")
        await commit(store, p.CloseReceipt(done, {b"shared": b"data", b"own": b"mine"}))
        assert await store.prune(NOW + 1, 10) == 1
        assert await store.receipt(TENANT, ID) == done
        assert [await store.blob(TENANT, digest) for digest in (b"shared", b"own")] == [b"data", b"mine"]

    @on_fresh_store
    async def test_a_run_of_the_same_id_takes_no_blob_of_a_receipt_along(self, store: p.Store) -> None:
        """The users of a blob are distinguished by kind and id: a receipt keeps its blobs, for any names of runs."""
        await opened(store, receipt())
        await commit(store, p.CloseReceipt(receipt(state="succeeded"), {b"own": b"mine"}))
        for run in (ID, f"~receipt:{ID}"):
            await ended(store, run, blobs={b"own": b"mine"})
        assert await store.prune(NOW + 1, 10) == 2
        assert await store.blob(TENANT, b"own") == b"mine"

    @on_fresh_store
    async def test_a_worker_that_takes_a_run_over_sees_its_receipts(self, store: p.Store) -> None:
        """The receipts that have not succeeded, of the requested runs; runs without any are left out."""
        await leased(store)
        for name in ("pending", "unknown", "failed", "succeeded"):
            await opened(store, receipt(name))
        for state in ("unknown", "failed", "succeeded"):
            await closed(store, receipt(state, state=state))
        await opened(store, receipt("of two", run="two"))
        await opened(store, receipt("of bolt", tenant="bolt"))
        found = await store.governed([key(), key("three")])
        assert list(found) == [key()]
        assert sorted(each.key for each in found[key()].receipts) == ["failed", "pending", "unknown"]
        assert receipt("unknown", state="unknown") in found[key()].receipts
        assert found[key()].tasks == []

    @on_fresh_store
    async def test_receipts_are_listed_oldest_first_by_pages(self, store: p.Store) -> None:
        """Equal times are ordered by tenant and id; no page repeats or skips a row."""
        for tenant, name, at in (
            ("bolt", "c", 1),
            (TENANT, "a", 3),
            (TENANT, "e", 1),
            (TENANT, "d", 1),
            ("bolt", "b", 2),
        ):
            await opened(store, receipt(name, tenant=tenant, opened_at=NOW + at))
        listed: list[p.ReceiptRow] = []
        while page := await store.receipts(p.ReceiptQuery(), 2, listed[-1] if listed else None):
            assert len(page) <= 2
            listed += page
        assert [found.key for found in listed] == ["d", "e", "c", "b", "a"]

    @on_fresh_store
    async def test_receipts_are_listed_by_what_is_asked(self, store: p.Store) -> None:
        """Each condition narrows the list, and all of them hold together."""
        await opened(store, receipt("a"))
        await opened(store, receipt("b", run="two", opened_at=NOW + 1))
        await opened(store, receipt("c", connector="mail", opened_at=NOW + 2))
        await opened(store, receipt("d", tenant="bolt", opened_at=NOW + 3))
        await closed(store, receipt("c", connector="mail", opened_at=NOW + 2, state="failed"))

        async def keys(query: p.ReceiptQuery) -> str:
            return "".join([found.key for found in await store.receipts(query, 10)])

        assert await keys(p.ReceiptQuery()) == "abcd"
        assert await keys(p.ReceiptQuery(tenant=TENANT)) == "abc"
        assert await keys(p.ReceiptQuery(tenant=TENANT, run="one")) == "ac"
        assert await keys(p.ReceiptQuery(state="pending")) == "abd"
        assert await keys(p.ReceiptQuery(connector="mail")) == "c"
        assert await keys(p.ReceiptQuery(TENANT, "one", "pending", "bank")) == "a"
        assert await keys(p.ReceiptQuery(TENANT, "two", "failed")) == ""

    @on_fresh_store
    async def test_receipts_are_read_together_by_id(self, store: p.Store) -> None:
        """Those of the tenant that exist."""
        a, b = await opened(store, receipt("a")), await opened(store, receipt("b"))
        await opened(store, receipt("c", tenant="bolt"))
        ids = [b.id, "nobody", a.id, "receipt of c"]
        assert await store.receipts_by_id(TENANT, ids) == {a.id: a, b.id: b}
        assert await store.receipts_by_id(TENANT, []) == {}
