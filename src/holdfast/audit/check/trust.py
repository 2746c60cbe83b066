"""Checks whether the reader trusts the keys that signed something."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.audit.check.claims import Findings
from holdfast.audit.keys import PublicKey, check_line, follow, key_id
from holdfast.audit.retirement import check_retirement


class ReaderKeys(msgspec.Struct, frozen=True, gc=False):
    """The public keys that a reader has from elsewhere, and which of them are retired."""

    publics: frozenset[bytes]
    retired: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, publics: Collection[bytes] | None, retired: Collection[bytes] = ()) -> ReaderKeys | None:
        return None if publics is None else cls(frozenset(publics), frozenset(retired))


def trust(
    line: Sequence[PublicKey],
    signer: str,
    earlier: Collection[str],
    reader: ReaderKeys | None,
    findings: Findings,
    wrong: str | None = None,
) -> bool:
    """Whether a given key vouches for the last signer and for the earlier signers. Adds the claims that say why.

    ``wrong`` is another problem of the line of keys. A retired key vouches for nothing new: neither for a signature nor
    for a key that it endorses. The last signer vouches for the earlier signatures of retired keys.
    """
    whole = findings.judge(
        "keys",
        _line_problem(line) or wrong,
        f"the line of keys ({len(line)}) is whole: each key after the first is endorsed by the key before it.",
    )
    if reader is None:
        findings.not_proved(
            "trust",
            "no public key was given, so this was only checked with the keys that came with it, and anyone could have "
            "signed it with a new key. Give the operator's public key to check that it is the operator's.",
        )
        return False
    if signer in {key_id(public) for public in reader.retired}:
        findings.not_proved("trust", _retired(signer))
        return False
    trusted = {*follow(line, reader.publics - reader.retired), *(key_id(public) for public in reader.retired)}
    untrusted = [each for each in sorted({signer, *earlier}) if each not in trusted]
    problem = _untrusted(untrusted) if untrusted else None
    text = "every signature that counts is by a key that was given, or that the given keys endorse."
    return findings.judge("trust", problem, text) and whole


def _line_problem(line: Sequence[PublicKey]) -> str | None:
    problems = (check_line(line), *(check_retirement(key) for key in line))
    problem = next((each for each in problems if each is not None), None)
    return None if problem is None else f"the line of keys is broken: {problem}"


def _retired(name: str) -> str:
    return (
        f"it is signed by key {name}, which is retired by the keys that you gave. Nothing here shows that it was "
        "signed before the retirement: a stolen old key can still sign. Have the evidence made again, by the key that "
        "signs now, or give the keys as they were when you got it."
    )


def _untrusted(names: Sequence[str]) -> str:
    return (
        f"it is signed by {'key' if len(names) == 1 else 'keys'} {', '.join(names)}, and no endorsement leads there "
        "from a key that was given: it is not proved to be the operator's. Endorsements lead onwards only: to trust an "
        "older key, give it too."
    )
