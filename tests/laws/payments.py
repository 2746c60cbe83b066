"""A stand-in for a payment provider and a warehouse: a ledger outside the engine, which knows an act by its key alone.

It is idempotent, as providers are: an act under a key that it knows is not done again, and gets the answer of before.
That is also so for a payment that was refunded: under its key nobody is charged a second time.
"""

from __future__ import annotations

from collections import Counter


class Provider:
    """``net`` is what has been done of each thing and not undone, ``done`` how often it was done. ``faults`` are what
    no engine may make it do."""

    def __init__(self) -> None:
        self.net: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.faults: list[str] = []
        self._acts: dict[str, str] = {}
        self._undone: set[str] = set()

    def do(self, key: str, what: str) -> str:
        """Do it, once for each key. Gives the key: by it the act is undone."""
        known = self._acts.setdefault(key, what)
        if known != what:
            self.faults.append(f"the key of {known} was used for {what}")
        elif key in self._undone:
            self.faults.append(f"{what} was done under the key of one that was undone: the answer is that one")
        elif not self.done[key]:
            self.done[key] += 1
            self.net[what] += 1
        return key

    def undo(self, key: str) -> None:
        """Undo the act of this key, once."""
        if key in self._undone:
            return
        self._undone.add(key)
        what = self._acts[key]
        self.net[what] -= 1
        if self.net[what] < 0:
            self.faults.append(f"{what} was undone twice")
