"""The receipts held against the audit: what was changed, put in or taken away by hand is named, and nothing else."""

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
from holdfast.audit import collector as gathering
from holdfast.audit import records as r
from holdfast.audit.check import receipts as accounting
from holdfast.audit.check import runs as run_accounting
from holdfast.audit.check import sealed_entries
from holdfast.audit.check import tasks as task_accounting
from holdfast.audit.check.claims import Claim
from holdfast.audit.check.receipts import check_receipts
from holdfast.audit.sealer import Sealer
from holdfast.journal.blobs import THRESHOLD_BYTES
from holdfast.store import protocol as p
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.virtual import VirtualClock, run_virtually
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
    found = LOOKS.pop(0)
    if isinstance(found, Exception):
        raise found
    return found


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
    """Wire, approved; gives what is asked then."""
    await app.start(wiring, account, id=run, actor="ann")
    task = await asked(app, run)
    await app.tasks.approve(task.id, by="bob")
    return task if account == "sure" else await asked(app, run, other_than=task.id)


async def _live(app: Holdfast, path: Path) -> None:
    """All that can become of an act; the last is under way when the file is copied."""
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
    """A database in which all that can become of an act has become of one; never changed by a test."""
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
    """A copy of it, for this test alone."""
    copy = tmp_path / "books.db"
    copy.write_bytes(kept.read_bytes())
    return copy


