"""The table of who may do what, and the pure decisions about users and tokens."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidToken, LastRuler
from holdfast.people import tokens
from holdfast.people.caller import Caller
from holdfast.people.permissions import LEAST, OPERATE, Refusal, is_scope, judge
from holdfast.people.users import User, check_rulers, user_key, user_subject
from tests.tables import table
from tests.unit.people.levels import NEEDED


@table("operation", NEEDED)
@table("level", range(1, 7))
def test_an_operation_is_for_its_level_and_those_above(operation: str, level: int) -> None:
    """In one's own tenant; in another it is hidden, whatever the level."""
    needed, caller = NEEDED[operation], Caller("acme", "ann", level)
    assert judge(caller, operation, "acme") == (None if level >= needed else Refusal(operation, needed))
    assert judge(caller, operation, "bolt") == Refusal(operation, needed, hidden=True)


def test_every_operation_needs_the_level_of_its_kind() -> None:
    """T-12: writing templates, definitions and policies needs 5; T-13: starting and steering runs needs 4."""
    assert dict(LEAST) == NEEDED
    authoring = ("templates.change", "definitions.publish", "definitions.import", "webhooks.change", "manifests.apply")
    executing = ("runs.start", "runs.signal", "runs.cancel", "templates.start", "schedules.change", "receipts.reverse")
    assert [LEAST[operation] for operation in (*authoring, *executing)] == [5] * 5 + [4] * 6


def test_what_concerns_all_tenants_is_for_nobody() -> None:
    assert max(level for level in LEAST.values()) == OPERATE == 7


@pytest.mark.parametrize(
    ("scope", "operation", "allowed"),
    [
        ((), "runs.start", True),
        (("runs",), "runs.start", True),
        (("runs.start",), "runs.start", True),
        (("runs.see",), "runs.start", False),
        (("tasks",), "runs.start", False),
        (("tasks",), "users.see_self", True),
        (("run",), "runs.start", False),
    ],
)
def test_a_scope_narrows(scope: tuple[str, ...], operation: str, allowed: bool) -> None:
    refusal = judge(Caller("acme", "ann", 6, scope=scope), operation, "acme")
    assert (refusal is None) == allowed
    assert refusal is None or refusal.out_of_scope


def test_a_scope_names_operations() -> None:
    assert [is_scope(name) for name in ("runs", "runs.start", "run", "runs.dance", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_two_spellings_are_one_user() -> None:
    assert user_key("acme", "Ann") == user_key("acme", "ann")
    assert user_subject("ANN") == user_subject("ann") == "~user:ann"


RULER, PLAIN = User("ann", 6), User("bob", 5)


@pytest.mark.parametrize(
    ("before", "after", "others", "refused"),
    [
        (RULER, User("ann", 5), [PLAIN], True),
        (RULER, User("ann", 6, disabled=True), [], True),
        (RULER, User("ann", 6, disabled=True), [User("cid", 6, disabled=True)], True),
        (RULER, User("ann", 1), [User("cid", 6)], False),
        (RULER, User("ann", 6, ("leads",)), [], False),
        (PLAIN, User("bob", 1), [], False),
        (None, PLAIN, [], False),
    ],
)
def test_somebody_is_left_who_keeps_users(before: User | None, after: User, others: list[User], refused: bool) -> None:
    if refused:
        with pytest.raises(LastRuler, match="ann is the last"):
            check_rulers("acme", before, after, others)
    else:
        check_rulers("acme", before, after, others)


def test_a_token_is_read_and_compared() -> None:
    secret = bytes(range(32))
    text = tokens.make_text("a1b2c3d4e5f6", secret)
    shown = tokens.read_text(text)
    kept = tokens.Token("ann", tokens.digest_of(secret).hex(), 4, 0, "root", expires_at=10)
    assert (shown.id, tokens.fits(shown, kept), tokens.fits(shown, None)) == ("a1b2c3d4e5f6", True, False)
    assert not tokens.fits(tokens.read_text(tokens.make_text("a1b2c3d4e5f6", bytes(32))), kept)
    assert [tokens.problem_of(kept, now) for now in (9, 10)] == [None, "it has expired"]
    for bad in ("", "ann", text[:-1], text + "0", text.replace("a1", "a"), text[:-1] + "g", "hf__" + "0" * 64):
        with pytest.raises(InvalidToken):
            tokens.read_text(bad)
