"""Definitions: a name and a version mean one code for good, whoever publishes at the same time."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec

from holdfast.store import protocol as p
from holdfast.testing.stores.concurrency import handles
from holdfast.testing.stores.governance.samples import bodies, note
from holdfast.testing.stores.samples import COMPLETED, NOW, TENANT, advanced, commit, key, leased, row, turn
from holdfast.testing.stores.topic import Topic, on_fresh_store


def published(name: str = "claims", version: int = 1, text: str = "", *, tenant: str = TENANT) -> p.Publish:
    """A definition to publish; another text is another definition of the same name and version."""
    data = f"{name}@{version} {text}".encode()
    return p.Publish(tenant, version, p.Code(hashlib.sha256(data).digest(), "definition", name, data), NOW)


def _act(*changes: p.Act, id: str = "act 1", body: str = "said") -> p.Operate:
    return p.Operate(msgspec.structs.replace(note(body, run=None), id=id), changes)


async def publish(store: p.Store, *given: p.Publish, id: str = "act 1", body: str = "said") -> p.Answer:
    return await commit(store, _act(*given, id=id, body=body))


class DefinitionTopic(Topic):
    @on_fresh_store
    async def test_a_published_definition_is_kept_with_its_code_and_its_note(self, store: p.Store) -> None:
        """All in one commit; another tenant has none of it."""
        change = published()
        assert await publish(store, change) == p.OperatedOn()
        assert await store.definitions(TENANT, 10) == [change.row]
        assert await store.code(TENANT, [change.code.digest]) == {change.code.digest: change.code}
        assert await bodies(store) == ["said"]
        assert await store.definitions("bolt", 10) == []

    @on_fresh_store
    async def test_a_name_and_version_never_mean_another_code(self, store: p.Store) -> None:
        """The other is refused, with the digest that is there; it leaves neither code nor note."""
        first, other = published(), published(text="changed")
        await publish(store, first)
        assert await publish(store, other, id="act 2", body="again") == p.VersionTaken(first.code.digest)
        assert await store.definitions(TENANT, 10) == [first.row]
        assert await store.code(TENANT, [other.code.digest]) == {}
        assert await bodies(store) == ["said"]
        assert await publish(store, published(tenant="bolt", text="changed"), id="act 3") == p.OperatedOn()

    @on_fresh_store
    async def test_what_is_published_already_is_not_noted_again(self, store: p.Store) -> None:
        """By another act; and the same act committed again is a repetition."""
        await publish(store, published())
        later = msgspec.structs.replace(published(), at=NOW + 5)
        assert await publish(store, later, id="act 2") == p.Kept()
        assert await publish(store, published()) == p.Repeated()
        assert await store.definitions(TENANT, 10) == [published().row]
        assert await bodies(store) == ["said"]

    @on_fresh_store
    async def test_code_whose_digest_does_not_fit_is_not_published(self, store: p.Store) -> None:
        """A run of it could never be checked."""
        change = published()
        forged = msgspec.structs.replace(change, code=msgspec.structs.replace(change.code, data=b"other"))
        assert await publish(store, forged) == p.CodeMisfit()
        assert await store.definitions(TENANT, 10) == []
        assert await store.code(TENANT, [change.code.digest]) == {}

    @on_fresh_store
    async def test_an_act_publishes_all_or_nothing(self, store: p.Store) -> None:
        """Also with a change of a run beside it."""
        await publish(store, published("b"))
        run = await leased(store)
        pause = p.Pause(key(), "look", NOW + 1)
        refused = published("b", text="changed")
        assert isinstance(await publish(store, published("a"), refused, id="act 2"), p.VersionTaken)
        assert isinstance(await commit(store, _act(published("a"), pause, refused, id="act 3")), p.VersionTaken)
        assert await store.definitions(TENANT, 10) == [published("b").row]
        assert await row(store) == run
        assert await commit(store, _act(published("a"), pause, id="act 4")) == p.OperatedOn()
        assert [each.name for each in await store.definitions(TENANT, 10)] == ["a", "b"]
        assert (await row(store)).pause == "look"

    @on_fresh_store
    async def test_definitions_are_listed_by_name_and_version(self, store: p.Store) -> None:
        """In pages; versions are numbers, and 10 comes after 9. One name may be asked for."""
        wanted = [("a", 2), ("b", 1), ("b", 9), ("b", 10), ("c", 1)]
        for at, (name, version) in enumerate(reversed(wanted)):
            await publish(store, published(name, version), id=f"act {at}")
        found = await store.definitions(TENANT, 3)
        assert [(each.name, each.version) for each in found] == wanted[:3]
        found = await store.definitions(TENANT, 3, found[-1])
        assert [(each.name, each.version) for each in found] == wanted[3:]
        assert [each.version for each in await store.definitions(TENANT, 10, name="b")] == [1, 9, 10]
        assert await store.definitions(TENANT, 10, published("b", 9).row, name="b") == [published("b", 10).row]

    @on_fresh_store
    async def test_of_many_that_publish_one_version_at_once_one_succeeds(self, store: p.Store) -> None:
        """Through several handles, as from several processes: the store itself decides."""
        async with handles(store) as shared:
            answers = await asyncio.gather(
                *(publish(shared[at % 3], published(text=str(at)), id=f"act {at}", body=str(at)) for at in range(9))
            )
        assert sorted(type(answer).__name__ for answer in answers) == ["OperatedOn"] + ["VersionTaken"] * 8
        (winner,) = [at for at, answer in enumerate(answers) if answer == p.OperatedOn()]
        assert await store.definitions(TENANT, 10) == [published(text=str(winner)).row]
        assert await bodies(store) == [str(winner)]

    @on_fresh_store
    async def test_of_two_in_one_batch_the_first_is_published(self, store: p.Store) -> None:
        """The second sees the first."""
        batch = [_act(published(), id="1"), _act(published(text="changed"), id="2"), _act(published(), id="3")]
        digest = published().code.digest
        assert await store.commit(batch) == [p.OperatedOn(), p.VersionTaken(digest), p.Kept()]

    @on_fresh_store
    async def test_definitions_outlive_their_runs(self, store: p.Store) -> None:
        """Retention deletes runs; nothing deletes what they were."""
        await publish(store, published())
        run = await leased(store)
        await advanced(store, turn(run, projection=COMPLETED))
        assert await store.prune(NOW + 10**9, 10) == 1
        assert await store.definitions(TENANT, 10) == [published().row]
        assert len(await store.code(TENANT, [published().code.digest])) == 1