@contextmanager
def by_hand(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as database, database:
        yield database


def verified(path: Path, tenant: str = "default") -> Claim:
    """What ``verify`` says of the receipts."""

    async def main() -> Claim:
        async with Holdfast(f"sqlite:///{path}", worker=False) as app:
            verdict = await app.audit.verify(tenant=tenant)
            assert verdict.claims[0].state == "consistent"
            (claim,) = [claim for claim in verdict.claims if claim.about == "receipts"]
            assert verdict.good == (claim.state != "broken")
            return claim

    return asyncio.run(main())


RUNS = {  # and what became of the receipt that is the run's
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


def test_whatever_becomes_of_an_act_its_receipt_is_what_the_audit_says(books: Path) -> None:
    """Nothing is called broken that only came about in an unusual way."""
    with by_hand(books) as database:
        found = dict(database.execute("SELECT run, state FROM receipts WHERE run NOT LIKE 'reverse:%'"))
        assert found == RUNS
        told = {state for (state,) in database.execute("SELECT body ->> 'state' FROM audit WHERE kind = 'receipt'")}
        assert told == {"succeeded", "failed", "unknown", "reused"}
        under = {run for (run,) in database.execute("SELECT run FROM audit WHERE body ->> 'key' = 'order:o-1'")}
        assert under == {"left", "finder"}
    claim = verified(books)
    text = f"all receipts ({len(RUNS) + 1}) are what the audit says, and none that it tells of is missing."
    assert claim == Claim("consistent", "receipts", text)


MISFILED = "it was altered, and is not kept under what it says of itself"
FILED = ("tenant", "key", "id", "run", "connector", "opened_at")
"""What a store looks for: it is kept beside the body, too."""

ALTERED = {  # and what is said of it
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
    "writes": ("false", "of it in its word on whether it writes."),
    "risk": ('"high"', "of it in its risk."),
    "proposal": (f'"{"A" * 43}="', "of it in its proposal."),
    "request": ('"oA=="', "of it in its arguments."),
    "opened_at": ("5", "of it in its time of opening."),
    "actor": ('"eve"', "of it in its actor."),
    "reverse": ('"books.other"', "of it in its reversing action."),
    "reverses": ('"r-other"', "of it in its word on what it takes back."),
    "reversed_by": ('"r-other"', "it is said to be taken back by another receipt, which did not do that"),
    "task": ('"a-other"', "of it in its task."),
    "result": ('"oA=="', "of it in its result."),
    "result_blob": (f'"{"A" * 43}="', "of it in its result."),
    "error": ('"no"', "of it in its error."),
    "cost": ('{"amount":0.01}', "of it in its cost."),
    "closed_at": ("5", "of it in its time of closing."),
    "abandoned": ("true", "it is marked as abandoned, and what is known of it does not say so"),
}


def alter(database: sqlite3.Connection, run: str, field: str, value: str) -> None:
    """Change a field of a run's receipt, wherever it stands."""
    beside = f", {field} = json_extract(?1, '$')" if field in FILED else ""
    sql = f"UPDATE receipts SET body = json_set(body, '$.{field}', json(?1)){beside} WHERE run = ?2"
    assert database.execute(sql, (value, run)).rowcount == 1


@pytest.mark.parametrize("run", ["kept", "large", "left", "recalled", "refused"])
@pytest.mark.parametrize("field", ALTERED)
def test_any_field_of_a_closed_receipt_that_was_changed_is_named(books: Path, field: str, run: str) -> None:
    """By the receipt's id, and without what stood or stands there."""
    value, said = ALTERED[field]
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = ?", (run,)).fetchall()
        alter(database, run, field, value)
    claim = verified(books)
    assert claim.state == "broken"
    assert id in claim.text or "r-other" in claim.text
    if run == "kept":
        assert said in claim.text
    assert not {"eve", "account", "pay:", "0.01", "books.other"} & set(claim.text.replace(":", " ").split())


UNTOLD = {"tenant", "id", "key", "attempt", "request", "reverse", "reverses"}
"""Of a pending receipt no entry tells these; and to move it to another tenant is to take it away."""


@pytest.mark.parametrize("field", [field for field in ALTERED if field not in UNTOLD])
def test_a_pending_receipt_is_what_was_allowed_and_has_no_outcome(books: Path, field: str) -> None:
    """A decision tells of it before anything else does."""
    with by_hand(books) as database:
        alter(database, "slow", field, ALTERED[field][0])
    assert verified(books).state == "broken"


def test_every_field_is_among_them() -> None:
    """But the token of an attempt, which no entry tells, and the state, of which there is more to say."""
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
    "reversed_by": ("r-other", "it is said to be taken back by another receipt, which did not do that"),
    "body": ("{", MISFILED),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_any_column_that_was_changed_is_named(books: Path, column: str) -> None:
    """Also where the body stands as it was: it is by the columns that the store finds a receipt."""
    value, said = COLUMNS[column]
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = 'kept'").fetchall()
        assert database.execute(f"UPDATE receipts SET {column} = ? WHERE id = ?", (value, id)).rowcount == 1
    claim = verified(books)
    assert (claim.state, claim.text.startswith("receipt ")) == ("broken", True)
    assert said in claim.text
    assert id in claim.text or "r-other" in claim.text


def test_a_receipt_in_another_tenant_is_named_there(books: Path) -> None:
    """Moved there, it would be given to whoever asks for its key; also where that tenant has no audit at all."""
    with by_hand(books) as database:
        database.execute("UPDATE receipts SET tenant = 'acme' WHERE run = 'kept'")
    assert MISFILED in verified(books, "acme").text


@pytest.mark.parametrize("run", RUNS)
def test_a_receipt_that_was_taken_away_is_named(books: Path, run: str) -> None:
    """All but one that is pending, of which no entry tells yet: a key that the audit tells of is somebody's."""
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
def test_a_receipt_that_was_put_in_is_named(books: Path, state: str) -> None:
    """In any state, as a copy of one that is in order."""
    with by_hand(books) as database:
        (run,) = [run for run, is_so in RUNS.items() if is_so == state][:1]
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
    lacks = "no decision in the audit allowed" if state == "pending" else "nothing in the audit tells of it"
    assert lacks in claim.text


STATES = ["pending", "succeeded", "failed", "unknown"]


@pytest.mark.parametrize("run", ["kept", "left", "refused", "given_up", "open", "slow"])
@pytest.mark.parametrize("state", STATES)
def test_a_receipt_that_was_given_another_state_is_named(books: Path, run: str, state: str) -> None:
    """With its column, and without the outcome that it had: a success that is made pending would be done again."""
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


def test_a_reversal_that_was_struck_out_is_named(books: Path) -> None:
    """The audit says that it was taken back: it must not look as if it could be taken back once more."""
    with by_hand(books) as database:
        ((id,),) = database.execute("SELECT id FROM receipts WHERE run = 'back'").fetchall()
        database.execute("UPDATE receipts SET reversed_by = NULL")
    claim = verified(books)
    assert claim.text == f"receipt {id}: the audit says that it was taken back, and it does not show that."


@pytest.mark.parametrize(
    ("sql", "said"), [("UPDATE blobs SET {} = x'00'", "not what it was"), ("DELETE FROM blobs", "missing")]
)
def test_a_large_result_that_was_changed_is_named(books: Path, sql: str, said: str) -> None:
    """It is kept outside the receipt, which names it by its hash."""
    with by_hand(books) as database:
        (column,) = [
            name for _, name, type_, *_ in database.execute("PRAGMA table_info(blobs)") if name in ("data", "bytes")
        ]
        database.execute(sql.format(column))
    assert said in verified(books).text


def test_two_receipts_that_were_exchanged_are_named(books: Path) -> None:
    """Each is one that the audit tells of, and none is where it belongs."""
    with by_hand(books) as database:
        bodies = dict(database.execute("SELECT run, body FROM receipts WHERE run IN ('kept', 'back')").fetchall())
        database.execute("UPDATE receipts SET body = ? WHERE run = 'kept'", (bodies["back"],))
        database.execute("UPDATE receipts SET body = ? WHERE run = 'back'", (bodies["kept"],))
    assert verified(books).state == "broken"


def test_a_pending_receipt_that_cannot_be_read_is_named_by_its_neighbour(books: Path) -> None:
    """No entry tells its id."""
    with by_hand(books) as database:
        database.execute("UPDATE receipts SET body = json_set(body, '$.attempt', 'x') WHERE run = 'slow'")
        before = "SELECT id FROM receipts WHERE run <> 'slow' ORDER BY opened_at DESC, id DESC LIMIT 1"
        ((id,),) = database.execute(before).fetchall()
    text = f"the receipt behind {id}, by the time of opening: it was altered, and cannot be read."
    assert verified(books).text == text


def test_receipts_without_any_audit_are_broken_and_no_mistyped_name(books: Path) -> None:
    """All of it was deleted, the blocks too: the receipts are left as witnesses."""
    with by_hand(books) as database:
        database.execute("DELETE FROM audit")
        database.execute("DELETE FROM blocks")
    assert "nothing in the audit tells of it" in verified(books).text


def test_an_entry_that_is_not_sealed_and_cannot_be_read_is_told(books: Path) -> None:
    """Nothing protects it so far, and it may be about a receipt."""
    with by_hand(books) as database:
        entry = ("default", None, "receipt", 1, b"{")
        database.execute("INSERT INTO audit (tenant, run, kind, at, body) VALUES (?, ?, ?, ?, ?)", entry)
    assert verified(books).text.startswith("entry that is not sealed yet cannot be read")


def test_nothing_is_said_of_receipts_where_the_chain_is_broken(books: Path) -> None:
    """What they would be held against is worth nothing."""

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
def test_little_is_read_at_a_time(books: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """However small the pages are, and however few receipts are looked for at once, it comes to the same."""
    for name in ("PAGE", "BLOBS", "MANY"):
        monkeypatch.setattr(accounting, name, size)
    for module in (task_accounting, run_accounting):
        monkeypatch.setattr(module, "PAGE", size)
    monkeypatch.setattr(gathering, "SPAN_PAGE", size)
    monkeypatch.setattr(sealed_entries, "PAGE", size)
    assert verified(books).state == "consistent"
    with by_hand(books) as database:
        database.execute("DELETE FROM receipts WHERE run = 'open'")
    assert "neither it nor another one" in verified(books).text


# -- while workers are at it -------------------------------------------------------------------------------------------

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
    told = r.Decided(
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
    note = p.Note(receipt.tenant, receipt.run, "decision", told.at, r.encode(told))
    return [p.OpenReceipt(receipt, instead_of), note]


def _closing(receipt: p.ReceiptRow, state: Any, **more: Any) -> list[p.Change]:
    closed = replace(receipt, state=state, closed_at=receipt.opened_at + 5, **more)
    told = r.Receipted(
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
    return [p.CloseReceipt(closed, {}, (p.Note(receipt.tenant, receipt.run, "receipt", told.at, r.encode(told)),))]


class Busy:
    """A store in which the next thing happens between any two reads."""

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
"""Of a worker whose clock is behind."""
AHEAD = _receipt("r-ahead", position=2, at=NOW + 1000)

STORIES = {
    "it is opened, closed, opened anew, and taken over by another call": [
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


@pytest.mark.parametrize("story", STORIES.values(), ids=["anew", "key"])
@pytest.mark.parametrize("size", [1, 500])
def test_what_moves_between_two_reads_is_not_called_broken(
    story: list[list[p.Change]], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the story is when the check begins, and wherever the check is when it goes on."""
    monkeypatch.setattr(accounting, "PAGE", size)

    async def main() -> None:
        for late in range(len(story)):
            for pause in range(20):
                store = await filled(*([*_opening(each), *_closing(each, "succeeded")] for each in KEPT), *story[:late])
                busy = Busy(store, *([[]] * pause), *story[late:])
                held = await check_receipts(busy, "default")  # type: ignore[arg-type]  # forwarded by name
                assert held.problem is None, (late, pause)

    asyncio.run(main())


class Counted:
    """A store that counts how often it is asked."""

    def __init__(self, store: p.Store) -> None:
        self._store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.asked[name] += 1
        return getattr(self._store, name)


@pytest.mark.parametrize("count", [1, 500, 2000])
def test_receipts_are_looked_up_by_the_page(count: int) -> None:
    """Each of a run of its own. Looked up one by one, ten thousand took a round trip for each, and more."""

    async def main() -> Counter[str]:
        changes: list[p.Change] = []
        for number in range(count):
            receipt = replace(_receipt(f"r-{number}", f"k-{number}", number, NOW + number), run=f"run-{number}")
            changes += [*_opening(receipt), *_closing(receipt, "succeeded")]
        counted = Counted(await filled(changes))
        assert await check_receipts(counted, "default") == accounting.Accounted(count, None)  # type: ignore[arg-type]
        return counted.asked

    asked = asyncio.run(main())
    pages = -(-count // accounting.PAGE) + 1
    assert max(asked.values()) <= pages
    assert sum(asked.values()) <= 4 * pages + 1


@pytest.mark.parametrize("blocks", [1, 300])
def test_the_entries_of_small_blocks_are_read_by_the_page(blocks: int) -> None:
    """A quiet tenant has a block for every entry."""

    async def main() -> Counter[str]:
        store = await filled()
        sealer = Sealer(store, VirtualClock(asyncio.get_running_loop()))
        for number in range(blocks):
            told = r.Operated(NOW + number, "pause", "ann")
            await store.commit([p.Note("default", None, "operator", told.at, r.encode(told))])
            await sealer.seal()
        counted = Counted(store)
        async with Holdfast(counted, worker=False) as app:  # type: ignore[arg-type]  # forwarded by name
            counted.asked.clear()
            assert (await app.audit.verify()).good
        return counted.asked

    asked = run_virtually(main())
    assert max(asked.values()) <= 6


# -- what no engine makes ----------------------------------------------------------------------------------------------


def judged(*commits: list[p.Change], altered: p.ReceiptRow | None = None) -> str | None:
    """The problem of a store in which this was done, and then one receipt written over."""

    async def main() -> str | None:
        store = await filled(*commits)
        with store._transaction() as tables:
            for place, receipt in list(tables.receipts.items()):
                if altered is not None and receipt.id == altered.id:
                    del tables.receipts[place]
                    tables.receipts[altered.tenant, altered.key] = altered
        return (await check_receipts(store, "default")).problem

    return asyncio.run(main())


def _back(at: int) -> p.ReceiptRow:
    return replace(_receipt("r-back", "k-back", 1, at), reverses="r-1")


def _done(receipt: p.ReceiptRow, state: Any, **more: Any) -> list[p.Change]:
    return [*_opening(receipt), *_closing(receipt, state, **more)]


def test_an_act_that_succeeded_after_it_was_taken_back_shows_no_reversal() -> None:
    """It had failed when it was taken back, as an author's own code may do, and was tried again."""
    assert (
        judged(_done(FIRST, "failed", error="no"), _done(_back(NOW + 100), "succeeded"), _done(AGAIN, "succeeded"))
        is None
    )


def test_only_what_was_begun_after_the_success_must_show_in_it() -> None:
    """Whoever takes an act back has seen its receipt; else nobody knows what was meant."""
    done = replace(FIRST, state="succeeded", closed_at=NOW + 5)
    for at, said in ((NOW + 4, False), (NOW + 6, True)):
        found = judged(_done(FIRST, "succeeded"), _done(_back(at), "succeeded"), altered=done)
        assert (found is not None and "it was taken back, and it does not show that" in found) == said


def test_a_reversal_is_by_a_success_that_names_it() -> None:
    """Neither by one that failed, nor by one that takes back something else."""
    done = replace(FIRST, state="succeeded", closed_at=NOW + 5)
    others = [_done(_back(NOW + 10), "failed", error="no"), _done(KEPT[0], "succeeded")]
    for by, other in zip(("r-back", "r-kept-0"), others, strict=True):
        found = judged(_done(FIRST, "succeeded"), other, altered=replace(done, reversed_by=by))
        assert found == "receipt r-1: it is said to be taken back by another receipt, which did not do that."


def test_what_became_known_does_not_become_unknown_again() -> None:
    """The audit has told both, and the later word holds."""
    unknown = replace(FIRST, state="unknown", error="who knows", closed_at=NOW + 5)
    commits = (_done(FIRST, "unknown", error="who knows"), _closing(FIRST, "failed", error="no"))
    assert judged(*commits) is None
    assert (
        judged(*commits, altered=unknown) == "receipt r-1 differs from what the audit says of it in its state, error."
    )


def test_the_key_of_an_attempt_that_is_repeated_is_still_held() -> None:
    """Of the second attempt no entry tells so far; that its key is somebody's the first one tells."""
    commits = (_done(FIRST, "failed", error="no"), _opening(AGAIN))
    assert judged(*commits) is None
    found = judged(*commits, altered=replace(AGAIN, key="k-other"))
    assert found == "receipt r-1: the audit tells of it, and neither it nor another one has its idempotency key."


def test_a_result_that_was_only_used_again_is_no_success() -> None:
    """Somebody's act must have given it."""
    (closing,) = _closing(FIRST, "succeeded")
    assert isinstance(closing, p.CloseReceipt)
    (note,) = closing.also
    told = r.decode(note.body)
    assert isinstance(told, r.Receipted)
    used = replace(note, body=r.encode(replace(told, state="reused")))
    found = judged([*_opening(FIRST), replace(closing, also=(used,))])
    assert found == "receipt r-1: it is succeeded, and nothing in the audit tells of it."


@pytest.mark.parametrize("effect", ["deny", "needs_approval"])
def test_what_was_not_allowed_is_not_opened(effect: Any) -> None:
    """A decision that says no opens nothing."""
    opening, note = _opening(FIRST)
    assert isinstance(note, p.Note)
    told = r.decode(note.body)
    assert isinstance(told, r.Decided)
    found = judged([opening, replace(note, body=r.encode(replace(told, effect=effect)))])
    assert found == "receipt r-1: no decision in the audit allowed its act when it was opened."
