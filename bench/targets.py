"""The targets: each is a named ratio of figures from the same run, with its limit.

A target whose figures are missing (because a peer could not be run) is not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Results = dict[str, dict[str, dict[str, Any]]]

DEFINITIONS = "W1, definitions"
EVENTS = "W8"
OURS = ("Holdfast, SQLite", "Holdfast, PostgreSQL")
PEERS = ("Restate", "DBOS, SQLite", "DBOS, PostgreSQL", "Absurd, PostgreSQL")


class Missing(Exception):
    """A figure that a target needs is missing."""


class Target(NamedTuple):
    """With ``least`` the limit is the smallest allowed ratio, otherwise the largest."""

    name: str
    limit: float
    least: bool
    ratio: Callable[[Results], float]
    unit: str = "×"


class Verdict(NamedTuple):
    target: Target
    ratio: float | None

    @property
    def met(self) -> bool | None:
        if self.ratio is None:
            return None
        return self.ratio >= self.target.limit if self.target.least else self.ratio <= self.target.limit

    def __str__(self) -> str:
        word = {True: "met", False: "MISSED", None: "not judged"}[self.met]
        sign = "≥" if self.target.least else "≤"
        found = "–" if self.ratio is None else f"{self.ratio:.3g}"
        return f"{self.target.name} | {sign} {self.target.limit:.3g} {self.target.unit} | {found} | {word}"


def figure(results: Results, workload: str, contender: str, key: str) -> float:
    try:
        return float(results[workload][contender]["median"][key])
    except KeyError as error:
        raise Missing(f"{workload}, {contender}") from error


def best_peer(results: Results, workload: str, key: str) -> float:
    """The smallest figure of any peer. Only for figures of which less is better."""
    figures = []
    for peer in PEERS:
        try:
            figures.append(figure(results, workload, peer, key))
        except Missing:
            continue
    if not figures:
        raise Missing(workload)
    return min(figures)


def _over(workload: str, ours: str, other: tuple[str, str], key: str) -> Callable[[Results], float]:
    return lambda results: figure(results, workload, ours, key) / figure(results, *other, key)


def _to_best(workload: str, ours: str, key: str) -> Callable[[Results], float]:
    return lambda results: figure(results, workload, ours, key) / best_peer(results, workload, key)


def _throughput() -> list[Target]:
    rate = "steps_per_second"
    targets = []
    for ours, restate in zip(OURS, (4, 3), strict=True):
        store = ours.split(", ")[1]
        targets += [
            Target(f"W1 on {store}, to Restate", restate, True, _over("W1", ours, ("W1", "Restate"), rate)),
            Target(f"W1 on {store}, to DBOS on {store}", 30, True, _over("W1", ours, ("W1", f"DBOS, {store}"), rate)),
            Target(
                f"W1 on {store}, to the raw limit", 1 / 3, True, _over("W1", ours, ("raw", f"raw limit, {store}"), rate)
            ),
        ]
    return targets


def _to_best_peer() -> list[Target]:
    wanted = [
        ("W2", "p50_ms", "p50", 1 / 3),
        ("W2", "p99_ms", "p99", 1 / 2),
        ("W3", "seconds", "time", 1 / 2),
        ("W4", "start_seconds", "start", 1 / 2),
        ("W4", "wake_seconds", "wake", 1 / 3),
        ("W5", "seconds", "restart to done", 1),
    ]
    return [
        Target(
            f"{workload} {what} on {ours.split(', ')[1]}, to the best peer", limit, False, _to_best(workload, ours, key)
        )
        for workload, key, what, limit in wanted
        for ours in OURS
    ]


def _absolute() -> list[Target]:
    targets = []
    for ours in OURS:
        store = ours.split(", ")[1]
        targets += [
            Target(
                f"W4 memory per waiting run on {store}",
                1024,
                False,
                lambda results, ours=ours: figure(results, "W4", ours, "bytes_per_run"),  # type: ignore[misc]
                "bytes",
            ),
            Target(
                f"W5 recorded steps run again on {store}",
                0,
                False,
                lambda results, ours=ours: figure(results, "W5", ours, "recorded_steps_run_again"),  # type: ignore[misc]
                "steps",
            ),
            Target(
                f"W6 cost of a step on {store}, 10,000 to 1,000",
                1.1,
                False,
                lambda results, ours=ours: (  # type: ignore[misc]
                    figure(results, "W6, 10,000 steps", ours, "microseconds_per_step")
                    / figure(results, "W6, 1,000 steps", ours, "microseconds_per_step")
                ),
            ),
            Target(
                f"W6 W1 on {store} with 100,000 finished runs, to an empty store",
                0.9,
                True,
                _over("W6, 100,000 finished runs", ours, ("W6, empty store", ours), "steps_per_second"),
            ),
        ]
    return targets


def _scale() -> list[Target]:
    ours = "Holdfast, PostgreSQL"
    return [
        Target(
            "W7 two worker processes, to one",
            1.2,
            True,
            _over("W7, 2 workers", ours, ("W7, 1 workers", ours), "steps_per_second"),
        )
    ]


def _definitions() -> list[Target]:
    rate = "steps_per_second"
    stores = [ours.split(", ")[1] for ours in OURS]
    return [
        Target(
            f"W1 as a definition on {store}, to functions",
            0.6,
            True,
            _over(DEFINITIONS, f"definition, {store}", (DEFINITIONS, f"Holdfast, {store}"), rate),
        )
        for store in stores
    ]


def _events() -> list[Target]:
    rate = "events_per_second"
    targets = []
    for store in (ours.split(", ")[1] for ours in OURS):
        ours = f"machine, {store}"
        targets += [
            Target(f"W8 on {store}, to Restate", 5, True, _over(EVENTS, ours, (EVENTS, "Restate"), rate)),
            Target(
                f"W8 on {store}",
                5_000,
                True,
                lambda results, ours=ours: figure(results, EVENTS, ours, rate),  # type: ignore[misc]
                "events/s",
            ),
        ]
    return targets


TARGETS = (*_throughput(), *_definitions(), *_events(), *_to_best_peer(), *_absolute(), *_scale())


def judge(results: Results) -> list[Verdict]:
    verdicts = []
    for target in TARGETS:
        try:
            verdicts.append(Verdict(target, target.ratio(results)))
        except Missing:
            verdicts.append(Verdict(target, None))
    return verdicts
