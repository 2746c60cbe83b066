"""Growth of work with the size of a text, measured by processor time or by counted lines.

A text is a prefix, a part that is repeated, and a suffix. The part is repeated twice as often each time. Work that
grows more than 2.5 times in every doubling is not linear. One measurement alone may be a busy machine, and some readers
look ahead for so many signs, and not further.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from types import FrameType
from typing import Any, Final, NamedTuple

Act = Callable[[Any], object]

MOST: Final = 2.5
"""How many times as much work twice the text may be."""
_DOUBLINGS: Final = 6
_LEAST: Final = 256
_FLOOR_SECONDS: Final = 0.002
_LONG_SECONDS: Final = 0.2
_ENDLESS_SECONDS: Final = 2.0


class Attack(NamedTuple):
    """A text of any size that is meant to be slow to read."""

    prefix: Any
    part: Any
    suffix: Any

    def text(self, count: int) -> Any:
        return self.prefix + self.part * count + self.suffix

    def counts(self, begin: int, characters: int) -> Iterator[int]:
        """Twice as many repetitions each time, up to so many characters, and of long parts up to some hundreds."""
        count = begin
        while count * len(self.part) <= characters or count <= _LEAST:
            yield count
            count *= 2


class _Endless(BaseException):
    """One text took longer than any linear reader would take."""


def faster_than_linear(attack: Attack, act: Act, characters: int) -> str | None:
    """The growth of processor time, if it is not linear. Sizes that take less than the floor prove nothing, and what
    takes less at the largest size is quick enough."""
    try:
        for count in attack.counts(8, characters):
            with _bounded(attack, count):
                seconds = _seconds(act, attack.text(count))
            if seconds >= _FLOOR_SECONDS:
                return _judged(attack, act, count)
    except _Endless as endless:
        return str(endless)
    return None


def _judged(attack: Attack, act: Act, count: int) -> str | None:
    """Doublings from here on, the best of several measurements each, until one was linear, or took long."""
    taken: list[float] = []
    while not taken or taken[-1] < _LONG_SECONDS:
        text = attack.text(count * 2 ** len(taken))
        with _bounded(attack, count * 2 ** len(taken)):
            taken.append(min(_seconds(act, text) for _ in range(5 if not taken else 3)))
        if len(taken) > 1 and taken[-1] <= MOST * taken[-2]:
            return None
    shown = ", ".join(f"{each * 1000:.1f}" for each in taken)
    return f"{_shown(attack)} takes {shown} ms for {count}, and twice as often each time"


def slow_when_large(attack: Attack, act: Act, characters: int) -> str | None:
    """The growth of processor time in the last doubling up to so many characters, if it is not linear: of work that is
    quick for each sign and grows with the text, little is seen in a short one."""
    count = max(_LEAST, characters // len(attack.part))
    try:
        for _ in range(3):
            with _bounded(attack, count):
                taken = [_seconds(act, attack.text(each)) for each in (count // 4, count // 2, count)]
            if taken[-1] < _FLOOR_SECONDS or taken[-1] <= MOST * taken[-2] or taken[-2] <= MOST * taken[-3] / 1.25:
                return None
    except _Endless as endless:
        return str(endless)
    shown = ", ".join(f"{each * 1000:.1f}" for each in taken)
    return f"{_shown(attack)} takes {shown} ms for {count // 4}, and twice as often each time"


def more_lines_than_linear(attack: Attack, act: Act, count: int) -> str | None:
    """The growth of the lines of Python that run, if it is not linear."""
    lines = [_lines(act, attack.text(count))]
    for doubled in range(1, _DOUBLINGS + 1):
        lines.append(_lines(act, attack.text(count * 2**doubled)))
        if lines[-1] <= MOST * lines[-2]:
            return None
    return f"{_shown(attack)} runs {', '.join(map(str, lines))} lines for {count}, and twice as often each time"


def _seconds(act: Act, text: Any) -> float:
    began = thread_time()
    act(text)
    return thread_time() - began


def _lines(act: Act, text: Any) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    gc.disable()  # what its callbacks do is not the scanner's, and an error in one of them would be lost
    sys.settrace(trace)
    try:
        act(text)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


@contextmanager
def _bounded(attack: Attack, count: int) -> Iterator[None]:
    """Ends a text that takes for ever, which a pattern can do with thirty characters."""

    def end(*_: object) -> None:
        raise _Endless(f"{_shown(attack)} takes for ever for {count} times")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, _ENDLESS_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _shown(attack: Attack) -> str:
    return f"{attack.prefix!r} + {attack.part!r} * n + {attack.suffix!r}"
