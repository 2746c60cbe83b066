"""Whether the keys that signed something are ones that the reader trusts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.audit.check.claims import Findings
from holdfast.audit.keys import PublicKey, check_line, follow, key_id
from holdfast.audit.retirement import check_word


class Given(msgspec.Struct, frozen=True, gc=False):
    """The public keys that a reader has from elsewhere, and those of them that are known to be retired."""

    publics: frozenset[bytes]
    retired: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, publics: Collection[bytes] | None, retired: Collection[bytes] = ()) -> Given | None:
        return None if publics is None else cls(frozenset(publics), frozenset(retired))


def trust(
    line: Sequence[PublicKey],
    signer: str,
    earlier: Collection[str],
    given: Given | None,
    findings: Findings,
    wrong: str | None = None,
) -> bool:
    """Whether a given key vouches for whoever signed last, and for the earlier signers; says so, or why not.

    ``wrong`` is what else is wrong with the line of keys. A retired key vouches for nothing that is new: neither for
    what it signs nor for a key that it endorses. What it signed before, whoever signed last vouches for.
    """
    whole = findings.judge(
        "keys",
        _line_problem(line) or wrong,
        f"the line of keys ({len(line)}) is whole: each after the first is endorsed by the one before it.",
    )
    if given is None:
        findings.not_proved(
            "trust",
            "no public key was given, so all this only fits the keys that came with it: anyone could have signed it "
            "with a key of their own. Give the operator's public key to find out whether it is theirs.",
        )
        return False
    if signer in {key_id(public) for public in given.retired}:
        findings.not_proved("trust", _retired(signer))
        return False
    trusted = {*follow(line, given.publics - given.retired), *(key_id(public) for public in given.retired)}
    strange = [each for each in sorted({signer, *earlier}) if each not in trusted]
    problem = _untrusted(strange) if strange else None
    text = "every signature that counts is by a key that was given, or that the given ones endorse."
    return findings.judge("trust", problem, text) and whole


def _line_problem(line: Sequence[PublicKey]) -> str | None:
    problems = (check_line(line), *(check_word(key) for key in line))
    problem = next((each for each in problems if each is not None), None)
    return None if problem is None else f"the line of keys is broken: {problem}"


def _retired(name: str) -> str:
    return (
        f"it is signed by key {name}, which is retired by the keys that you gave. Nothing here shows that it was "
        "signed before: whoever has an old key can sign with it later. Have the evidence made anew, by the key that "
        "signs now, or give the keys as they were when you got it."
    )


def _untrusted(names: Sequence[str]) -> str:
    return (
        f"it is signed by {'key' if len(names) == 1 else 'keys'} {', '.join(names)}, and no endorsement leads there "
        "from a key that was given: it is not proved to be the operator's. Endorsements lead onwards only: to trust an "
        "older key, give it too."
    )
