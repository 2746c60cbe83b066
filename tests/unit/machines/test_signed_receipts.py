"""What came of an effect is signed by whoever carried it out, and checked before its cell hears of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import Holdfast, Policy, step
from holdfast.audit import keys
from holdfast.cells.cell import decode_cell
from holdfast.errors import DuplicateName, InvalidFunction, InvalidManifest, KeyLocked, Nondeterminism
from holdfast.journal import events as e
from holdfast.journal.attribution import giver_of
from holdfast.journal.payload import Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.journal.receipt_signatures import ReceiptSignature, message_of, signature_of, with_signature
from holdfast.programs.machine.declarations import declare
from holdfast.programs.machine.lanes.checked_lane import check_lane
from holdfast.programs.machine.machine import Machine
from holdfast.programs.machine.manifest import (
    EffectEntry,
    ExecutorEntry,
    MachineManifest,
    decode_manifest,
    encode_manifest,
    manifest_digest,
)
from holdfast.programs.machine.manifest_changes import changes
from holdfast.programs.machine.manifest_reader import read_document
from holdfast.programs.machine.switchboard import Switchboard
from holdfast.runs import messages
from holdfast.runs.journals import check_chain
from holdfast.runs.kinds.cells import CELLS
from holdfast.runs.lanes import is_lane
from holdfast.store import protocol as p
from holdfast.store.governance import SigningKey
from holdfast.testing import MachineEngine, machine_engine, run_virtually
from holdfast.testing.engine import PATIENT
from tests.unit.machines.bankers import (
    EFFECTS,
    FOREIGN,
    OWN,
    PUBLIC,
    SPARE,
    Due,
    Log,
    account,
    done,
    here,
    key_file,
    strict,
)
from tests.unit.machines.workers import PLAIN, look_soon, worker_with
from tests.unit.programs.machine.samples import order
from tests.unit.worker.ground import FREE, Ground, asking, policy_of

WAYS = ["here", "queued", "acted"]
_SECOND = timedelta(seconds=1)
_DENYING = policy_of({"effect": "deny"})
Scene = Callable[[MachineEngine], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    done.clear()


def play(
    scene: Scene,
    file: str | None,
    of: Machine[Any] = account,
    policy: Policy = FREE,
) -> None:
    async def main() -> None:
        options = replace(PATIENT, executor_keys=None if file is None else {"bank": file})
        async with machine_engine([of], policy=policy, options=options) as engine:
            await scene(engine)

    run_virtually(main())


async def lines(engine: MachineEngine | Holdfast, name: str = "a", of: Machine[Any] = account) -> list[Any]:
    app = engine.app if isinstance(engine, MachineEngine) else engine
    found = await app.cell(of, name).state()
    return found.lines if isinstance(found, Log) else []


async def outcomes(app: Holdfast) -> list[Outcome]:
    runs = [run for run in await app.store.find(p.Query("default"), 100) if is_lane(run.key.run)]
    entries = [entry.event for run in runs async for entry in check_chain(app.store, run)]
    notes = {each.promise_id for each in entries if isinstance(each, e.InvokeScheduled) and each.kind == CELLS}
    ended = [each for each in entries if isinstance(each, e.InvokeCompleted)]
    return [each.result for each in ended if each.promise_id not in notes]


# -- signed ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [OWN, SPARE], ids=["the key", "another of its keys"])
@pytest.mark.parametrize("way", WAYS)
def test_a_signed_receipt_says_who_carried_it_out(way: str, key: SigningKey, tmp_path: Path) -> None:
    """Any of the executor's keys will do, so they can be changed one after the other. The journal has the signature."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, way))
        await engine.rest()
        assert await lines(engine) == [["a paid 5", "bank"]]
        (outcome,) = await outcomes(engine.app)
        signature = signature_of(outcome)
        assert signature is not None
        assert (signature.executor, signature.public) == ("bank", key.public)
        items = (await engine.app.cell(account, "a").trace()).items
        assert [each.value for each in items if each.kind == "receipt"] == ["a paid 5"]
        assert all([each.good async for each in engine.app.machines.verify()])

    play(scene, key_file(tmp_path, key))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("cents", "what"), [(-1, "TerminalError: a has no money"), (0, "RetryableError: the bank is")])
