"""A person's acts on runs, with their notes: both are made or neither, and only once, even if committed again."""

from __future__ import annotations

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.governance.samples import bodies, note
from holdfast.testing.stores.samples import (
    NOW,
    QUEUED,
    begun,
    commit,
    deliver,
    ended,
    key,
    message,
    renewal,
    row,
    start,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

Step = p.Deliver | p.Pause | p.Unpause | p.Renew


def _act(*changes: Step, id: str = "act 1", body: str = "said") -> p.Operate:
    return p.Operate(msgspec.structs.replace(note(body), id=id), changes)


def _renew(run: str = "one", generation: int = 0) -> p.Renew:
    return p.Renew(key(run), generation, renewal(generation + 1), QUEUED, NOW + 9)


class Operations(Topic):
    @on_fresh_store
    async def test_an_act_and_its_note_are_made_together(self, store: p.Store) -> None:
        """Pausing, resuming, delivering and renewing; each with one entry."""
        await begun(store, start())
        assert await commit(store, _act(p.Pause(key(), "look", NOW + 1), id="1", body="a")) == p.OperatedOn()
        assert (await row(store)).pause == "look"
        assert await commit(store, _act(p.Unpause(key(), NOW + 2), id="2", body="b")) == p.OperatedOn()
        assert (await row(store)).pause is None
        assert await commit(store, _act(deliver(id="m"), id="3", body="c")) == p.OperatedOn()
        assert [each.message.body for each in (await store.messages([key()]))[key()]] == [b"hello"]
        await ended(store, "two")
        assert await commit(store, _act(_renew("two"), id="4", body="d")) == p.OperatedOn()
        assert (await row(store, "two")).generation == 1
        assert await bodies(store) == ["a", "b", "c", "d"]

    @on_fresh_store
    async def test_what_cannot_be_done_is_not_noted(self, store: p.Store) -> None:
        """The run does not exist, has ended, or was renewed by someone else."""
        for change in (p.Pause(key("no"), "why", NOW), p.Unpause(key("no"), NOW), deliver("no")):
            assert await commit(store, _act(change)) == p.Unknown()
        before = await ended(store)
        for change in (p.Pause(key(), "why", NOW), p.Unpause(key(), NOW), deliver()):
            assert await commit(store, _act(change)) == p.Gone()
        assert await commit(store, _act(_renew(generation=3))) == p.Fenced()
        await begun(store, start("two"))
        assert await commit(store, _act(_renew("two"))) == p.Fenced()
        assert await row(store) == before
        assert await bodies(store) == []

    @on_fresh_store
    async def test_a_run_that_is_not_paused_as_expected_is_left_alone(self, store: p.Store) -> None:
        """It is not paused at all, or for another reason: someone else has done something meanwhile."""
        await begun(store, start())
        changes = (p.Pause(key(), "mine", NOW, present="look"), p.Unpause(key(), NOW, present="look"))
        for pause in (None, "theirs"):
            if pause is not None:
                await store.pause(key(), pause, NOW)
            for change in changes:
                assert await commit(store, _act(change)) == p.Fenced()
            assert (await row(store)).pause == pause
        await store.pause(key(), "look", NOW)
        assert await commit(store, _act(changes[0], id="1", body="a")) == p.OperatedOn()
        assert (await row(store)).pause == "mine"
        assert await commit(store, _act(p.Unpause(key(), NOW, present="mine"), id="2", body="b")) == p.OperatedOn()
        assert (await row(store)).pause is None
        assert await bodies(store) == ["a", "b"]

    @on_fresh_store
    async def test_of_several_changes_all_are_made_or_none_is(self, store: p.Store) -> None:
        """For any change that cannot be made, at any place in the act."""
        one, two = await ended(store), await begun(store, start("two"))
        for changes in ((_renew(), _renew("two")), (_renew("two"), _renew()), (deliver("two"), deliver("no"))):
            assert await commit(store, _act(*changes)) in (p.Fenced(), p.Unknown())
        assert (await row(store), await row(store, "two")) == (one, two)
        assert await store.messages([key("two")]) == {key("two"): []}
        assert await bodies(store) == []

    @on_fresh_store
    async def test_an_act_committed_again_is_made_once_whatever_happened_since(self, store: p.Store) -> None:
        """Its answer was lost, and someone else has undone it since: that stays."""
        await begun(store, start())
        pause = _act(p.Pause(key(), "look", NOW + 1))
        assert await commit(store, pause) == p.OperatedOn()
        await store.unpause(key(), NOW + 2)
        assert await commit(store, pause) == p.Repeated()
        assert (await row(store)).pause is None
        signal = _act(p.Deliver(key(), message()), id="act 2")
        for answer in (p.OperatedOn(), p.Repeated()):
            assert await commit(store, signal) == answer
        assert len((await store.messages([key()]))[key()]) == 1
        await ended(store, "two")
        renew = _act(_renew("two"), id="act 3")
        for answer in (p.OperatedOn(), p.Repeated()):
            assert await commit(store, renew) == answer
        assert (await row(store, "two")).generation == 1
        assert await bodies(store) == ["said"] * 3

    @on_fresh_store
    async def test_a_message_that_was_delivered_before_is_not_noted_again(self, store: p.Store) -> None:
        """Its sender chose the id: another act with it changes nothing."""
        await begun(store, start())
        assert await commit(store, _act(deliver(id="m"), id="1")) == p.OperatedOn()
        assert await commit(store, _act(deliver(id="m"), id="2")) == p.Repeated()
        assert await bodies(store) == ["said"]

    @on_fresh_store
    async def test_acts_on_one_run_in_one_batch_are_made_in_order(self, store: p.Store) -> None:
        """The second sees the result of the first."""
        await begun(store, start())
        batch = [
            _act(p.Pause(key(), "look", NOW + 1), id="1", body="a"),
            _act(p.Unpause(key(), NOW + 2), id="2", body="b"),
        ]
        assert await store.commit([*batch, batch[0], deliver()]) == [
            p.OperatedOn(),
            p.OperatedOn(),
            p.Repeated(),
            p.Delivered(1),
        ]
        assert (await row(store)).pause is None
        assert await bodies(store) == ["a", "b"]
