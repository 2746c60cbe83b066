"""A simulation of subscriptions: whole workers that die around every commit, a network that loses requests and answers,
addresses that refuse, and people who rotate secrets and send again. When the faults have ended and nothing is due, the
laws are checked:

- W1: of everything that a subscription is told of, it was told at least once, signed with its own secret.
- W2: each event has one message id and one body, in every try, whoever sent it.
- W3: an address hears of its own tenant's runs, of what it subscribed to, and of nothing that did not happen.
- W4: nothing waits any more, and what the deliveries say is what arrived.

What happened is known from the runs and tasks themselves, not from the audit that the workers follow.
``python -m tests.simulation.told SEED [COUNT]`` plays seeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any, Final, NamedTuple

import msgspec

from holdfast import Holdfast, TerminalError, WorkerOptions, ask, workflow
from holdfast.errors import HoldfastError
from holdfast.errors.transport import ConnectionFailed, TransportFailed
from holdfast.programs.machine.kind import Machines
from holdfast.store import protocol as p
from holdfast.testing.virtual import VirtualClock, VirtualLoop
from holdfast.transports.http import sender
from holdfast.transports.http.answer import Answer
from holdfast.transports.http.call import HttpCall
from holdfast.webhooks.signatures import ID, proved_id
from holdfast.worker.lifecycle import FRESH_SECONDS
from holdfast.worker.presence.heart import LoopPulse
from tests.seeds import play_seeds
from tests.simulation.faults import Faults, FaultyStore, Graves, SimulatedStore
from tests.simulation.lockstep import true_store
from tests.simulation.simulate import _abandon
from tests.simulation.violation import Violation

FAULTY_SECONDS: Final = 120.0
HEALED_SECONDS: Final = 700.0
"""Longer than two tries that failed let the third one wait."""
OPTIONS: Final = WorkerOptions(lease_seconds=20.0, retention_days=None, grace_seconds=1.0, crash_limit=1000)
TENANTS: Final = ("acme", "bolt")
SKEW_SECONDS: Final = 2.0
EVENTS: Final = (("run.*",), ("run.completed", "run.failed"), ("task.*",), ("*",))


@workflow(name="told.paying")
async def paying(seconds: float) -> None:
    await asyncio.sleep(seconds)


@workflow(name="told.failing")
async def failing(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise TerminalError("no money")


@workflow(name="told.asking")
async def asking(seconds: float) -> str:
    return await ask("how much?", str)


KINDS: Final = [paying, failing, asking]


class Arrival(NamedTuple):
    """A request that reached an address."""

    message: str
    body: bytes
    was_taken: bool


class Network:
    """Every address of the simulation, and the way there. It stands where the HTTP library is."""

    def __init__(self, simulation: WebhookSimulation) -> None:
        self._simulation = simulation
        source = simulation.source
        self._lose_request = source.choice((0.0, 0.1, 0.3))
        self._lose_answer = source.choice((0.0, 0.1, 0.3))
        self._refuse = source.choice((0.0, 0.2))
        self.secrets: dict[str, list[str]] = {}
        self.arrived: dict[str, list[Arrival]] = {}

    async def send(self, call: HttpCall, key: str | None) -> Answer:
        """As ``sender.send``."""
        faults, source, reached = self._simulation.faults, self._simulation.source, self._simulation.reached
        await asyncio.sleep(source.uniform(0.001, 3.0))
        if faults.happens(self._lose_request):
            reached["request lost"] += 1
            raise ConnectionFailed("nobody answers")
        refused = faults.happens(self._refuse)
        self._take(call, was_taken=not refused)
        await asyncio.sleep(source.uniform(0.001, 3.0))
        if faults.happens(self._lose_answer):
            reached["answer lost"] += 1
            raise ConnectionFailed("the answer was lost", is_unknown=True)
        if refused:
            reached["refused by an address"] += 1
            raise TransportFailed("503", members={"status": 503}, retry_after=source.choice((None, 40.0)))
        return Answer(call=call, status=204, headers={}, body=b"", url=call.url, is_cut=False)

    def _take(self, call: HttpCall, *, was_taken: bool) -> None:
        body = str(call.body).encode()
        now = self._simulation.clock.now() / 1e6
        if proved_id("standard", self.secrets[call.url], call.headers, body, now) is None:
            raise Violation(f"{call.url} got a message that its secret has not signed (W1)")
        self.arrived.setdefault(call.url, []).append(Arrival(call.headers[ID], body, was_taken))


class Life:
    """One process, until it dies."""

    def __init__(self, simulation: WebhookSimulation) -> None:
        source, loop = simulation.source, asyncio.get_running_loop()
        self._simulation = simulation
        self.store = FaultyStore(simulation.store, simulation.faults, simulation.reached, simulation.graves, self.die)  # type: ignore[arg-type]
        self.app = Holdfast(
            self.store,  # type: ignore[arg-type]  # every operation is forwarded by name
            clock=VirtualClock(loop, source.choice((0.0, 0.0, SKEW_SECONDS, -SKEW_SECONDS))),
            entropy=random.Random(source.random()),
            options=OPTIONS,
            pulse=LoopPulse,
            workflows=KINDS,
        )
        self.app.machine_kind = Machines({})  # whatever machines other tests have declared

    def die(self) -> None:
        self.store.dead = True
        self._simulation.replace(self)


class Subscribed(NamedTuple):
    """A subscription, and from when on it is told."""

    tenant: str
    id: str
    url: str
    events: tuple[str, ...]
    workflows: tuple[str, ...]
    since: int

    def wants(self, type: str, workflow: str) -> bool:
        is_named = "*" in self.events or type in self.events or f"{type.partition('.')[0]}.*" in self.events
        return is_named and (not self.workflows or workflow in self.workflows)


class WebhookSimulation:
    """Everything that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.faults = Faults(self.source)
        self.faults.writes |= {"seal"}
        self.faults.reads |= {"due_items", "next_due_item", "item", "items", "entries", "heads", "unsealed"}
        self.faults.outages = [(start * 2, start * 2 + self.source.uniform(1, 40)) for start, _ in self.faults.outages]
        self.reached: Counter[str] = Counter()
        self.graves = Graves()
        self.network = Network(self)
        self.lives: list[Life] = []
        self.tasks: set[asyncio.Task[Any]] = set()
        self.subscribed: list[Subscribed] = []
        self.started: dict[p.Key, int] = {}

    async def run(self) -> None:
        self.clock = VirtualClock(asyncio.get_running_loop())
        self.store = true_store(self.clock.now, SimulatedStore)
        await self.store.open()
        self.client = Holdfast(self.store, worker=False, clock=self.clock, entropy=random.Random(1), workflows=KINDS)
        await self.client.open()
        for _ in range(self.source.choice((1, 2, 3))):
            self.spawn(self._boot(self.source.uniform(0, 10)))
        for number in range(self.source.randint(2, 4)):
            await self._subscribe(f"s{number}")
        self.spawn(self._start())
        self.spawn(self._disturb())
        await asyncio.sleep(FAULTY_SECONDS)
        self.faults.healed = True
        if not self.lives:
            await self._boot(0.0)
        await asyncio.sleep(60)
        await self._answer_all()
        await asyncio.sleep(HEALED_SECONDS)
        await self._check()

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _boot(self, delay: float) -> None:
        await asyncio.sleep(delay)
        life = Life(self)
        self.lives.append(life)
        await life.app.open()

    def replace(self, life: Life) -> None:
        self.reached["worker died"] += 1
        if life in self.lives:
            self.lives.remove(life)
        self.spawn(self._boot(self.source.uniform(0.1, 30)))

    # -- what happens ------------------------------------------------------------------------------------------------

    async def _subscribe(self, id: str) -> None:
        source = self.source
        tenant, events = source.choice(TENANTS), source.choice(EVENTS)
        workflows = source.choice(((), (), ("told.paying",)))
        url = f"https://{id}.{tenant}.example/hook"
        made = await self.client.subscriptions.create(id, url, events, workflows=workflows, tenant=tenant)
        self.network.secrets[url] = [made.secret or ""]
        since = self.clock.now() + round((FRESH_SECONDS + SKEW_SECONDS) * 1e6)
        self.subscribed.append(Subscribed(tenant, id, url, events, workflows, since))

    async def _start(self) -> None:
        """Start runs until the faults have ended: some at once, so that a page of the audit has many."""
        number = 0
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.12))
            for _ in range(self.source.choice((1, 1, 1, 1, 18))):
                key = p.Key(self.source.choice(TENANTS), f"r{number}")
                kind = self.source.choice(KINDS)
                self.started[key] = self.clock.now()
                await self.client.start(kind, self.source.choice((0.0, 2.0, 30.0)), id=key.run, tenant=key.tenant)
                number += 1

    async def _disturb(self) -> None:
        while not self.faults.healed:
            await asyncio.sleep(self.source.expovariate(0.2))
            with contextlib.suppress(HoldfastError):
                await self._act(self.source.choice(self.subscribed))

    async def _act(self, it: Subscribed) -> None:
        source, subscriptions = self.source, self.client.subscriptions
        word = source.choice(("rotate", "ping", "resend", "cancel", "answer", "kill", "rename"))
        if word == "rotate":
            made = await subscriptions.rotate(it.id, overlap_seconds=120.0, tenant=it.tenant)
            self.network.secrets[it.url].append(made.secret or "")
        elif word == "ping":
            await subscriptions.ping(it.id, tenant=it.tenant)
        elif word == "rename":  # a new version of the subscription, while workers follow the one before
            await subscriptions.change(it.id, name=str(source.random()), tenant=it.tenant)
        elif word == "resend":
            found = await subscriptions.deliveries(it.id, tenant=it.tenant)
            await subscriptions.resend(it.id, source.choice(found or [None]).id, tenant=it.tenant) if found else None
        elif word == "cancel" and self.started:
            key = source.choice(list(self.started))
            await self.client.run(key.run, tenant=key.tenant).cancel("enough")
        elif word == "answer":
            await self._answer_all()
        elif self.lives:
            source.choice(self.lives).die()
        self.reached[f"people: {word}"] += 1

    async def _answer_all(self) -> None:
        for tenant in TENANTS:
            for task in await self.store.tasks(p.TaskQuery(tenant, "requested"), 1000):
                with contextlib.suppress(HoldfastError):
                    await self.client.tasks.complete(task.id, "ten", by="ann", tenant=tenant)

    # -- the laws ----------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        happened = await self._happened()
        for it in self.subscribed:
            arrived = self.network.arrived.get(it.url, [])
            self._check_ids(it, arrived)
            self._check_events(it, arrived, happened)
            await self._check_deliveries(it, arrived)

    async def _happened(self) -> dict[tuple[str, str, str], tuple[str, int]]:
        """Tenant, run and type of everything that happened; its workflow, and when it cannot have been earlier."""
        found: dict[tuple[str, str, str], tuple[str, int]] = {}
        for row in await self.store.find(p.Query(), 100_000):
            if row.status not in p.ENDED:
                raise Violation(f"run {row.key} did not end: it is {row.status}")
            for type in ("started", row.status):
                found[row.key.tenant, row.key.run, f"run.{type}"] = row.workflow, self.started[row.key]
        for tenant in TENANTS:
            for task in await self.store.tasks(p.TaskQuery(tenant), 100_000):
                ends = "cancelled" if task.status == "cancelled" else "completed"
                for type in ("opened", ends):
                    at = self.started[p.Key(tenant, task.run)]
                    found[tenant, task.run, f"task.{type}"] = asking.name, at
        self.reached.update(type for _, _, type in found)
        return found

    def _check_ids(self, it: Subscribed, arrived: list[Arrival]) -> None:
        bodies: dict[str, set[bytes]] = {}
        for each in arrived:
            bodies.setdefault(each.message, set()).add(each.body)
        if doubled := [message for message, kinds in bodies.items() if len(kinds) != 1]:
            raise Violation(f"{it.id}: {doubled} came with several bodies (W2)")
        events = Counter(body for (body,) in map(tuple, bodies.values()) if msgspec.json.decode(body)["type"] != "ping")
        if several := [body for body, count in events.items() if count != 1]:
            raise Violation(f"{it.id}: several messages for one event: {several} (W2)")
        self.reached["sent more than once"] += len(arrived) - len(bodies)

    def _check_events(
        self, it: Subscribed, arrived: list[Arrival], happened: dict[tuple[str, str, str], tuple[str, int]]
    ) -> None:
        told: set[tuple[str, str, str]] = set()
        for each in arrived:
            body = msgspec.json.decode(each.body)
            type, data = body["type"], body["data"]
            if data["tenant"] != it.tenant:
                raise Violation(f"{it.id} of {it.tenant} was told of tenant {data['tenant']} (W3)")
            if type == "ping":
                continue
            fact = data["tenant"], data["run"], type
            if fact not in happened or happened[fact][0] != data["workflow"] or not it.wants(type, data["workflow"]):
                raise Violation(f"{it.id} was told of {fact}, which did not happen or is not for it (W3)")
            if each.was_taken:
                told.add(fact)
        wanted = {
            fact
            for fact, (workflow, at) in happened.items()
            if fact[0] == it.tenant and at >= it.since and it.wants(fact[2], workflow)
        }
        if lost := wanted - told:
            raise Violation(f"{it.id} was never told of {sorted(lost)} (W1)")
        self.reached["told"] += len(wanted)

    async def _check_deliveries(self, it: Subscribed, arrived: list[Arrival]) -> None:
        taken = {each.message for each in arrived if each.was_taken}
        rows = await self.client.subscriptions.deliveries(it.id, limit=100_000, tenant=it.tenant)
        if left := [row.id for row in rows if row.status != "delivered" or row.id not in taken]:
            raise Violation(f"{it.id}: {left} are not delivered (W4)")
        if missing := taken - {row.id for row in rows}:
            raise Violation(f"{it.id}: nothing is kept of {missing} (W4)")


def simulate_subscriptions(seed: int) -> Counter[str]:
    """Play one seed; gives what was reached. Raises Violation, with the seed in its note."""
    loop = VirtualLoop()
    simulation = WebhookSimulation(seed)
    real, sender.send = sender.send, simulation.network.send  # the edge of the machine: all behind it is simulated
    try:
        loop.run_until_complete(simulation.run())
    except BaseException as error:
        error.add_note(f"seed {seed}: python -m tests.simulation.told {seed}")
        raise
    finally:
        sender.send = real
        _abandon(loop)
    return simulation.reached


if __name__ == "__main__":
    play_seeds(simulate_subscriptions)