def test_an_error_is_signed_like_a_value(way: str, cents: int, what: str, tmp_path: Path) -> None:
    """Also one after which another attempt could have been made. The handler gets it without the signature."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", cents, way))
        await engine.rest()
        ((failure, details, executor),) = await lines(engine)
        assert what in failure
        assert "signed" not in details
        assert executor == "bank"
        assert all([each.good async for each in engine.app.machines.verify()])

    play(scene, key_file(tmp_path))


def test_an_approved_act_has_both_names(tmp_path: Path) -> None:
    """That of the executor who did it, and that of the person who let it be done."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "acted"))
        await engine.pass_time(_SECOND)
        (task,) = [task async for task in engine.app.tasks.list()]
        await engine.app.tasks.approve(task.id, by="ann")
        await engine.rest()
        assert await lines(engine) == [["a paid 5", "bank"]]
        (outcome,) = await outcomes(engine.app)
        assert isinstance(outcome, Ok)
        assert giver_of(outcome.value) == "ann"

    play(scene, key_file(tmp_path), policy=asking())


def test_a_result_that_is_used_again_is_signed_for_its_own_call(tmp_path: Path) -> None:
    """The act was done once; the second call has its key, and a receipt over its own intent."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "acted"))
        await engine.rest()
        await engine.send(Due("b", 5, "acted"))
        await engine.rest()
        assert done == ["a"]
        assert await lines(engine, "b") == [["a paid 5", "bank"]]
        first, second = (signature_of(each) for each in await outcomes(engine.app))
        assert first is not None
        assert second is not None
        assert first.signature != second.signature

    play(scene, key_file(tmp_path))


# -- not signed by an attempt ------------------------------------------------------------------------------------------


def test_what_a_probe_finds_is_signed(tmp_path: Path) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "probed"))
        await engine.rest()
        assert await lines(engine) == [["a was seen to pay 5", "bank"]]

    play(scene, key_file(tmp_path))


def test_what_a_person_reports_is_theirs_and_no_executors(tmp_path: Path) -> None:
    """It needs no signature, since the audit has who said it; and ``Settled`` names no executor."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "doubted"))
        await engine.pass_time(_SECOND)
        (task,) = [task async for task in engine.app.tasks.list()]
        await engine.app.tasks.happened(task.id, by="bob", result="bob saw it")
        await engine.rest()
        assert await lines(engine) == [["bob saw it", None]]
        (outcome,) = await outcomes(engine.app)
        assert isinstance(outcome, Ok)
        assert giver_of(outcome.value) == "bob"

    play(scene, key_file(tmp_path))


