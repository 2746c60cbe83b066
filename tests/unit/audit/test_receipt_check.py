"""The receipts compared with the audit: each one that was changed, added or removed by hand is named, and no other."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast import Cost, Happened, Holdfast, OutcomeUnknown, Receipt, RunFailed, action, workflow
from holdfast.audit import collector
from holdfast.audit import records as r
from holdfast.audit.check import receipts as receipt_check
from holdfast.audit.check import runs as run_check
from holdfast.audit.check import sealed_entries
from holdfast.audit.check import tasks as task_check
from holdfast.audit.check.claims import Claim
from holdfast.audit.check.receipts import check_receipts
from holdfast.audit.sealer import Sealer
from holdfast.journal.blobs import THRESHOLD_BYTES
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.virtual import VirtualClock, run_virtually
from tests.scope import one_stays
from tests.unit.worker.ground import asked, policy_of

POLICY = policy_of({"when": 'action.operation == "wire"', "effect": "needs_approval", "tier": "med"}, {})

FAILS: dict[str, list[Exception]] = {}
LOOKS: list[Happened | Exception] = []
DOOR: list[asyncio.Event] = []


@action(connector="bank", operation="refund", target="{receipt.target}", name="books.refund")
async def refund(receipt: Receipt) -> str:
    return "refunded"


@action(
    connector="bank",
    operation="pay",
    target="account {account}",
    idempotency_key="pay:{account}",
    reverse=refund,
    secret=["token"],
    cost=lambda result: Cost("bank", 0.25),
    name="books.pay",
)
async def pay(account: str, size: int = 0, token: str = "s3cret") -> str:
    if account == "slow":
        DOOR[0].set()
        await DOOR[1].wait()
    for error in FAILS.get(account, [])[:1]:
        FAILS[account].remove(error)
        raise error
    return "paid" + "." * size


@action(connector="bank", operation="wire", target="account {account}", name="books.wire")
async def wire(account: str) -> str:
    if account == "sure":
        return "wired"
    raise OutcomeUnknown("the line broke")


async def look(account: str) -> Happened:
    answer = LOOKS.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


@action(connector="bank", operation="order", idempotency_key="order:{account}", probe=look, name="books.order")
async def order(account: str) -> str:
    raise OutcomeUnknown("the line broke")


@workflow(name="books.paying")
async def paying(account: str, size: int = 0) -> str:
    return await pay(account, size)


@workflow(name="books.wiring")
async def wiring(account: str) -> str:
    return await wire(account)


@workflow(name="books.ordering")
async def ordering(account: str) -> str:
    return await order(account)


async def _fails(app: Holdfast, run: str) -> None:
    with pytest.raises(RunFailed):
        await app.run(run).result(30)


async def _wired(app: Holdfast, run: str, account: str = "unsure") -> p.TaskRow:
    """Start a wire transfer and approve it; gives the task that is open then."""
    await app.start(wiring, account, id=run, actor="ann")
    task = await asked(app, run)
    await app.tasks.approve(task.id, by="bob")
    return task if account == "sure" else await asked(app, run, other_than=task.id)


async def _live(app: Holdfast, path: Path) -> None:
    """An act with each possible outcome; the last act is under way when the file is copied."""
    FAILS.update(refused=[ValueError("no")], second=[ValueError("no")])
    for run in ("kept", "back", "reused"):
        await (await app.start(paying, "back" if run == "back" else "kept", id=run)).result(30)
    (row,) = await app.store.receipts(p.ReceiptQuery(run="back"), 2)
    await (await app.receipts.reverse(row.id, by="bob")).result(30)
    await (await app.start(paying, "large", THRESHOLD_BYTES * 2, id="large")).result(30)
    for run, account in (("refused", "refused"), ("first", "second")):
        await app.start(paying, account, id=run)
        await _fails(app, run)
    await (await app.start(paying, "second", id="second")).result(30)
    await _wired(app, "sure", "sure")
    await app.run("sure").result(30)
    await app.tasks.happened((await _wired(app, "recalled")).id, by="bob", result="wired")
    await app.run("recalled").result(30)
    await app.tasks.give_up((await _wired(app, "given_up")).id, by="bob")
    await _fails(app, "given_up")
    await _wired(app, "open")
    LOOKS.extend([ValueError("nobody answers"), Happened("ordered")])
    await app.start(ordering, "o-1", id="left")
    await app.tasks.give_up((await asked(app, "left")).id, by="bob")
    await _fails(app, "left")
    assert await (await app.start(ordering, "o-1", id="finder")).result(30) == "ordered"
    while await app.store.unsealed(1):  # the next entries are not sealed
        await app.changed(0.05)
    DOOR[:] = [asyncio.Event(), asyncio.Event()]
    slow = await app.start(paying, "slow", id="slow")
    await DOOR[0].wait()
    with closing(sqlite3.connect(app_path(app))) as source, closing(sqlite3.connect(path)) as copy:
        source.backup(copy)
    DOOR[1].set()
    await slow.result(30)


def app_path(app: Holdfast) -> str:
    assert isinstance(app.store, SqliteStore)
    return app.store.path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with an act of each possible outcome; no test changes it."""
    path = tmp_path_factory.mktemp("books") / "kept.db"

    async def main() -> None:
        live = f"sqlite:///{path.with_name('live.db')}"
        async with Holdfast(live, workflows=[paying, wiring, ordering], policy=POLICY) as app:
            async with asyncio.timeout(60):
                await _live(app, path)

    asyncio.run(main())
    return path


