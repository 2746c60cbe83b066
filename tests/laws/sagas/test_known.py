"""Small programs, each of which broke a law once, or easily could; each under many schedules.

A failure's notes show the schedule, and the command that plays it again.
"""

from __future__ import annotations

from typing import Final

import pytest

from tests.laws.sagas.runner import play
from tests.laws.sagas.tree import (
    Again,
    AsCompleted,
    Ask,
    Child,
    Do,
    Drain,
    Ensure,
    Gather,
    Group,
    Join,
    Loose,
    Node,
    Race,
    Raise,
    Receive,
    Rescue,
    Seq,
    Shield,
    Sleep,
    Stream,
    Timeout,
)
from tests.scope import volume

SCHEDULES: Final = volume(4, 30)
WHOLE_SCHEDULES: Final = volume(1, 6)

LEFT, RIGHT = Receive("left"), Receive("right")
DRAINS = Seq((Drain("left"), Drain("right")))
A, B, C = Do("a"), Do("b", typed=True), Do("c?")
FAILS = Do("x", fails=99, undoable=False)
FAILS_ONCE = Do("x", fails=2, undoable=False)
FAILS_TWICE = Do("x", fails=4, undoable=False)
WAITS = Sleep(0.5)

SIGNALS: Final[dict[str, Node]] = {
    "two receives of one name are raced": Seq((Race((LEFT, LEFT)), DRAINS)),
    "three receives wait, and one of them is cancelled": Group((Race((LEFT, LEFT)), Seq((LEFT, DRAINS)))),
    "two receives of two names are raced": Seq((Race((LEFT, RIGHT)), DRAINS)),
    "the losers are not awaited": Seq((Race((LEFT, RIGHT), tidy=False), DRAINS)),
    "futures are raced": Seq((Race((LEFT, RIGHT, LEFT), futures=True), DRAINS)),
    "a receive races with a step": Seq((Race((A, LEFT)), DRAINS)),
    "a receive races with its time": Seq((Rescue(Timeout(1.0, LEFT), WAITS), DRAINS)),
    "wait_for a receive": Seq((Rescue(Timeout(1.0, LEFT, wait_for=True), WAITS), DRAINS)),
    "two receives under one time-out": Seq((Rescue(Timeout(1.0, Gather((LEFT, RIGHT))), WAITS), DRAINS)),
    "a sibling's failure cancels a receive": Seq((Rescue(Group((FAILS, LEFT, LEFT)), WAITS), DRAINS)),
    "a failure leaves a receive behind": Seq((Rescue(Gather((FAILS, LEFT)), WAITS), DRAINS)),
    "a shielded receive outlives its race": Seq((Race((Shield(LEFT), RIGHT)), DRAINS)),
    "a race, then the next generation": Seq((Race((LEFT, LEFT, RIGHT)), Again(DRAINS))),
    "a cancelled receive, then cleanup": Ensure(Gather((LEFT, RIGHT)), DRAINS),
}

EFFECTS: Final[dict[str, Node]] = {
    "a failure and a success in one gather": Gather((FAILS, A)),
    "a failure and a success in one group": Group((FAILS, A, B)),
    "two failures and a success": Race((FAILS, Do("y", fails=99), A)),
    "the loser's success is recorded": Seq((Race((A, B)), FAILS)),
    "the loser's success is recorded before a new generation": Seq((Race((A, B)), Again(FAILS))),
    "time is up as it succeeds": Seq((Rescue(Timeout(1.0, Gather((A, B))), WAITS), FAILS)),
    "wait_for is up as it succeeds": Seq((Rescue(Timeout(1.0, A, wait_for=True), WAITS), FAILS)),
    "no result of a join set is taken": Seq((Join((A, B), 0), FAILS)),
    "one result of a join set is taken": Seq((Join((A, B, C), 1), FAILS)),
    "a join set of which one fails": Join((A, B, Do("y", fails=99))),
    "a join set of children": Seq((Join((Child(A), B), 1), FAILS)),
    "a task that nobody awaits": Seq((Loose(Seq((A, B))), C, FAILS)),
    "a shield outlives its failure": Group((Shield(Seq((A, B))), FAILS)),
    "one after the other": Seq((A, B, C, WAITS, Raise())),
    "cleanup has effects": Ensure(Seq((A, FAILS)), B),
    "an undo fails": Seq((A, Do("b!"), C, Raise())),
    "a parent's time is up while its child compensates": Rescue(Timeout(1.0, Child(Seq((A, B, C, Raise())))), WAITS),
    "a child completes and its parent fails": Seq((A, Child(B), FAILS)),
    "a cancellation is swallowed": Seq((Rescue(Seq((A, WAITS)), B, stubborn=True), C)),
}