def test_a_denial_is_the_engines_own_word(tmp_path: Path) -> None:
    """Nobody carried anything out: the cell gets the error, and not a rejection."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "acted"))
        await engine.rest()
        ((failure, _, executor),) = await lines(engine)
        assert failure.startswith("ActionDenied")
        assert executor is None

    play(scene, key_file(tmp_path), policy=_DENYING)


# -- rejected ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_receipt_with_a_foreign_key_is_rejected(way: str, ground: Ground, tmp_path: Path) -> None:
    options = replace(PLAIN, executor_keys={"bank": key_file(tmp_path, FOREIGN)})

    async def main(ground: Ground) -> None:
        async with worker_with(ground, [account], options=options) as app:
            await app.emit(Due("a", 5, way))
            while not (found := await lines(app)):
                await app.changed(0.5)
            ((word, effect, reason),) = found
            assert (word, effect) == ("rejected", EFFECTS[way].name)
            assert reason == f"it is signed with key {FOREIGN.id}, which is none of executor 'bank'"
            assert all([each.good async for each in app.machines.verify()])

    ground.play(main)


@pytest.mark.parametrize("way", WAYS)
def test_without_rejected_among_its_events_the_cell_fails(way: str, tmp_path: Path) -> None:
    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, way))
        await engine.rest()
        record = await engine.record(strict, "a")
        assert record is not None
        assert (record.status, record.intents) == ("failed", ())
        assert "none of executor 'bank'" in record.reason

    play(scene, key_file(tmp_path, FOREIGN), strict)


def _signed(outcome: Outcome, promise: PromiseId, key: SigningKey, cell: str = "a", by: str = "bank") -> Outcome:
    assert account.key_schema is not None
    at = account.key_schema.encode(cell)
    message = message_of(account.name, at, str(promise), "sign.queued", by, outcome)
    return with_signature(outcome, ReceiptSignature(by, key.public, keys.unlock(key, None).sign(message)))


GOOD = Ok(Payload(b"\x64fake"))
FORGED: dict[str, tuple[Callable[[PromiseId], Outcome], str]] = {
    "unsigned": (lambda _: GOOD, "it is not signed"),
    "unsigned error": (lambda _: Err(Failure("builtins:ValueError", "no")), "it is not signed"),
    "a denial": (lambda _: Err(Failure("holdfast.errors:ActionDenied", "no")), "it is not signed"),
    "in a person's name": (lambda _: Ok(Payload(GOOD.value.data, "cbor;by=ann")), "it is not signed"),
    "garbage": (lambda _: Ok(Payload(GOOD.value.data, "cbor;signed=bank zz 11")), "it is not signed"),
    "another executor": (lambda at: _signed(GOOD, at, OWN, by="post"), "it is signed by 'post'"),
    "a foreign key": (lambda at: _signed(GOOD, at, FOREIGN), "it is signed with key"),
    "another cell": (lambda at: _signed(GOOD, at, OWN, "b"), "is not over this outcome of this call"),
    "another call": (lambda at: _signed(GOOD, PromiseId(at.root).child(9999), OWN), "is not over this outcome"),
    "another value": (
        lambda at: Ok(replace(_value(_signed(GOOD, at, OWN)), data=b"\x64more")),
        "is not over this outcome",
    ),
}


def _value(outcome: Outcome) -> Payload:
    assert isinstance(outcome, Ok)
    return outcome.value


@pytest.mark.parametrize("forgery", FORGED)
def test_what_comes_of_a_queued_step_must_be_its_executors_own(forgery: str) -> None:
    """Whoever can put a message into the lane's inbox cannot settle a call, nor pass one receipt off as another's."""
    made, reason = FORGED[forgery]

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "queued"))
        lane, promise = await _open_call(engine.app)
        message = messages.settled(promise, made(promise), 1, engine.app.clock.now(), engine.app.clock.now())
        await engine.app.committer.commit(p.Deliver(lane, message))
        await engine.rest()
        ((word, _, why),) = await lines(engine)
        assert word == "rejected"
        assert reason in why
        assert all([each.good async for each in engine.app.machines.verify()])

    play(scene, None)  # no worker here could sign, so the step waits


def test_a_good_receipt_is_taken_from_the_inbox() -> None:
    """So the forgeries above were not refused for coming that way."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, "queued"))
        lane, promise = await _open_call(engine.app)
        message = messages.settled(promise, _signed(GOOD, promise, OWN), 1, 0, engine.app.clock.now())
        await engine.app.committer.commit(p.Deliver(lane, message))
        await engine.rest()
        assert await lines(engine) == [["fake", "bank"]]

    play(scene, None)


async def _open_call(app: Holdfast) -> tuple[p.Key, PromiseId]:
    (row,) = await app.store.find_cells(p.CellQuery("default", account.name), 10)
    (intent,) = decode_cell(row.record).intents
    (run,) = await app.store.get([p.Key("default", row.lane)])
    return run.key, PromiseId(run.root).child(intent.position)


