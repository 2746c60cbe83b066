"""Somebody who asks why things do not move and does what advice says, and nothing else. Simulated lives end with it.

The law of progress: what is not at its end gives a reason; a reason that is to be acted on can be acted on, and that
moves something; what passes by itself passes. Then everything comes to its end. Whether something was lost or done
twice on the way is judged by the laws of each simulation.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.errors import HoldfastError
from holdfast.runs.advice import Advice, AdviceCode

Hand = Callable[[Advice], Awaitable[None]]
LAST_RESORTS: Final = frozenset({AdviceCode.LEAVE_CHILDREN, AdviceCode.CANCEL_RUN})
"""Done rarely while there is anything else to do, since they give something up."""
TWICE: Final = 2


class NoProgress(Exception):
    """Advice that cannot be followed, or that moves nothing."""


class Asked(msgspec.Struct, frozen=True):
    """Something that is not at its end, and why."""

    name: str
    advice: tuple[Advice, ...]


class Follower:
    """Follows advice with ``hands``; ``look`` asks about a run that another waits for. ``patience`` is for how many
    rounds what passes by itself may move nothing."""

    def __init__(
        self,
        source: random.Random,
        hands: Mapping[AdviceCode, Hand],
        look: Callable[[Advice], Awaitable[Sequence[Advice]]],
        reached: Counter[str],
        *,
        patience: int = 60,
    ) -> None:
        self._source = source
        self._hands = hands
        self._look = look
        self._reached = reached
        self._patience = patience
        self._before: object = None
        self._idle = 0
        self._followed: Counter[tuple[str, ...]] = Counter()

    async def round(self, asked: Sequence[Asked], mark: object, *, most: int | None = None) -> None:
        """Follow one piece of advice for each thing, or for at most so many. ``mark`` is all that can move.

        Raises NoProgress.
        """
        self._idle = self._idle + 1 if mark == self._before else 0
        if not self._idle:
            self._followed.clear()
        self._before = mark
        for each in asked:
            self._check(each)
        is_passing = any(advice.meaning.sort == "passes" for each in asked for advice in each.advice)
        is_vain = not is_passing and any(times >= TWICE for times in self._followed.values())
        if asked and (is_vain or self._idle > self._patience):
            raise NoProgress(f"followed for {self._idle} rounds, and nothing moved: {_words(asked)}")
        for each in asked if most is None else self._source.sample(asked, min(most, len(asked))):
            await self._follow(each)

    def _check(self, asked: Asked) -> None:
        if not any(advice.meaning.sort != "rests" for advice in asked.advice):
            raise NoProgress(f"no reason is given: {_words([asked])}")
        for advice in asked.advice:
            if _is_act(advice) and advice.code not in self._hands:
                raise NoProgress(f"nobody can follow {advice.code}: {_words([asked])}")

    async def _follow(self, asked: Asked) -> None:
        below = {advice.run for advice in asked.advice}
        for advice in asked.advice:  # what is not said of a child is asked there
            if advice.code == AdviceCode.FOLLOW_CHILD and advice.thing not in below:
                self._reached[f"advice: {advice.code}"] += 1
                await self._follow(Asked(advice.thing, tuple(await self._look(advice))))
        acts = [advice for advice in asked.advice if _is_act(advice)]
        usual = [advice for advice in acts if advice.code not in LAST_RESORTS]
        is_desperate = self._idle > self._patience // 2 or self._source.random() < 0.02
        chosen = acts if is_desperate else usual
        if chosen:
            advice = self._source.choice(chosen)
            self._reached[f"advice: {advice.code}"] += 1
            if advice.code not in LAST_RESORTS:
                self._followed[asked.name, advice.code, advice.thing, advice.more] += 1
            with contextlib.suppress(HoldfastError):  # it may have moved since
                await self._hands[advice.code](advice)


def _is_act(advice: Advice) -> bool:
    return advice.meaning.sort == "act" and advice.code != AdviceCode.FOLLOW_CHILD


def _words(asked: Sequence[Asked]) -> str:
    return "; ".join(
        f"{each.name}: " + " ".join(f"[{advice.code}] {advice.sentence}" for advice in each.advice)
        for each in asked[:3]
    )