RETRIES: Final[dict[str, Node]] = {
    "it works when it is retried": Seq((A, B, FAILS_ONCE, C)),
    "it works when it is retried twice": Seq((A, FAILS_TWICE, B)),
    "it never works": Seq((A, B, FAILS)),
    "a step that can be undone fails": Seq((A, Do("b", fails=2), C)),
    "members of a group": Seq((Group((A, B, FAILS_ONCE)), C)),
    "members of a gather": Gather((A, Seq((B, FAILS_TWICE)), C)),
    "what cannot be undone": Seq((Do("a!"), B, FAILS_ONCE)),
    "a child fails": Seq((A, Child(Seq((B, FAILS_ONCE))), C)),
    "a child was done": Seq((Child(A), B, FAILS_ONCE)),
    "a later generation fails": Seq((A, Again(Seq((B, FAILS_ONCE))))),
    "effects in cleanup as the body ends": Seq((Stream((A,), 1, B), Raise("exit"))),
    "effects in cleanup": Ensure(Seq((A, FAILS_ONCE)), B),
    "signals were received": Seq((LEFT, A, LEFT, FAILS_ONCE, DRAINS)),
}

ENDINGS: Final[dict[str, Node]] = {
    "sys.exit()": Seq((A, B, Raise("exit"))),
    "sys.exit() in a task": Gather((Seq((A, Raise("exit"))), B)),
    "sys.exit() in a group": Group((Seq((A, Raise("exit"))), B)),
    "KeyboardInterrupt": Seq((A, B, Raise("interrupt"))),
    "KeyboardInterrupt in a task": Gather((Seq((A, Raise("interrupt"))), B)),
    "an own BaseException": Seq((A, B, Raise("abort"))),
    "an own BaseException in a group": Group((Seq((A, Raise("abort"))), B)),
    "a stray CancelledError": Seq((A, B, Raise("stray"))),
    "a later generation fails": Seq((A, Again(Seq((B, FAILS))))),
    "the third generation fails": Seq((A, Again(Seq((B, Again(Seq((C, Raise())))))))),
    "the third generation completes": Seq((A, Again(Seq((B, Again(C)))))),
    "a later generation ends by sys.exit()": Seq((A, Again(Seq((B, Raise("exit")))))),
    "a child's later generation fails": Rescue(Child(Seq((A, Again(Seq((B, Raise())))))), C),
    "continue_as_new in a group": Group((Seq((A, Again(B))), WAITS)),
    "continue_as_new in groups in groups": Seq((A, Group((Group((Again(Seq((B, FAILS))),)), C)))),
    "continue_as_new in a gather": Gather((Seq((A, Again(B))), C)),
    "continue_as_new under a time-out": Timeout(3.0, Group((Seq((A, Again(B))), C))),
    "continue_as_new beside a failure": Group((Seq((A, Again(B))), FAILS)),
}

ORDERS: Final[dict[str, Node]] = {
    "as_completed over coroutines": AsCompleted((Seq((A, B)), Seq((C, WAITS)), LEFT)),
    "a set of shields and gathers": Race((Ensure(LEFT, A), Ensure(LEFT, B), RIGHT, Ensure(WAITS, C)), futures=True),
    "an async generator is left": Seq((Stream((A, LEFT, B), 1, C), DRAINS)),
    "an async generator is left by a failure": Gather((Stream((A, B, LEFT), 2, C), FAILS)),
    "tasks are cancelled together": Timeout(1.0, Gather((Ensure(LEFT, A), Ensure(RIGHT, B), Ensure(LEFT, C)))),
}

