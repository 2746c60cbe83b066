"""What is raised where a law is broken."""

from __future__ import annotations

import re


class Violation(AssertionError):
    """A law was broken; ``law`` is its number."""

    def __init__(self, law: str, what: str) -> None:
        super().__init__(f"{law}: {what}")
        self.law = law
        self.what = what

    @property
    def kind(self) -> str:
        """The class of fault: the same for every program that shows it."""
        first = self.what.partition("\n")[0]
        first = re.sub(r"k\d+[!?]?(#\d+)?", "K", first)
        first = re.sub(r"\[[^\]]*\]|\{.*\}", "…", first)
        first = re.sub(r"run run(~[\d.@]+)*", "run", first)
        return f"{self.law}: {re.sub(r'[0-9]+', 'N', first)[:100]}"
