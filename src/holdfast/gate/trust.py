"""Whether the keys that signed something are ones that the reader trusts."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.gate.claims import Findings
from holdfast.gate.keys import PublicKey, check_line, follow


def trust(
    line: Sequence[PublicKey], signers: Collection[str], given: Collection[bytes] | None, findings: Findings
) -> bool:
    """Whether a given key vouches for every signer; says so, or why not."""
    whole = findings.judge(
        "keys",
        _line_problem(line),
        f"the line of keys ({len(line)}) is whole: each after the first is endorsed by the one before it.",
    )
    if given is None:
        findings.not_proved(
            "trust",
            "no public key was given, so all this only fits the keys that came with it: anyone could have signed it "
            "with a key of their own. Give the operator's public key to find out whether it is theirs.",
        )
        return False
    trusted = follow(line, given)
    strange = [signer for signer in sorted(signers) if signer not in trusted]
    problem = _strangers(strange) if strange else None
    text = "every signature that counts is by a key that was given, or that the given ones endorse."
    return findings.judge("trust", problem, text) and whole


def _line_problem(line: Sequence[PublicKey]) -> str | None:
    problem = check_line(line)
    return None if problem is None else f"the line of keys is broken: {problem}"


def _strangers(names: Sequence[str]) -> str:
    return (
        f"it is signed by {'key' if len(names) == 1 else 'keys'} {', '.join(names)}, and no endorsement leads there "
        "from a key that was given: it is not proved to be the operator's. Endorsements lead onwards only: to trust an "
        "older key, give it too."
    )