ASKED, BRIEF = Ask("asked"), Ask("brief", seconds=1.0)

FORMS: Final[dict[str, Node]] = {
    "two forms are raced": Seq((Race((ASKED, BRIEF)), A)),
    "the losers are not awaited": Seq((Race((ASKED, LEFT, A), tidy=False), WAITS)),
    "a form races with its time": Seq((Rescue(Timeout(1.0, ASKED), WAITS), Ask("next"))),
    "wait_for a form that expires": Rescue(Timeout(1.0, BRIEF, wait_for=True), ASKED),
    "a sibling's failure cancels a form": Seq((Rescue(Group((FAILS, ASKED)), WAITS), Ask("next"))),
    "a failure leaves a form behind": Rescue(Gather((FAILS, ASKED, BRIEF)), Ask("next")),
    "a shielded form outlives its race": Seq((Race((Shield(ASKED), WAITS)), B)),
    "a form that nobody awaits": Seq((Loose(ASKED), WAITS, A)),
    "a form in cleanup": Ensure(Seq((A, FAILS)), ASKED),
    "a cancellation is swallowed, then people are asked": Rescue(Seq((A, ASKED)), Ask("next"), stubborn=True),
    "a form, then the next generation": Seq((ASKED, Loose(BRIEF), Again(Seq((Ask("next"), FAILS_ONCE))))),
    "forms in a join set": Join((Child(ASKED), Child(Seq((BRIEF, A))), B)),
    "one form of a join set is taken": Seq((Join((Child(ASKED), Child(BRIEF)), 1), FAILS)),
    "a parent's time is up while its child asks": Rescue(Timeout(1.0, Child(Seq((A, ASKED, B)))), WAITS),
    "a form before a failure that is retried": Seq((A, ASKED, FAILS_ONCE, Ask("next"))),
    "another form stands at its place in a retried run": Seq(
        (Rescue(Do("y", fails=2), ASKED), Ask("next"), FAILS_TWICE)
    ),
    "a form that expires at first": Seq((A, BRIEF, ASKED)),
    "forms beside a failure that is retried": Gather((ASKED, Seq((B, FAILS_ONCE)), BRIEF)),
}


def _hold(tree: Node, *, whole: bool = False) -> None:
    for seed in range(WHOLE_SCHEDULES if whole else SCHEDULES):
        if (broken := play(tree, seed, whole=whole)) is not None:
            broken.violation.add_note(broken.shown())
            raise broken.violation


@pytest.mark.parametrize("case", SIGNALS)
def test_no_signal_is_lost(case: str) -> None:
    """L1."""
    _hold(SIGNALS[case])


@pytest.mark.parametrize("case", EFFECTS)
def test_what_is_recorded_is_undone_once(case: str) -> None:
    """L2 and L3."""
    _hold(EFFECTS[case])


@pytest.mark.parametrize("case", RETRIES)
def test_a_retry_leaves_each_effect_standing_once_or_never(case: str) -> None:
    """L4."""
    _hold(RETRIES[case])


@pytest.mark.parametrize("case", ENDINGS)
def test_no_way_to_end_forgets_compensation(case: str) -> None:
    """L5."""
    _hold(ENDINGS[case])


@pytest.mark.parametrize("case", ORDERS)
def test_replay_keeps_every_order(case: str) -> None:
    """L6."""
    _hold(ORDERS[case])


@pytest.mark.parametrize("case", FORMS)
def test_a_form_is_open_while_it_is_waited_for_and_its_answer_arrives(case: str) -> None:
    """L7."""
    _hold(FORMS[case])


@pytest.mark.parametrize("case", [*RETRIES, *ENDINGS, *FORMS])
def test_the_same_on_the_whole_engine(case: str) -> None:
    """L4, L5 and L7, with workers that die."""
    _hold((RETRIES | ENDINGS | FORMS)[case], whole=True)
