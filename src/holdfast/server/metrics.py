"""Metrics for Prometheus: counted here as things happen, or read from the store when they are asked for.

No label names a run, a person or a tenant. What is read is read for at most a thousand rows, and at most once in a few
seconds, however often it is asked for.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from holdfast.client.engine import Holdfast
from holdfast.errors import NotAuthenticated
from holdfast.runs.losses import losses_in
from holdfast.server.problems import answer
from holdfast.server.protection.proxies import foreign_signs
from holdfast.server.public import PublicRoute
from holdfast.server.streams.watcher import StreamWatcher
from holdfast.store import protocol as p
from holdfast.webhooks.subscription import DELIVERY

MOST_READ: Final = 1000
FRESH_SECONDS: Final = 5.0

_UNDELIVERED: Final = ("pending", "failed")
_RUN_SECONDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800, 3600, 86400, 604800)
_STEP_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 1800)
_BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_REQUEST_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30)


class _WithoutBirths(Collector):
    """The metrics without the samples ``…_created``, which say when each was first counted: no query needs them, and
    they are a third of all lines."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Metrics:
    """The metrics of one engine, and of its server where it has one. It observes the engine if nobody else does."""

    def __init__(
        self, app: Holdfast, watcher: StreamWatcher | None, token: str | None, *, is_open_to_all: bool
    ) -> None:
        self._app = app
        self._watcher = watcher
        self._token = token
        self._is_open = is_open_to_all
        self._read_at = -FRESH_SECONDS
        self._ended: dict[tuple[str, str, int], Histogram] = {}
        self.registry = registry = CollectorRegistry(auto_describe=True)
        self._make_counted(registry)
        self._make_read(registry)
        self.route = PublicRoute(
            method="GET",
            path="/metrics",
            words="Metrics for Prometheus, with the token of HOLDFAST_METRICS_TOKEN.",
            handler=self._answer,
        )
        if app.observation.observer is None:
            app.observation.observer = self

    def _make_counted(self, registry: CollectorRegistry) -> None:
        self._runs_total = Counter(
            "holdfast_runs", "Runs that ended in this process.", ["workflow", "outcome"], registry=registry
        )
        self._run_seconds = Histogram(
            "holdfast_run_seconds",
            "From a run's start to its end.",
            ["workflow"],
            buckets=_RUN_SECONDS,
            registry=registry,
        )
        self._step_seconds = Histogram(
            "holdfast_step_seconds",
            "Attempts of steps and actions.",
            ["step", "outcome"],
            buckets=_STEP_SECONDS,
            registry=registry,
        )
        self._batch = Histogram(
            "holdfast_commit_batch", "Changes in one transaction.", buckets=_BATCHES, registry=registry
        )
        self._requests = Histogram(
            "holdfast_request_seconds",
            "Requests, by the path of their route.",
            ["method", "route", "status"],
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self._tries = Counter(
            "holdfast_delivery_attempts", "Tries of subscriptions' deliveries here.", ["outcome"], registry=registry
        )

    def _make_read(self, registry: CollectorRegistry) -> None:
        self._deliveries = Gauge(
            "holdfast_deliveries_present", "Deliveries that wait or failed, up to 1000.", ["status"], registry=registry
        )
        self._runs = Gauge("holdfast_runs_present", "Runs in the store.", ["status"], registry=registry)
        self._parked = Gauge("holdfast_runs_parked", "Parked runs, up to 1000.", registry=registry)
        self._lost = Gauge(
            "holdfast_lost_changes",
            "Acknowledged changes that a failover has lost, not repeated yet.",
            registry=registry,
        )
        self._tasks = Gauge("holdfast_tasks_open", "Open tasks, up to 1000.", ["kind"], registry=registry)
        self._unsealed = Gauge(
            "holdfast_audit_unsealed_seconds", "Age of the oldest unsealed entry.", registry=registry
        )
        self._due = Gauge(
            "holdfast_oldest_due_seconds", "How long the oldest ready run waits for a worker.", registry=registry
        )
        self._payloads = Gauge(
            "holdfast_payload_bytes",
            "Large arguments and results of steps under way here.",
            ["kind"],
            registry=registry,
        )
        self._streams = Gauge("holdfast_streams_open", "Open streams of events.", registry=registry)

    # -- counted as it happens

    def run_ended(self, workflow: str, outcome: str, seconds: float) -> None:
        self._runs_total.labels(workflow, outcome).inc()
        self._run_seconds.labels(workflow).observe(seconds)

    def step_ended(self, step: str, outcome: str, seconds: float) -> None:
        self._step_seconds.labels(step, outcome).observe(seconds)

    def delivery_tried(self, outcome: str) -> None:
        self._tries.labels(outcome).inc()

    def committed(self, changes: int) -> None:
        self._batch.observe(changes)

    def request_ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` is the path of the table, never the one that was sent."""
        place = method, route, status
        found = self._ended.get(place)
        if found is None:  # to look a child up by its labels costs more than to observe
            found = self._ended[place] = self._requests.labels(method, route, str(status))
        found.observe(seconds)

    # -- read when asked for

    async def _answer(self, request: Request) -> Response:
        if not self._may(request):
            problem = (
                "metrics are for whoever has the token of HOLDFAST_METRICS_TOKEN: set it for the server, and send it."
            )
            return answer(NotAuthenticated(problem), "/metrics")
        now = time.monotonic()
        if self._app.is_open and now - self._read_at >= FRESH_SECONDS:
            self._read_at = now
            await self._read()
        if self._app.worker is not None and self._app.worker.running:
            for kind, size in self._app.worker.performer.room.bytes.items():
                self._payloads.labels(kind).set(size)
        if self._watcher is not None:
            self._streams.set(self._watcher.open_streams)
        return Response(generate_latest(_WithoutBirths(self.registry)), media_type=CONTENT_TYPE_LATEST)

    def _may(self, request: Request) -> bool:
        if self._is_open:
            return not foreign_signs(request)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return (
            self._token is not None
            and scheme.lower() == "bearer"
            and hmac.compare_digest(given.encode(), self._token.encode())
        )

    async def _read(self) -> None:
        store, now = self._app.store, self._app.clock.now()
        self._runs.clear()
        for row in await store.counts():
            self._runs.labels(row.status).inc(row.count)
        self._parked.set(len(await store.find(p.Query(parked=True, status="paused"), MOST_READ)))
        self._lost.set(len(await losses_in(store, now)))
        self._tasks.clear()
        for task in await store.tasks(p.TaskQuery(None, "requested"), MOST_READ):
            self._tasks.labels(task.kind).inc()
        for status in _UNDELIVERED:
            self._deliveries.labels(status).set(len(await store.items(DELIVERY, MOST_READ, status=status)))
        oldest = [entry.at for entry in await store.unsealed(1)]
        self._unsealed.set(max(0, now - oldest[0]) / 1e6 if oldest else 0)
        due = await store.oldest_due()
        self._due.set(0 if due is None else max(0, now - due) / 1e6)
