"""Evaluates the rules of one policy in another process, which is ended where they take too long."""

from __future__ import annotations

import sys
import time
from typing import Final

from holdfast.expressions.process import CutOff, EvaluationProcess, questions, reply

__all__ = ["CUT_OFF_SECONDS", "CutOff", "PolicyProcess"]

CUT_OFF_SECONDS: Final = 0.25


class PolicyProcess(EvaluationProcess):
    """A process that knows one policy. ``CutOff.doing`` is the last rule that it began."""

    def __init__(self, text: bytes, source: str, cut_off_seconds: float = CUT_OFF_SECONDS) -> None:
        super().__init__(__name__, [text, source], cut_off_seconds)


def main() -> None:
    """Answer questions about one policy until the input ends."""
    from holdfast.gate.policy.policy import parse

    asked = questions(sys.stdin.buffer)
    text, source = next(asked)
    # Only the time that this process has used counts: a busy machine must not make a policy slow.
    policy = parse(text, source, clock=time.process_time_ns)
    reply("done", None)
    for question in asked:
        reply("done", policy.answer(question, lambda rule: reply("begun", rule)))


if __name__ == "__main__":
    main()
