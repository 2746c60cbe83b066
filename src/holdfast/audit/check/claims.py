"""The findings of a check, claim by claim, in plain words."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["proved", "consistent", "not proved", "broken"]


class Claim(msgspec.Struct, frozen=True, gc=False):
    """One checked point and its state: proved, consistent, not proved or broken.

    ``consistent`` would be proved if the signing key were known to be the right one. ``about`` is a name for programs.
    """

    state: State
    about: str
    text: str


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """All claims. It is good where no claim is broken, and trusted where a given key vouches for it too."""

    claims: tuple[Claim, ...]
    trusted: bool

    @property
    def good(self) -> bool:
        return not any(claim.state == "broken" for claim in self.claims)


class Findings:
    """Collects claims."""

    def __init__(self) -> None:
        self._claims: list[Claim] = []

    def proved(self, about: str, text: str) -> None:
        self._claims.append(Claim("proved", about, text))

    def not_proved(self, about: str, text: str) -> None:
        self._claims.append(Claim("not proved", about, text))

    def broken(self, about: str, text: str) -> None:
        self._claims.append(Claim("broken", about, text))

    def judge(self, about: str, problem: str | None, text: str) -> bool:
        """Add a claim: broken where there is a problem, else proved. Gives whether it is proved."""
        if problem is None:
            self.proved(about, text)
        else:
            self.broken(about, problem)
        return problem is None

    def verdict(self, *, trusted: bool) -> Verdict:
        """The verdict. Without a trusted key a proved claim is only consistent."""
        if trusted:
            return Verdict(tuple(self._claims), trusted=True)
        claims = (Claim("consistent", c.about, c.text) if c.state == "proved" else c for c in self._claims)
        return Verdict(tuple(claims), trusted=False)
