"""Messages: their positions in the inbox, their repetition, their deletion."""

from __future__ import annotations

import random

from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.testing.stores.samples import (
    NOW,
    WAITING,
    advanced,
    begun,
    commit,
    deliver,
    ended,
    key,
    leased,
    message,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store


async def _addressees(store: p.Store, name: str) -> None:
    """Runs of every kind that messages are sent to: ready, leased, ended, and split into two."""
    await store.commit([start(f"{name}:{number}") for number in range(4)])
    await leased(store, f"{name} leased")
    await ended(store, f"{name} ended")
    await commit(store, p.MarkSplit(key(f"{name}:1"), p.split_mark(2, 2)))


def _letters(name: str, chance: random.Random) -> list[p.Deliver]:
    """Messages to some of them, and to one that is not there; some have ids that others have, too.

    Heirs get theirs by their forerunner alone, as machines send them: only those of one addressee have an order.
    """
    runs = [f"{name}:0", f"{name}:1", *(f"{name} {kind}" for kind in ("leased", "ended", "missing"))]
    chosen = chance.sample(runs, chance.randint(1, len(runs)))
    ids = [None, None, *(f"m{number}" for number in range(chance.choice((3, 300))))]
    letters = []
    for number in range(chance.randint(8, 60)):
        place = chance.choice((None, 0, (1 << 32) - 1))
        letter = message(str(number), id=chance.choice(ids), at=NOW + number)
        letters.append(p.Deliver(key(chance.choice(chosen)), letter, place=place))
    return letters


class Inbox(Topic):
    @on_fresh_store
    async def test_many_messages_at_once_are_answered_as_one_by_one(self, store: p.Store) -> None:
        """Random batches, beside a store in memory that gets each alone: whatever way a store takes for many."""
        plain = MemoryStore()
        await plain.open()
        for seed in range(12):
            chance, name = random.Random(seed), f"run {seed}"
            for each in (store, plain):
                await _addressees(each, name)
            keys = [key(f"{name}:{number}") for number in range(4)] + [key(f"{name} leased"), key(f"{name} ended")]
            for _ in range(3):
                letters = _letters(name, chance)
                answers = [await commit(plain, letter) for letter in letters]
                assert await store.commit(letters) == answers, seed
                assert await store.messages(keys) == await plain.messages(keys), seed
                rows = [[(run.arrived, run.ready_at) for run in await each.get(keys)] for each in (store, plain)]
                assert rows[0] == rows[1], seed

    @on_fresh_store
    async def test_messages_take_positions_one_two_three_in_commit_order(self, store: p.Store) -> None:
        """Each run counts for itself, within a batch and across."""
        await store.commit([start("one"), start("two")])
        first = await store.commit([deliver("one", "a"), deliver("two", "x"), deliver("one", "b")])
        assert first == [p.Delivered(1), p.Delivered(1), p.Delivered(2)]
        assert await commit(store, deliver("one", "c")) == p.Delivered(3)
        received = (await store.messages([key("one")]))[key("one")]
        assert received == [p.Received(at, message(body)) for at, body in enumerate("abc", 1)]

    @on_fresh_store
    async def test_a_message_comes_out_as_it_went_in(self, store: p.Store) -> None:
        """Kind, body and time are kept; any bytes are a body."""
        await begun(store, start())
        body = bytes(range(256))
        await store.commit(
            [p.Deliver(key(), p.Message("answer", body, NOW + 3)), p.Deliver(key(), p.Message("", b"", 0))]
        )
        first, second = (await store.messages([key()]))[key()]
        assert (first.message.kind, first.message.body, first.message.at) == ("answer", body, NOW + 3)
        assert (second.message.kind, second.message.body, second.message.at) == ("", b"", 0)

    @on_fresh_store
    async def test_a_message_of_the_same_id_is_a_repetition(self, store: p.Store) -> None:
        """It is not delivered again, even after it was consumed; the id belongs to one run alone."""
        run = await leased(store, "one")
        await begun(store, start("two"))
        answers = await store.commit([deliver(id="m1"), deliver(id="m1"), deliver(id="m2"), deliver("two", id="m1")])
        assert answers == [p.Delivered(1), p.Repeated(), p.Delivered(2), p.Delivered(1)]
        await advanced(store, turn(run, consumed=2))
        assert await commit(store, deliver(id="m1")) == p.Repeated()
        assert (await row(store)).arrived == 2

    @on_fresh_store
    async def test_messages_without_id_are_never_repetitions(self, store: p.Store) -> None:
        """Two equal ones are two."""
        await begun(store, start())
        assert await store.commit([deliver(), deliver()]) == [p.Delivered(1), p.Delivered(2)]

    @on_fresh_store
    async def test_a_message_to_nobody_is_answered_unknown(self, store: p.Store) -> None:
        """And is forgotten: the same id reaches a run of that name that is started later."""
        assert await commit(store, deliver(id="m1")) == p.Unknown()
        await begun(store, start())
        assert await commit(store, deliver(id="m1")) == p.Delivered(1)

    @on_fresh_store
    async def test_a_message_to_an_ended_run_is_answered_gone(self, store: p.Store) -> None:
        """Nothing of it is kept, even if it is sent several times."""
        before = await ended(store)
        for _ in range(2):
            assert await store.commit([deliver(), deliver(id="m1")]) == [p.Gone(), p.Gone()]
        assert await row(store) == before
        assert await store.messages([key()]) == {key(): []}

    @on_fresh_store
    async def test_consumed_messages_are_deleted_and_later_ones_stay(self, store: p.Store) -> None:
        """A turn deletes the messages that it consumed; positions are never used again."""
        run = await leased(store)
        await store.commit([deliver(body="a"), deliver(body="b"), deliver(body="c")])
        await advanced(store, turn(run, consumed=2))
        assert (await store.messages([key()]))[key()] == [p.Received(3, message("c"))]
        after = await row(store)
        assert (after.arrived, after.consumed) == (3, 2)
        await advanced(store, turn(after, consumed=3))
        assert await commit(store, deliver()) == p.Delivered(4)

    @on_fresh_store
    async def test_many_turns_at_once_delete_what_they_consumed(self, store: p.Store) -> None:
        """Whatever way a store takes for many usual turns."""
        names = [f"run {number}" for number in range(20)]
        await store.commit([turn(await leased(store, name)) for name in names])
        runs = await store.get([key(name) for name in names])
        await store.commit([deliver(name, body) for name in names[::2] for body in ("a", "b")])
        answers = await store.commit([turn(run, consumed=0 if number % 2 else 2) for number, run in enumerate(runs)])
        assert all(isinstance(answer, p.Advanced) for answer in answers)
        left = await store.messages([run.key for run in runs])
        assert left == {run.key: [] for run in runs}

    @on_fresh_store
    async def test_the_answer_to_a_turn_tells_how_far_the_inbox_has_grown(self, store: p.Store) -> None:
        """So its holder learns of messages that came since."""
        run = await leased(store)
        await store.commit([deliver(), deliver()])
        assert (await advanced(store, turn(run))).arrived == 2

    @on_fresh_store
    async def test_a_message_to_a_leased_run_leaves_the_lease_alone(self, store: p.Store) -> None:
        """Epoch and owner stay, and no other worker gets it."""
        run = await leased(store)
        await commit(store, deliver())
        after = await row(store)
        assert (after.owner, after.epoch, after.ready_at) == (run.owner, run.epoch, None)

    @on_fresh_store
    async def test_a_second_message_does_not_make_a_ready_run_younger(self, store: p.Store) -> None:
        """It has been ready since the first."""
        await advanced(store, turn(await leased(store), WAITING, release=True))
        await store.commit([deliver(at=NOW + 1), deliver(at=NOW + 2)])
        assert (await row(store)).ready_at == NOW + 1

    @on_fresh_store
    async def test_inboxes_are_read_for_many_runs_at_once(self, store: p.Store) -> None:
        """An empty one, or one of a run that is not there, is empty."""
        await store.commit([start("one"), start("two"), deliver("one", "a")])
        assert await store.messages([key("one"), key("two"), key("nobody")]) == {
            key("one"): [p.Received(1, message("a"))],
            key("two"): [],
            key("nobody"): [],
        }
        assert await store.messages([]) == {}
