"""The judge itself: for each law a journal that breaks it, and lawful ones beside them. No engine made these."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from holdfast.journal import events as e
from holdfast.journal.payload import CONTINUED, ONCE, Err, Failure, Ok, Outcome, Payload
from holdfast.journal.promise import PromiseId
from holdfast.programs.function.values import encode
from tests.laws.sagas.judge import judge, judge_refusal, judge_waiting
from tests.laws.sagas.lives import Life
from tests.laws.sagas.play import Booking, Note, book, do, unbook, undo
from tests.laws.sagas.violation import Violation

ROOT = PromiseId.of_run("digest", None, "run")
UNLUCKY = Err(Failure("builtins:ValueError", "no"))
FAILED = e.ExecutionFailed(Failure("builtins:ValueError", "no"))
COMPLETED = e.ExecutionCompleted(Payload(b"\xf6"))
CONTINUES = e.ExecutionCompleted(Payload(b"\xf6", CONTINUED))
CANCELLED = (e.CancelRequested("enough"), e.ExecutionCancelled("enough"))
REST = e.ExecutionAwaiting((ROOT.child(99),), e.Single())

_positions = itertools.count()

LATE = 1000
"""More events than any journal here has: the body ended after all that was done."""

RETURNED = (Note("left", "returned", at=LATE),)
RAISED = (Note("left", "raised", "ValueError", LATE),)
STOPPED = (Note("left", "raised", "CancelledError", LATE),)
AGAIN = (Note("continues", "ContinueAsNew"), Note("left", "raised", "ContinueAsNew", LATE))
GAVE_UP = (Note("gave up", "k1"),)
EARLY = (Note("left", "returned", at=1),)


def called(name: str, args: list[object], result: Outcome) -> list[e.Event]:
    promise = ROOT.child(next(_positions))
    scheduled = e.InvokeScheduled(promise, "step", name, encode([args, {}]), ONCE)
    return [scheduled, e.InvokeStarted(promise, 1), e.InvokeCompleted(promise, result, 1)]


def did(value: str) -> list[e.Event]:
    return [*called(do.name, [value.partition("#")[0], 0], Ok(encode(value))), REST]


def at_once(one: list[e.Event], other: list[e.Event]) -> list[e.Event]:
    return [one[0], other[0], *one[1:3], *other[1:]]


def undid(value: str, by: int = 100) -> list[e.Event]:
    return called(undo.name, [value], Ok(encode(f"{value} undone by {by}")))


def missed(value: str) -> list[e.Event]:
    return called(undo.name, [value], UNLUCKY)


def delivered(name: str, *values: str) -> list[e.Event]:
    return [e.SignalDelivered(name, encode(value), number) for number, value in enumerate(values, 1)]


def got(*values: str) -> tuple[Note, ...]:
    return tuple(note for value in values for note in (Note("wants", "left"), Note("got", "left", value)))


def life(events: Sequence[e.Event], notes: Sequence[Note], origin: str = "start") -> Life:
    started = e.ExecutionStarted("digest", Payload(b""), None, "run")
    entries = [e.Entry(number, 0, event) for number, event in enumerate([started, *events])]
    return Life(origin, entries, list(notes))


LAWFUL: dict[str, Callable[[], list[Life]]] = {
    "it completes": lambda: [life([*did("k1#1"), COMPLETED], RETURNED)],
    "what it gave up is undone": lambda: [life([*did("k1#1"), *undid("k1#1"), COMPLETED], (*GAVE_UP, *RETURNED))],
    "what was done after its body is undone": lambda: [life([*did("k1#1"), *undid("k1#1"), COMPLETED], EARLY)],
    "what it gave up cannot be undone": lambda: [
        life([*did("k1#1"), *missed("k1#1"), e.ExecutionFailed(Failure("x:Y", "k1#1"))], (*GAVE_UP, *RETURNED))
    ],
    "it fails": lambda: [life([*did("k1#1"), *did("k2#2"), *undid("k2#2"), *undid("k1#1"), FAILED], RAISED)],
    "it is cancelled": lambda: [life([*did("k1#1"), CANCELLED[0], *undid("k1#1"), CANCELLED[1]], STOPPED)],
    "an undo fails and is reported": lambda: [
        life([*did("k1#1"), *missed("k1#1"), e.ExecutionFailed(Failure("x:Y", "no; undo k1#1 failed"))], RAISED)
    ],
    "both were called at once": lambda: [
        life([*at_once(did("k1#1"), did("k2#2")), *undid("k1#1"), *undid("k2#2"), FAILED], RAISED)
    ],
    "a later generation undoes all": lambda: [
        life([*did("k1#1"), CONTINUES], AGAIN),
        life([*did("k2#2"), *undid("k2#2"), *undid("k1#1"), FAILED], RAISED, "continue"),
    ],
    "what was undone is done again": lambda: [
        life([*did("k1#1"), *undid("k1#1"), FAILED], RAISED),
        life([*did("k1#2"), COMPLETED], RETURNED, "retry"),
    ],
    "what could not be undone is kept": lambda: [
        life([*did("k1!#1"), *missed("k1!#1"), e.ExecutionFailed(Failure("x:Y", "no; undo k1!#1"))], RAISED),
        life([*did("k1!#1"), COMPLETED], RETURNED, "retry"),
    ],
    "signals in order": lambda: [
        life([*delivered("left", "s1", "s2", "s3"), COMPLETED], (*got("s1", "s2"), *RETURNED))
    ],
    "a signal is left to the next generation": lambda: [
        life([*delivered("left", "s1", "s2"), CONTINUES], (*got("s1"), *AGAIN)),
        life([*delivered("left", "s2"), COMPLETED], (*got("s2"), *RETURNED), "continue"),
    ],
}

UNLAWFUL: dict[str, tuple[str, Callable[[], list[Life]]]] = {
    "a signal is passed over": (
        "L1",
        lambda: [life([*delivered("left", "s1", "s2", "s3"), COMPLETED], (*got("s1", "s3"), *RETURNED))],
    ),
    "a signal is received twice": (
        "L1",
        lambda: [life([*delivered("left", "s1", "s2"), COMPLETED], (*got("s1", "s1"), *RETURNED))],
    ),
    "a signal is lost between generations": (
        "L1",
        lambda: [
            life([*delivered("left", "s1", "s2"), CONTINUES], (*got("s1"), *AGAIN)),
            life([COMPLETED], RETURNED, "continue"),
        ],
    ),
    "a signal is lost by a retry": (
        "L1",
        lambda: [
            life([*delivered("left", "s1", "s2"), FAILED], (*got("s1"), *RAISED)),
            life([*delivered("left", "s2"), COMPLETED], RETURNED, "retry"),
        ],
    ),
    "nothing is undone": ("L2", lambda: [life([*did("k1#1"), FAILED], RAISED)]),
    "a struct is not undone": (
        "L2",
        lambda: [life([*called(book.name, ["k1", 0], Ok(encode(Booking("k1#1")))), FAILED], RAISED)],
    ),
    "nothing is undone when it is cancelled": ("L2", lambda: [life([*did("k1#1"), *CANCELLED], STOPPED)]),
    "it completes and something is undone": ("L2", lambda: [life([*did("k1#1"), *undid("k1#1"), COMPLETED], RETURNED)]),
    "what it gave up stands": ("L2", lambda: [life([*did("k1#1"), COMPLETED], (*GAVE_UP, *RETURNED))]),
    "what was done after its body stands": ("L2", lambda: [life([*did("k1#1"), COMPLETED], EARLY)]),
    "one is forgotten": ("L3", lambda: [life([*did("k1#1"), *did("k2#2"), *undid("k2#2"), FAILED], RAISED)]),
    "one is undone twice": ("L3", lambda: [life([*did("k1#1"), *undid("k1#1"), *undid("k1#1", 101), FAILED], RAISED)]),
    "one is undone that never was": ("L3", lambda: [life([*undid("k1#1"), FAILED], RAISED)]),
    "the oldest is undone first": (
        "L3",
        lambda: [life([*did("k1#1"), *did("k2#2"), *undid("k1#1"), *undid("k2#2"), FAILED], RAISED)],
    ),
    "an undo fails and nobody says so": ("L3", lambda: [life([*did("k1#1"), *missed("k1#1"), FAILED], RAISED)]),
    "what was undone is taken for done": (
        "L4",
        lambda: [
            life([*did("k1#1"), *undid("k1#1"), FAILED], RAISED),
            life([*did("k1#1"), COMPLETED], RETURNED, "retry"),
        ],
    ),
    "a second failure undoes again": (
        "L4",
        lambda: [
            life([*did("k1#1"), *undid("k1#1"), FAILED], RAISED),
            life([*did("k1#1"), *undid("k1#1", 101), FAILED], RAISED, "retry"),
        ],
    ),
    "what could not be undone is done again": (
        "L4",
        lambda: [
            life([*did("k1!#1"), *missed("k1!#1"), e.ExecutionFailed(Failure("x:Y", "no; undo k1!#1"))], RAISED),
            life([*did("k1!#2"), COMPLETED], RETURNED, "retry"),
        ],
    ),
    "what is on no path stands": (
        "L4",
        lambda: [
            life([*did("k1#1"), FAILED], RAISED),
            life([COMPLETED], RETURNED, "retry"),
        ],
    ),
    "an earlier generation is forgotten": (
        "L5",
        lambda: [life([*did("k1#1"), CONTINUES], AGAIN), life([FAILED], RAISED, "continue")],
    ),
    "sys.exit() undoes nothing": (
        "L5",
        lambda: [life([*did("k1#1"), FAILED], (Note("left", "raised", "SystemExit"),))],
    ),
    "continue_as_new fails the run": ("L5", lambda: [life([FAILED], AGAIN)]),
    "a returned body fails": ("L5", lambda: [life([FAILED], RETURNED)]),
    "an undo gets another call's arguments": (
        "L5",
        lambda: [
            life(
                [
                    *called(book.name, ["k1", 0], Ok(encode(Booking("k1#1")))),
                    *called(unbook.name, [Booking("k1#1"), "k2"], Ok(encode("k1#1 as k2 undone by 2"))),
                    FAILED,
                ],
                RAISED,
            )
        ],
    ),
}


@pytest.mark.parametrize("case", LAWFUL)
def test_the_judge_lets_lawful_runs_pass(case: str) -> None:
    judge("run", LAWFUL[case]())


@pytest.mark.parametrize("case", UNLAWFUL)
def test_the_judge_sees_each_law_broken(case: str) -> None:
    law, lives = UNLAWFUL[case]
    with pytest.raises(Violation) as caught:
        judge("run", lives())
    assert caught.value.law == law


def test_the_judge_sees_a_receive_that_waits_beside_its_signal() -> None:
    """A run that waits for what was delivered has lost it."""
    notes = (*got("s1"), Note("wants", "left"))
    judge_waiting("run", life([*delivered("left", "s1"), REST], notes))
    with pytest.raises(Violation):
        judge_waiting("run", life([*delivered("left", "s1", "s2"), REST], notes))


def test_the_judge_sees_a_retry_that_is_refused_for_nothing() -> None:
    """Where nothing was undone, nor done after a failure, nothing stands in the way of a retry."""
    judge_refusal("run", "what it did was undone", [[life([*did("k1#1"), *undid("k1#1"), FAILED], RAISED)]])
    with pytest.raises(Violation):
        judge_refusal("run", "no", [[life([FAILED], RAISED)]])