@pytest.fixture
def books(kept: Path, tmp_path: Path) -> Path:
    """A copy of that database for one test."""
    copy = tmp_path / "books.db"
    copy.write_bytes(kept.read_bytes())
    return copy


@contextmanager
def by_hand(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as database, database:
        yield database


def verified(path: Path, tenant: str = "default") -> Claim:
    """The claim of ``verify`` about the receipts."""

    async def main() -> Claim:
        async with Holdfast(f"sqlite:///{path}", worker=False) as app:
            verdict = await app.audit.verify(tenant=tenant)
            assert verdict.claims[0].state == "consistent"
            (claim,) = [claim for claim in verdict.claims if claim.about == "receipts"]
            assert verdict.good == (claim.state != "broken")
            return claim

    return asyncio.run(main())


RUNS = {  # each with the state of its receipt
    "kept": "succeeded",
    "back": "succeeded",
    "large": "succeeded",
    "refused": "failed",
    "second": "succeeded",
    "sure": "succeeded",
    "recalled": "succeeded",
    "given_up": "unknown",
    "open": "unknown",
    "left": "succeeded",
    "slow": "pending",
}


def test_receipts_of_all_outcomes_agree_with_the_audit(books: Path) -> None:
    """A rare course of an act is not called broken."""
    with by_hand(books) as database:
        states = dict(database.execute("SELECT run, state FROM receipts WHERE run NOT LIKE 'reverse:%'"))
        assert states == RUNS
        recorded = {state for (state,) in database.execute("SELECT body ->> 'state' FROM audit WHERE kind = 'receipt'")}
        assert recorded == {"succeeded", "failed", "unknown", "reused"}
        runs = {run for (run,) in database.execute("SELECT run FROM audit WHERE body ->> 'key' = 'order:o-1'")}
        assert runs == {"left", "finder"}
    claim = verified(books)
    text = f"all receipts ({len(RUNS) + 1}) are as the audit records them, and none that it records is missing."
    assert claim == Claim("consistent", "receipts", text)


MISFILED = "it was altered: its columns do not agree with its content"
FILED = ("tenant", "key", "id", "run", "connector", "opened_at")
"""The fields by which a store finds a receipt: they have a column, too."""

REVERSED = "it names another receipt as the one that reversed it, and that one did not"
UNDONE = "it says that its act was undone, and the audit has no entry of that"

ALTERED = {  # each with a new value, and the problem that is named
    "tenant": ('"acme"', "the audit says that it succeeded, and it is gone"),
    "key": ('"pay:other"', "of it in its idempotency key."),
    "id": ('"r-other"', "the audit says that it succeeded, and it is gone"),
    "run": ('"other"', "of it in its run."),
    "root": (f'"{"A" * 43}="', "no decision in the audit allowed its act"),
    "position": ("7", "no decision in the audit allowed its act"),
    "attempt": ("2", "of it in its attempt."),
    "action": ('"books.other"', "of it in its action."),
    "connector": ('"desk"', "of it in its connector."),
    "operation": ('"give"', "of it in its operation."),
    "target": ('"account other"', "of it in its target."),
    "writes": ("false", "of it in its mark as writing."),
    "risk": ('"high"', "of it in its risk."),
    "proposal": (f'"{"A" * 43}="', "of it in its proposal."),
    "request": ('"oA=="', "of it in its arguments."),
    "opened_at": ("5", "of it in its time of opening."),
    "actor": ('"eve"', "of it in its actor."),
    "reverse": ('"books.other"', "of it in its reversing action."),
    "reverses": ('"r-other"', "of it in its reversed receipt."),
    "reversed_by": ('"r-other"', UNDONE),
    "task": ('"a-other"', "of it in its task."),
    "result": ('"oA=="', "of it in its result."),
    "result_blob": (f'"{"A" * 43}="', "of it in its result."),
    "error": ('"no"', "of it in its error."),
    "cost": ('{"amount":0.01}', "of it in its cost."),
    "closed_at": ("5", "of it in its time of closing."),
    "abandoned": ("true", "it is marked as abandoned, and its error does not say so"),
    "round": ("2", "its key is not that of round 2"),
    "once": ("true", "of it in its mark that its key counts once."),
    "asked": ('"o-other"', "it names a task that asks for its outcome, and a run waits for it"),
}


def alter(database: sqlite3.Connection, run: str, field: str, value: str) -> None:
    """Change a field of a run's receipt, in its body and in its column."""
    beside = f", {field} = json_extract(?1, '$')" if field in FILED else ""
    sql = f"UPDATE receipts SET body = json_set(body, '$.{field}', json(?1)){beside} WHERE run = ?2"
    assert database.execute(sql, (value, run)).rowcount == 1


@pytest.mark.parametrize("run", one_stays(["kept", "large", "left", "recalled", "refused"]))
@pytest.mark.parametrize("field", ALTERED)
def test_any_field_of_a_closed_receipt_that_was_changed_is_named(books: Path, field: str, run: str) -> None:
    """By the receipt's id, and without the old or the new value."""
    value, problem = ALTERED[field]
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = ?", (run,)).fetchall()
        alter(database, run, field, value)
    claim = verified(books)
    assert claim.state == "broken"
    assert id in claim.text or "r-other" in claim.text
    if run == "kept":
        assert problem in claim.text
    assert not {"eve", "account", "pay:", "0.01", "books.other"} & set(claim.text.replace(":", " ").split())


UNRECORDED = {"tenant", "id", "key", "attempt", "request", "reverse", "reverses", "once"}
"""No entry has these of a pending receipt. Moving it to another tenant removes it from this one."""


@pytest.mark.parametrize("field", [field for field in ALTERED if field not in UNRECORDED])
def test_a_pending_receipt_agrees_with_its_decision_and_has_no_outcome(books: Path, field: str) -> None:
    """The decision is its only entry so far."""
    with by_hand(books) as database:
        alter(database, "slow", field, ALTERED[field][0])
    assert verified(books).state == "broken"


def test_every_field_is_among_them() -> None:
    """Except the token of an attempt, which is in no entry, and the state, which has tests of its own."""
    assert {*p.ReceiptRow.__struct_fields__} - {*ALTERED} == {"token", "state"}


COLUMNS = {
    "tenant": ("acme", "the audit says that it succeeded, and it is gone"),
    "key": ("pay:other", MISFILED),
    "id": ("r-other", MISFILED),
    "run": ("other", MISFILED),
    "state": ("failed", MISFILED),
    "token": ("other~1", MISFILED),
    "connector": ("desk", MISFILED),
    "opened_at": (5, MISFILED),
    "reversed_by": ("r-other", UNDONE),
    "body": ("{", MISFILED),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_any_column_that_was_changed_is_named(books: Path, column: str) -> None:
    """Even if the body is unchanged: the store finds a receipt by its columns."""
    value, problem = COLUMNS[column]
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = 'kept'").fetchall()
        assert database.execute(f"UPDATE receipts SET {column} = ? WHERE id = ?", (value, id)).rowcount == 1
    claim = verified(books)
    assert (claim.state, claim.text.startswith("receipt ")) == ("broken", True)
    assert problem in claim.text
    assert id in claim.text or "r-other" in claim.text


def test_a_receipt_in_another_tenant_is_named_there(books: Path) -> None:
    """There it would answer a call under its key. That tenant need not have an audit."""
    with by_hand(books) as database:
        database.execute("UPDATE receipts SET tenant = 'acme' WHERE run = 'kept'")
    assert MISFILED in verified(books, "acme").text


@pytest.mark.parametrize("run", RUNS)
def test_a_removed_receipt_is_named(books: Path, run: str) -> None:
    """Each recorded key must have a receipt. A pending receipt has no entry yet, so it is not missed."""
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = ?", (run,)).fetchall()
        database.execute("DELETE FROM receipts WHERE id = ?", (id,))
    claim = verified(books)
    if run == "slow":
        assert claim.state == "consistent"
        return
    assert (claim.state, id in claim.text) == ("broken", True)
    gone = "it succeeded, and it is gone" if RUNS[run] == "succeeded" else "neither it nor another one has its"
    assert gone in claim.text


@pytest.mark.parametrize("state", ["succeeded", "failed", "unknown", "pending"])
def test_an_added_receipt_is_named(books: Path, state: str) -> None:
    """In any state, as a copy of a good one."""
    with by_hand(books) as database:
        (run,) = [run for run, its_state in RUNS.items() if its_state == state][:1]
        database.execute(
            """
            INSERT INTO receipts
            SELECT tenant, 'pay:mine', 'r-mine', run, state, token, connector, opened_at + 1, reversed_by,
                   json_set(body, '$.key', 'pay:mine', '$.id', 'r-mine', '$.opened_at', opened_at + 1)
            FROM receipts WHERE run = ?
            """,
            (run,),
        )
    claim = verified(books)
    assert (claim.state, "receipt r-mine" in claim.text) == ("broken", True)
    lacks = "no decision in the audit allowed" if state == "pending" else "the audit has no entry of it"
    assert lacks in claim.text


STATES = ["pending", "succeeded", "failed", "unknown"]


@pytest.mark.parametrize("run", ["kept", "left", "refused", "given_up", "open", "slow"])
@pytest.mark.parametrize("state", STATES)
def test_a_receipt_with_another_state_is_named(books: Path, run: str, state: str) -> None:
    """With its column changed, and its outcome removed: an act would be done again if its success became pending."""
    cleared = "'$.result', '$.error', '$.cost', '$.closed_at', '$.abandoned'"
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = ?", (run,)).fetchall()
        body = f"json_set(json_remove(body, {cleared}), '$.state', :state)" if state != RUNS[run] else "body"
        database.execute(
            f"UPDATE receipts SET state = :state, body = {body} WHERE id = :id", {"state": state, "id": id}
        )
    claim = verified(books)
    assert claim.state == ("consistent" if state == RUNS[run] else "broken")
    assert state == RUNS[run] or id in claim.text


def test_a_removed_reversal_is_named(books: Path) -> None:
    """A reversed act must not look as if it could be reversed again."""
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = 'back'").fetchall()
        database.execute("UPDATE receipts SET reversed_by = NULL")
    claim = verified(books)
    assert claim.text == f"receipt {id}: the audit says that it was reversed, and it is not marked as reversed."


@pytest.mark.parametrize(
    ("sql", "problem"), [("UPDATE blobs SET {} = x'00'", "was altered"), ("DELETE FROM blobs", "missing")]
)
def test_a_large_result_that_was_changed_is_named(books: Path, sql: str, problem: str) -> None:
    """It is stored outside the receipt, which names it by its hash."""
    with by_hand(books) as database:
        (column,) = [
            name for _, name, type_, *_ in database.execute("PRAGMA table_info(blobs)") if name in ("data", "bytes")
        ]
        database.execute(sql.format(column))
    assert problem in verified(books).text


def test_two_receipts_that_were_exchanged_are_named(books: Path) -> None:
    """Both are in the audit, and neither is where it belongs."""
    with by_hand(books) as database:
        bodies = dict(database.execute("SELECT run, body FROM receipts WHERE run IN ('kept', 'back')").fetchall())
        database.execute("UPDATE receipts SET body = ? WHERE run = 'kept'", (bodies["back"],))
        database.execute("UPDATE receipts SET body = ? WHERE run = 'back'", (bodies["kept"],))
    assert verified(books).state == "broken"


def test_a_pending_receipt_that_cannot_be_read_is_named_by_its_neighbour(books: Path) -> None:
    """Its id is in no entry."""
    with by_hand(books) as database:
        database.execute("UPDATE receipts SET body = json_set(body, '$.attempt', 'x') WHERE run = 'slow'")
        before = "SELECT id FROM receipts WHERE run <> 'slow' ORDER BY opened_at DESC, id DESC LIMIT 1"
        ((id,),) = database.execute(before).fetchall()
    text = f"the receipt after {id}, by the time of opening: it was altered, and cannot be read."
    assert verified(books).text == text


def test_receipts_without_any_audit_are_broken(books: Path) -> None:
    """The audit was deleted with its blocks. That is not taken for an empty tenant with a mistyped name."""
    with by_hand(books) as database:
        database.execute("DELETE FROM audit")
        database.execute("DELETE FROM blocks")
    assert "the audit has no entry of it" in verified(books).text


def test_an_unreadable_entry_that_is_not_sealed_is_named(books: Path) -> None:
    """Nothing protects it so far, and it may be about a receipt."""
    with by_hand(books) as database:
        entry = ("default", None, "receipt", 1, b"{")
        database.execute("INSERT INTO audit (tenant, run, kind, at, body) VALUES (?, ?, ?, ?, ?)", entry)
    assert verified(books).text.startswith("entry that is not sealed yet cannot be read")


def test_no_receipt_is_judged_where_the_chain_is_broken(books: Path) -> None:
    """Comparing them with altered entries would prove nothing."""

    async def main() -> None:
        async with Holdfast(f"sqlite:///{books}", worker=False) as app:
            verdict = await app.audit.verify()
            (claim,) = [claim for claim in verdict.claims if claim.about == "receipts"]
            assert (verdict.good, claim.state) == (False, "not proved")

    with by_hand(books) as database:
        database.execute("UPDATE audit SET at = at + 1 WHERE position = 0")
        database.execute("DELETE FROM receipts")
    asyncio.run(main())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_size_of_pages_does_not_change_the_verdict(books: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Even pages of one, and one receipt at a time, give the same."""
    for name in ("PAGE", "BLOBS", "MANY"):
        monkeypatch.setattr(receipt_check, name, size)
    for module in (task_check, run_check):
        monkeypatch.setattr(module, "PAGE", size)
    monkeypatch.setattr(collector, "SPAN_PAGE", size)
    monkeypatch.setattr(sealed_entries, "PAGE", size)
    assert verified(books).state == "consistent"
    with by_hand(books) as database:
        database.execute("DELETE FROM receipts WHERE run = 'open'")
    assert "neither it nor another one" in verified(books).text


# -- while workers write -----------------------------------------------------------------------------------------------

NOW = 1_700_000_000_000_000
ROOT = bytes(32)


def _receipt(id: str = "r-1", key: str = "k-1", position: int = 0, at: int = NOW) -> p.ReceiptRow:
    return p.ReceiptRow(
        tenant="default",
        key=key,
        id=id,
        run="one",
        root=ROOT,
        position=position,
        attempt=1,
        token=f"w~{at}",
        state="pending",
        action="pay",
        connector="bank",
        operation="pay",
        target="",
        writes=True,
        risk="med",
        proposal=bytes(32),
        request=b"\xa0",
        opened_at=at,
    )


def _opening(receipt: p.ReceiptRow, instead_of: str | None = None) -> list[p.Change]:
    record = r.Decided(
        receipt.opened_at,
        receipt.run,
        f"{receipt.root.hex()}.{receipt.position}",
        "w",
        receipt.action,
        receipt.connector,
        receipt.operation,
        receipt.target,
        receipt.writes,
        receipt.risk,
        receipt.proposal.hex(),
        {},
        "allow",
        "policy",
        None,
        None,
        "",
    )
    note = p.Note(receipt.tenant, receipt.run, "decision", record.at, r.encode(record))
    return [p.OpenReceipt(receipt, instead_of), note]


def _closing(receipt: p.ReceiptRow, state: Any, **more: Any) -> list[p.Change]:
    closed = replace(receipt, state=state, closed_at=receipt.opened_at + 5, **more)
    record = r.Receipted(
        receipt.opened_at + 5,
        receipt.run,
        f"{receipt.root.hex()}.{receipt.position}",
        receipt.id,
        receipt.key,
        receipt.attempt,
        state,
        receipt.action,
        receipt.connector,
        receipt.operation,
        receipt.target,
        receipt.writes,
        receipt.proposal.hex(),
        r.of_bytes("arguments", receipt.request),
        error=closed.error,
        reverses=closed.reverses,
        started_at=receipt.opened_at,
    )
    return [p.CloseReceipt(closed, {}, (p.Note(receipt.tenant, receipt.run, "receipt", record.at, r.encode(record)),))]


class Busy:
    """A store that makes the next of these commits after each read."""

    def __init__(self, store: p.Store, *commits: list[p.Change]) -> None:
        self._store = store
        self.commits = list(commits)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any) -> Any:
            answer = await getattr(self._store, name)(*args)
            if self.commits:
                await self._store.commit(self.commits.pop(0))
            return answer

        return call


async def filled(*commits: list[p.Change]) -> MemoryStore:
    store = MemoryStore(lambda: NOW)
    await store.open()
    for commit in commits:
        await store.commit(commit)
    return store


FIRST = _receipt()
AGAIN = _receipt(at=NOW + 50)
KEPT = [_receipt(f"r-kept-{number}", f"k-{number}-kept", 10 + number, NOW + number) for number in range(3)]
BEHIND = _receipt("r-behind", position=1, at=NOW - 7)
"""By a worker whose clock is slow."""
AHEAD = _receipt("r-ahead", position=2, at=NOW + 1000)

STORIES = {
    "it is opened, closed, opened again, and another call takes its key over": [
        _opening(FIRST),
        _closing(FIRST, "failed", error="no"),
        _opening(AGAIN),
        _closing(AGAIN, "unknown", error="who knows"),
        _opening(BEHIND, AGAIN.token),
        _closing(BEHIND, "succeeded"),
    ],
    "its key goes to one that is listed last, and then to one that is listed first": [
        [*_opening(FIRST), *_closing(FIRST, "failed", error="no"), *_opening(AHEAD)],
        [*_closing(AHEAD, "failed", error="no"), *_opening(BEHIND)],
    ],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=["again", "key"])
@pytest.mark.parametrize("size", [1, 500])
def test_a_receipt_that_changes_between_two_reads_is_not_called_broken(
    story: list[list[p.Change]], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever in the story the check begins, and wherever in the check the story continues."""
    monkeypatch.setattr(receipt_check, "PAGE", size)

    async def main() -> None:
        for late in range(len(story)):
            for pause in range(20):
                store = await filled(*([*_opening(each), *_closing(each, "succeeded")] for each in KEPT), *story[:late])
                busy = Busy(store, *([[]] * pause), *story[late:])
                result = await check_receipts(busy, "default")  # type: ignore[arg-type]  # forwarded by name
                assert result.problem is None, (late, pause)

    asyncio.run(main())


class Counted:
    """A store that counts its calls."""

    def __init__(self, store: p.Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._store, name)


@pytest.mark.parametrize("count", [1, 500, 2000])
def test_receipts_are_looked_up_by_the_page(count: int) -> None:
    """Each receipt is of another run. One by one, each would take a round trip or more."""

    async def main() -> Counter[str]:
        changes: list[p.Change] = []
        for number in range(count):
            receipt = replace(_receipt(f"r-{number}", f"k-{number}", number, NOW + number), run=f"run-{number}")
            changes += [*_opening(receipt), *_closing(receipt, "succeeded")]
        counted = Counted(await filled(changes))
        assert await check_receipts(counted, "default") == receipt_check.Accounted(count, None)  # type: ignore[arg-type]
        return counted.calls

    calls = asyncio.run(main())
    pages = -(-count // receipt_check.PAGE) + 1
    assert max(calls.values()) <= pages + 1  # entries are read by kind: of receipts, and of undos
    assert sum(calls.values()) <= 4 * pages + 2


@pytest.mark.parametrize("blocks", [1, 300])
def test_the_entries_of_small_blocks_are_read_by_the_page(blocks: int) -> None:
    """A quiet tenant has a block for every entry."""

    async def main() -> Counter[str]:
        store = await filled()
        sealer = Sealer(store, VirtualClock(asyncio.get_running_loop()))
        for number in range(blocks):
            record = r.Operated(NOW + number, "pause", "ann")
            await store.commit([p.Note("default", None, "operator", record.at, r.encode(record))])
            await sealer.seal()
        counted = Counted(store)
        async with Holdfast(counted, worker=False) as app:  # type: ignore[arg-type]  # forwarded by name
            counted.calls.clear()
            assert (await app.audit.verify()).good
        return counted.calls

    calls = run_virtually(main())
    assert max(calls.values()) <= 9


# -- stores that no engine makes ---------------------------------------------------------------------------------------


def judged(*commits: list[p.Change], altered: p.ReceiptRow | None = None) -> str | None:
    """The problem of a store with these commits, in which one receipt was then overwritten."""

    async def main() -> str | None:
        store = await filled(*commits)
        with store._transaction() as tables:
            for key, receipt in list(tables.receipts.items()):
                if altered is not None and receipt.id == altered.id:
                    del tables.receipts[key]
                    tables.receipts[altered.tenant, altered.key] = altered
        return (await check_receipts(store, "default")).problem

    return asyncio.run(main())


def _back(at: int) -> p.ReceiptRow:
    return replace(_receipt("r-back", "k-back", 1, at), reverses="r-1")


def _done(receipt: p.ReceiptRow, state: Any, **more: Any) -> list[p.Change]:
    return [*_opening(receipt), *_closing(receipt, state, **more)]


def test_an_act_that_succeeded_after_its_reversal_is_not_marked_as_reversed() -> None:
    """It had failed when the author's code reversed it, and was tried again then."""
    assert (
        judged(_done(FIRST, "failed", error="no"), _done(_back(NOW + 100), "succeeded"), _done(AGAIN, "succeeded"))
        is None
    )


def test_only_a_reversal_that_began_after_the_success_must_be_marked_in_it() -> None:
    """A reversal follows a receipt. One that began before the success was meant for an earlier attempt."""
    done = replace(FIRST, state="succeeded", closed_at=NOW + 5)
    for at, is_named in ((NOW + 4, False), (NOW + 6, True)):
        problem = judged(_done(FIRST, "succeeded"), _done(_back(at), "succeeded"), altered=done)
        assert (problem is not None and "it is not marked as reversed" in problem) == is_named


def test_a_reversal_is_by_a_success_that_names_it() -> None:
    """Neither by one that failed, nor by one that reverses another receipt."""
    done = replace(FIRST, state="succeeded", closed_at=NOW + 5)
    others = [_done(_back(NOW + 10), "failed", error="no"), _done(KEPT[0], "succeeded")]
    for by, other in zip(("r-back", "r-kept-0"), others, strict=True):
        problem = judged(_done(FIRST, "succeeded"), other, altered=replace(done, reversed_by=by))
        assert problem == f"receipt r-1: {REVERSED}."


def test_a_known_outcome_does_not_become_unknown_again() -> None:
    """The audit has an entry of both, and the later one counts."""
    unknown = replace(FIRST, state="unknown", error="who knows", closed_at=NOW + 5)
    commits = (_done(FIRST, "unknown", error="who knows"), _closing(FIRST, "failed", error="no"))
    assert judged(*commits) is None
    assert (
        judged(*commits, altered=unknown) == "receipt r-1 differs from what the audit says of it in its state, error."
    )


def test_the_key_of_an_attempt_that_is_repeated_is_still_held() -> None:
    """The second attempt has no entry so far. By the entry of the first one, a receipt must have the key."""
    commits = (_done(FIRST, "failed", error="no"), _opening(AGAIN))
    assert judged(*commits) is None
    problem = judged(*commits, altered=replace(AGAIN, key="k-other"))
    assert (
        problem == "receipt r-1: the audit has an entry of it, and neither it nor another one has its idempotency key."
    )


def test_a_reused_result_alone_is_no_success() -> None:
    """An act must have given it."""
    (closing,) = _closing(FIRST, "succeeded")
    assert isinstance(closing, p.CloseReceipt)
    (note,) = closing.attached
    record = r.decode(note.body)
    assert isinstance(record, r.Receipted)
    used = replace(note, body=r.encode(replace(record, state="reused")))
    problem = judged([*_opening(FIRST), replace(closing, attached=(used,))])
    assert problem == "receipt r-1: it is succeeded, and the audit has no entry of it."


@pytest.mark.parametrize("effect", ["deny", "needs_approval"])
def test_a_receipt_that_no_decision_allowed_is_named(effect: Any) -> None:
    """Another decision does not allow the act."""
    opening, note = _opening(FIRST)
    assert isinstance(note, p.Note)
    record = r.decode(note.body)
    assert isinstance(record, r.Decided)
    problem = judged([opening, replace(note, body=r.encode(replace(record, effect=effect)))])
    assert problem == "receipt r-1: no decision in the audit allowed its act when it was opened."
