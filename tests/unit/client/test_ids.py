"""The ids that an engine chooses itself."""

from __future__ import annotations

import random
import uuid

from holdfast import Holdfast


class Standing:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.microseconds = 1_700_000_000_000_000

    def now(self) -> int:
        return self.microseconds


def test_ids_are_unique_and_sort_by_the_time_they_were_made() -> None:
    """So the rows of runs of one time are neighbours in a store's indexes."""
    clock = Standing()
    app = Holdfast("memory://", clock=clock, entropy=random.Random(7))
    made = []
    for _ in range(50):
        made.append(app.token())
        clock.microseconds += 1_000
    assert made == sorted(made)
    assert len({app.token() for _ in range(500)}) == 500
    for text in made:
        id = uuid.UUID(text)
        assert (id.version, id.variant) == (7, uuid.RFC_4122)
    assert uuid.UUID(made[0]).int >> 80 == 1_700_000_000_000
