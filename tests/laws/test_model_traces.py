"""Traces of the formal model, judged twice: by the kernel's ledger, and by the laws read literally.

The second judge is slow and plain on purpose. Each law is a sentence about a whole journal, with its "for all" and
"there is", over the bare JSON of the trace; it shares no code with the ledger, nor with the reader of traces. The
journal's first offending event is the end of its shortest prefix that breaks a law.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from holdfast.journal.events import EVENTS
from holdfast.journal.laws import LAWS
from holdfast.journal.trace import check_trace

TRACES = Path(__file__).parent.parent / "journals" / "model"
LAWFUL = sorted(TRACES.glob("lawful-*.itf.json"))
BREAKING = sorted([*TRACES.glob("lawless-*.itf.json"), *TRACES.glob("lax-*.itf.json")])

TERMINAL = {"ExecutionCompleted", "ExecutionFailed", "ExecutionCancelled"}
INVOKING = {"InvokeStarted", "InvokeRetrying", "InvokeCompleted"}
STATUS_AFTER = {
    "ExecutionStarted": "Running",
    "ExecutionResumed": "Running",
    "CancelRequested": "Cancelling",
    "ExecutionCompleted": "Completed",
    "ExecutionFailed": "Failed",
    "ExecutionCancelled": "Cancelled",
}

Entry = dict[str, Any]
Journal = list[Entry]


def plain(value: Any) -> Any:
    """A value of the trace format without its wrappings. Lists become tuples, so that they can be members of sets."""
    if isinstance(value, list):
        return tuple(map(plain, value))
    if not isinstance(value, dict):
        return value
    if "#bigint" in value:
        return int(value["#bigint"])
    if "#set" in value:
        return frozenset(map(plain, value["#set"]))
    if "#map" in value:
        return {plain(key): plain(entry) for key, entry in value["#map"]}
    if "#tup" in value:
        return tuple(map(plain, value["#tup"]))
    return {key: plain(entry) for key, entry in value.items()}


def tag(entry: Entry) -> str:
    return str(entry["event"]["tag"])


def of(entry: Entry, field: str) -> Any:
    return entry["event"]["value"][field]


def same(one: Entry, other: Entry, *fields: str) -> bool:
    return all(of(one, field) == of(other, field) for field in fields)


def fold(journal: Journal) -> tuple[str, Any]:
    """The status, with what it waits for."""
    status: tuple[str, Any] = ("Running", None)
    for entry in journal:
        if tag(entry) == "ExecutionAwaiting":
            status = ("Blocked", entry["event"]["value"])
        elif tag(entry) in STATUS_AFTER:
            status = (STATUS_AFTER[tag(entry)], None)
    return status


def preceded(journal: Journal, kind: str, by: str, *fields: str) -> bool:
    """Every event of the kind has one of the other kind before it, with the same fields."""
    return all(
        any(tag(before) == by and same(before, entry, *fields) for before in journal[:index])
        for index, entry in enumerate(journal)
        if tag(entry) == kind
    )


def unique(journal: Journal, kind: str, *fields: str) -> bool:
    """No two events of the kind agree in the fields."""
    return all(
        i == j or not (tag(a) == tag(b) == kind and same(a, b, *fields))
        for i, a in enumerate(journal)
        for j, b in enumerate(journal)
    )


def only_while(journal: Journal, kinds: set[str], statuses: set[str]) -> bool:
    return all(fold(journal[:i])[0] in statuses for i, entry in enumerate(journal) if tag(entry) in kinds)


def nothing_after_completed(journal: Journal) -> bool:
    return not any(
        tag(later) in INVOKING and same(entry, later, "promise_id")
        for i, entry in enumerate(journal)
        if tag(entry) == "InvokeCompleted"
        for later in journal[i + 1 :]
    )


def retried_as_started(journal: Journal) -> bool:
    return all(
        any(
            tag(before) == "InvokeStarted"
            and same(before, entry, "promise_id")
            and of(before, "attempt") == of(entry, "failed_attempt")
            for before in journal[:i]
        )
        for i, entry in enumerate(journal)
        if tag(entry) == "InvokeRetrying"
    )


def retries_bounded(journal: Journal) -> bool:
    counts = Counter(of(entry, "promise_id") for entry in journal if tag(entry) == "InvokeRetrying")
    return all(count <= 3 for count in counts.values())


def fired_when_due(journal: Journal) -> bool:
    return all(
        any(
            tag(before) == "TimerScheduled"
            and same(before, entry, "promise_id")
            and of(before, "fire_at") <= entry["timestamp"]
            for before in journal[:i]
        )
        for i, entry in enumerate(journal)
        if tag(entry) == "TimerFired"
    )


def first_in_first_out(journal: Journal) -> bool:
    """Per name, what was received up to any point is the beginning of what was delivered up to there."""
    for end in range(len(journal) + 1):
        delivered, received = (
            [(of(entry, "signal_name"), of(entry, "delivery_id")) for entry in journal[:end] if tag(entry) == kind]
            for kind in ("SignalDelivered", "SignalReceived")
        )
        for name in {name for name, _ in received}:
            taken = [delivery for of_name, delivery in received if of_name == name]
            buffered = [delivery for of_name, delivery in delivered if of_name == name]
            if buffered[: len(taken)] != taken:
                return False
    return True


def signal_awaits_its_promise(journal: Journal) -> bool:
    return all(
        of(entry, "waiting_on") == {of(entry, "kind")["value"]["promise_id"]}
        for entry in journal
        if tag(entry) == "ExecutionAwaiting" and of(entry, "kind")["tag"] == "AwaitSignal"
    )


def no_submit_after_await(journal: Journal) -> bool:
    return not any(
        tag(entry) == "JoinSetAwaited" and tag(later) == "JoinSetSubmitted" and same(entry, later, "join_set_id")
        for i, entry in enumerate(journal)
        for later in journal[i + 1 :]
    )


def awaits_bounded(journal: Journal) -> bool:
    counted = Counter((tag(entry), of(entry, "join_set_id")) for entry in journal if tag(entry).startswith("JoinSet"))
    return all(counted["JoinSetAwaited", js] <= counted["JoinSetSubmitted", js] for _, js in list(counted))


def one_owner(journal: Journal) -> bool:
    submitted = [entry for entry in journal if tag(entry) == "JoinSetSubmitted"]
    return all(same(a, b, "join_set_id") for a in submitted for b in submitted if same(a, b, "promise_id"))


def terminals(journal: Journal) -> list[int]:
    return [i for i, entry in enumerate(journal) if tag(entry) in TERMINAL]


SENTENCES: dict[str, Callable[[Journal], bool]] = {
    "S-1": lambda j: [entry["sequence"] for entry in j] == list(range(len(j))),
    "S-2": lambda j: not j or tag(j[0]) == "ExecutionStarted",
    "S-3": lambda j: len(terminals(j)) <= 1,
    "S-4": lambda j: all(i == len(j) - 1 for i in terminals(j)),
    "S-5": lambda j: preceded(j, "ExecutionCancelled", "CancelRequested"),
    "S-6": lambda j: only_while(j, {"ExecutionCompleted", "ExecutionFailed"}, {"Running", "Cancelling"}),
    "S-7": lambda j: only_while(j, {"CancelRequested"}, {"Running", "Blocked"}),
    "SE-1": lambda j: preceded(j, "InvokeStarted", "InvokeScheduled", "promise_id"),
    "SE-2": lambda j: preceded(j, "InvokeCompleted", "InvokeStarted", "promise_id"),
    "SE-3": retried_as_started,
    "SE-4": nothing_after_completed,
    "SE-5": retries_bounded,
    "CF-1": lambda j: fired_when_due(j) and unique(j, "TimerFired", "promise_id"),
    "CF-2": lambda j: preceded(j, "SignalReceived", "SignalDelivered", "signal_name", "delivery_id", "payload"),
    "CF-3": lambda j: unique(j, "SignalReceived", "signal_name", "delivery_id") and first_in_first_out(j),
    "CF-4": signal_awaits_its_promise,
    "JS-1": lambda j: preceded(j, "JoinSetSubmitted", "JoinSetCreated", "join_set_id"),
    "JS-2": no_submit_after_await,
    "JS-3": lambda j: preceded(j, "JoinSetAwaited", "JoinSetSubmitted", "join_set_id", "promise_id"),
    "JS-4": lambda j: preceded(j, "JoinSetAwaited", "InvokeCompleted", "promise_id"),
    "JS-5": lambda j: unique(j, "JoinSetAwaited", "join_set_id", "promise_id"),
    "JS-6": awaits_bounded,
    "JS-7": one_owner,
}


def broken_laws(execution: dict[str, Any]) -> list[str]:
    """The laws that the first offending event breaks, in their order; else INV-4 where the stored status is wrong."""
    journal = list(execution["journal"])
    for end in range(1, len(journal) + 1):
        broken = [law for law, holds in SENTENCES.items() if not holds(journal[:end])]
        if broken:
            return broken
    stored = execution["status"]
    word, waits = fold(journal)
    agrees = stored["tag"] == word and (word != "Blocked" or stored["value"] == waits)
    return [] if agrees else ["INV-4"]


def read_literally(trace: dict[str, Any]) -> Iterator[tuple[int, tuple[int, ...], list[str], str]]:
    for number, state in enumerate(trace["states"]):
        for execution, value in plain(state["executions"]).items():
            yield number, execution, broken_laws(value), value["status"]["tag"]


def assert_same_judgement(trace: dict[str, Any]) -> set[str]:
    """The ledger refuses where the sentences do, by a law that the first offending event breaks."""
    verdicts = list(check_trace(json.dumps(trace)))
    literal = list(read_literally(trace))
    assert [(verdict.state, verdict.execution) for verdict in verdicts] == [
        (state, who) for state, who, _, _ in literal
    ]
    for verdict, (_, _, broken, stored) in zip(verdicts, literal, strict=True):
        assert verdict.accepted == (not broken), (verdict, broken)
        assert verdict.law in broken if broken else verdict.law is None, (verdict, broken)
        assert verdict.status == (None if broken else stored), verdict
    return {verdict.law for verdict in verdicts if verdict.law is not None}


@pytest.mark.parametrize("path", LAWFUL, ids=lambda path: path.name)
def test_a_lawful_trace_is_accepted_with_the_models_status(path: Path) -> None:
    """J-76: where every invariant holds, the kernel accepts, and folds to the status that the model stores."""
    assert assert_same_judgement(json.loads(path.read_text())) == set()


@pytest.mark.parametrize("path", BREAKING, ids=lambda path: path.name)
def test_a_breaking_trace_is_refused_where_the_laws_say_so(path: Path) -> None:
    """J-76: where an invariant breaks, the kernel refuses by that invariant's id, and nowhere else."""
    assert_same_judgement(json.loads(path.read_text()))


