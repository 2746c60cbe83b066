"""Which account may log in as a user of which level, and the spellings with which a user logs in."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidRequest
from holdfast.people.identities import LOGIN, LONGEST, PERSON, Identity, check_account, may_log_in
from holdfast.people.users import MOST_LOGINS, User, check_login

OLD, AT_LOGIN, BY_PERSON = (Identity("https://id.example", "1", made_by) for made_by in ("", LOGIN, PERSON))


@pytest.mark.parametrize(
    ("present", "claimed", "link", "allowed"),
    [
        (None, 4, None, True),  # a login makes a user of up to level 4
        (None, 5, None, False),
        (None, 6, BY_PERSON, True),
        (4, None, None, True),
        (4, None, AT_LOGIN, True),
        (4, 4, None, True),
        (4, 5, None, False),
        (4, 5, AT_LOGIN, False),
        (4, 5, OLD, False),
        (4, 5, BY_PERSON, True),
        (5, None, None, False),
        (5, None, AT_LOGIN, False),  # a person raised the user, and has not seen the account
        (5, None, OLD, True),
        (5, 6, OLD, False),
        (6, 5, OLD, True),
        (6, 2, None, False),  # else a stranger could take the rights from a user of level 6
        (6, 2, AT_LOGIN, False),
        (6, 2, OLD, True),
        (6, 6, BY_PERSON, True),
    ],
)
def test_levels_5_and_6_need_an_account_that_a_person_linked(
    present: int | None, claimed: int | None, link: Identity | None, allowed: bool
) -> None:
    user = None if present is None else User("ann", present)
    assert may_log_in(user, claimed, link) is allowed


def test_a_user_logs_in_by_the_stored_spelling_and_by_those_that_were_linked() -> None:
    user = User("Ann", 6, logins=("ANN",))
    assert [name for name in ("Ann", "ANN", "ann", "\uff21nn", "A\u00adnn", "") if user.logs_in_as(name)] == [
        "Ann",
        "ANN",
    ]


def test_only_another_spelling_of_the_name_can_be_linked_and_so_many() -> None:
    user = User("ann", 2)
    assert check_login(user, "\uff41nn") == "\uff41nn"
    for wrong in ("anne", "", "hf_ann", "ann ", 7):
        with pytest.raises(InvalidRequest):
            check_login(user, wrong)
    full = User("ann", 2, logins=("Ann", *(f"spelling {number}" for number in range(MOST_LOGINS - 1))))
    assert check_login(full, "Ann") == "Ann"
    with pytest.raises(InvalidRequest, match="unlink one first"):
        check_login(full, "ANN")


@pytest.mark.parametrize("wrong", [None, "", " ", "x" * (LONGEST + 1), "a\nb", 7], ids=ascii)
def test_an_account_is_an_issuer_and_a_subject(wrong: object) -> None:
    assert check_account("https://id.example", "auth0|1").made_by == PERSON
    for issuer, subject in ((wrong, "1"), ("https://id.example", wrong)):
        with pytest.raises(InvalidRequest, match="its issuer and its subject"):
            check_account(issuer, subject)