def test_a_changed_signature_in_the_journal_is_found(tmp_path: Path) -> None:
    """A replay checks what was recorded, by the key that stands beside it."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5))
        await engine.rest()
        (run,) = [run for run in await engine.app.store.find(p.Query("default"), 10) if is_lane(run.key.run)]
        entries = [entry async for entry in check_chain(engine.app.store, run)]
        board, clock = engine.app.machine_kind.board, engine.app.clock
        assert check_lane(PromiseId(run.root), entries, account, board, clock.now(), engine.app.entropy).cells
        forged = [_forged(entry) for entry in entries]
        with pytest.raises(Nondeterminism):
            check_lane(PromiseId(run.root), forged, account, board, clock.now(), engine.app.entropy)

    play(scene, key_file(tmp_path))


def _forged(entry: e.Entry) -> e.Entry:
    event = entry.event
    if not isinstance(event, e.InvokeCompleted) or signature_of(event.result) is None:
        return entry
    codec = _value(event.result).codec
    other = codec[:-1] + ("0" if codec[-1] != "0" else "1")
    return replace(entry, event=replace(event, result=Ok(replace(_value(event.result), codec=other))))


# -- without the key ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["here", "acted"])
def test_a_worker_without_the_key_does_not_begin_the_effect(way: str) -> None:
    """It says what is missing, and the cell hears that nothing was done."""

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5, way))
        await engine.rest()
        ((failure, _, executor),) = await lines(engine)
        assert failure.startswith("KeyLocked")
        assert "--executor-key bank=FILE" in failure
        assert executor is None
        assert done == []

    play(scene, None)


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_that_has_the_key_carries_it_out(way: str, ground: Ground, tmp_path: Path) -> None:
    """A queued step waits for it; the lane of other effects is handed to it. The journal has the signature."""

    async def main(ground: Ground) -> None:
        async with worker_with(ground, [account]) as app:
            bank = replace(PLAIN, executor_keys={"bank": key_file(tmp_path)})
            if way == "queued":
                await app.emit(Due("a", 5, way))
                for _ in range(5 if ground.is_virtual else 1):
                    await app.changed(1)
                assert done == []
            async with worker_with(ground, [account] if way != "queued" else [], options=bank) as other:
                if way != "queued":
                    await app.emit(Due("a", 5, way))
                while not (found := await lines(app)):
                    await look_soon(app, other)
                assert found == [["a paid 5", "bank"]]
            (signature,) = [signature_of(each) for each in await outcomes(app)]
            assert signature is not None
            assert (signature.executor, signature.public) == ("bank", OWN.public)
            assert all([each.good async for each in app.machines.verify()])

    ground.play(main)


@pytest.mark.parametrize("pem", [None, b"", b"-----BEGIN PRIVATE KEY-----\nxx\n-----END PRIVATE KEY-----\n", PUBLIC])
def test_a_key_that_cannot_be_opened_keeps_the_worker_from_starting(pem: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "bank.pem"
    if pem is not None:
        file.write_bytes(pem)

    async def main() -> None:
        options = replace(PATIENT, executor_keys={"bank": str(file)})
        with pytest.raises(KeyLocked, match="private key of executor 'bank'"):
            async with machine_engine([account], options=options):
                pass

    run_virtually(main())


def test_an_encrypted_key_is_opened_with_the_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = keys.generate(0, "secret")

    async def scene(engine: MachineEngine) -> None:
        await engine.send(Due("a", 5))
        await engine.rest()
        assert "signed with key" in (await lines(engine))[0][2]

    with pytest.raises(KeyLocked, match="HOLDFAST_KEY_PASSPHRASE"):
        play(scene, key_file(tmp_path, key))
    monkeypatch.setenv("HOLDFAST_KEY_PASSPHRASE", "secret")
    play(scene, key_file(tmp_path, key))


# -- declared ----------------------------------------------------------------------------------------------------------


def _declared(**changes: Any) -> Machine[Any]:
    given: dict[str, Any] = {"effects": [here], "executors": {"bank": PUBLIC}, **changes}
    more = {"name": "sign.tried", "key": "name", "emits": (), "version": 1, "lanes": 1, "migrate": None}
    return Machine(account.function, limits=account.limits, **more, **given)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"executors": {}}, "no public key of it is given"),
        ({"executors": {"bank": "no key"}}, "there is no PEM public key in it"),
        ({"executors": {"bank": PUBLIC, "post": PUBLIC}}, "no effect names executor 'post'"),
    ],
)
def test_a_machine_has_the_keys_of_the_executors_that_its_effects_name(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidFunction, match=why):
        _declared(**changes)


@pytest.mark.parametrize("name", ["", "a b", "a;b", 5])
def test_an_executor_has_a_plain_name(name: Any) -> None:
    with pytest.raises(InvalidFunction, match="executor= is a name"):

        @step(name="sign.wrong", executor=name)
        async def wrong() -> None: ...


def test_the_keys_are_part_of_the_manifest() -> None:
    """Content-addressed, so a change of keys is a change that can be seen, proposed and approved."""
    one = _declared().declaration
    other = _declared(executors={"bank": [keys.to_pem(OWN.public)]}).declaration
    manifests = [_manifest(one.executors), _manifest(other.executors)]
    assert manifest_digest(manifests[0]) != manifest_digest(manifests[1])
    assert [decode_manifest(encode_manifest(each)) for each in manifests] == manifests
    assert manifests[0].keys_of("bank") == {OWN.public, SPARE.public}
    assert manifests[1].keys_of("post") == frozenset()
    (change,) = changes(*manifests)
    assert change.parts == ("executors",)


def _manifest(executors: tuple[ExecutorEntry, ...]) -> MachineManifest:
    made = declare([order(effects=(EffectEntry(name="charge", executor="bank"),), executors=executors)])
    return made.manifest


def test_the_manifest_in_force_says_who_signs_with_which_keys() -> None:
    """Not the code: its keys count only until a manifest is applied."""
    tried = _declared()
    machines = {tried.name: tried}
    declared = Switchboard(machines)
    assert (declared.executor_of(here.name), declared.keys_of("bank")) == ("bank", {OWN.public, SPARE.public})
    fewer = (ExecutorEntry(name="bank", keys=(FOREIGN.public.hex(),)),)
    in_force = Switchboard(machines, msgspec.structs.replace(declared.declared, executors=fewer))
    assert in_force.keys_of("bank") == {FOREIGN.public}
    free = msgspec.structs.replace(declared.declared, executors=(), effects=(EffectEntry(name=here.name),))
    assert Switchboard(machines, free).executor_of(here.name) is None


def test_a_manifest_without_executors_has_the_bytes_that_it_always_had() -> None:
    """What older versions have written is read, and has the same digest."""
    form = msgspec.to_builtins(_declared(effects=[], executors={}).declaration.effects)
    assert form == ()
    data = encode_manifest(MachineManifest(effects=(EffectEntry(name="charge"),)))
    assert b"executor" not in data


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"executors": [{"name": "bank", "keys": []}]}, "has no key"),
        ({"executors": [{"name": "bank", "keys": ["xx"]}]}, "a public key is 32 bytes"),
        ({"executors": [{"name": "b b", "keys": [OWN.public.hex()]}]}, "an executor's name has letters"),
        ({"effects": [{"name": "charge", "executor": "bank"}]}, "executor"),
    ],
)
def test_a_written_manifest_with_wrong_executors_is_refused(document: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidManifest, match=why):
        read_document(document)


def test_two_machines_that_give_an_executor_other_keys_are_refused() -> None:
    one, other = _declared().declaration, _declared(executors={"bank": keys.to_pem(OWN.public)}).declaration
    with pytest.raises(DuplicateName, match="has other keys in two machines"):
        declare([one, msgspec.structs.replace(other, name="sign.other")])