def test_the_lawful_traces_hold_every_event() -> None:
    """What is never seen is not checked: the kept traces use all twenty events."""
    seen = {tag(entry) for _, execution in final_executions() for entry in execution["journal"]}
    assert seen == {event.__name__ for event in EVENTS}


def test_the_breaking_traces_break_what_a_lax_model_breaks() -> None:
    """The five laws that a laxer kernel breaks on its own, and those that only a lawless one does."""
    met = {law for path in BREAKING for law in assert_same_judgement(json.loads(path.read_text()))}
    assert {"S-1", "S-6", "S-7", "SE-1", "SE-2", "SE-3", "SE-4", "CF-1", "CF-2", "JS-1", "JS-3", "INV-4"} <= met


def final_executions() -> Iterator[tuple[Any, dict[str, Any]]]:
    for path in LAWFUL:
        yield from json.loads(path.read_text())["states"][-1]["executions"]["#map"]


def renumbered(journal: Journal) -> Journal:
    return [{**entry, "sequence": {"#bigint": str(index)}} for index, entry in enumerate(journal)]


def without_one(journal: Journal) -> Iterator[Journal]:
    for index in range(len(journal)):
        yield renumbered(journal[:index] + journal[index + 1 :])


def with_a_gap(journal: Journal) -> Iterator[Journal]:
    for index in range(len(journal)):
        yield journal[:index] + journal[index + 1 :]


