"""Splits: what is sent to a place of a run that was split goes to the heir that has the place."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.concurrency import handles
from holdfast.testing.stores.governance.samples import note
from holdfast.testing.stores.samples import advanced, commit, key, leased, message, row, start, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store

LAST = (1 << 32) - 1
"""The last place."""


def send(run: str, body: str, place: int | None, id: str | None = None) -> p.Deliver:
    return p.Deliver(key(run), message(body, id=id), place=place)


def split(run: str, first: int, heirs: int) -> p.MarkSplit:
    return p.MarkSplit(key(run), p.split_mark(first, heirs))


async def lanes(store: p.Store, *names: str) -> None:
    await store.commit([start(name) for name in names])


async def bodies(store: p.Store, run: str) -> list[str]:
    return [each.message.body.decode() for each in (await store.messages([key(run)])).get(key(run), [])]


class SplitTopic(Topic):
    @on_fresh_store
    async def test_a_message_to_a_place_goes_to_the_heir_that_has_it(self, store: p.Store) -> None:
        """In order, also within a batch with others; one without a place stays with the run that was split."""
        await lanes(store, "m:0", "m:1", "m:2", "other")
        await commit(store, send("m:0", "before", 0))
        await commit(store, split("m:0", 1, 2))
        answers = await store.commit(
            [send("m:0", "a", 0), send("other", "x", 7), send("m:0", "z", LAST), send("m:0", "b", 1)]
        )
        assert answers == [p.Delivered(1, "m:1"), p.Delivered(1), p.Delivered(1, "m:2"), p.Delivered(2, "m:1")]
        assert await commit(store, send("m:0", "own", None)) == p.Delivered(2)
        assert await bodies(store, "m:0") == ["before", "own"]
        assert await bodies(store, "m:1") == ["a", "b"]
        assert await bodies(store, "m:2") == ["z"]
        assert (await row(store, "m:0")).split == "1:2"

    @on_fresh_store
    async def test_a_heir_that_was_split_hands_on_as_well(self, store: p.Store) -> None:
        """However often: the message reaches the run that has its place now."""
        await lanes(store, *(f"m:{number}" for number in range(7)))
        await store.commit([split("m:0", 1, 2), split("m:1", 3, 4), split("m:2", 3, 4)])
        quarter = 1 << 30
        answers = await store.commit([send("m:0", str(at), at * quarter) for at in range(4)])
        assert answers == [p.Delivered(1, f"m:{3 + at}") for at in range(4)]
        assert await commit(store, send("m:2", "late", LAST)) == p.Delivered(2, "m:6")

    @on_fresh_store
    async def test_an_id_is_recognised_before_and_after_a_split(self, store: p.Store) -> None:
        """It belongs to the run that the message is addressed to, whoever gets it."""
        await lanes(store, "m:0", "m:1", "m:2")
        assert await commit(store, send("m:0", "a", 5, "e1")) == p.Delivered(1)
        await commit(store, split("m:0", 1, 2))
        answers = await store.commit(
            [send("m:0", "a", 5, "e1"), send("m:0", "b", 5, "e2"), send("m:0", "b", 5, "e2"), send("m:0", "c", 5, "e3")]
        )
        assert answers == [p.Repeated(), p.Delivered(1, "m:1"), p.Repeated(), p.Delivered(2, "m:1")]
        assert await commit(store, send("m:0", "c", 5, "e3")) == p.Repeated()
        assert await bodies(store, "m:1") == ["b", "c"]

    @on_fresh_store
    async def test_a_heir_that_still_inherits_gets_what_is_sent_to_it(self, store: p.Store) -> None:
        """Its mark only says that it has not handled it; a turn takes the mark away."""
        run = await leased(store, "m:1")
        await commit(store, p.MarkSplit(key("m:1"), p.INHERITS))
        assert await commit(store, send("m:1", "a", 5)) == p.Delivered(1)
        assert (await row(store, "m:1")).split == p.INHERITS
        await advanced(store, turn(run, attached=(p.MarkSplit(key("m:1"), None),)))
        assert (await row(store, "m:1")).split is None

    @on_fresh_store
    async def test_messages_that_a_turn_carries_reach_the_heirs(self, store: p.Store) -> None:
        """In the order of the turn, in its own commit."""
        run = await leased(store, "one")
        await lanes(store, "m:0", "m:1", "m:2")
        await commit(store, split("m:0", 1, 2))
        carried = (send("m:0", "a", 0), send("m:0", "z", LAST), send("m:0", "b", 0), send("m:0", "own", None))
        answer = await advanced(store, turn(run, attached=carried))
        assert answer.attached == (
            p.Delivered(1, "m:1"),
            p.Delivered(1, "m:2"),
            p.Delivered(2, "m:1"),
            p.Delivered(1),
        )

    @on_fresh_store
    async def test_a_split_is_a_part_of_an_act(self, store: p.Store) -> None:
        """Marks and messages are made together, or none of them is."""
        await lanes(store, "m:0", "m:1", "m:2")
        acts = (send("m:0", "order", None), split("m:0", 1, 2), p.MarkSplit(key("m:1"), p.INHERITS))
        missing = p.MarkSplit(key("m:9"), p.INHERITS)
        refused = p.Operate(msgspec.structs.replace(note("said"), id="act 1"), (*acts, missing))
        assert await commit(store, refused) == p.Unknown()
        assert (await row(store, "m:0")).split is None
        made = p.Operate(msgspec.structs.replace(note("said"), id="act 2"), acts)
        assert await commit(store, made) == p.OperatedOn()
        assert await commit(store, made) == p.Repeated()
        assert (await row(store, "m:0")).split == "1:2"
        assert await bodies(store, "m:0") == ["order"]

    @on_fresh_store
    async def test_nothing_overtakes_a_split(self, store: p.Store) -> None:
        """Whoever sends while a run is split: the run's own messages all come before the message of the split."""
        await lanes(store, "m:0", "m:1", "m:2")

        async def sends(twin: p.Store, name: str) -> None:
            for number in range(10):
                await commit(twin, send("m:0", f"{name}{number}", 5, f"{name}{number}"))

        async def splits(twin: p.Store) -> None:
            acts = (send("m:0", "split", None), split("m:0", 1, 2))
            await commit(twin, p.Operate(msgspec.structs.replace(note("said"), id="act"), acts))

        async with handles(store, 3) as (one, two, three):
            await asyncio.gather(sends(one, "a"), sends(two, "b"), splits(three))
        before, after = await bodies(store, "m:0"), await bodies(store, "m:1")
        assert before[-1] == "split"
        for name in "ab":
            assert [each for each in (*before, *after) if each[0] == name] == [f"{name}{at}" for at in range(10)]
