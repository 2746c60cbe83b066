"""Holders and takings: who relies on an act, and that it is taken back at most once."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import bodies, closed, note, opened, receipt
from holdfast.testing.stores.samples import NOW, TENANT, advanced, commit, ended, key, leased, renewal, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store

ID: Final = receipt().id
KEY: Final = receipt().key
DOER: Final = p.ActCaller("one", receipt().root, receipt().position)
OTHER: Final = p.ActCaller("two", b"other root", 7)
THIRD: Final = p.ActCaller("three", b"third root", 1)


def take(caller: p.ActCaller = DOER, name: str = "", *, attached: tuple[p.Note, ...] = ()) -> p.TakeBack:
    return p.TakeBack(TENANT, KEY, ID, caller, name or f"undo by {caller.run}", attached)


def hold(caller: p.ActCaller = OTHER, *, inherited: bool = False) -> p.Hold:
    return p.Hold(TENANT, KEY, ID, caller, NOW + 50, inherited)


def settle(name: str, *, done: bool) -> p.SettleTaking:
    return p.SettleTaking(TENANT, KEY, ID, name, done, (note(f"settled {name}"),))


async def done(store: p.Store) -> p.ReceiptRow:
    """An act of run one that succeeded."""
    return await closed(store, replace(await opened(store, receipt()), state="succeeded", closed_at=NOW + 9))


class HoldingTopic(Topic):
    @on_fresh_store
    async def test_a_receipt_is_taken_once_and_settled_once(self, store: p.Store) -> None:
        """The second one learns who has it; the notes are made once each."""
        act = await done(store)
        first = take(attached=(note("taken"),))
        assert [await commit(store, first) for _ in range(2)] == [p.TookBack()] * 2
        assert await commit(store, take(OTHER)) == p.Taken(act)
        assert (await store.stakes(TENANT, ID)).taking == ("undo by one", "one")
        assert [await commit(store, settle("undo by one", done=True)) for _ in range(2)] == [p.Holding()] * 2
        assert await store.receipt(TENANT, ID) == replace(act, reversed_by="undo by one")
        assert await store.stakes(TENANT, ID) == p.Stakes((p.HolderRow(DOER, "let_go"),))
        assert await commit(store, take(OTHER)) == p.Taken(replace(act, reversed_by="undo by one"))
        assert await bodies(store) == ["taken", "settled undo by one"]

    @on_fresh_store
    async def test_what_could_not_be_undone_is_given_back(self, store: p.Store) -> None:
        """Then another one may take it."""
        act = await done(store)
        await commit(store, take())
        assert await commit(store, settle("undo by two", done=True)) == p.Holding()
        assert (await store.stakes(TENANT, ID)).taking == ("undo by one", "one")
        assert await commit(store, settle("undo by one", done=False)) == p.Holding()
        assert await store.receipt(TENANT, ID) == act
        assert await commit(store, take(OTHER)) == p.TookBack()
        assert await bodies(store) == ["settled undo by one"]

    @on_fresh_store
    async def test_a_worker_that_takes_the_run_over_finds_what_it_has_taken(self, store: p.Store) -> None:
        """Of these runs alone."""
        act = await done(store)
        await commit(store, take())
        key = p.Key(TENANT, "one")
        assert await store.governed([key, p.Key(TENANT, "two")]) == {
            key: p.Governed([], [], [p.TakenAct("undo by one", act)])
        }

    @on_fresh_store
    async def test_the_last_holder_undoes(self, store: p.Store) -> None:
        """Each that goes before leaves it to one that is still open; the call that did the act is one of them."""
        await done(store)
        await leased(store, "one")
        await leased(store, "two")
        await leased(store, "three")
        assert await commit(store, hold()) == p.Holding()
        assert await commit(store, hold(THIRD)) == p.Holding()
        rows = [p.HolderRow(DOER, "open"), p.HolderRow(THIRD, "open"), p.HolderRow(OTHER, "open")]
        assert await store.stakes(TENANT, ID) == p.Stakes(tuple(rows))
        assert await commit(store, take()) == p.HeldBy("three", kept=False)
        assert await commit(store, take(THIRD)) == p.HeldBy("two", kept=False)
        states = {holder.caller.run: holder.state for holder in (await store.stakes(TENANT, ID)).holders}
        assert states == {"one": "let_go", "three": "let_go", "two": "open"}
        assert await commit(store, take(OTHER)) == p.TookBack()

    @on_fresh_store
    async def test_a_kept_act_is_not_undone(self, store: p.Store) -> None:
        """By a run that has completed, or that declared it done; a kept holder counts before an open one."""
        await done(store)
        await leased(store, "one")
        await leased(store, "two")
        await commit(store, hold())
        await commit(store, hold(THIRD))
        kept = p.SetHolds(TENANT, "two", ((OTHER.root, OTHER.position), (b"nothing", 9)))
        assert await commit(store, kept) == p.Holding()
        assert await commit(store, take()) == p.HeldBy("three", kept=True)  # there is no such run any more
        assert await commit(store, take(THIRD)) == p.HeldBy("two", kept=True)
        assert await commit(store, take(OTHER)) == p.TookBack()

    @on_fresh_store
    async def test_the_doer_of_an_act_may_keep_it_alone(self, store: p.Store) -> None:
        """Its row is made then."""
        done_by_it = receipt(id=f"r-{DOER.root.hex()[:12]}-{DOER.position}-1")
        await closed(store, replace(await opened(store, done_by_it), state="succeeded"))
        assert await store.stakes(TENANT, done_by_it.id) == p.Stakes()
        await commit(store, p.SetHolds(TENANT, "one", ((DOER.root, DOER.position),)))
        assert (await store.stakes(TENANT, done_by_it.id)).holders == (p.HolderRow(DOER, "kept"),)

    @on_fresh_store
    async def test_holders_are_judged_by_how_their_runs_ended(self, store: p.Store) -> None:
        """Also after these were deleted."""
        await done(store)
        await leased(store, "one")
        await ended(store, "two")
        await advanced(store, turn(await leased(store, "three"), p.Projection("failed", error="no")))
        await commit(store, hold())
        await commit(store, hold(THIRD))
        expected = {"one": "open", "two": "kept", "three": "let_go"}

        async def states() -> dict[str, str]:
            return {holder.caller.run: holder.state for holder in (await store.stakes(TENANT, ID)).holders}

        assert await states() == expected
        assert await store.prune(NOW + 1, 10) == 2
        assert await states() == expected

    @on_fresh_store
    async def test_an_act_that_is_taken_is_held_by_nobody_new(self, store: p.Store) -> None:
        """A fork inherits it all the same. What has not succeeded, or is not there, is held by nobody."""
        pending = await opened(store, receipt())
        assert await commit(store, hold()) == p.Fenced()
        await closed(store, replace(pending, state="succeeded"))
        await commit(store, take())
        assert await commit(store, hold()) == p.Fenced()
        assert await commit(store, hold(inherited=True)) == p.Holding()
        await commit(store, settle("undo by one", done=True))
        assert await commit(store, hold()) == p.Fenced()
        assert await commit(store, replace(hold(), receipt="no such receipt")) == p.Fenced()
        assert await commit(store, replace(take(), receipt="no such receipt")) == p.Fenced()

    @on_fresh_store
    async def test_the_act_of_a_call_is_found(self, store: p.Store) -> None:
        """By the row of a holder, and by the id of the doer's receipt: the newest success."""
        name = f"r-{DOER.root.hex()[:12]}-{DOER.position}-"
        for number, state in enumerate(("succeeded", "succeeded", "failed"), 1):
            key = f"{KEY} {number}"
            fresh = receipt(key, id=f"{name}{number}", opened_at=NOW + number)
            await closed(store, replace(await opened(store, fresh), state=state))
        others = DOER._replace(position=44)
        found = await store.acts_of(TENANT, [OTHER, DOER, others])
        assert [None if each is None else each.id for each in found] == [None, f"{name}2", None]
        await commit(store, p.Hold(TENANT, f"{KEY} 1", f"{name}1", OTHER, NOW + 9))
        (held,) = await store.acts_of(TENANT, [OTHER])
        assert held is not None
        assert held.id == f"{name}1"
        own = receipt(f"{KEY} 4", id=f"r-{OTHER.root.hex()[:12]}-{OTHER.position}-4", opened_at=NOW + 14)
        own = replace(own, root=OTHER.root, position=OTHER.position)
        await closed(store, replace(await opened(store, own), state="succeeded"))
        (newest,) = await store.acts_of(TENANT, [OTHER])  # that one was taken back, and it did the next one itself
        assert newest is not None
        assert newest.id == own.id
        assert await store.acts_of("bolt", [OTHER, DOER]) == [None, None]
        assert await store.acts_of(TENANT, []) == []

    @on_fresh_store
    async def test_a_call_of_a_retried_run_relies_on_what_an_earlier_one_did(self, store: p.Store) -> None:
        """Instead of that one: the run may undo it. What another call did at its place before is not its own."""
        await leased(store, "one")
        name = f"r-{DOER.root.hex()[:12]}-"
        for position, at in ((DOER.position, NOW), (9, NOW + 5)):
            fresh = replace(receipt(f"{KEY} {position}", id=f"{name}{position}-1", opened_at=at), position=position)
            await closed(store, replace(await opened(store, fresh), state="succeeded"))
        calls = ((DOER.root, DOER.position, 9), (DOER.root, 77, 78))
        assert await commit(store, p.HoldFormer(TENANT, "one", calls, NOW + 20)) == p.Holding()
        moved = DOER._replace(position=9)
        (act,) = await store.acts_of(TENANT, [moved])
        assert act is not None
        assert act.id == f"{name}{DOER.position}-1"
        rows = (p.HolderRow(DOER, "let_go"), p.HolderRow(moved, "open"))
        assert (await store.stakes(TENANT, act.id)).holders == rows
        assert await commit(store, p.TakeBack(TENANT, act.key, act.id, moved, "undo")) == p.TookBack()

    @on_fresh_store
    async def test_a_reversal_takes_the_receipt_when_it_opens(self, store: p.Store) -> None:
        """A success takes it back, a failure gives it back, and an outcome that may become known does neither."""
        act = await done(store)
        back = receipt("back", id="back", run="reversal", reverses=ID)
        await opened(store, back)
        assert (await store.stakes(TENANT, ID)).taking == ("back", "reversal")
        assert await commit(store, take()) == p.Taken(act)
        other = receipt("again", id="again", run="another", reverses=ID)
        assert await commit(store, p.OpenReceipt(other)) == p.Taken(act)
        assert await store.receipt(TENANT, "again") is None
        asked = replace(back, state="unknown", abandoned=True, asked="task")
        await closed(store, asked)
        assert (await store.stakes(TENANT, ID)).taking == ("back", "reversal")
        await closed(store, replace(asked, asked=None, error="given up"))  # it may have been taken back all the same
        assert (await store.stakes(TENANT, ID)).taking == ("back", "reversal")
        await closed(store, replace(back, state="failed", error="no"))
        assert (await store.stakes(TENANT, ID)).taking is None
        assert await commit(store, p.OpenReceipt(replace(back, token="second"))) == p.Opened()
        await closed(store, replace(back, token="second", state="succeeded"))
        assert await store.receipt(TENANT, ID) == replace(act, reversed_by="back")
        assert (await store.stakes(TENANT, ID)).taking is None
        assert await commit(store, p.OpenReceipt(other)) == p.Taken(replace(act, reversed_by="back"))

    @on_fresh_store
    async def test_a_reversal_heeds_open_holders_if_it_is_told_to(self, store: p.Store) -> None:
        """The call that did the act is one, whether it has a row or not; its own run is none."""
        await done(store)
        await leased(store, "one")
        back = receipt("back", id="back", run="reversal", reverses=ID)
        assert await commit(store, p.OpenReceipt(back, heeds_holders=True)) == p.HeldBy("one", kept=False)
        assert await store.receipt(TENANT, "back") is None
        assert await commit(store, p.OpenReceipt(replace(back, run="one"), heeds_holders=True)) == p.Opened()
        await closed(store, replace(back, run="one", state="failed"))
        assert await commit(store, p.OpenReceipt(replace(back, token="next"))) == p.Opened()

    @on_fresh_store
    async def test_a_reversal_that_has_taken_a_receipt_heeds_nobody_new(self, store: p.Store) -> None:
        """A fork that inherits the act meanwhile finds out when it undoes it."""
        act = await done(store)
        await ended(store, "one")
        back = receipt("back", id="back", run="reversal", reverses=ID)
        assert await commit(store, p.OpenReceipt(back, heeds_holders=True)) == p.Opened()
        await leased(store, "two")
        assert await commit(store, hold(inherited=True)) == p.Holding()
        again = p.OpenReceipt(replace(back, token="next"), instead_of=back.token, heeds_holders=True)
        assert await commit(store, again) == p.Opened()
        assert await commit(store, take(OTHER)) == p.Taken(act)

    @on_fresh_store
    async def test_one_whose_undo_failed_relies_on_the_act_no_more(self, store: p.Store) -> None:
        """A later holder need not wait for its end, and a call that ended without a result lets go, too."""
        await done(store)
        for run in ("one", "two", "three"):
            await leased(store, run)
        await commit(store, take())
        await commit(store, settle("undo by one", done=False))
        assert await commit(store, hold()) == p.Holding()
        assert await commit(store, hold(THIRD)) == p.Holding()
        gone = p.SetHolds(TENANT, "three", ((THIRD.root, THIRD.position), (b"nothing", 9)), "let_go")
        assert await commit(store, gone) == p.Holding()
        assert await commit(store, take(OTHER)) == p.TookBack()

    @on_fresh_store
    async def test_a_run_that_is_retried_holds_what_it_relies_on_or_is_not_retried(self, store: p.Store) -> None:
        """Where the act is being taken back nothing is made. What the call has kept it keeps."""
        await done(store)
        await ended(store, "one")
        await commit(store, take())
        renew = p.Renew(key("one"), 0, renewal(), p.Projection("queued"), NOW)
        retry = p.Operate(note("retried"), (renew, hold(DOER)))
        assert await commit(store, retry) == p.Fenced()
        assert (await store.get([key("one")]))[0].generation == 0
        await commit(store, settle("undo by one", done=False))
        assert await commit(store, retry) == p.OperatedOn()
        assert (await store.get([key("one")]))[0].generation == 1
        assert (await store.stakes(TENANT, ID)).holders == (p.HolderRow(DOER, "open"),)
        await commit(store, p.SetHolds(TENANT, "one", ((DOER.root, DOER.position),)))
        assert await commit(store, hold(DOER)) == p.Holding()
        assert (await store.stakes(TENANT, ID)).holders == (p.HolderRow(DOER, "kept"),)

    @on_fresh_store
    async def test_what_is_known_of_a_holder_is_one_tenants(self, store: p.Store) -> None:
        """A receipt of the same id in another tenant is another act."""
        await done(store)
        far = receipt(tenant="bolt")
        await opened(store, far)
        await closed(store, replace(far, state="succeeded"))
        await commit(store, take())
        assert await store.stakes("bolt", ID) == p.Stakes()
        assert await commit(store, replace(take(), tenant="bolt")) == p.TookBack()
        assert await store.governed([p.Key("bolt", "two")]) == {}
