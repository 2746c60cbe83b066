"""The signals that a generation carries: queues by name, of which the next generation shares all but a few blobs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import cbor2
import msgspec
import pytest

from holdfast.errors import LawBroken, StoreCorrupt
from holdfast.journal import events as e
from holdfast.journal.ledger import Ledger
from holdfast.journal.payload import Payload
from holdfast.journal.promise import PromiseId
from holdfast.kernel import signal_writer
from holdfast.kernel.carried_signals import CarriedSignals, SignalsMissing
from holdfast.kernel.signal_nodes import Below, at_hand
from holdfast.kernel.signal_writer import NextSignals, carry
from tests.scope import volume

Queues = dict[str, list[Payload]]


def sent(value: object, codec: str = "cbor") -> Payload:
    return Payload(cbor2.dumps(value), codec)


class Generations:
    """Generations one after the other, each carrying what the one before has left, and the queues that they are."""

    def __init__(self) -> None:
        self.nodes: dict[bytes, bytes] = {}
        self.queues: Queues = {}
        self.payload: Payload | None = None
        self.carried: CarriedSignals | None = None
        self.written = 0

    def next(self, taken: dict[str, int], added: Sequence[tuple[str, Payload]]) -> None:
        for name, number in taken.items():
            assert self.carried is not None
            found = [self.carried.payload_of(name, at) for at in range(1, number + 1)]
            assert found == self.queues[name][:number]
            del self.queues[name][:number]
        for name, payload in added:
            self.queues.setdefault(name, []).append(payload)
        self.queues = {name: queue for name, queue in self.queues.items() if queue}
        carried = carry(self.carried, taken, added)
        self.nodes |= carried.blobs
        self.written += sum(map(len, carried.blobs.values()))
        self.payload, self.carried = carried.payload, None
        if self.payload is not None:
            self.written += len(self.payload.data)
            self.carried = CarriedSignals(self.payload, self.nodes)

    def check(self) -> None:
        """What is carried has all signals, in order, and needs the blobs at hand alone."""
        if self.carried is None:
            assert not self.queues
            return
        found: Queues = {}
        for name, number, payload in self.carried.signals():
            found.setdefault(name, []).append(payload)
            assert number == len(found[name])
        assert found == self.queues
        assert {name: self.carried.count_of(name) for name in found} == {n: len(q) for n, q in found.items()}
        self.carried.check()


def payload_of(chance: random.Random) -> Payload:
    size = chance.choice([1] * 60 + [300, 3_000, 40_000])
    return sent(chance.randbytes(size), chance.choice(["cbor", "cbor", "given"]))


@pytest.mark.parametrize("names", [1, 3, 90, 500])
@pytest.mark.parametrize("seed", range(volume(2, 20)))
def test_each_name_is_a_queue_over_all_generations(names: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is taken and added in each, and whatever the sizes. Nothing is left over, and nothing is lost."""
    chance = random.Random(f"{names} {seed}")
    if seed % 2:
        for limit in ("PIECE_SIGNALS", "PIECES"):
            monkeypatch.setattr(signal_writer, limit, 3)
    generations = Generations()
    for _ in range(25):
        taken = {}
        for name in sorted(generations.queues):
            if generations.carried is not None and chance.random() < 0.4:
                most = len(generations.queues[name])
                taken[name] = chance.randint(1, min(most, chance.choice([1, 5, most])))
        added = [(f"name {chance.randrange(names)}", payload_of(chance)) for _ in range(chance.choice([0, 1, 4, 200]))]
        generations.next(taken, added)
        generations.check()
        if generations.payload is not None and chance.random() < 0.3:
            generations.nodes = at_hand(generations.payload, generations.nodes)[0]
    generations.next({name: len(queue) for name, queue in generations.queues.items()}, [])
    assert generations.carried is None


@pytest.mark.parametrize("names", [1, 1_000_000])
def test_what_all_generations_write_grows_with_the_number_of_signals(names: int) -> None:
    """Each receives one and is sent one: it writes nothing of the others."""

    def written(count: int) -> int:
        generations = Generations()
        generations.next({}, [(f"name {number % names}", sent(number)) for number in range(count)])
        for number in range(count):
            added = [(f"name {(count + number) % names}", sent(number))]
            generations.next({f"name {number % names}": 1}, added)
        generations.check()
        return generations.written

    small, large = written(400), written(1600)
    assert large <= 1.5 * 4 * small


def test_generations_that_are_sent_nothing_write_a_few_bytes_each() -> None:
    generations = Generations()
    generations.next({}, [("item", sent(number)) for number in range(2000)])
    before = generations.written
    for _ in range(2000):
        generations.next({"item": 1}, [])
    assert generations.carried is None
    assert generations.written - before < 200 * 2000


def some(count: int = 300) -> NextSignals:
    return carry(None, {}, [("item", sent(number)) for number in range(count)])


