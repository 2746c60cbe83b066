"""An effect that is no Python action passes the whole gate: the gate knows only what ``Effect`` says."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cbor2
import pytest

import holdfast
from holdfast import Cost, DidNotHappen, Happened, RunFailed, workflow
from holdfast.audit import records as r
from holdfast.gate.effects import Arguments, Effect, Intent, Performable
from holdfast.gate.proposals import Proposal, Risk
from holdfast.journal.cbor import canonical
from holdfast.journal.payload import ONCE, Failure, Payload
from holdfast.journal.secrecy import ACTION
from holdfast.programs.function.failures import unwrap
from holdfast.programs.function.loop import durable_loop
from tests.unit.worker.ground import FREE, Ground, asked, asking, kill, notes, policy_of, receipts, until


class Bank:
    """The other side of a wire: what was asked of it, and what its next answers are."""

    def __init__(self) -> None:
        self.paid: dict[str, int] = {}
        self.looked: list[str] = []
        self.before_answer: Callable[[], None] = lambda: None


class Look:
    """The probe of a transfer: it asks the bank whether the transfer is in its books."""

    kind = "look"
    name = "wire.transfer (look)"
    queue = concurrency = timeout = heartbeat_timeout = None
    is_async = is_plain = True
    writes = False
    not_done = frozenset[int]()

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def read(self, input: Payload) -> Arguments:
        return [cbor2.loads(input.data)], {}

    async def function(self, order: dict[str, Any]) -> Happened | DidNotHappen:
        self._bank.looked.append(order["to"])
        paid = self._bank.paid.get(order["to"])
        return DidNotHappen() if paid is None else Happened({"id": f"w-{order['to']}", "cents": paid})

    def write_result(self, value: object) -> Payload:
        said = value.__class__.__name__
        found = {"type": said, "value": value.value} if isinstance(value, Happened) else {"type": said}
        return Payload(canonical(found))


class Transfer:
    """A transport call: its input is a map, its result another. It is written by hand, with no author's function."""

    kind = ACTION
    queue = concurrency = timeout = heartbeat_timeout = None
    is_async = is_plain = True
    writes = True
    not_done = frozenset[int]()
    connector = "bank"
    risk: Risk = "high"
    safe_to_retry = False
    key_once = False
    secret_names = frozenset({"pin"})

    def __init__(self, bank: Bank, name: str = "wire.transfer", operation: str = "transfer") -> None:
        self.name = name
        self.operation = operation
        self.probe: Performable | None = Look(bank)
        self._bank = bank

    def arguments(self, input: Payload) -> Mapping[str, Any]:
        return cbor2.loads(input.data)  # type: ignore[no-any-return]

    def read(self, input: Payload) -> Arguments:
        return [self.arguments(input)], {}

    def propose(self, input: Payload, name: str) -> Intent:
        order = self.arguments(input)
        fields = {**order, "pin": "[secret]"}
        proposal = Proposal(
            self.name,
            self.connector,
            self.operation,
            f"account {order['to']}",
            fields,
            canonical(fields),
            self.writes,
            self.risk,
            f"wire:{self.operation}:{order['to']}",
            "wire.refund" if self.operation == "transfer" else None,
        )
        return Intent(proposal, order, self.read(input), order.get("reverses"))

    async def function(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["cents"] < 0:
            raise ValueError(f"no such amount, said with pin {order['pin']}")
        self._bank.paid[order["to"]] = order["cents"]
        self._bank.before_answer()
        return {"id": f"w-{order['to']}", "cents": order["cents"]}

    def write_result(self, value: object) -> Payload:
        return Payload(canonical(value))

    def read_result(self, result: Payload) -> object:
        return cbor2.loads(result.data)["id"]

    def cost_of(self, result: Payload) -> Cost | None:
        return Cost("bank", cbor2.loads(result.data)["cents"] / 100, currency="EUR")

    def has_key(self, key: str, arguments: Mapping[str, Any], name: str) -> bool:
        return True

    def scrub(self, failure: Failure, arguments: Mapping[str, Any]) -> Failure:
        return Failure(
            failure.type,
            self.scrub_text(failure.message, arguments),
            self.scrub_text(failure.trace, arguments),
        )

    def scrub_text(self, text: str, arguments: Mapping[str, Any]) -> str:
        return text.replace(str(arguments["pin"]), "[secret]")


async def ask_for(name: str, **order: Any) -> Any:
    """Ask for an effect by its name, as a definition or a machine will."""
    loop = durable_loop()
    assert loop is not None
    promise = loop.scribe.invoke(ACTION, name, Payload(canonical({"pin": "4711", **order})), ONCE, None)
    return cbor2.loads(unwrap(await loop.promise(promise), name).data)


@workflow(name="effects.pays")
async def pays(to: str, cents: int) -> Any:
    return await ask_for("wire.transfer", to=to, cents=cents)


@workflow(name="effects.refunds")
async def refunds(to: str, receipt: str) -> Any:
    return await ask_for("wire.refund", to=to, cents=1, reverses=receipt)


@pytest.fixture
def bank() -> Bank:
    return Bank()


def effects_of(bank: Bank) -> dict[str, Any]:
    effects: list[Effect] = [Transfer(bank), Transfer(bank, "wire.refund", "refund")]
    return {effect.name: effect for effect in effects}


def test_an_effect_is_judged_approved_done_and_receipted(virtual: Ground, bank: Bank) -> None:
    """What people approve, what the receipt says and what the run gets is what the effect says of itself."""

    async def main(ground: Ground) -> None:
        policy = asking(tier="high", when='action.connector == "bank"')
        async with ground.engine(pays, policy=policy, steps=effects_of(bank)) as app:
            run = await app.start(pays, "ann", 1250, id="pay", actor="eve")
            task = await asked(app, "pay")
            assert not bank.paid
            assert task.summary == "wire.transfer: bank transfer on account ann"
            assert "4711" not in str(cbor2.loads(task.details))
            await app.tasks.approve(task.id, by="bob")
            assert await run.result(60) == {"id": "w-ann", "cents": 1250}
            (row,) = await receipts(app, "pay")
            assert (row.state, row.key, row.risk, row.reverse, row.task) == (
                "succeeded",
                "wire:transfer:ann",
                "high",
                "wire.refund",
                task.id,
            )
            assert row.cost == {"provider": "bank", "model": "", "amount": 12.5, "currency": "EUR"}
            assert [entry.effect for entry in await notes(app, r.Decided, "pay")] == ["needs_approval", "allow"]
        assert bank.paid == {"ann": 1250}

    virtual.play(main)


def test_an_effect_that_policy_denies_is_not_done(virtual: Ground, bank: Bank) -> None:
    """The rules see the proposal of an effect as they see an action's."""

    async def main(ground: Ground) -> None:
        policy = policy_of({"effect": "deny", "when": 'action.target == "account ann"'}, {})
        async with ground.engine(pays, policy=policy, steps=effects_of(bank)) as app:
            run = await app.start(pays, "ann", 1, id="pay")
            with pytest.raises(RunFailed, match="account ann"):
                await run.result(60)
        assert not bank.paid

    virtual.play(main)


def test_what_became_of_an_effect_is_asked_of_its_probe(virtual: Ground, bank: Bank) -> None:
    """Its worker dies after the act and before the receipt: the probe finds it, and it is not done again."""

    async def main(ground: Ground) -> None:
        async with ground.engine(pays, steps=effects_of(bank)) as first:
            bank.before_answer = lambda: kill(first)
            await first.start(pays, "ann", 7, id="pay")
            await until(first, lambda: bool(bank.paid))
        bank.before_answer = lambda: None
        async with ground.engine(pays, steps=effects_of(bank)) as second:
            assert await second.run("pay").result(60) == {"id": "w-ann", "cents": 7}
            (row,) = await receipts(second, "pay")
            assert (row.state, row.attempt) == ("succeeded", 1)
        assert bank.looked == ["ann"]

    virtual.play(main)


def test_an_effect_says_which_receipt_it_takes_back(virtual: Ground, bank: Bank) -> None:
    """The receipt of the second names the first, and the first is shown as reversed."""

    async def main(ground: Ground) -> None:
        async with ground.engine(pays, refunds, policy=FREE, steps=effects_of(bank)) as app:
            await (await app.start(pays, "ann", 5, id="pay")).result(60)
            (paid,) = await receipts(app, "pay")
            await (await app.start(refunds, "ann", paid.id, id="refund")).result(60)
            (refund,) = await receipts(app, "refund")
            assert refund.reverses == paid.id
            (paid,) = await receipts(app, "pay")
            assert paid.reversed_by == refund.id

    virtual.play(main)


def test_what_an_effect_raises_is_recorded_without_its_secrets(virtual: Ground, bank: Bank) -> None:
    """Each effect says what is secret of it."""

    async def main(ground: Ground) -> None:
        async with ground.engine(pays, steps=effects_of(bank)) as app:
            run = await app.start(pays, "ann", -1, id="pay")
            with pytest.raises(RunFailed, match=r"said with pin \[secret\]"):
                await run.result(60)
            (row,) = await receipts(app, "pay")
            assert row.error is not None
            assert "4711" not in row.error

    virtual.play(main)


@pytest.mark.parametrize(
    "module",
    [
        "steps/performance",
        "steps/performer",
        "steps/dispatcher",
        "gate/governor",
        "gate/acts",
        "gate/openings",
        "gate/settler",
        "gate/entries",
    ],
)
def test_who_passes_effects_on_knows_no_action(module: str) -> None:
    """Else the next kind of effect would be fitted around actions."""
    path = Path(inspect.getfile(holdfast)).parent / "worker" / f"{module}.py"
    imported = {node.module for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)}
    assert not imported & {"holdfast.programs.function.actions", "holdfast.programs.function.decorators"}
