"""Lists of runs: every condition, alone and together, and page after page."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.store import protocol as p
from holdfast.testing.stores.samples import (
    COMPLETED,
    NOW,
    QUEUED,
    TENANT,
    WAITING,
    WORKFLOW,
    advanced,
    begun,
    commit,
    ended,
    key,
    leased,
    renewal,
    row,
    start,
    turn,
)
from holdfast.testing.stores.topic import Topic, on_fresh_store

STATUSES: tuple[p.Status, ...] = (
    "queued",
    "running",
    "waiting",
    "paused",
    "cancelling",
    "completed",
    "failed",
    "cancelled",
)


async def listed(store: p.Store, query: p.Query) -> list[str]:
    return [run.key.run for run in await store.find(query, 100)]


async def one_of_each_status(store: p.Store) -> None:
    """A run for each status, named after it, and two runs whose rows show another status than their journals."""
    await begun(store, start("queued"))
    for name, projection in (
        ("running", p.Projection("running")),
        ("waiting", WAITING),
        ("cancelling", p.Projection("waiting", cancelling=True)),
        ("completed", COMPLETED),
        ("failed", p.Projection("failed", error="no")),
        ("cancelled", p.Projection("cancelled", cancelling=True)),
    ):
        await advanced(store, turn(await leased(store, name), projection, release=True))
    await begun(store, start("paused"))
    await store.pause(key("paused"), "wait", NOW)


class Queries(Topic):
    @on_fresh_store
    async def test_runs_are_listed_by_the_kind_of_their_programs(self, store: p.Store) -> None:
        """Those of one kind, or all but those."""
        for kind in (p.FUNCTION, "definition", "machine"):
            await begun(store, start(kind, program_kind=kind))
        assert await listed(store, p.Query(program_kind="machine")) == ["machine"]
        assert sorted(await listed(store, p.Query(TENANT, other_kind_than="machine"))) == ["definition", "function"]
        assert len(await listed(store, p.Query())) == 3

    @on_fresh_store
    async def test_runs_are_listed_newest_first(self, store: p.Store) -> None:
        """By their creation, with every row as ``get`` gives it."""
        await store.commit([start("b", at=NOW + 2), start("a", at=NOW + 1), start("c", at=NOW + 3)])
        runs = await store.find(p.Query(), 10)
        assert [run.key.run for run in runs] == ["c", "b", "a"]
        assert runs[0] == await row(store, "c")

    @on_fresh_store
    async def test_each_status_lists_its_own(self, store: p.Store) -> None:
        """The listing by a status gives exactly the runs that show it."""
        await one_of_each_status(store)
        for status in STATUSES:
            runs = await store.find(p.Query(status=status), 100)
            assert [(run.key.run, run.status) for run in runs] == [(status, status)]

    @on_fresh_store
    async def test_a_run_paused_while_cancelling_is_listed_as_paused_alone(self, store: p.Store) -> None:
        """It shows one status, and is found by that status."""
        await begun(store, start(projection=p.Projection("waiting", cancelling=True)))
        await store.pause(key(), "wait", NOW)
        found = {status: await listed(store, p.Query(status=status)) for status in STATUSES}
        assert {status for status, runs in found.items() if runs} == {"paused"}

    @on_fresh_store
    async def test_an_ended_run_that_was_paused_is_listed_by_its_end(self, store: p.Store) -> None:
        """It shows its end."""
        run = await leased(store)
        await store.pause(key(), "wait", NOW)
        await advanced(store, turn(run, COMPLETED))
        found = {status: await listed(store, p.Query(status=status)) for status in STATUSES}
        assert {status for status, runs in found.items() if runs} == {"completed"}

    @on_fresh_store
    async def test_tenant_workflow_and_parent_each_narrow_a_listing(self, store: p.Store) -> None:
        """Only runs of that tenant, that workflow, that parent."""
        await store.commit(
            [
                start("plain"),
                start("foreign", tenant="bolt"),
                start("other", workflow="other"),
                start("child", parent="plain"),
            ]
        )
        assert set(await listed(store, p.Query(tenant="bolt"))) == {"foreign"}
        assert set(await listed(store, p.Query(tenant="acme"))) == {"plain", "other", "child"}
        assert set(await listed(store, p.Query(workflow="other"))) == {"other"}
        assert set(await listed(store, p.Query(workflow=WORKFLOW))) == {"plain", "foreign", "child"}
        assert set(await listed(store, p.Query(parent="plain"))) == {"child"}
        assert await listed(store, p.Query(tenant="nobody")) == []

    @on_fresh_store
    async def test_times_of_creation_bound_a_listing(self, store: p.Store) -> None:
        """From ``created_after`` on, up to but without ``created_before``."""
        await store.commit([start(name, at=NOW + at) for at, name in enumerate("abcd")])
        assert await listed(store, p.Query(created_after=NOW + 1)) == ["d", "c", "b"]
        assert await listed(store, p.Query(created_before=NOW + 2)) == ["b", "a"]
        assert await listed(store, p.Query(created_after=NOW + 1, created_before=NOW + 3)) == ["c", "b"]

    @on_fresh_store
    async def test_attributes_narrow_a_listing(self, store: p.Store) -> None:
        """Runs that have all of them with just those values."""
        await store.commit(
            [
                start("both", attributes={"city": "Ur", "size": "10"}),
                start("city", attributes={"city": "Ur"}),
                start("else", attributes={"city": "Uruk", "size": "1"}),
                start("none"),
            ]
        )
        assert set(await listed(store, p.Query(attributes={"city": "Ur"}))) == {"both", "city"}
        assert await listed(store, p.Query(attributes={"city": "Ur", "size": "10"})) == ["both"]
        assert await listed(store, p.Query(attributes={"city": "ur"})) == []
        assert await listed(store, p.Query(attributes={"unheard": "Ur"})) == []

    @on_fresh_store
    async def test_attributes_are_found_whatever_letters_their_names_have(self, store: p.Store) -> None:
        """Dots, quotes, brackets and backslashes are letters like others."""
        names = ("a.b", 'a"b', "a'b", "a[0]", "$", "a\\b", "ü", "", "a b")
        await store.commit([start(f"r{at}", attributes={name: "x"}) for at, name in enumerate(names)])
        found = {name: await listed(store, p.Query(attributes={name: "x"})) for name in names}
        assert found == {name: [f"r{at}"] for at, name in enumerate(names)}

    @on_fresh_store
    async def test_all_conditions_hold_together(self, store: p.Store) -> None:
        """A run that misses one of them is not listed."""
        await store.commit(
            [
                start("fits", at=NOW + 5, parent="mother", attributes={"a": "b"}),
                start("old", at=NOW, parent="mother", attributes={"a": "b"}),
                start("orphan", at=NOW + 5, attributes={"a": "b"}),
                start("bare", at=NOW + 5, parent="mother"),
                start("strange", at=NOW + 5, parent="mother", attributes={"a": "b"}, workflow="other"),
                start("foreign", at=NOW + 5, parent="mother", attributes={"a": "b"}, tenant="bolt"),
            ]
        )
        query = p.Query("acme", "queued", WORKFLOW, {"a": "b"}, "mother", NOW + 1, NOW + 9)
        assert await listed(store, query) == ["fits"]

    @on_fresh_store
    async def test_pages_follow_one_another_without_gap_or_overlap(self, store: p.Store) -> None:
        """Even where many runs were created at one time, and where new ones come between two pages."""
        await store.commit([start(f"r{at}", at=NOW + at // 4) for at in range(10)])
        await store.commit([start("r1", tenant="bolt", at=NOW)])
        whole = await store.find(p.Query(), 100)
        assert len(whole) == 11
        pages: list[p.Run] = []
        last: p.Run | None = None
        while page := await store.find(p.Query(), 3, last):
            assert len(page) <= 3
            pages += page
            last = page[-1]
            await store.commit([start(f"new{len(pages)}", at=NOW + 100)])
        assert pages == whole

    @on_fresh_store
    async def test_pages_keep_to_the_query(self, store: p.Store) -> None:
        """The conditions hold on every page."""
        await store.commit([start(f"r{at}", at=NOW + at, workflow="odd" if at % 2 else "even") for at in range(6)])
        first = await store.find(p.Query(workflow="odd"), 2)
        second = await store.find(p.Query(workflow="odd"), 2, first[-1])
        assert [[run.key.run for run in page] for page in (first, second)] == [["r5", "r3"], ["r1"]]

    @on_fresh_store
    async def test_runs_are_found_by_where_they_came_from_and_when_they_ended(self, store: p.Store) -> None:
        """Workspace, actor, and the time of the end: from then on, and before then."""
        for number, origin in enumerate((p.Origin("east", "ann"), p.Origin("west", "bob"))):
            await begun(store, replace(start(f"run-{number}"), origin=origin))
        await ended(store, "early", at=NOW + 10)
        await ended(store, "late", at=NOW + 20)
        assert await listed(store, p.Query(workspace="east")) == ["run-0"]
        assert await listed(store, p.Query(actor="bob")) == ["run-1"]
        assert await listed(store, p.Query(ended_after=NOW + 11)) == ["late"]
        assert await listed(store, p.Query(ended_after=NOW + 20)) == ["late"]
        assert await listed(store, p.Query(ended_before=NOW + 20)) == ["early"]

    @on_fresh_store
    async def test_parked_runs_and_runs_that_ask_are_found(self, store: p.Store) -> None:
        """A pause by a person is not parking; a wait for a task is distinguished from others."""
        for name in ("free", "paused", "parked"):
            await begun(store, start(name))
        await store.pause(key("paused"), p.PAUSED + ": lunch", NOW)
        await store.pause(key("parked"), "nondeterminism: it differs", NOW)
        asking = p.Projection("waiting", waiting='[{"kind":"invoke","name":"pay","position":1,"task":"t-1"}]')
        await advanced(store, turn(await leased(store, "asking"), asking, release=True))
        plain = p.Projection("waiting", waiting='[{"kind":"timer","name":"","position":1,"task":null}]')
        await advanced(store, turn(await leased(store, "waiting"), plain, release=True))
        assert await listed(store, p.Query(parked=True)) == ["parked"]
        assert await listed(store, p.Query(pause="nondeterminism: ")) == ["parked"]
        assert await listed(store, p.Query(pause="nondeterminism_: ")) == []
        assert await listed(store, p.Query(parked=True, pause=p.PAUSED)) == []
        assert sorted(await listed(store, p.Query(parked=False))) == ["asking", "free", "paused", "waiting"]
        assert await listed(store, p.Query(asks=True)) == ["asking"]
        assert await listed(store, p.Query(asks=False, standings=("waiting",))) == ["waiting"]
        assert sorted(await listed(store, p.Query(standings=("queued", "waiting"), parked=False, asks=False))) == [
            "free",
            "paused",
            "waiting",
        ]

    @on_fresh_store
    async def test_runs_asked_to_cancel_are_found_beside_those_that_were_cancelled(self, store: p.Store) -> None:
        """As the states of instances need it."""
        await begun(store, start("free"))
        await begun(store, start("asked", projection=p.Projection("waiting", cancelling=True)))
        await begun(store, start("over", projection=p.Projection("cancelled", cancelling=False)))
        assert sorted(await listed(store, p.Query(cancelled=True))) == ["asked", "over"]
        assert await listed(store, p.Query(cancelled=False)) == ["free"]
        assert await listed(store, p.Query(cancelled=True, standings=("queued", "running", "waiting"))) == ["asked"]

    @on_fresh_store
    async def test_a_run_is_found_as_asked_to_cancel_as_soon_as_the_message_is_there(self, store: p.Store) -> None:
        """Before anybody reads it: a run that waits for its place may wait long. Another message changes nothing."""
        for name in ("asked", "told"):
            await begun(store, start(name))
        await ended(store, "over")
        for name, kind in (("asked", p.CANCEL), ("told", "signal"), ("over", p.CANCEL)):
            await commit(store, p.Deliver(key(name), p.Message(kind, b"", NOW)))
        assert await listed(store, p.Query(cancelled=True)) == ["asked"]
        assert await listed(store, p.Query(status="cancelling")) == ["asked"]
        assert await listed(store, p.Query(status="queued")) == ["told"]
        counted = {(each.status, each.count) for each in await store.counts(TENANT)}
        assert counted == {("cancelling", 1), ("queued", 1), ("completed", 1)}

    @on_fresh_store
    async def test_counts_are_what_lists_would_count(self, store: p.Store) -> None:
        """After starts, turns, pauses, ends, new generations and pruning; of one tenant, or of all."""
        await begun(store, start("queued"))
        await begun(store, start("paused"))
        await store.pause(key("paused"), "wait", NOW)
        await begun(store, start("resumed"))
        await store.pause(key("resumed"), "wait", NOW)
        await store.unpause(key("resumed"), NOW)
        await advanced(store, turn(await leased(store, "waiting"), WAITING, release=True))
        await advanced(store, turn(await leased(store, "leaving"), p.Projection("running", cancelling=True)))
        await begun(store, start("held up", projection=p.Projection("waiting", cancelling=True, pause="wait")))
        await ended(store, "done")
        await ended(store, "again")
        assert isinstance(await commit(store, p.Renew(key("again"), 0, renewal(), QUEUED, NOW)), p.Renewed)
        await ended(store, "gone", at=NOW - 100)
        assert await store.prune(NOW - 50, 10) == 1
        await begun(store, start("other", tenant="bolt"))
        found = await store.counts()
        totals: dict[tuple[str, p.Status], int] = {}
        for run in await store.find(p.Query(), 100):
            totals[run.key.tenant, run.status] = totals.get((run.key.tenant, run.status), 0) + 1
        assert found == [p.RunCount(*place, totals[place]) for place in sorted(totals)]
        assert await store.counts("bolt") == [p.RunCount("bolt", "queued", 1)]
        assert await store.counts("nobody") == []
        for most in (0, 1, 2, 100):
            cut = [p.RunCount(*place, min(totals[place], most + 1)) for place in sorted(totals) if place[0] == TENANT]
            assert await store.counts(TENANT, most) == cut

    @on_fresh_store
    async def test_the_oldest_due_run_is_the_one_that_waits_longest_for_a_worker(self, store: p.Store) -> None:
        """Ready, or to be woken; what is leased, paused or ended waits for none."""
        assert await store.oldest_due() is None
        await leased(store, "held")
        await begun(store, start("paused", at=NOW - 900))
        await store.pause(key("paused"), "wait", NOW)
        await ended(store, "done", at=NOW - 800)
        assert await store.oldest_due() is None
        later = p.Projection("waiting", wake_at=NOW + 500)
        await advanced(store, turn(await leased(store, "sleeping"), later, release=True))
        assert await store.oldest_due() == NOW + 500
        await begun(store, start("urgent", at=NOW + 20, priority=9))
        await begun(store, start("ready", at=NOW + 10))
        assert await store.oldest_due() == NOW + 10
        late = p.Projection("waiting", wake_at=NOW - 5)
        await advanced(store, turn(await leased(store, "late"), late, release=True))
        assert await store.oldest_due() == NOW - 5
        await store.pause(key("late"), "wait", NOW)
        assert await store.oldest_due() == NOW + 10

    @on_fresh_store
    async def test_a_list_is_the_same_whatever_leads_to_it(self, store: p.Store) -> None:
        """Of one tenant or of all, by several conditions, page by page: each run once, newest first, none left out."""
        for number in range(24):
            id, tenant = f"r{number:02}", (TENANT, "bolt")[number % 2]
            origin = p.Origin(("", "eu")[number % 3 == 0], ("ann", None)[number % 4 == 0])
            standing: p.Standing = ("waiting", "queued", "running")[number % 3]
            projection = p.Projection(standing, pause="the code" if number % 5 == 0 else None)
            change = start(id, tenant=tenant, at=NOW + number // 4, projection=projection)
            await commit(store, replace(change, origin=origin))
        every = await store.find(p.Query(), 100)
        assert len(every) == 24
        for query in (
            p.Query(),
            p.Query(standings=("waiting", "queued")),
            p.Query(parked=True, standings=("waiting", "running")),
            p.Query(workspace="eu"),
            p.Query(workspace="", actor="ann"),
            p.Query(actor="ann", standings=("queued",), workspace="eu"),
            p.Query(status="waiting", workspace="eu"),
            p.Query(created_after=NOW + 1, created_before=NOW + 4, standings=("queued", "running")),
        ):
            for only in (None, TENANT, "bolt"):
                asked = replace(query, tenant=only)
                pages = [page := await store.find(asked, 2)]
                while page:
                    pages.append(page := await store.find(asked, 2, page[-1]))
                listed = [run.key for page in pages for run in page]
                assert listed == [run.key for run in every if _is_wanted(run, asked)], asked

    @on_fresh_store
    async def test_runs_are_listed_by_when_they_ended(self, store: p.Store) -> None:
        """Governed or not, with evidence or without, and where the clock of the end was behind that of the start."""
        await ended(store, "early", at=NOW - 100)
        await ended(store, "late", at=NOW + 100)
        await begun(store, start("open"))
        governed = p.Projection("completed", governed=True)
        await advanced(store, turn(await leased(store, "governed"), governed, at=NOW + 50))
        assert await listed(store, p.Query(ended_after=NOW)) == ["late", "governed"]
        assert await listed(store, p.Query(tenant=TENANT, ended_after=NOW - 100, ended_before=NOW + 60)) == [
            "governed",
            "early",
        ]
        assert await listed(store, p.Query(tenant=TENANT, ended_before=NOW)) == ["early"]


def _is_wanted(run: p.Run, query: p.Query) -> bool:
    """What the conditions that the test uses mean."""
    return (
        query.tenant in (None, run.key.tenant)
        and (not query.standings or run.standing in query.standings)
        and query.status in (None, run.status)
        and query.parked in (None, run.pause is not None)
        and query.workspace in (None, run.workspace)
        and query.actor in (None, run.actor)
        and (query.created_after is None or query.created_after <= run.created_at)
        and (query.created_before is None or run.created_at < query.created_before)
    )
