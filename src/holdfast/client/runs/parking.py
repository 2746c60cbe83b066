"""What ends a pause, by the beginning of its reason: a row has no more than its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.client.runs.pauses import PAUSED
from holdfast.errors import StepMissing
from holdfast.runs.advice import AdviceCode
from holdfast.runs.lanes import HELD, WAITS

ENDINGS: Final[Mapping[str, AdviceCode]] = {
    PAUSED: AdviceCode.RESUME,
    HELD: AdviceCode.FINISH_MANIFEST,
    WAITS: AdviceCode.FIT_MANIFEST,
    StepMissing.REASON: AdviceCode.SERVE_STEP,
    "retry_diverged:": AdviceCode.CHOOSE_RESULT,
    "poison:": AdviceCode.FIND_CRASH,
    "store_corrupt:": AdviceCode.VERIFY,
    "law_broken:": AdviceCode.VERIFY,
    "engine:": AdviceCode.VERIFY,
    "the run cannot be rebuilt:": AdviceCode.VERIFY,
    "its ": AdviceCode.VERIFY,
    "the store refused what the run did:": AdviceCode.VERIFY,
}
"""The beginnings of reasons. For all others the code of the run is to be mended."""


def what_ends(reason: str) -> AdviceCode:
    """What ends a pause of this reason."""
    found = (code for beginning, code in ENDINGS.items() if reason.startswith(beginning))
    return next(found, AdviceCode.MEND_CODE)