def with_a_swap(journal: Journal) -> Iterator[Journal]:
    for index in range(len(journal) - 1):
        yield renumbered([*journal[:index], journal[index + 1], journal[index], *journal[index + 2 :]])


def with_a_repeat(journal: Journal) -> Iterator[Journal]:
    for index in range(len(journal)):
        yield renumbered([*journal, journal[index]])
        yield renumbered([*journal[: index + 1], *journal[index:]])


def with_another_number(journal: Journal) -> Iterator[Journal]:
    for index, entry in enumerate(journal):
        fields = entry["event"]["value"]
        for field in ("attempt", "failed_attempt", "delivery_id", "fire_at"):
            if isinstance(fields, dict) and field in fields:
                changed = deepcopy(journal)
                changed[index]["event"]["value"][field] = {"#bigint": str(int(fields[field]["#bigint"]) + 1)}
                yield changed


def with_another_promise(journal: Journal) -> Iterator[Journal]:
    """Each event speaks of every other promise or join set that the journal knows."""
    known = {json.dumps(pid) for entry in journal for pid in names(entry)}
    for index, entry in enumerate(journal):
        for field in ("promise_id", "join_set_id"):
            if isinstance(entry["event"]["value"], dict) and field in entry["event"]["value"]:
                for pid in sorted(known):
                    changed = deepcopy(journal)
                    changed[index]["event"]["value"][field] = json.loads(pid)
                    yield changed


def names(entry: Entry) -> Iterator[Any]:
    fields = entry["event"]["value"]
    if isinstance(fields, dict):
        yield from (fields[field] for field in ("promise_id", "join_set_id") if field in fields)


MUTATIONS = [without_one, with_a_gap, with_a_swap, with_a_repeat, with_another_number, with_another_promise]


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__)
def test_a_changed_journal_is_judged_as_the_laws_read(mutate: Callable[[Journal], Iterator[Journal]]) -> None:
    """Laws J-52 to J-73 and nothing else: a small change to a lawful journal is refused exactly when they say so."""
    broken: set[str] = set()
    for key, execution in final_executions():
        for journal in mutate(execution["journal"]):
            changed = {**execution, "journal": journal}
            broken |= assert_same_judgement({"states": [{"executions": {"#map": [[key, changed]]}}]})
    assert broken


def test_the_sentences_cover_the_laws_of_the_model() -> None:
    """Every law of the model but the one across executions, which a single journal cannot break, has its sentence."""
    model = {law for law in LAWS if not law.startswith("K-")}
    assert model - {"INV-4", "INV-6"} == SENTENCES.keys()