def test_what_is_not_at_hand_is_asked_for() -> None:
    """One blob at a time, and the answer is the same as if all had been there."""
    carried = some()
    assert carried.payload is not None
    nodes: dict[bytes, bytes] = {}
    asked = 0
    while True:
        try:
            found = CarriedSignals(carried.payload, nodes).payload_of("item", 200)
            break
        except SignalsMissing as missing:
            nodes[missing.blob] = carried.blobs[missing.blob]
            asked += 1
    assert found == sent(199)
    assert 1 <= asked <= 3
    assert at_hand(carried.payload, carried.blobs) == (carried.blobs, Below([], []))
    assert at_hand(carried.payload, {})[1].nodes


@pytest.mark.parametrize("number", [0, -1, 301])
def test_a_number_that_was_not_carried_is_not_found(number: int) -> None:
    carried = some()
    assert carried.payload is not None
    with pytest.raises(StoreCorrupt, match="damaged"):
        CarriedSignals(carried.payload, carried.blobs).payload_of("item", number)


def altered(change: str) -> tuple[Payload, dict[bytes, bytes]]:
    """What is carried, changed by somebody who keeps the digests right."""
    carried = some()
    assert carried.payload is not None
    size, root = cbor2.loads(carried.payload.data)
    leaf = cbor2.loads(root)
    name, count, taken, line = cbor2.loads(leaf[2])
    match change:
        case "another total":
            size += 1
        case "another number of a name":
            count, size = count + 1, size + 1
        case "another name":
            name = "other"
        case "some of it taken":
            taken = 1
        case "taken before its beginning":
            taken, count, size = -1, count + 1, size + 1
        case "a line that is none":
            line = 7
        case _:
            raise AssertionError(change)
    leaf[2] = cbor2.dumps([name, count, taken, line], canonical=True)
    data = cbor2.dumps([size, cbor2.dumps(leaf, canonical=True)], canonical=True)
    return msgspec.structs.replace(carried.payload, data=data), carried.blobs


@pytest.mark.parametrize(
    "change",
    [
        "another total",
        "another number of a name",
        "another name",
        "some of it taken",
        "taken before its beginning",
        "a line that is none",
    ],
)
def test_whoever_alters_it_is_found(change: str) -> None:
    """Every number is compared with what it counts, and every line stands at the place of its name."""
    payload, blobs = altered(change)
    with pytest.raises(StoreCorrupt, match="damaged"):
        CarriedSignals(payload, blobs).check()


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x82\x01", b"\x82\x01\x41\x00", cbor2.dumps([1, cbor2.dumps([9])])])
def test_bytes_that_are_nothing_of_the_kind_are_refused(data: bytes) -> None:
    payload = msgspec.structs.replace(some().payload or sent(0), data=data)
    with pytest.raises(StoreCorrupt):
        CarriedSignals(payload, {}).check()


# -- the laws ----------------------------------------------------------------------------------------------------------

RUN = PromiseId(b"r" * 32)


def ledger_of(carried: NextSignals) -> Ledger:
    ledger = Ledger(RUN, read_carried=lambda payload: CarriedSignals(payload, dict(carried.blobs)))
    ledger.append(e.ExecutionStarted("digest", sent([[], {}]), None, "key", e.EDITION, signals=carried.payload), 0)
    return ledger


def received(position: int, value: object, delivery: int, name: str = "item") -> e.SignalReceived:
    return e.SignalReceived(RUN.child(position), name, sent(value), delivery)


def test_carried_signals_count_as_delivered_and_come_first() -> None:
    """They have the first numbers of their name; one that comes now has the next, and is received after them."""
    ledger = ledger_of(some(70))
    assert ledger.next_delivery("item") == 71
    ledger.append(e.SignalDelivered("item", sent("new"), 71), 0)
    for number in range(70):
        assert ledger.oldest_unconsumed("item") == (number + 1, sent(number))
        ledger.append(received(number, number, number + 1), 0)
    assert ledger.signals.carried_and_received() == {"item": 70}
    assert ledger.signals.unconsumed() == [("item", sent("new"))]
    assert ledger.next_delivery("item") == 72
    ledger.append(received(70, "new", 71), 0)
    assert ledger.oldest_unconsumed("item") is None
    assert ledger.next_delivery("item") == 72


@pytest.mark.parametrize(
    ("law", "event"),
    [
        ("CF-2", received(0, "another value", 1)),
        ("CF-2", received(0, 70, 71)),
        ("CF-2", received(0, 0, 1, "other")),
        ("CF-3", received(0, 1, 2)),
        ("K-3", e.SignalDelivered("item", sent("new"), 1)),
        ("K-3", e.SignalDelivered("item", sent("new"), 72)),
    ],
)
def test_the_laws_of_signals_hold_for_carried_ones(law: str, event: e.Event) -> None:
    """A receive needs a delivery of that number and payload, oldest first; numbers go on where the carried ones end."""
    with pytest.raises(LawBroken) as broken:
        ledger_of(some(70)).append(event, 0)
    assert broken.value.law == law


def test_no_carried_signal_is_received_twice() -> None:
    ledger = ledger_of(some(70))
    ledger.append(received(0, 0, 1), 0)
    with pytest.raises(LawBroken) as broken:
        ledger.append(received(1, 0, 1), 0)
    assert broken.value.law == "CF-3"
