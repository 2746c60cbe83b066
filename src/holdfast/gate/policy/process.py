"""Evaluates the rules of one policy in another process, which ends where they take too long."""

from __future__ import annotations

import sys
import time
from typing import Final

from holdfast.expressions.process import CutOff, EvaluationProcess, limited, questions, reply

__all__ = ["CutOff", "PolicyProcess"]

CUT_OFF_SECONDS: Final = 0.25
"""So much processor time one decision has: a busy machine must not make a policy slow."""
PATIENCE_SECONDS: Final = 10.0
"""So long an answer is waited for by the clock."""


class PolicyProcess(EvaluationProcess):
    """A process that knows one policy. ``CutOff.doing`` is the last rule that it began."""

    def __init__(self, text: bytes, source: str) -> None:
        super().__init__(__name__, [text, source], PATIENCE_SECONDS)


def main() -> None:
    """Answer questions about one policy until the input ends."""
    from holdfast.gate.policy.policy import parse

    asked = questions(sys.stdin.buffer)
    text, source = next(asked)
    policy = parse(text, source, clock=time.process_time_ns)
    reply("done", None)
    for question in limited(asked, CUT_OFF_SECONDS):
        reply("done", policy.answer(question, lambda rule: reply("begun", rule)))


if __name__ == "__main__":
    main()
