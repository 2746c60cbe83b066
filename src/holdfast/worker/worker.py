"""The worker as a whole: its roles, and how they start and stop together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from holdfast.audit.archivist import Archivist
from holdfast.audit.sealer import Sealer
from holdfast.gate.effects import Effects, Performable
from holdfast.gate.policy.keeper import PolicyKeeper
from holdfast.gate.policy.policy import NO_POLICY
from holdfast.journal import events as e
from holdfast.kernel.execution import Entropy
from holdfast.programs.catalogue import Catalogue
from holdfast.programs.definition.engine_tools import EngineTools
from holdfast.programs.function.decorators import Step
from holdfast.runs.birth import Birth
from holdfast.runs.clock import Clock
from holdfast.runs.duty import Duty
from holdfast.runs.observer import Observer
from holdfast.runs.role import Role
from holdfast.schedules.launch import Launcher
from holdfast.store import protocol as p
from holdfast.store.committer import Committer
from holdfast.store.patience import patiently
from holdfast.transports import table as transports
from holdfast.transports.secret_keeper import SecretKeeper
from holdfast.worker.advancer import Advancer, Ended
from holdfast.worker.executions import Executions
from holdfast.worker.gate.governor import Governor
from holdfast.worker.gate.policy_watcher import PolicyWatcher
from holdfast.worker.lifecycle import Lifecycle
from holdfast.worker.options import WorkerOptions
from holdfast.worker.presence.heart import Beats, Pulse, ThreadPulse
from holdfast.worker.presence.lease import LocalLease
from holdfast.worker.presence.registration import new_id, queues_of, worker_row
from holdfast.worker.roles.claimer import Claimer
from holdfast.worker.roles.deliverer import Deliverer
from holdfast.worker.roles.finisher import Finisher
from holdfast.worker.roles.follower import Follower
from holdfast.worker.roles.indexer import Indexer
from holdfast.worker.roles.inquirer import Inquirer
from holdfast.worker.roles.pruner import Pruner
from holdfast.worker.roles.rescuer import Rescuer
from holdfast.worker.roles.resumer import Resumer
from holdfast.worker.roles.scheduler import Scheduler
from holdfast.worker.spans import Spans
from holdfast.worker.steps.containment import contain_tasks
from holdfast.worker.steps.performance import is_authored
from holdfast.worker.steps.performer import Performer
from holdfast.worker.steps.receipt_signer import ReceiptSigner
from holdfast.worker.steps.taker import Taker
from holdfast.worker.watchdog import Watchdog, guard

log = logging.getLogger("holdfast.worker")

FLUSH_SECONDS: Final = 2.0

PulseFactory = Callable[[p.Store, Beats], Pulse]


class Worker:
    """Leases and advances runs in this process. Starting twice and stopping twice do no harm."""

    def __init__(
        self,
        store: p.Store,
        committer: Committer,
        clock: Clock,
        entropy: Entropy,
        catalogue: Catalogue,
        steps: Mapping[str, Performable],
        ended: Ended,
        options: WorkerOptions,
        keeper: PolicyKeeper,
        secrets: SecretKeeper,
        *,
        pulse: PulseFactory = ThreadPulse,
        threads: Executor | None = None,
        rested: Callable[[p.Key, bool], None] = lambda *_: None,
        launcher: Launcher | None = None,
        duties: Mapping[str, Duty] | None = None,
        announce: Callable[[], None] = lambda: None,
        observer: Observer | None = None,
        spans: Spans | None = None,
    ) -> None:
        self.options = options
        self.id = ""
        self.committer = committer
        self._store = store
        self._clock = clock
        self._entropy = entropy
        self._catalogue = catalogue
        self._steps = steps
        self._ended = ended
        self._rested = rested
        self._launcher = launcher
        self._duties = duties or {}
        self._scheduler: Scheduler | None = None
        self._announce = announce
        self._observer = observer
        self._spans = spans
        self._keeper = keeper
        self._secrets = secrets
        self._pulse_factory = pulse
        self._given_threads = threads
        self._running = False
        self._draining = False

    @property
    def running(self) -> bool:
        return self._running and not self._draining

    async def start(self) -> None:
        """Register and begin to work."""
        if self._running:
            return
        guard()
        contain_tasks(asyncio.get_running_loop(), is_authored)
        options = self.options
        self.id = new_id(self._entropy)
        self._threads = self._given_threads or ThreadPoolExecutor(options.threads, thread_name_prefix="holdfast-step")
        self.watchdog = Watchdog(options.turn_limit_seconds)
        self.lease = LocalLease(options.lease_seconds, asyncio.get_running_loop().time)
        self.lifecycle = Lifecycle()
        limits = options.step_limit, options.payload_limit_bytes
        self.performer = Performer(
            self._store, self._clock, self._threads, *limits, self._observer, self._spans, self._secrets
        )
        policy = partial(getattr, self._keeper, "current")
        effects = Effects(self._steps, transports.knows, transports.effect_of)
        self._signer = ReceiptSigner(options.executor_keys)
        gate_parts = (self._store, self.committer, self._clock, self.id, policy, effects)
        make_gate = partial(Governor, *gate_parts, spans=self._spans, signer=self._signer)
        executions = Executions(
            self._catalogue,
            self._clock,
            self._entropy,
            self.watchdog,
            checkpoint_events=options.checkpoint_events,
            lifecycle=self.lifecycle,
        )
        if executions.machines is not None:
            executions.machines.hot.limit(options.cached_cells, options.cached_cell_bytes)
        self.advancer = Advancer(
            self._store,
            self.committer,
            self.performer,
            executions,
            self._steps,
            effects,
            self._over,
            self.lease,
            make_gate,
            self,
            self._signer,
            warm_limit=options.warm_limit,
            crash_limit=options.crash_limit,
        )
        self.roles = self._make_roles()
        await self._register()
        caps = await patiently(partial(self._store.items, p.CAP, 1, status=p.CAP_SET))
        self.claimer.limited = bool(caps)
        await patiently(self._follower.look)
        beats = Beats(self.id, options.lease_seconds, self.lease, self._lost, self.watchdog)
        self._pulse = self._pulse_factory(self._store, beats)
        self._pulse.start()
        self._running, self._draining = True, False
        transports.hold()
        for role in self.roles:
            role.start()

    def _make_roles(self) -> list[Role]:
        options = self.options
        self.claimer = Claimer(
            self._store,
            self.advancer,
            self._clock,
            self.id,
            self._catalogue,
            options.capacity,
            self.lease,
            self._limits,
        )
        queues = queues_of(self._steps, options)
        self.taker = Taker(
            self._store,
            self.committer,
            self.performer,
            self._clock,
            self.id,
            queues,
            self._steps,
            self.advancer.delivered,
            self.lease,
            self._signer,
        )
        woken: list[Role] = [self.claimer, self.taker] if queues else [self.claimer]
        rescuer = Rescuer(self._store, self._clock, self.id, max(0.2, options.lease_seconds / 5), woken, self.announce)
        archivists = [Archivist(self._store, self._clock)] if options.evidence else []
        self._follower, deliverers = self._make_follower()
        self._sealer = Sealer(self._store, self._clock, archivists, sealed=[self._follower])
        roles: list[Role] = [rescuer, *woken, self._sealer, *archivists, self._follower, *deliverers]
        if self._keeper.current is not NO_POLICY:
            roles.append(PolicyWatcher(self._keeper, self.committer, self._clock, self.id, self.claimer.wake))
        retention = None if options.retention_days is None else options.retention_days * 86400
        tools = EngineTools(cast("Mapping[str, Step[..., Any]]", self._steps))
        self._finisher = Finisher(self._store, self._clock, self._duties)
        self._inquirer = Inquirer(self._store, self.committer, self._clock)
        resuming = (self._catalogue, self._steps, self.wake_claimer)
        resumer = Resumer(self._store, self.committer, self._clock, *resuming)
        roles += [Pruner(self._store, self._clock, tools, retention), self._finisher, self._inquirer, resumer]
        if self.advancer.warden.has_machines:
            roles += [self.advancer.warden, Indexer(self._store, self._clock, self.id, self._sealer)]
        if self._launcher is not None and options.schedules:
            self._scheduler = self._make_scheduler(self._launcher)
            roles.append(self._scheduler)
        return roles

    def _make_follower(self) -> tuple[Follower, list[Deliverer]]:
        parts = (self._store, self.committer, self._clock, self._entropy)
        if not self.options.webhooks:
            return Follower(*parts, self.lifecycle, None), []
        deliverer = Deliverer(*parts, self._secrets, lambda: self._follower.wake(), self._observer)
        return Follower(*parts, self.lifecycle, deliverer), [deliverer]

    def _make_scheduler(self, launcher: Launcher) -> Scheduler:
        return Scheduler(
            self._store,
            self.committer,
            self._clock,
            launcher,
            self._scheduled,
            lambda key: self.advancer.delivered(key),
            self.id,
            declares=self.options.declared_schedules,
        )

    def _scheduled(self) -> None:
        """Runs were started by schedules, and noted."""
        self.claimer.wake()
        self._sealer.wake()
        self._announce()

    # -- what the advancer asks of other roles ---------------------------------------------------------------------

    def rested(self, key: p.Key, is_parked: bool = False) -> None:
        """A run waits for something from now on, or is parked."""
        self._rested(key, is_parked)

    def wake_claimer(self) -> None:
        """A run may be ready to be claimed."""
        self.claimer.wake()

    def wake_claimer_at(self, due: int) -> None:
        """A run will be ready then."""
        self.claimer.expect(due)

    def wake_taker(self) -> None:
        """Queued work was offered or withdrawn."""
        self.taker.wake()

    def wake_sealer(self) -> None:
        """The audit has a new entry."""
        self._sealer.wake()

    def announce(self) -> None:
        """Other processes should look at the store: something concerns them that was not committed as a change."""
        self._announce()

    def doubt(self) -> None:
        """A run may be leased to this worker without its knowledge."""
        self.claimer.doubt()

    def _over(self, run: p.Run, ending: e.Event, again: int) -> None:
        """A run has ended here: where caps hold, its place is another's now."""
        self._ended(run, ending, again)
        if self._scheduler is not None:
            self._scheduler.ended(run.key)
        if self._is_limited():
            self.claimer.wake()

    def _limits(self) -> p.Limits | None:
        return self._keeper.current.limits

    def _is_limited(self) -> bool:
        return self._limits() is not None or self.claimer.limited

    def begin(self, birth: Birth, done: Callable[[p.Answer | Exception], None]) -> bool:
        """Start a run here and now, if there is room and its workflow is known; False where it must be queued."""
        if not self.running or self.claimer.room <= 0 or not self._knows(birth):
            return False
        if not self.lease.alive():
            return False
        if self._is_limited():  # whether it may begin is decided where all that wait are seen
            return False
        self.advancer.begin(birth, self.id, done)
        return True

    def _knows(self, birth: Birth) -> bool:
        pin = birth.pin
        return self._catalogue.knows(pin.kind, birth.workflow) and not self._catalogue.lacks(birth.key.tenant, pin.code)

    def hint(self) -> None:
        """Something may have changed in the store."""
        if self._running:
            self.claimer.wake()
            self.taker.wake()
            self._sealer.wake()
            self._finisher.wake()
            self._inquirer.wake()
            self._follower.wake()
            if self._scheduler is not None:
                self._scheduler.wake()

    def _lost(self) -> None:
        """The store has forgotten this worker, and others may have its runs: it drops all and registers again."""
        if not self._running:
            return
        log.warning("worker %s was taken for dead; it drops what it held and registers again", self.id)
        self.lease.lost()
        self.advancer.lose_all()
        self.taker.lose_all()
        task = asyncio.get_running_loop().create_task(self._rejoin())
        self._rejoining = task

    async def _rejoin(self) -> None:
        await self._register()
        self.advancer.lose_all()  # another worker may have taken what was leased to it before
        self.taker.lose_all()
        self.claimer.doubt()  # it may have claimed after it was forgotten and before it knew
        self.taker.doubt()

    async def _register(self) -> None:
        sent_at = self.lease.time()
        row = worker_row(self.id, self._catalogue, queues_of(self._steps, self.options), self._clock.now())
        await patiently(partial(self._store.register, row, self.options.lease_seconds))
        self.lease.beaten(sent_at)

    async def stop(self, grace_seconds: float | None = None) -> None:
        """Finish or hand back: steps may end within the grace time, then everything leased is given to others."""
        if not self._running or self._draining:
            return
        self._draining = True
        for role in self.roles:
            await role.stop()
        await self._drain(self.options.grace_seconds if grace_seconds is None else grace_seconds)
        self._running = False
        self.advancer.close()
        self.taker.lose_all()
        await self._flush()
        await self._seal_last()
        await self._pulse.stop()
        await self._hand_back()
        await transports.release()
        if self._given_threads is None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _drain(self, grace_seconds: float) -> None:
        """Let what has begun end, and become durable. Each part may give the next one more to do."""
        self.performer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                while self._unfinished():
                    await self.performer.rested()
                    await self.advancer.rested()
                    await self.committer.flushed()

    async def _flush(self) -> None:
        """Give the receipts that were closed on the way out a moment to become durable."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await self.committer.flushed()

    async def _seal_last(self) -> None:
        """Seal what was noted on the way out: the next sealer may be long in coming."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._sealer.seal()
        except Exception as error:
            log.debug("the last entries of the audit wait for another worker to seal them: %s", error)

    def _unfinished(self) -> bool:
        return bool(self.performer.running) or self.advancer.busy or not self.committer.idle

    async def _hand_back(self) -> None:
        try:
            await self._store.unregister(self.id, self._clock.now())
            self._announce()
        except Exception as error:
            log.warning("the leases of worker %s could not be handed back, they will expire: %s", self.id, error)
