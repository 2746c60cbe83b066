"""``verify``: checks that a stored run keeps the laws."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.errors import HoldfastError, LawBroken
from holdfast.journal import events as e
from holdfast.journal.ledger import Ledger
from holdfast.journal.promise import PromiseId
from holdfast.journal.status import Cancelled, Completed, Failed, Status
from holdfast.kernel.carried_signals import CarriedSignals
from holdfast.kernel.waits import Wait
from holdfast.runs.birth import idempotency_key, lineage_of
from holdfast.runs.carried import read_all
from holdfast.runs.journals import check_chain
from holdfast.store.protocol import ENDED, Key, Run, Standing, Store

TRIES: Final = 10


class RunCheck(msgspec.Struct, frozen=True):
    """The result of verifying a run. ``problem`` is empty where all is well.

    ``notes`` are laws that newer runs keep, and that this one's older rules let it break.
    """

    key: Key
    events: int
    problem: str = ""
    law: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.problem


async def verify_run(store: Store, run: Run) -> RunCheck:
    """Check the hash chain, every law on every event, the stored version, head and status against the journal, and the
    stored place in the inbox against that.

    Its row is read before its journal. So a run that advances between the two is checked again.
    """
    for _ in range(TRIES):
        verdict = await _verify(store, run)
        if verdict.good:
            return verdict
        rows = await store.get([run.key])
        if not rows or (rows[0].generation, rows[0].version) == (run.generation, run.version):
            return verdict
        run = rows[0]
    return verdict


async def _verify(store: Store, run: Run) -> RunCheck:
    nodes: dict[bytes, bytes] = {}
    ledger = Ledger(PromiseId(run.root), read_carried=lambda signals: CarriedSignals(signals, nodes))
    if problem := _row_problem(run):
        return RunCheck(run.key, 0, problem)
    try:
        async for entry in check_chain(store, run):
            if isinstance(entry.event, e.ExecutionStarted) and (signals := entry.event.signals) is not None:
                nodes |= await read_all(store, run.key.tenant, signals)
                CarriedSignals(signals, nodes).check()
            ledger.append(entry.event, entry.timestamp, entry.sequence)
            if isinstance(entry.event, e.ExecutionStarted):
                check_root(run, entry.event)
    except LawBroken as broken:
        return RunCheck(run.key, ledger.version, str(broken), broken.law)
    except HoldfastError as error:
        return RunCheck(run.key, ledger.version, str(error))
    if ledger.version != run.version:
        return RunCheck(run.key, ledger.version, f"the row says {run.version} events, the journal has {ledger.version}")
    if not agrees(run.standing, ledger.status):
        detail = f"law INV-4: the row says {run.standing}, the journal {type(ledger.status).__name__}"
        return RunCheck(run.key, ledger.version, detail, "INV-4")
    notes = tuple(map(str, ledger.join_sets.notes))
    return RunCheck(run.key, ledger.version, await _inbox_problem(store, run), notes=notes)


async def _inbox_problem(store: Store, run: Run) -> str:
    """Why the row does not fit the inbox; empty where it does. What has come since the row was read comes last.

    The messages of a live run are those after ``consumed``, each once; one that has ended has none. A ``consumed``
    that is too high would lose messages, and one that is too low has the run wait for some that are not there.
    """
    positions = [each.position for each in (await store.messages([run.key])).get(run.key, [])]
    last = max([run.arrived, *positions])
    expected = [] if run.standing in ENDED else list(range(run.consumed + 1, last + 1))
    if run.consumed <= run.arrived and positions == expected:
        return ""
    shown = f"{len(positions)} messages" + (f" from {positions[0]} to {positions[-1]}" if positions else "")
    return (
        f"the row says that of {run.arrived} messages {run.consumed} are in the journal, and its inbox has {shown}: "
        "restore it from a backup"
    )


def _row_problem(run: Run) -> str:
    """Why the row cannot be read; empty where it can."""
    try:
        msgspec.convert(msgspec.structs.asdict(run), Run, builtin_types=(bytes,))
        if run.waiting is not None:
            msgspec.json.decode(run.waiting, type=list[Wait])
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        return f"the row cannot be read ({error}): restore it from a backup"
    return ""


def check_root(run: Run, started: e.ExecutionStarted) -> None:
    """Check that the root follows from the run's id. Raises LawBroken.

    Ids of runs are unique in the store, so this makes promise ids unique.
    """
    derived = PromiseId.of_run(started.component_digest, started.parent_id, started.idempotency_key)
    expected = idempotency_key(run.key, lineage_of(started.idempotency_key))
    if derived.root != run.root or started.idempotency_key != expected:
        raise LawBroken("INV-6", f"the promise ids of run {run.key.run} do not follow from its id")


_ENDS: dict[type, Standing] = {Completed: "completed", Failed: "failed", Cancelled: "cancelled"}


def agrees(standing: Standing, status: Status) -> bool:
    """Whether a row's standing is the one that its journal gives."""
    expected = _ENDS.get(type(status))
    return standing == expected if expected is not None else standing not in ENDED
